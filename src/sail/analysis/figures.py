"""The figures of a report as images for papers: curves, bars, medians, profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from sail.analysis.figure_file import save_figure
from sail.analysis.report import Report

matplotlib.use("Agg", force=False)

INK, GREY = "#1b2733", "#9aa5b1"
COLOURS = ["#d1495b", "#2f6690", "#e0a100", "#2e8b57", "#7b4ea3", "#1f9e9e", "#8d5524", "#c2558f", "#5c7a99", "#6b8e23"]
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
STYLE |= {
    "svg.fonttype": "none",
    "svg.hashsalt": "sail",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,
}


def draw_figures(report: Report, folder: Path, formats: Sequence[str], name_of: Callable[[str], str]) -> list[Path]:
    """Writes every figure of a report, in every format; each is named after its part."""
    colours = {agent: COLOURS[i % len(COLOURS)] for i, agent in enumerate(report.page["agents"])}
    written: list[Path] = []
    with matplotlib.rc_context(STYLE):
        for part in report.page["parts"]:
            figure = None
            if part["kind"] == "curves":
                figure = _curves(report, part, colours)
            elif part["kind"] == "lines":
                figure = _lines(part, colours)
            elif part["kind"] == "bars":
                figure = _bars(part)
            if figure is not None:
                for ending in formats:
                    to = folder / f"{name_of(part['id'])}.{ending}"
                    dateless = {"Date": None} if ending == "svg" else None
                    written.append(save_figure(figure, to, dpi=150, metadata=dateless))
    return written


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], float)


def _curves(report: Report, part: dict[str, Any], colours: dict[str, str]) -> Figure | None:
    """A small panel for each environment."""
    metric, page = part.get("metric"), report.page
    drawn = [curve for curve in page["curves"] if metric is None or metric in curve["more"]]
    envs = [env for env in page["envs"] if any(curve["env"] == env["name"] for curve in drawn)]
    if not envs:
        return None
    across = min(len(envs), 4)
    down = -(-len(envs) // across)
    figure = Figure(figsize=(3.1 * across, 2.4 * down + 0.5), layout="constrained")
    axes = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    for panel, env in zip(axes, envs, strict=False):
        scale, unit = (1e6, "million frames") if env["unit"] == "frames" else (1e3, "thousand steps")
        for curve in (one for one in drawn if one["env"] == env["name"]):
            x = np.array(curve["more"]["x"] if metric else curve["x"]) / scale
            y, colour = _numbers(curve["more"][metric] if metric else curve["mean"]), colours[curve["agent"]]
            if metric is None and "low" in curve:
                panel.fill_between(x, _numbers(curve["low"]), _numbers(curve["high"]), color=colour, alpha=0.15, lw=0)
            panel.plot(x, y, color=colour, lw=1.3, label=curve["agent"], marker="o" if len(x) == 1 else None)
        panel.set_title(env["name"].removeprefix("atari:"), fontsize=9)
        panel.set_xlabel(unit, fontsize=8)
    for panel in axes[len(envs) :]:
        panel.set_axis_off()
    lines = {line.get_label(): line for panel in axes for line in panel.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=min(len(lines), 6), frameon=False)
    return figure


def _lines(part: dict[str, Any], colours: dict[str, str]) -> Figure:
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for i, line in enumerate(part["series"]):
        colour = colours.get(line.get("agent", ""), COLOURS[i % len(COLOURS)])
        x = _numbers(line["x"])
        if "low" in line:
            axes.fill_between(x, _numbers(line["low"]), _numbers(line["high"]), color=colour, alpha=0.15, lw=0)
        axes.plot(x, _numbers(line["y"]), color=colour, lw=1.5, label=line["name"], marker="o" if len(x) < 8 else None)
    axes.set_xlabel(part["x"])
    axes.set_title(part["title"], fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _bars(part: dict[str, Any]) -> Figure | None:
    """Sorted, hard-exploration games in bold; bars that would dwarf the others are cut at the edge and say so."""
    items = part["items"]
    if not items:
        return None
    values = np.array([item["value"] for item in items])
    edge = max(min(np.abs(values).max(), 4 * max(float(np.quantile(np.abs(values), 0.75)), 1e-9)), 1e-9)
    figure = Figure(figsize=(6.2, 0.19 * len(items) + 0.9), layout="constrained")
    axes = figure.subplots()
    where = np.arange(len(items))[::-1]
    shades = ["#d1495b" if value >= 0 else "#2f6690" for value in values]
    axes.barh(where, np.clip(values, -edge, edge), color=shades, height=0.7)
    axes.set_yticks(where, [item["label"] for item in items], fontsize=7)
    for label, item in zip(axes.get_yticklabels(), items, strict=True):
        label.set_fontweight("bold" if item["bold"] else "normal")
    for at, value, item in zip(where, values, items, strict=True):
        text = item["text"] + (" →" if abs(value) > edge else "")
        axes.text(max(min(value, edge), 0), at, f" {text}", va="center", fontsize=6.5, color=INK)
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_xlim(min(-edge if (values < 0).any() else 0, 0), 1.2 * edge)
    axes.set_xticks([])
    axes.set_ylim(-0.8, len(items) - 0.2)
    axes.set_title(part["title"], fontsize=9)
    return figure
