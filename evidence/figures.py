"""Every figure of docs/results.md and docs/baselines.md, from the CSV files under results/ alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evidence import atari, tables
from evidence.atari import MILLION, Curve
from evidence.favourites import by_case
from evidence.gridworlds import UNCHANGED, by_size, changes

COLOURS = {"dqn": "#5c7a99", "al-dqn": "#e0a100", "sail-dqn": "#d1495b", "strsil-dqn": "#2e8b57"}
COLOURS |= {"munchausen-dqn": "#7b4ea3", "iqn": "#9a6324", "sail-iqn": "#f58231", "rainbow": "#1f9e9e"}
COLOURS |= {
    "iqn@dopamine": "#6b4c9a",
    "al-iqn": "#bfa600",
    "strsil-iqn": "#3cb44b",
    "iqn+rnd": "#469990",
    "c51": "#808000",
}
COLOURS |= {f"{agent}+rnd": COLOURS[agent] for agent in ("dqn", "al-dqn", "sail-dqn", "strsil-dqn")}
OTHER = "#1b2733"
Rows = list[dict[str, Any]]


def draw_all(results: Path, to: Path) -> list[Path]:
    """Draws what there are files for, and says what was drawn."""
    to.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    drawings: dict[str, Callable[[Rows], Iterable[tuple[str, Figure]]]] = {
        "kdt/stale_returns.csv": _stale_returns,
        "kdt/no_reward.csv": _no_reward,
        "kdt/favourites.csv": _favourites,
        "kdt/when_stale.csv": _when_stale,
        "kdt/first_look.csv": _first_look,
        "kdt/first_look_rnd.csv": _first_look_rnd,
        "deep_sea/sizes.csv": _deep_sea,
    }
    for file, draw in drawings.items():
        if (results / file).is_file():
            for name, figure in draw(tables.read(results / file)):
                made.append(to / f"{name}.png")
                figure.savefig(made[-1], dpi=130)
    points = results / "atari" / "published.csv"
    published = tables.read(points) if points.is_file() else []
    for folder, name in (("atari", "atari_curves"), (atari.NOT_HELD, "atari_curves_not_held")):
        if games := atari.read_all(results / folder):
            made.append(to / f"{name}.png")
            _atari(games, published).savefig(made[-1], dpi=130)
    if other_roms := atari.read_all(results / atari.OTHER_ROMS):
        made.append(to / "atari_roms.png")
        usual = {"ale-py's file": Path("atari"), "ale-py's file, networks not held": atari.NOT_HELD}
        others = {kind: atari.read_all(results / folder) for kind, folder in usual.items()}
        _other_roms({"atari-py's file": other_roms, **others}, published).savefig(made[-1], dpi=130)
    return made


def _other_roms(kinds: dict[str, list[Curve]], points: Rows) -> Figure:
    """A panel for each game and agent of the first kind of curves, with those of the other kinds as far as they go."""
    styles = ((COLOURS["sail-dqn"], "-"), (COLOURS["dqn"], "-"), (COLOURS["dqn"], ":"))
    first = next(iter(kinds.values()))
    shown = sorted({(curve.game, curve.agent) for curve in first})
    figure, panels = _panels(1, len(shown), "million frames", "mean training return", shared=False)
    named: dict[str, Any] = {}
    for axes, (game, agent) in zip(panels.flat, shown, strict=True):
        axes.set_title(f"{game}, {agent}", fontsize=9)
        last = max(curve.frames for curve in first if (curve.game, curve.agent) == (game, agent))
        for (kind, curves), (colour, dashes) in zip(kinds.items(), styles, strict=True):
            for curve in curves:
                if (curve.game, curve.agent) == (game, agent):
                    rows = [row for row in curve.rows if row["mean_return"] is not None and row["frames"] <= last]
                    millions, scores = [row["frames"] / MILLION for row in rows], [row["mean_return"] for row in rows]
                    (named[kind],) = axes.plot(millions, scores, dashes, color=colour, lw=1.4)
        if dot := _published(axes, points, game, agent, last, OTHER):
            named["Dopamine's runs"] = dot
    _legend(figure, named, 2)
    return figure


def _published(axes: Any, points: Rows, game: str, agent: str, last: int, colour: str) -> Any:
    """Dopamine's means as points, with bars over its runs; the last of them."""
    dot = None
    for point in points:
        if (point["game"], point["agent"]) == (game, agent) and point["frames"] <= last:
            at = point["frames"] / MILLION
            axes.plot([at, at], [point["low"], point["high"]], color=colour, lw=0.8)
            (dot,) = axes.plot(at, point["mean"], "o", ms=3, color=colour)
    return dot


