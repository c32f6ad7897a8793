"""Learning curves on Atari games from run folders, beside Dopamine's published ones: CSV files, a picture, a table.

    sail study run small/dopamine --out studies/dopamine
    python benchmarks/atari_curves.py studies/dopamine --dopamine dopamine_curves.json

`--dopamine` is {agent: {game: [mean training return of each million frames]}}, or a folder of the files that Dopamine
publishes (baselines/atari/data/pong.json, ...), which have every seed.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from sail.envs.atari_settings import FRAME_SKIP
from sail.training.run_folder import RunFolder

MILLION = 1_000_000
LOGGED = ("episodes", "max_q", "bonus", "advantage_part", "imitation_part", "active_share", "known_share", "seconds")
FIELDS = ["frames", "mean_return", *LOGGED]
COLOURS = {"dqn": "#5c7a99", "al-dqn": "#e0a100", "sail-dqn": "#d1495b", "strsil-dqn": "#2e8b57"}
COLOURS |= {"iqn": "#7b4ea3", "rainbow": "#1f9e9e"}
PUBLISHED = {"dqn": "DQN", "c51": "C51", "rainbow": "Rainbow", "iqn": "IQN"}
"""What Dopamine calls the agents whose curves it has published."""


class Curve(NamedTuple):
    """What one seed of one run has learned so far."""

    game: str
    agent: str
    seed: int
    rows: list[dict[str, Any]]
    source: dict[str, Any]


def curves(out: Path) -> Iterator[Curve]:
    """Every seed of every Atari run in a folder, such as a study's."""
    for path in sorted(out.rglob("config.yaml")):
        run = RunFolder(path.parent)
        kind, _, game = run.config.env.name.partition(":")
        source = yaml.safe_load(path.read_text()).get("provenance") or {}
        for seed in range(run.config.seed, run.config.seed + run.config.seeds) if kind == "atari" else ():
            rows = [
                {"frames": row["step"] * FRAME_SKIP, "mean_return": row["train_return"]}
                | {name: row.get(name) for name in LOGGED}
                for row in run.metrics()
                if row["seed"] == seed
            ]
            yield Curve(game, run.config.agent_name, seed, rows, source)


def write_csv(curve: Curve, folder: Path) -> None:
    """One row for each phase, under lines that say where they come from."""
    path = folder / f"{curve.game}_{curve.agent}_seed{curve.seed}.csv"
    with path.open("w", newline="") as file:
        for name in ("command", "started", "commit", "hardware", "versions"):
            file.write(f"# {name}: {curve.source.get(name)}\n")
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(curve.rows)


def score_at(rows: Sequence[dict[str, Any]], frames: int) -> float | None:
    """The mean return of the training episodes that ended in the million frames up to `frames`."""
    near = [row for row in rows if frames - MILLION < row["frames"] <= frames and row["episodes"]]
    reached = any(row["frames"] >= frames for row in rows)
    episodes = sum(row["episodes"] for row in near)
    return sum(row["mean_return"] * row["episodes"] for row in near) / episodes if near and reached else None


def published(path: Path, game: str, agent: str = "dqn") -> Any:
    """Dopamine's curve of a game, [seeds, millions of frames]; one row, the mean, if the file has no seeds."""
    if agent not in PUBLISHED:
        return None
    if path.is_dir():
        own = path / f"{game.lower()}.json"
        seeds: dict[int, list[float]] = defaultdict(list)
        for row in json.loads(own.read_text()) if own.is_file() else []:  # seed after seed
            if row["Agent"] == PUBLISHED[agent]:
                seeds[row["Iteration"]].append(row["Value"])
        full = max((len(values) for values in seeds.values()), default=0)
        return None if not full else np.array([values for _, values in sorted(seeds.items()) if len(values) == full]).T
    curve = json.loads(path.read_text()).get(f"legacy/{PUBLISHED[agent]}", {}).get(game)
    return None if curve is None else np.atleast_2d(np.array(curve, float))


