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
    """The parts, over the environments that every agent has; those that were left out are named."""
    tables, envs, about = _comparable(groups)
    if not tables or len(envs) < 2:
        return []
    alone = [variant for variant, scores in tables.items() if not statistics.can_resample(scores)]
    if alone:
        about += f" One seed gives no interval: {', '.join(alone)}."
    rows = []
    for variant, scores in tables.items():
        found = {name: statistics.bootstrap(statistics.AGGREGATES[name], scores, reps=reps) for name in NAMES}
        seeds = int(statistics.runs_per_task(scores).max())
        rows.append({"agent": variant, "cells": [variant, *(_cell(found[name], seeds) for name in NAMES)]})
    columns = [{"name": "agent", "kind": "text"}, *({"name": name, "kind": "score"} for name in NAMES.values())]
    table = {"kind": "table", "id": "statistics", "title": "Over all environments", "about": about}
    parts = [table | {"columns": columns, "rows": rows}]
    return parts + _improvements(tables, baseline, reps) + _profiles(tables)


def _cell(found: statistics.Interval, seeds: int) -> dict[str, Any]:
    low, high = (None, None) if found.low == found.high else (rounded([found.low])[0], rounded([found.high])[0])
    return {"value": rounded([found.value])[0], "low": low, "high": high, "seeds": seeds}


def _comparable(groups: Sequence[Group]) -> tuple[dict[str, np.ndarray], list[str], str]:
    """Final scores [seeds, environments] of each agent, normalised where games have human scores."""
    table = by_name(groups)
    every = list(dict.fromkeys(group.env for group in groups))
    games = any(game_of(env) for env in every)
    usable = [env for env in every if not games or game_of(env) in human_scores()]
    scores: dict[str, dict[str, np.ndarray]] = {
        variant: {env: found for env in usable if env in members and len(found := _finals(members[env]))}
        for variant, members in table.items()
    }
    envs = [env for env in usable if all(env in mine for mine in scores.values())]
    kind = "human-normalised final scores" if games else "final returns"
    about = f"Over {kind} in the {len(envs)} environments that all agents have; 95 % stratified bootstrap intervals."
    missing = [env for env in every if env not in envs]
    if missing:
        about += f" Left out: {', '.join(missing)}."
    if not envs:
        return {}, [], about
    tables = {}
    for variant, mine in scores.items():
        seeds = max(len(mine[env]) for env in envs)
        tables[variant] = np.full((seeds, len(envs)), np.nan)
        for i, env in enumerate(envs):
            tables[variant][: len(mine[env]), i] = mine[env]
    return tables, envs, about


def _finals(group: Group) -> np.ndarray:
    scores = metrics.final_score(group.table())
    scores = scores[np.isfinite(scores)]
    game = game_of(group.env)
    if game not in human_scores():
        return np.asarray(scores)
    random, human = human_scores()[game]
    return np.asarray(metrics.human_normalised(scores, random, human))


def _improvements(tables: dict[str, np.ndarray], baseline: str, reps: int) -> list[Part]:
    if baseline not in tables or len(tables) < 2:
        return []
    rows = []
    for variant, scores in tables.items():
        if variant != baseline:
            probability = statistics.probability_of_improvement
            found = statistics.bootstrap(probability, scores, tables[baseline], reps=reps)
            seeds = int(statistics.runs_per_task(scores).max())
            rows.append({"agent": variant, "cells": [variant, _cell(found, seeds)]})
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
