"""A report: what run folders say, as parts that a page, a text or files can show."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sail.analysis.curve_parts import curve_of, curve_parts
from sail.analysis.groups import Group, group_runs
from sail.analysis.improvement_parts import improvement_parts, sticky_part
from sail.analysis.published import game_of
from sail.analysis.runs import LeftOut, Run, read_runs
from sail.analysis.score_parts import groups_of, human_part, score_parts
from sail.analysis.statistic_parts import statistic_parts
from sail.analysis.video_part import inline, video_part
from sail.errors import BadInputError
from sail.wording import counted


class Report(NamedTuple):
    """`page` is what the page shows, ready for JSON; `groups` is what figures are drawn from."""

    page: dict[str, Any]
    groups: list[Group]


def build_report(
    paths: Sequence[str | os.PathLike[str]], baseline: str | None = None, title: str | None = None, reps: int = 50_000
) -> Report:
    """The report of everything in these folders. Whatever cannot be read is listed in it, with the reason."""
    runs, left_out = read_runs(paths)
    return report_of(runs, left_out, [Path(path) for path in paths], baseline, title, reps)


def report_of(
    runs: Sequence[Run],
    left_out: Sequence[LeftOut],
    paths: Sequence[Path],
    baseline: str | None = None,
    title: str | None = None,
    reps: int = 50_000,
    video_source: Callable[[Path], str | None] = inline,
    memo: Memo | None = None,
) -> Report:
    """The report of runs that were read already."""
    memo = memo or Memo()
    groups, twice = group_runs(runs)
    groups.sort(key=lambda group: group.env)
    agents = {group.variant: group for group in groups}
    variants = sorted(agents, key=lambda variant: _order(agents[variant]))
    if baseline is not None and baseline not in variants:
        raise BadInputError(
            f"There is no agent '{baseline}' in these runs to compare with: choose one of {', '.join(variants)}."
        )
    base = baseline or _baseline(runs, variants, agents)
    ordered = [group for variant in variants for group in groups if group.variant == variant]
    curves = [memo(group, "curve", partial(curve_of, group)) for group in ordered]
    parts = score_parts(ordered, memo) if ordered else []
    drawn = curve_parts(ordered, curves) if ordered else []
    parts += drawn[:1]
    parts += improvement_parts(ordered, base) if base else []
    parts += human_part(ordered)
    parts += statistic_parts(ordered, base or "", reps)
    parts += sticky_part(ordered, agents[base].agent if base else None)
    parts += drawn[1:]
    parts += video_part(ordered, video_source)
    parts += [_speed(ordered)] if ordered else []
    parts += [_left_out([*left_out, *twice]), _sources(runs)]
    page = {
        "title": title or _title(paths, runs),
        "subtitle": _subtitle(ordered, runs),
        "agents": variants,
        "envs": [_env(env) for env in dict.fromkeys(group.env for group in groups)],
        "curves": curves,
        "parts": _named_first(parts, runs),
        "made": f"Made by sail report, {datetime.now(UTC).isoformat(timespec='minutes')}.",
        "live": False,
    }
    return Report(_finite(page), ordered)


class Memo:
    """What was made of a group, for as long as its curves are the same objects: a live page is made again and again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], tuple[tuple[Any, ...], Any]] = {}

    def __call__(self, group: Group, what: str, make: Callable[[], Any]) -> Any:
        """What was made before, or what `make` makes."""
        key = (group.env, group.variant, what)
        kept = self._kept.get(key)
        if (
            kept is None
            or len(kept[0]) != len(group.curves)
            or any(x is not y for x, y in zip(kept[0], group.curves, strict=True))
        ):
            kept = self._kept[key] = (group.curves, make())
        return kept[1]


