"""The parts of a report that are the paper's numbers: final and average scores, and the human-normalised median."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from sail.analysis import metrics, statistics
from sail.analysis.curve_parts import rounded
from sail.analysis.groups import Group
from sail.analysis.published import game_of, human_scores, paper_scores
from sail.errors import BadInputError
from sail.games import GROUPS

RESAMPLES = 2_000
"""For the interval of one cell; the statistics over all environments have `statistics.bootstrap`'s own number."""
Part = dict[str, Any]
Scored = Callable[[Group], tuple[np.ndarray, int]]


def by_name(groups: Sequence[Group]) -> dict[str, dict[str, Group]]:
    """{variant: {environment: group}}, both in the order they came in."""
    table: dict[str, dict[str, Group]] = {}
    for group in groups:
        table.setdefault(group.variant, {})[group.env] = group
    return table


def groups_of(env: str) -> list[str]:
    """The groups of games that an environment belongs to, for the page's filter."""
    game = game_of(env)
    return [name for name in ("hard-exploration", "sparse") if game in GROUPS[name]]


def score_parts(groups: Sequence[Group], memo: Callable[[Group, str, Callable[[], Any]], Any]) -> list[Part]:
    """Final and average scores: a row for each environment, a column for each agent, the best in bold."""
    final = "Mean return of the last phase that at least half of the seeds have reached (x n seeds, and of how many)."
    average = "Mean return over all phases, over all seeds (x n)."
    interval = " In brackets a 95 % bootstrap interval over seeds, where there are two or more."
    at = " 'at' is where the longest agent of a row ends; @ marks a score from elsewhere."
    parts = [
        _scores("final-scores", "Final scores", final + interval + at, groups, Group.final, memo),
        _scores("average-scores", "Average scores", average + interval + at, groups, _average, memo),
    ]
    known = paper_scores()
    if any(game_of(group.env) in known["scores"]["dqn"] for group in groups):
        frames = known["frames"] // 10**6
        parts[0]["about"] += f" The paper's own are at {frames}M frames, whatever ours are at ({known['source']})."
    return parts


def _average(group: Group) -> tuple[np.ndarray, int]:
    return np.asarray(metrics.average_score(group.table())), int(group.steps[-1])


def _scores(name: str, title: str, about: str, groups: Sequence[Group], score: Scored, memo: Any) -> Part:
    table = by_name(groups)
    envs = list(dict.fromkeys(group.env for group in groups))
    published = paper_scores()["scores"] if name == "final-scores" else {}
    beside = [agent for agent in published if any(game_of(env) in published[agent] for env in envs)]
    columns = [{"name": "environment", "kind": "text"}, {"name": "at", "kind": "number", "about": "frames, or steps"}]
    columns += [{"name": variant, "kind": "score", "agent": variant} for variant in table]
    columns += [{"name": f"paper: {agent}", "kind": "number"} for agent in beside]
    rows = []
    for env in envs:
        mine = [members.get(env) for members in table.values()]
        cells = [None if group is None else memo(group, name, partial(_cell, group, score)) for group in mine]
        cells = [None if cell is None else dict(cell) for cell in cells]
        last = max((cell["at"] for cell in cells if cell), default=None)
        known = [cell["value"] for cell in cells if cell]
        for cell in cells:
            if cell and cell["at"] == last:
                del cell["at"]
            if cell and cell["value"] == max(known) > min(known):
                cell["best"] = True
        game = game_of(env)
        rows.append({"env": env, "cells": [env, last, *cells, *(published[agent].get(game) for agent in beside)]})
    return {"kind": "table", "id": name, "title": title, "about": about, "columns": columns, "rows": rows}


def _cell(group: Group, score: Scored) -> dict[str, Any] | None:
    """One number with its interval, its seeds, and where it was measured."""
    scores, step = score(group)
    known = scores[np.isfinite(scores)]
    if not len(known):
        return None
    cell: dict[str, Any] = {"value": rounded([known.mean()])[0], "seeds": len(known), "low": None, "high": None}
    if len(known) < len(scores):
        cell["of"] = len(scores)
    if len(known) > 1:
        found = statistics.bootstrap(statistics.mean, known[:, None], reps=RESAMPLES)
        cell |= {"low": rounded([found.low])[0], "high": rounded([found.high])[0]}
    return cell | {"at": step * group.frames_a_step}


def human_part(groups: Sequence[Group]) -> list[Part]:
    """The human-normalised median over games against frames, for agents with games that have a human score."""
    random = {f"atari:{game}": low for game, (low, _) in human_scores().items()}
    human = {f"atari:{game}": high for game, (_, high) in human_scores().items()}
    series, left_out, counts, ends = [], set(), {}, []
    for variant, members in by_name(groups).items():
        games = {env: group for env, group in members.items() if env in human}
        left_out |= {env for env in members if game_of(env) and env not in human}
        if not games:
            continue
        # Games are compared at the same step; where one has not come that far, the curve ends.
        steps = reduce(np.intersect1d, [group.steps for group in games.values()])
        curves = {env: group.table()[:, np.isin(group.steps, steps)] for env, group in games.items()}
        try:
            found = metrics.human_normalised_median(curves, random, human)
        except BadInputError:
            left_out.add(f"{variant} (its games have no step in common)")
            continue
        frames = steps * next(iter(games.values())).frames_a_step
        if frames[-1] < max(group.steps[-1] * group.frames_a_step for group in games.values()):
            ends.append(f"{variant} ends at {frames[-1]:,} frames, the last that all its games have")
        counts[variant] = len(games)
        x = [int(one) for one in frames]
        series.append({"agent": variant, "name": f"{variant} ({len(games)} games)", "x": x, "y": rounded(found.median)})
    if not series or max(counts.values()) < 2:
        return []
    about = "Median over games of (score - random) / |human - random|; 0 plays like chance, 1 like a human."
    if left_out:
        about += f" Left out, for want of a human score or of common steps: {', '.join(sorted(left_out))}."
    if len(set(counts.values())) > 1:
        about += " The agents do not have the same games: compare with care."
    about += f" {'; '.join(ends)}." if ends else ""
    part = {"kind": "lines", "id": "human-normalised", "title": "Human-normalised median", "x": "frames"}
    return [part | {"about": about, "series": series}]