def _atari(curves: Sequence[Curve], points: Rows) -> Figure:
    """A small panel for each game; points are Dopamine's published means, with bars over its runs."""
    games = sorted({curve.game for curve in curves})
    across = min(len(games), 4)
    figure, panels = _panels(-(-len(games) // across), across, "million frames", "mean training return", shared=False)
    for axes in panels.flat[len(games) :]:
        axes.set_visible(False)
    named: dict[str, Any] = {}
    for axes, game in zip(panels.flat, games, strict=False):
        axes.set_title(game, fontsize=9)
        own = [curve for curve in curves if curve.game == game]
        last = max(curve.frames for curve in own)
        for curve in own:
            rows = [row for row in curve.rows if row["mean_return"] is not None]
            millions, colour = [row["frames"] / MILLION for row in rows], COLOURS.get(curve.agent, OTHER)
            (line,) = axes.plot(millions, [row["mean_return"] for row in rows], color=colour, lw=1.2)
            named.setdefault(curve.agent, line)
        for agent in sorted({curve.agent for curve in own}):
            if dot := _published(axes, points, game, agent, last, COLOURS.get(agent, OTHER)):
                named.setdefault(f"{agent}, Dopamine's", dot)
    _legend(figure, named, 2 if figure.get_figwidth() < 6 else 4)
    return figure


def _stale_returns(rows: Rows) -> Iterable[tuple[str, Figure]]:
    envs, slips = _values(rows, "env"), _values(rows, "settings")
    for name, column, title in (
        ("kdt_solved", "share", "share of seeds solved"),
        ("kdt_stale_share", "stale_share", "share of stale returns"),
        ("kdt_key_value", "q_key", "value of taking the key"),
    ):
        figure, panels = _panels(len(envs), len(slips), f"thousand steps of {_seeds(rows)} seeds", title)
        for i, env in enumerate(envs):
            for j, slip in enumerate(slips):
                axes = panels[i][j]
                axes.set_title(f"{env}, slip {slip.split('=')[1]}", fontsize=9)
                _lines(axes, [row for row in rows if (row["env"], row["settings"]) == (env, slip)], column)
        _agents_legend(figure, panels)
        yield name, figure


def _no_reward(rows: Rows) -> Iterable[tuple[str, Figure]]:
    titles = {"reached_share": "seeds that have reached the treasure", "action_gap": "action gap"}
    rows = [row | {"reached_share": row["reached"] / row["seeds"]} for row in rows]
    figure, panels = _panels(1, 2, f"thousand steps of {_seeds(rows)} seeds, nothing pays", None)
    for axes, (column, title) in zip(panels[0], titles.items(), strict=True):
        axes.set_title(title, fontsize=9)
        _lines(axes, rows, column)
    _agents_legend(figure, panels)
    yield "kdt_no_reward", figure


def _favourites(rows: Rows) -> Iterable[tuple[str, Figure]]:
    """What was found in the end, by how often favourites changed and by the gap: a point for each case."""
    titles = {"changed": "steps where the favourite has changed", "action_gap": "action gap"}
    figure, panels = _panels(
        1, 2, f"means of {_seeds(rows)} seeds, nothing pays", "share that finds the treasure", False
    )
    figure.set_size_inches(7.6, 3.6)
    for axes, (column, title) in zip(panels[0], titles.items(), strict=True):
        axes.set_title(title, fontsize=9)
        for agent, label, last, means in by_case(rows):
            colour, share = COLOURS.get(agent, OTHER), last["reached"] / last["seeds"]
            kind, sign = "", "o"
            if last["held"]:
                kind, sign = ", held for so many steps", "s"
            elif last["shaken"]:
                kind, sign = ", shaken so much", "^"
            axes.vlines(means[column], last["low"], last["high"], colors=colour, alpha=0.4)
            style = {"ms": 5, "color": colour, "mfc": "white" if kind else colour, "label": agent + kind}
            axes.plot(means[column], share, sign, **style)
            place = {"xytext": (-5, -9), "ha": "right"} if kind else {"xytext": (5, 4), "ha": "left"}
            axes.annotate(label, (means[column], share), textcoords="offset points", fontsize=7, **place)
        axes.set_ylim(-0.06, 1)
        axes.margins(x=0.15)
    panels[0][1].set_xscale("log")
    panels[0][1].set_xticks(ticks := [0.005, 0.01, 0.02, 0.05], [f"{tick:g}" for tick in ticks])
    panels[0][1].minorticks_off()
    _agents_legend(figure, panels, 3)
    yield "kdt_favourites", figure


def _when_stale(rows: Rows) -> Iterable[tuple[str, Figure]]:
    settings = changes(rows)
    across = 4
    down = -(-len(settings) // across)
    for name, column, title in (
        ("kdt_when_solved", "share", "share of seeds solved"),
        ("kdt_when_stale", "stale_share", "share of stale returns"),
    ):
        figure, panels = _panels(down, across, f"thousand steps of {_seeds(rows)} seeds", title)
        flat = [axes for line in panels for axes in line]
        for axes, setting in zip(flat, settings, strict=False):
            axes.set_title("nothing changed" if setting == UNCHANGED else setting, fontsize=8)
            _lines(axes, [row for row in rows if row["settings"] == setting], column)
        for axes in flat[len(settings) :]:
            axes.set_visible(False)
        _agents_legend(figure, panels)
        yield name, figure


def _first_look(rows: Rows) -> Iterable[tuple[str, Figure]]:
    yield "kdt_first_look", _found_and_solved(rows, lambda setting: f"key pays {setting.split('=')[-1]}")


def _first_look_rnd(rows: Rows) -> Iterable[tuple[str, Figure]]:
    yield "kdt_first_look_rnd", _found_and_solved(rows, lambda s: f"rnd.scale {s.partition('rnd.scale=')[2] or 0.01}")


def _found_and_solved(rows: Rows, said: Callable[[str], str]) -> Figure:
    """For each setting, which is said in a few words: seeds that have come upon the aim, and seeds that solve it."""
    rows = [row | {"reached_share": row["reached"] / row["seeds"]} for row in rows]
    settings = _values(rows, "settings")
    figure, panels = _panels(len(settings), 2, "thousand steps", f"share of {_seeds(rows)} seeds")
    titles = {"reached_share": "have come upon it", "share": "solve it"}
    for line, setting in zip(panels, settings, strict=True):
        for axes, (column, title) in zip(line, titles.items(), strict=True):
            axes.set_title(f"{title} ({said(setting)})", fontsize=9)
            axes.set_ylim(0, 1)
            _lines(axes, [row for row in rows if row["settings"] == setting], column)
    _agents_legend(figure, panels)
    return figure


def _deep_sea(rows: Rows) -> Iterable[tuple[str, Figure]]:
    figure, panels = _panels(1, 1, "size", f"share of {_seeds(rows)} seeds solved")
    for agent, of_agent in by_size(rows).items():
        sizes, colour = list(of_agent), COLOURS.get(agent, OTHER)
        share, low, high = ([row[name] for row in of_agent.values()] for name in ("share", "low", "high"))
        panels[0][0].plot(sizes, share, "o-", markersize=4, color=colour, label=agent)
        panels[0][0].vlines(sizes, low, high, colors=colour, alpha=0.4)
    _agents_legend(figure, panels, 3)
    yield "deep_sea_sizes", figure


def _panels(down: int, across: int, below: str, beside: str | None, shared: bool = True) -> tuple[Figure, Any]:
    figure = Figure(figsize=(max(2.6 * across, 4.5), 2.1 * down + 0.7), layout="constrained")
    panels = figure.subplots(down, across, sharex=shared, sharey=shared and beside is not None, squeeze=False)
    figure.supxlabel(below, fontsize=9)
    if beside:
        figure.supylabel(beside, fontsize=9)
    for axes in panels.flat:
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _lines(axes: Any, rows: Rows, column: str) -> None:
    """A line for each agent; with its interval where the file has one."""
    for agent in _values(rows, "agent"):
        own = sorted(
            (row for row in rows if row["agent"] == agent and row[column] is not None), key=lambda r: r["step"]
        )
        steps, colour = [row["step"] / 1000 for row in own], COLOURS.get(agent, OTHER)
        axes.plot(steps, [row[column] for row in own], color=colour, lw=1.4, label=agent)
        low, high = ("low", "high") if column == "share" else (f"{column}_10", f"{column}_90")
        if own and low in own[0]:
            axes.fill_between(
                steps, [row[low] for row in own], [row[high] for row in own], color=colour, alpha=0.15, lw=0
            )


def _agents_legend(figure: Figure, panels: Any, across: int | None = None) -> None:
    named = {name: line for axes in panels.flat for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    labels = sorted(named, key=lambda agent: list(COLOURS).index(agent) if agent in COLOURS else len(COLOURS))
    _legend(figure, {label: named[label] for label in labels}, across or len(labels))


def _legend(figure: Figure, named: dict[str, Any], across: int) -> None:
    figure.legend(named.values(), named.keys(), loc="outside upper center", ncols=across, frameon=False, fontsize=8)


def _seeds(rows: Rows) -> str:
    counts = [row["seeds"] for row in rows]
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _values(rows: Sequence[dict[str, Any]], column: str) -> list[Any]:
    """What occurs in a column, in the order of COLOURS for agents, otherwise as it comes."""
    found = list(dict.fromkeys(row[column] for row in rows))
    order = list(COLOURS)
    return sorted(found, key=lambda x: order.index(x) if x in order else len(order)) if column == "agent" else found