def _finite(tree: Any) -> Any:
    """The same with nothing in it that JSON cannot say."""
    if isinstance(tree, dict):
        return {key: _finite(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_finite(value) for value in tree]
    return None if isinstance(tree, float) and not math.isfinite(tree) else tree


def _order(group: Group) -> tuple[str, int, str]:
    """Base agents together, the base first and its rules after it."""
    flat = group.runs[0].flat
    rule = str(flat.get("rule.name"))
    return str(flat.get("agent.base")), _RULES.index(rule) if rule in _RULES else len(_RULES), group.variant


_RULES = ("bellman", "al", "sail", "strsil", "munchausen")


def _studies(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The `report` sections of the studies that runs belong to."""
    found = []
    for study in dict.fromkeys(run.study for run in runs if run.study is not None):
        try:
            section = json.loads((study / "study.json").read_text())["definition"].get("report")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        found += [section] if isinstance(section, dict) else []
    return found


def _baseline(runs: Sequence[Run], variants: Sequence[str], agents: dict[str, Group]) -> str | None:
    """What a study names, else a base agent without a rule, else the first; with settings in its name if need be."""
    for section in _studies(runs):
        for variant in variants:
            if section.get("baseline") in (variant, agents[variant].agent):
                return variant
    plain = [variant for variant in variants if _order(agents[variant])[1] == 0]
    return next(iter([*plain, *variants]), None)


_FIGURES = {"success": "eval_success", "bonus": "bonus"}


def _named_first(parts: list[dict[str, Any]], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What a study says it is about comes first, in its order."""
    shown = [section.get("show") for section in _studies(runs)]
    names = [_FIGURES.get(str(name), str(name)) for one in shown if isinstance(one, list) for name in one]
    place = {name: i for i, name in reversed(list(enumerate(names)))}
    return sorted(parts, key=lambda part: place.get(part["id"], len(names)))


def _title(paths: Sequence[Path], runs: Sequence[Run]) -> str:
    studies = dict.fromkeys(run.study.name for run in runs if run.study)
    return f"sail: {', '.join(studies) if studies else ', '.join(path.absolute().name for path in paths)}"


def _subtitle(groups: Sequence[Group], runs: Sequence[Run]) -> str:
    if not groups:
        return f"There is nothing to show yet{_what_is_missing(runs)}."
    seeds = [len(group.seeds) for group in groups]
    total, done = sum(seeds), sum(sum(group.done) for group in groups)
    envs, agents = len({group.env for group in groups}), len({group.variant for group in groups})
    each = "" if min(seeds) == max(seeds) else f"{min(seeds)} to "
    running = ("finished" if total == 1 else "all finished") if done >= total else f"{done} finished"
    what = f"{counted(agents, 'agent')} in {counted(envs, 'environment')}, {each}{counted(max(seeds), 'seed')} each"
    return f"{counted(total, 'run')} ({running}): {what}."


def _what_is_missing(runs: Sequence[Run]) -> str:
    """Why runs that have metrics are in no group."""
    if not runs:
        return ""
    none = "no episode has ended yet"
    if not all(curve.no_episode_yet for run in runs for curve in run.seeds):
        none = "there is no return"
    return f": {none} in {'the run' if len(runs) == 1 else f'any of the {len(runs):,} runs'}"


def _env(env: str) -> dict[str, Any]:
    return {"name": env, "groups": groups_of(env), "unit": "frames" if game_of(env) else "steps"}


def _speed(groups: Sequence[Group]) -> dict[str, Any]:
    """Steps (or frames) per second of training, the slowest and the fastest run of each agent."""
    rates: dict[tuple[str, str, str], list[float]] = {}
    for group in groups:
        unit = "frames/s" if game_of(group.env) else "steps/s"
        for run in group.runs:
            hardware = run.provenance.get("hardware")
            devices = hardware.get("devices") if isinstance(hardware, dict) else None
            device = ", ".join(map(str, devices)) if isinstance(devices, list) else "unknown"
            curve = max(run.seeds, key=lambda one: one.steps[-1])
            seconds = curve.column("seconds")[-1]
            if seconds > 0:
                rate = curve.steps[-1] * run.frames_a_step * len(run.seeds) / seconds
                rates.setdefault((group.variant, unit, device), []).append(float(rate))
    rows = [
        {"agent": variant, "cells": [variant, unit, device, len(found), min(found), max(found)]}
        for (variant, unit, device), found in rates.items()
    ]
    names = [("agent", "text"), ("unit", "text"), ("device", "text"), ("runs", "number")]
    names += [("slowest", "number"), ("fastest", "number")]
    columns = [{"name": name, "kind": kind} for name, kind in names]
    about = "Of whole runs, over all seeds of a run, compilation and evaluation included."
    return {"kind": "table", "id": "speed", "title": "Speed", "about": about, "columns": columns, "rows": rows}


def _left_out(items: Sequence[LeftOut]) -> dict[str, Any]:
    lines = [f"{item.path}: {item.reason}" for item in items]
    about = "Everything that was there and is not in this report." if lines else "Nothing: all that was there is here."
    return {"kind": "list", "id": "left-out", "title": "Left out", "about": about, "items": lines}


def _sources(runs: Sequence[Run]) -> dict[str, Any]:
    lines = []
    for run in runs:
        made = run.provenance
        parts = [made.get("command") or "unknown command", f"commit {made.get('commit') or 'unknown'}"]
        lines.append("; ".join(map(str, [*parts, made.get("started") or "unknown date"])))
    about = "The command, commit and date of every run."
    return {"kind": "list", "id": "sources", "title": "How it was made", "about": about, "items": lines}
