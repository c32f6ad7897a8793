"""The paper's relative improvement: over games, and against the probability of sticky actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sail.analysis import metrics
from sail.analysis.curve_parts import rounded
from sail.analysis.groups import Group, aligned
from sail.analysis.published import game_of
from sail.analysis.score_parts import Part, by_name, groups_of
from sail.errors import BadInputError

EPS = 1e-6
FEWEST_BARS = 3
"""Environments from which on bars say more than the table above them."""


def compare(x: Mapping[str, Group], base: Mapping[str, Group]) -> tuple[dict[str, metrics.Improvement], list[str]]:
    """The improvement in every environment in which both have a score at the same step, and the others."""
    found: dict[str, metrics.Improvement] = {}
    for env in x:
        if env in base:
            try:
                found[env] = metrics.relative_improvement(*aligned(x[env], base[env]), EPS)
            except BadInputError:
                continue
    return found, sorted({*x, *base} - set(found))


def improvement_parts(groups: Sequence[Group], baseline: str) -> list[Part]:
    """Every agent over the baseline, and over its own base agent where that is another: a table, and bars."""
    table = by_name(groups)
    bars, rows = [], []
    for variant, members in table.items():
        for base in dict.fromkeys((_peer(variant, members, baseline, table), _own_base(variant, members, table))):
            if base is None or base == variant or base not in table:
                continue
            found, left_out = compare(members, table[base])
            if not found:
                continue
            for name in ("all", "hard-exploration", "sparse"):
                values = [one.value for env, one in found.items() if name == "all" or name in groups_of(env)]
                if values:
                    phases = min(one.iterations for env, one in found.items() if name in ("all", *groups_of(env)))
                    cells = [variant, base, name, len(values), phases, float(np.mean(values)), float(np.median(values))]
                    rows.append({"agent": variant, "cells": cells})
            if len(found) >= FEWEST_BARS:
                bars.append(_bars(variant, base, found, left_out))
    if not rows:
        return []
    kinds = {"agent": "text", "over": "text", "environments": "text", "how many": "number"}
    kinds |= {"phases, at least": "number", "average": "share", "median": "share"}
    columns = [{"name": name, "kind": kind} for name, kind in kinds.items()]
    about = (
        f"Mean over the phases that both have of (score - base's), divided by |mean of base's| + {EPS:g}. Where the "
        "base scores about 0 that is huge, and with it the average: read the median."
    )
    summary = {"kind": "table", "id": "relative-improvement", "title": "Relative improvement"}
    return [summary | {"about": about, "columns": columns, "rows": rows}, *bars]


def _peer(variant: str, members: Mapping[str, Group], baseline: str, table: Mapping[str, Mapping[str, Group]]) -> str:
    """The baseline agent with the same settings, where settings were varied; else the baseline itself."""
    if baseline not in table:
        return baseline
    settings = variant.removeprefix(next(iter(members.values())).agent)
    same = next(iter(table[baseline].values())).agent + settings
    return same if same in table else baseline


def _own_base(variant: str, members: Mapping[str, Group], table: Mapping[str, Any]) -> str | None:
    """The variant with the same base agent and settings, and no rule."""
    group = next(iter(members.values()))
    base, settings = str(group.runs[0].flat.get("agent.base")), variant.removeprefix(group.agent)
    plain = base + ("+rnd" if group.agent.endswith("+rnd") else "") + settings
    return plain if plain in table else None


def _bars(variant: str, base: str, found: Mapping[str, metrics.Improvement], left_out: Sequence[str]) -> Part:
    ordered = sorted(found.items(), key=lambda item: item[1].value, reverse=True)
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
    values = [one.value for one in found.values()]
    average, median = 100 * np.mean(values), 100 * np.median(values)
    about = f"Hard-exploration games in bold. Average {average:+,.1f} %, median {median:+,.1f} %."
    if left_out:
        about += f" Left out, since they have no step in common there: {', '.join(left_out)}."
    part = {"kind": "bars", "id": f"improvement-{variant}-over-{base}", "agent": variant, "items": items}
    return part | {"title": f"Relative improvement of {variant} over {base}", "about": about}


def sticky_part(groups: Sequence[Group], baseline: str | None) -> list[Part]:
    """Relative improvement over the baseline agent against the probability of a sticky action or a slip."""
    for key, what in (("env.sticky", "sticky actions"), ("env.slip", "slips")):
        points: dict[str, dict[float, dict[str, Group]]] = {}
        for group in groups:
            level = group.runs[0].flat.get(key)
            others = [word for word in group.variant.split(" ")[1:] if not word.startswith(f"{key}=")]
            if isinstance(level, int | float) and not others:
                points.setdefault(group.agent, {}).setdefault(float(level), {})[group.env] = group
        base = points.get(baseline or "", {})
        if len(base) < 2 or len(points) < 2:
            continue
        series = []
        for agent, levels in points.items():
            if agent != baseline:
                found = {level: compare(mine, base.get(level, {}))[0] for level, mine in sorted(levels.items())}
                medians = {
                    level: float(np.median([one.value for one in some.values()]))
                    for level, some in found.items()
                    if some
                }
                name = f"{agent} over {baseline}"
                series.append({"name": name, "x": list(medians), "y": rounded(list(medians.values()))})
        about = f"Median over environments of the relative improvement over {baseline}, which had the same {what}."
        part = {"kind": "lines", "id": "sticky", "title": f"With more {what}", "x": f"probability of {what}"}
        return [part | {"about": about, "series": series}]
    return []
