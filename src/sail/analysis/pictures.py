"""The pictures of one run: its learning curve and the route its greedy policy takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sail.analysis.figure_file import save_figure
from sail.analysis.route_file import read_route
from sail.analysis.runs import LeftOut, SeedCurve, read_curves

matplotlib.use("Agg", force=False)

INK, WALL, FLOOR, ROUTE = "#1b2733", "#3a4a5a", "#f4f1ea", "#d1495b"
THINGS = {"S": ("start", "#5c7a99"), "K": ("key", "#e0a100"), "D": ("door", "#8d5524"), "T": ("treasure", "#2e8b57")}
THINGS["a"] = ("apple", "#b23a48")


def save_summary(run: Path, title: str, to: Path, left_out: list[LeftOut] | None = None) -> Path:
    """Writes the picture of a run."""
    return save_figure(summary_figure(run, title, left_out), to, dpi=130)


def summary_figure(run: Path, title: str = "", left_out: list[LeftOut] | None = None) -> Figure:
    """A run's learning curve, and the route it has learned where the environment has a map.

    What cannot be read is not drawn, and added to `left_out`.
    """
    left_out = [] if left_out is None else left_out
    curves, route = read_curves(run, left_out), read_route(run, left_out)
    figure = Figure(figsize=(11, 4.6) if route else (6.5, 4.6), layout="constrained")
    axes = figure.subplots(1, 2, width_ratios=[1.35, 1]) if route else [figure.subplots()]
    figure.suptitle(title, color=INK, fontweight="bold")
    draw_curve(axes[0], curves)
    if route:
        draw_grid(axes[1], route.grid, route.cells)
        reached = "takes the treasure" if route.success else "does not get there"
        axes[1].set_title(f"greedy policy of seed {route.seed}: {reached}, {route.steps} steps", fontsize=10)
    return figure


def save_grid(grid: Sequence[str], to: Path) -> Path:
    """Writes a picture of a map without a route."""
    figure = Figure(figsize=(4.6, 4.6), layout="constrained")
    draw_grid(figure.subplots(), grid)
    return save_figure(figure, to, dpi=130)


def draw_curve(axes: Any, curves: Sequence[SeedCurve]) -> None:
    """Return against steps, while training and in evaluation: the mean over seeds, and the range of the seeds."""
    for key, label, colour in (
        ("train_return", "training (exploring)", "#7a8b99"),
        ("eval_return", "evaluation (greedy)", ROUTE),
    ):
        steps, table = _by_step(curves, key)
        known = ~np.isnan(table).all(axis=1)
        if not known.any():
            continue
        mean = np.nanmean(table[known], axis=1)
        axes.plot(steps[known], mean, color=colour, lw=2, label=label, marker="o" if known.sum() < 3 else None)
        if table.shape[1] > 1:
            low, high = np.nanquantile(table[known], [0.1, 0.9], axis=1)
            axes.fill_between(steps[known], low, high, color=colour, alpha=0.15, lw=0)
    seeds = len(curves)
    axes.set_title("return of an episode" + (f", mean and 10-90 % of {seeds} seeds" if seeds > 1 else ""), fontsize=10)
    axes.set_xlabel("agent steps")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1000:g}k" if x else "0")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="best")


def draw_grid(axes: Any, grid: Sequence[str], cells: Sequence[Sequence[int]] = ()) -> None:
    """The map from above, and the route on it."""
    rows, columns = len(grid), len(grid[0])
    axes.add_patch(Rectangle((0, 0), columns, rows, color=FLOOR))
    for r, row in enumerate(grid):
        for c, sign in enumerate(row):
            if sign == "#":
                axes.add_patch(Rectangle((c, r), 1, 1, color=WALL))
            elif sign in THINGS:
                word, colour = THINGS[sign]
                axes.add_patch(Rectangle((c + 0.08, r + 0.08), 0.84, 0.84, color=colour, alpha=0.9))
                axes.text(c + 0.5, r + 0.52, word[0].upper(), ha="center", va="center", color="white", weight="bold")
    if len(cells) > 1:
        path = np.array(cells, float) + 0.5
        # Drift a little along the way, so that a stretch walked twice shows as two lines.
        path += np.linspace(-0.14, 0.14, len(path))[:, None]
        axes.plot(path[:, 1], path[:, 0], color=ROUTE, lw=2.2, solid_joinstyle="round")
        axes.plot(path[-1, 1], path[-1, 0], "o", color=ROUTE, ms=7)
    present = {sign for row in grid for sign in row}
    words = [f"{THINGS[sign][0][0].upper()} {THINGS[sign][0]}" for sign in THINGS if sign in present]
    axes.set_xlabel("   ".join(words), fontsize=9)
    axes.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[], aspect="equal")


def _by_step(curves: Sequence[SeedCurve], key: str) -> tuple[Any, Any]:
    """Steps [n], and values [n, seeds] with NaN where there is none."""
    steps = np.unique(np.concatenate([np.zeros(0, int), *(curve.steps for curve in curves)]))
    table = np.full((len(steps), len(curves)), np.nan)
    for i, curve in enumerate(curves):
        table[np.searchsorted(steps, curve.steps), i] = curve.column(key)
    return steps, table
