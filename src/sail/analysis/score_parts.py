"""The parts of a report that are the paper's numbers: final and average scores, and relative improvement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sail.analysis import metrics, statistics
from sail.analysis.curve_parts import rounded
from sail.analysis.groups import Group
from sail.analysis.published import game_of, human_scores, paper_scores
from sail.errors import BadInputError
from sail.games import GROUPS

EPS = 1e-6
FEWEST_BARS = 3
"""Environments from which on bars say more than the table above them."""
RESAMPLES = 2_000
"""For the interval of one cell; the statistics over all environments have `statistics.bootstrap`'s own number."""
Part = dict[str, Any]


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


def score_parts(groups: Sequence[Group]) -> list[Part]:
    """Final and average scores: a row for each environment, a column for each agent, the best in bold."""
    final = "Mean return of the last phase, over the seeds that reached it (x n)."
    average = "Mean return over all phases, over all seeds (x n)."
    interval = " In brackets a 95 % bootstrap interval over seeds, where there are two or more."
    parts = [
        _scores("final-scores", "Final scores", final + interval, groups, metrics.final_score),
        _scores("average-scores", "Average scores", average + interval, groups, metrics.average_score),
    ]
    known = paper_scores()
    if any(game_of(group.env) in known["scores"]["dqn"] for group in groups):
        frames = known["frames"] // 10**6
        parts[0]["about"] += f" The paper's own are at {frames}M frames, whatever ours are at ({known['source']})."
    return parts


def _scores(
    name: str, title: str, about: str, groups: Sequence[Group], score: Callable[[np.ndarray], np.ndarray]
) -> Part:
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
        last = max(_at(group) for group in mine if group is not None)
        cells = [None if group is None else _cell(score(group.table()), _at(group), last) for group in mine]
        known = [cell["value"] for cell in cells if cell]
        for cell in cells:
            if cell and cell["value"] == max(known) > min(known):
                cell["best"] = True
        game = game_of(env)
        rows.append(
            {
                "env": env,
                "cells": [env, last, *cells, *(published[agent].get(game) for agent in beside)],
            }
        )
    return {"kind": "table", "id": name, "title": title, "about": about, "columns": columns, "rows": rows}


def _at(group: Group) -> int:
    return int(group.steps[-1] * group.frames_a_step)


def _cell(scores: np.ndarray, at: int, last: int) -> dict[str, Any] | None:
    """One number with its interval and its seeds; `at` where it was measured elsewhere than its row says."""
    scores = scores[np.isfinite(scores)]
    if not len(scores):
        return None
    cell: dict[str, Any] = {"value": rounded([scores.mean()])[0], "seeds": len(scores), "low": None, "high": None}
    if len(scores) > 1:
        found = statistics.bootstrap(statistics.mean, scores[:, None], reps=RESAMPLES)
        cell |= {"low": rounded([found.low])[0], "high": rounded([found.high])[0]}
    if at != last:
        cell["at"] = at
    return cell


def improvement_parts(groups: Sequence[Group], baseline: str) -> list[Part]:
    """The paper's relative improvement of every other agent over the baseline: bars, and a table over games."""
    table = by_name(groups)
    if baseline not in table:
        return []
    base = {env: group.table() for env, group in table[baseline].items()}
    bars, rows = [], []
    for variant, members in table.items():
        if variant == baseline:
            continue
        curves = {env: group.table() for env, group in members.items()}
        try:
            found = metrics.relative_improvement_over_games(curves, base, EPS)
        except BadInputError:  # no environment in common, or nothing logged in it yet
            continue
        for name in ("all", "hard-exploration", "sparse"):
            values = [one.value for env, one in found.games.items() if name == "all" or name in groups_of(env)]
            if values:
                cells = [variant, name, len(values), float(np.mean(values)), float(np.median(values))]
                rows.append({"agent": variant, "cells": cells})
        if len(found.games) >= FEWEST_BARS:
            bars.append(_bars(variant, baseline, found))
    if not rows:
        return []
    columns = [{"name": "agent", "kind": "text"}, {"name": "environments", "kind": "text"}]
    columns += [{"name": "how many", "kind": "number"}, {"name": "average", "kind": "share"}]
    columns += [{"name": "median", "kind": "share"}]
    about = (
        f"Mean over phases of (score - {baseline}'s), divided by |mean of {baseline}'s| + {EPS:g}. Where the baseline "
        "scores about 0 that is huge, and with it the average: read the median."
    )
    summary = {"kind": "table", "id": "relative-improvement", "title": f"Relative improvement over {baseline}"}
    return [summary | {"about": about, "columns": columns, "rows": rows}, *bars]