def table(found: Sequence[Curve], frames: int, dopamine: Path | None) -> Table:
    """Our scores beside the published ones, at so many frames."""
    at = f"{frames / MILLION:g}M"
    shown = Table("game", "agent", "seeds", f"ours at {at}", f"Dopamine's at {at}", "inside its seeds?")
    for game, agent in dict.fromkeys((c.game, c.agent) for c in found):
        mine = [score_at(c.rows, frames) for c in found if (c.game, c.agent) == (game, agent)]
        scores = [score for score in mine if score is not None]
        ours = f"{np.mean(scores):.1f}" if scores else "not there yet"
        if len(scores) > 1:
            ours += f" ({min(scores):.1f} .. {max(scores):.1f})"
        curve, theirs, inside = published(dopamine, game, agent) if dopamine else None, "", ""
        if curve is not None and curve.shape[1] >= frames // MILLION:
            column = curve[:, frames // MILLION - 1]  # number 9 is of the frames from 9M to 10M
            theirs = f"{column.mean():.1f}"
            theirs += f" ({column.min():.1f} .. {column.max():.1f})" if len(column) > 1 else ""
            if scores:
                known = "yes" if column.min() <= np.mean(scores) <= column.max() else "no"
                inside = known if len(column) > 1 else "the file has no spread"
        shown.add_row(game, agent, f"{len(scores)} of {len(mine)}", ours, theirs, inside)
    return shown


def draw(found: Sequence[Curve], to: Path, dopamine: Path | None) -> None:
    """A small panel for each game."""
    from matplotlib.figure import Figure

    games = list(dict.fromkeys(curve.game for curve in found))
    across, down = min(len(games), 3), -(-len(games) // 3)
    figure = Figure(figsize=(4 * across, 3 * down), layout="constrained")
    for i, game in enumerate(games, 1):
        axes = figure.add_subplot(down, across, i, title=game, xlabel="million frames", ylabel="mean training return")
        mine = [(curve, [row for row in curve.rows if row["mean_return"] is not None]) for curve in found]
        mine = [(curve, rows) for curve, rows in mine if curve.game == game and rows]
        last = max((rows[-1]["frames"] / MILLION for _, rows in mine), default=1)
        for agent in dict.fromkeys(curve.agent for curve, _ in mine):
            theirs = published(dopamine, game, agent) if dopamine else None
            if theirs is not None:
                theirs = theirs[:, : int(last) + 1]  # the rest would only squeeze ours
                millions, colour = np.arange(1, theirs.shape[1] + 1), COLOURS.get(agent, "#1b2733")
                axes.plot(millions, theirs.mean(axis=0), color=colour, ls="--", lw=1, label=f"Dopamine's {agent}")
                axes.fill_between(millions, theirs.min(axis=0), theirs.max(axis=0), color=colour, alpha=0.15, lw=0)
        for agent in dict.fromkeys(curve.agent for curve, _ in mine):
            for j, rows in enumerate(rows for curve, rows in mine if curve.agent == agent):
                frames, returns = zip(*((row["frames"] / MILLION, row["mean_return"]) for row in rows), strict=True)
                axes.plot(frames, returns, color=COLOURS.get(agent, "#1b2733"), label=None if j else agent)
        axes.set_xlim(0, last)
        axes.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=8)
    figure.savefig(to, dpi=150)


def main() -> None:
    """Writes down what there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="a study folder, or any folder of run folders")
    parser.add_argument("--dopamine", type=Path, help="published curves to compare with")
    parser.add_argument("--at", type=int, default=10, help="millions of frames at which scores are compared")
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results" / "atari")
    options = parser.parse_args()
    found = list(curves(options.folder))
    if not found:
        sys.exit(f"There are no Atari runs in {options.folder}.")
    options.results.mkdir(parents=True, exist_ok=True)
    for curve in found:
        write_csv(curve, options.results)
    draw(found, options.results / "curves.png", options.dopamine)
    Console(width=None if sys.stdout.isatty() else 120).print(table(found, options.at * MILLION, options.dopamine))


if __name__ == "__main__":
    main()
