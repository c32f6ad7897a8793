"""The parts of a report that are drawn against time: curves, and the diagnostics of the bonus."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from sail.analysis import metrics
from sail.analysis.groups import Group

MOST_POINTS = 220
"""Of a curve on a page: more than the paper's 200 iterations, fewer than would fill it with numbers."""
DIAGNOSTICS = {
    "eval_success": ("share of seeds that succeed", "Share of seeds whose evaluation episodes all succeed."),
    "bonus": ("mean bonus", "Mean of what the rule added to the reward."),
    "advantage_part": ("advantage-learning part", "The bonus as it would be without returns."),
    "imitation_part": ("self-imitation part", "What observed returns add to that."),
    "active_share": ("active share", "Share of transitions with G > Qt(s, a): self-imitation is at work."),
    "stale_share": ("stale share", "Share with a known return below max_b Qt(s, b): returns that would mislead."),
    "action_gap": ("action gap", "Best minus second-best action-value."),
    "max_q": ("mean max Q", "Value of the best action."),
}


def rounded(values: Any) -> list[float | None]:
    """Numbers for JSON: five digits, null where there is none."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in np.asarray(values, float).tolist()]


def mean_of_most(table: np.ndarray) -> np.ndarray:
    """The mean over seeds where at least half of them have a number: a few alone would make the line jump."""
    known = np.isfinite(table).sum(axis=0)
    return np.where(2 * known >= len(table), metrics.over_seeds(table), np.nan)


def thinned(count: int, most: int = MOST_POINTS) -> np.ndarray:
    """Which of so many points are kept: all, or evenly spaced ones with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def curve_of(group: Group) -> dict[str, Any]:
    """A group's curve for the page: every seed, the mean of those that are there, and the range with three or more."""
    keep = thinned(len(group.steps))
    table = group.table()[:, keep]
    x = (group.steps * group.frames_a_step)[keep]
    curve: dict[str, Any] = {
        "env": group.env,
        "agent": group.variant,
        "x": [int(one) for one in x],
        "seeds": [{"seed": seed, "y": rounded(row)} for seed, row in zip(group.seeds, table, strict=True)],
        "mean": rounded(mean_of_most(table)),
        "more": {},
    }
    if len(group.seeds) >= 3:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            curve |= {"low": rounded(np.nanmin(table, axis=0)), "high": rounded(np.nanmax(table, axis=0))}
    fewer = keep[thinned(len(keep), MOST_POINTS // 3)]  # diagnostics need fewer points than scores
    curve["more"]["x"] = [int(one) for one in (group.steps * group.frames_a_step)[fewer]]
    for name in DIAGNOSTICS:
        values = group.table(name)[:, fewer]
        if name == "eval_success":
            values = np.where(np.isfinite(values), values == 1.0, np.nan)
        if np.isfinite(values).any():
            curve["more"][name] = rounded(mean_of_most(values))
    return curve


def curve_parts(groups: Sequence[Group], curves: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts: scores, and each diagnostic that somebody has logged."""
    which = "Evaluation returns where there are any, else training returns (which is what the paper's curves show)."
    seeds = "The line is the mean over seeds; the band reaches from the worst to the best of three or more."
    about = f"{which} {seeds} Drag to zoom, double-click to see all again."
    parts: list[dict[str, Any]] = [{"kind": "curves", "id": "curves", "title": "Learning curves", "about": about}]
    for name, (short, sentence) in DIAGNOSTICS.items():
        if any(value is not None for curve in curves for value in curve["more"].get(name, ())):
            title = f"{short[0].upper()}{short[1:]}"
            parts.append(
                {"kind": "curves", "id": name, "metric": name, "title": title, "short": short, "about": sentence}
            )
    return parts
