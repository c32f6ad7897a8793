"""Statistics over all environments of a report: aggregates, probability of improvement, profiles, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sail.analysis import metrics, statistics
from sail.analysis.curve_parts import rounded
from sail.analysis.groups import Group
from sail.analysis.published import game_of, human_scores
from sail.analysis.score_parts import Part, by_name

NAMES = {"iqm": "IQM", "median": "median", "mean": "mean", "optimality_gap": "optimality gap"}


def statistic_parts(groups: Sequence[Group], baseline: str, reps: int = 50_000) -> list[Part]:
    """The parts, over environments that all agents in them have; what was left out is named."""
    games = any(game_of(group.env) for group in groups)
    usable = [group for group in groups if not games or game_of(group.env) in human_scores()]
    members, envs, left_out = _comparable(by_name(usable))
    title = {"kind": "table", "id": "statistics", "title": "Over all environments"}
    left_out += [f"{env} (no human score)" for env in dict.fromkeys(g.env for g in groups if g not in usable)]
    if len(envs) < 2:
        reason = "There is nothing to show: agents have fewer than two environments in common."
        return [title | {"about": reason, "columns": [{"name": "agent", "kind": "text"}], "rows": []}] if groups else []
    tables = {variant: _table([mine[env] for env in envs]) for variant, mine in members.items()}
    kind = "human-normalised final scores" if games else "final returns as they are, so large returns weigh more,"
    about = f"Over {kind} in the {len(envs)} environments that all agents have; 95 % stratified bootstrap intervals."
    about += _warnings(members, envs, tables) + (f" Left out: {', '.join(left_out)}." if left_out else "")
    names = NAMES if games else {name: shown for name, shown in NAMES.items() if name != "optimality_gap"}
    rows = []
    for variant, scores in tables.items():
        found = {name: statistics.bootstrap(statistics.AGGREGATES[name], scores, reps=reps) for name in names}
        cells = [variant, *(_cell(found[name], scores) for name in names)]
        rows.append({"agent": variant, "cells": cells})
    columns = [{"name": "agent", "kind": "text"}, *({"name": name, "kind": "score"} for name in names.values())]
    parts = [title | {"about": about, "columns": columns, "rows": rows}]
    return parts + _improvements(tables, baseline, reps) + _profiles(tables)


def _comparable(table: dict[str, dict[str, Group]]) -> tuple[dict[str, dict[str, Group]], list[str], list[str]]:
    """Agents, the environments they all have, and what that leaves out.

    An agent that was run in few of the others' environments is left out, rather than all of theirs.
    """
    chosen: dict[str, dict[str, Group]] = {}
    envs: list[str] = []
    left_out: list[str] = []
    for variant, mine in sorted(table.items(), key=lambda item: -len(item[1])):
        scored = {env: group for env, group in mine.items() if np.isfinite(group.final()[0]).any()}
        common = [env for env in envs if env in scored] if chosen else list(scored)
        if chosen and (len(common) < 2 or 2 * len(common) < len(envs)):
            left_out.append(f"{variant} (in {len(common)} of {len(envs)} environments)")
        elif scored:
            chosen[variant], envs = scored, common
    left_out += [env for env in dict.fromkeys(env for mine in chosen.values() for env in mine) if env not in envs]
    return {variant: chosen[variant] for variant in table if variant in chosen}, envs, left_out


def _table(groups: Sequence[Group]) -> np.ndarray:
    """Final scores [seeds, environments], human-normalised where there are human scores."""
    columns = [_finals(group) for group in groups]
    table = np.full((max(map(len, columns)), len(groups)), np.nan)
    for i, column in enumerate(columns):
        table[: len(column), i] = column
    return table


def _finals(group: Group) -> np.ndarray:
    scores = group.final()[0]
    scores = scores[np.isfinite(scores)]
    game = game_of(group.env)
    if game not in human_scores():
        return scores
    random, human = human_scores()[game]
    return np.asarray(metrics.human_normalised(scores, random, human))


def _warnings(members: dict[str, dict[str, Group]], envs: Sequence[str], tables: dict[str, np.ndarray]) -> str:
    """What a reader must know before he compares."""
    text = ""
    for variant, scores in tables.items():
        alone = int((statistics.runs_per_task(scores) == 1).sum())
        if alone == len(envs):
            text += f" {variant} has one seed, which gives no interval."
        elif alone:
            text += f" {variant} has one seed in {alone} environments, so its interval is too narrow."
    ends = [
        group.final()[1] * group.frames_a_step
        for mine in members.values()
        for env, group in mine.items()
        if env in envs
    ]
    if min(ends) < max(ends):
        text += f" Scores are not all at the same place: from {min(ends):,} to {max(ends):,} frames or steps."
    return text


def _cell(found: statistics.Interval, scores: np.ndarray) -> dict[str, Any]:
    low, high = (None, None) if found.low == found.high else (rounded([found.low])[0], rounded([found.high])[0])
    runs = statistics.runs_per_task(scores)
    seeds = int(runs.max()) if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
    return {"value": rounded([found.value])[0], "low": low, "high": high, "seeds": seeds}


def _improvements(tables: dict[str, np.ndarray], baseline: str, reps: int) -> list[Part]:
    if baseline not in tables or len(tables) < 2:
        return []
    rows = []
    for variant, scores in tables.items():
        if variant != baseline:
            probability = statistics.probability_of_improvement
            found = statistics.bootstrap(probability, scores, tables[baseline], reps=reps)
            rows.append({"agent": variant, "cells": [variant, _cell(found, scores)]})
    columns = [{"name": "agent", "kind": "text"}, {"name": f"P(better than {baseline})", "kind": "score"}]
    about = (
        f"How likely a run of an agent beats one of {baseline} in an environment drawn at random; a draw is half a win."
    )
    part = {"kind": "table", "id": "probability-of-improvement", "title": "Probability of improvement"}
    return [part | {"about": about, "columns": columns, "rows": rows}]


def _profiles(tables: dict[str, np.ndarray]) -> list[Part]:
    values = np.concatenate([scores[np.isfinite(scores)] for scores in tables.values()])
    low, high = float(values.min()), float(np.quantile(values, 0.99))
    if not low < high:
        return []
    thresholds = np.linspace(min(low, 0.0), high, 101)
    series = []
    for variant, scores in tables.items():
        found = statistics.bootstrap(
            lambda table: statistics.performance_profile(table, thresholds), scores, reps=1_000
        )
        line = {"agent": variant, "name": variant, "x": rounded(thresholds), "y": rounded(found.value)}
        if statistics.can_resample(scores):
            line |= {"low": rounded(found.low), "high": rounded(found.high)}
        series.append(line)
    about = "Share of runs that score above a threshold, with pointwise 95 % intervals: higher is better, everywhere."
    part = {"kind": "lines", "id": "profiles", "title": "Performance profiles", "x": "score"}
    return [part | {"about": about, "series": series}]