def _bars(variant: str, baseline: str, found: metrics.ImprovementOverGames) -> Part:
    ordered = sorted(found.games.items(), key=lambda item: item[1].value, reverse=True)
    items = [
        {
            "label": game_of(env) or env,
            "env": env,
            "value": one.value,
            "text": f"{100 * one.value:+,.0f} %",
            "bold": "hard-exploration" in groups_of(env),
        }
        for env, one in ordered
    ]
    about = (
        f"Hard-exploration games in bold. Average {100 * found.average:+,.1f} %, median {100 * found.median:+,.1f} %."
    )
    if found.left_out:
        about += f" Left out, since only one of the two was run: {', '.join(found.left_out)}."
    title = f"Relative improvement of {variant} over {baseline}"
    return {"kind": "bars", "id": f"improvement-{variant}", "title": title, "about": about, "items": items}


def human_part(groups: Sequence[Group]) -> list[Part]:
    """The human-normalised median over games against frames, for agents with games that have a human score."""
    random = {f"atari:{game}": low for game, (low, _) in human_scores().items()}
    human = {f"atari:{game}": high for game, (_, high) in human_scores().items()}
    series, left_out, counts = [], set(), {}
    for variant, members in by_name(groups).items():
        curves = {env: group.table() for env, group in members.items() if game_of(env)}
        try:
            found = metrics.human_normalised_median(curves, random, human)
        except BadInputError:
            continue
        first = members[found.games[0]]
        frames = (first.steps * first.frames_a_step)[: len(found.median)]
        counts[variant] = len(found.games)
        left_out |= set(found.left_out)
        x = [int(one) for one in frames]
        name = f"{variant} ({len(found.games)} games)"
        series.append({"agent": variant, "name": name, "x": x, "y": rounded(found.median)})
    if not series or max(counts.values()) < 2:
        return []
    about = "Median over games of (score - random) / |human - random|; 0 plays like chance, 1 like a human."
    if left_out:
        about += f" Left out, for want of a human score: {', '.join(sorted(left_out))}."
    if len(set(counts.values())) > 1:
        about += " The agents do not have the same games: compare with care."
    part = {"kind": "lines", "id": "human-normalised", "title": "Human-normalised median", "x": "frames"}
    return [part | {"about": about, "series": series}]


def sticky_part(groups: Sequence[Group], baseline: str) -> list[Part]:
    """Relative improvement against the probability of a sticky action or a slip, where that was varied."""
    for key, what in (("env.sticky", "sticky actions"), ("env.slip", "slips")):
        points: dict[str, dict[float, dict[str, np.ndarray]]] = {}
        for group in groups:
            words = [word for word in group.variant.split(" ")[1:] if word.startswith(f"{key}=")]
            others = [word for word in group.variant.split(" ")[1:] if not word.startswith(f"{key}=")]
            if len(words) == 1 and not others:
                level = float(words[0].partition("=")[2])
                points.setdefault(group.agent, {}).setdefault(level, {})[group.env] = group.table()
        if baseline not in points or len(points) < 2:
            continue
        series = []
        for agent, levels in points.items():
            if agent == baseline:
                continue
            found = {}
            for level, curves in sorted(levels.items()):
                base = points[baseline].get(level, {})
                if set(curves) & set(base):
                    found[level] = metrics.relative_improvement_over_games(curves, base, EPS).median
            series.append({"name": f"{agent} over {baseline}", "x": list(found), "y": rounded(list(found.values()))})
        about = f"Median over environments of the relative improvement over {baseline}, which had the same {what}."
        part = {"kind": "lines", "id": "sticky", "title": f"With more {what}", "x": f"probability of {what}"}
        return [part | {"about": about, "series": series}]
    return []
