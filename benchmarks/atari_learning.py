"""Learning curves on Atari games: trains a list of runs, so many at a time, and gathers their curves.

    python benchmarks/atari_learning.py --set first --out runs/first --at-once 2
    python benchmarks/atari_learning.py --games Pong --agents dqn sail-dqn --frames 10_000_000 --seeds 0 1 --out runs/x
    python benchmarks/atari_learning.py --out runs/first --collect --dopamine dopamine_curves.json

Every run is `sail train` with its defaults, the paper's, and whatever other settings are given here; so each can be
looked at, resumed and evaluated like any other. Started again, this skips what is done and resumes what is not.

`--dopamine` is {agent: {game: [mean training return of each million frames]}}, or a folder of the files that Dopamine
publishes (baselines/atari/data/pong.json, ...), which have every seed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import time
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
PUBLISHED = "legacy/DQN"  # the paper's baseline


class Job(NamedTuple):
    """A run to be made."""

    game: str
    agent: str
    frames: int
    seed: int = 0

    @property
    def name(self) -> str:
        """Of its folder and of its file of results."""
        return f"{self.game}_{self.agent}_seed{self.seed}"


SETS = {
    "first": [
        *(Job(game, "dqn", 10 * MILLION) for game in ("Pong", "Breakout")),
        Job("Frostbite", "sail-dqn", 20 * MILLION),
        Job("Freeway", "dqn", 10 * MILLION),
        *(Job("Frostbite", agent, 20 * MILLION) for agent in ("dqn", "al-dqn")),
    ]
}


def command(job: Job, folder: Path, settings: Sequence[str]) -> list[str] | None:
    """What has to be run for a job now: nothing if it is done."""
    sail = [sys.executable, "-m", "sail"]
    if not (folder / "config.yaml").is_file():
        train = [*sail, "train", f"atari:{job.game}", "--agent", job.agent, "--frames", str(job.frames)]
        return [*train, "--seed", str(job.seed), "--out", str(folder), "--quiet", *settings]
    config = RunFolder(folder).config
    wanted = (f"atari:{job.game}", job.agent, job.seed)
    steps = -(-job.frames // FRAME_SKIP // config.block_steps) * config.block_steps
    if (config.env.name, config.agent_name, config.seed) != wanted or config.steps != steps:
        sys.exit(f"{folder} is another run ({config.steps * FRAME_SKIP:,} frames): name another --out.")
    return None if (folder / "DONE").is_file() else [*sail, "resume", str(folder), "--quiet"]


def train(jobs: Sequence[Job], out: Path, at_once: int, minutes: float, settings: Sequence[str]) -> None:
    """Runs the jobs until all are done or the time is up; then those that still run stop with a checkpoint."""
    out.mkdir(parents=True, exist_ok=True)
    # Side by side they share a device's memory.
    environment = {**({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if at_once > 1 else {}), **os.environ}
    todo = [(job, line) for job in jobs if (line := command(job, out / job.name, settings)) is not None]
    running: dict[Job, subprocess.Popen[bytes]] = {}
    deadline = time.monotonic() + 60 * minutes
    # Whoever stops this stops its children, once (a second signal would cost them their checkpoints).
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while (todo or running) and time.monotonic() < deadline:
            while todo and len(running) < at_once:
                job, line = todo.pop(0)
                print(f"{job.name}: {' '.join(line[1:])}", flush=True)
                with (out / f"{job.name}.log").open("ab") as log:
                    running[job] = subprocess.Popen(line, stdout=log, stderr=log, env=environment, process_group=0)
            for job in [job for job, child in running.items() if child.poll() is not None]:
                code = running.pop(job).returncode
                print(f"{job.name}: {'done' if code == 0 else f'ended with {code}, see its log'}", flush=True)
            time.sleep(1)
    except KeyboardInterrupt:
        print("Stopping; the same command goes on later.", flush=True)
    finally:
        for stop in (subprocess.Popen.terminate, subprocess.Popen.wait):
            for child in running.values():
                stop(child)


class Curve(NamedTuple):
    """What one seed of one run has learned so far."""

    game: str
    agent: str
    seed: int
    rows: list[dict[str, Any]]
    source: dict[str, Any]


def curves(out: Path) -> Iterator[Curve]:
    """Every seed of every Atari run in a folder."""
    for path in sorted(out.glob("*/config.yaml")):
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


def published(path: Path, game: str) -> Any:
    """Dopamine's curve of a game, [seeds, millions of frames]; one row, the mean, if the file has no seeds."""
    if path.is_dir():
        own = path / f"{game.lower()}.json"
        seeds: dict[int, list[float]] = defaultdict(list)
        for row in json.loads(own.read_text()) if own.is_file() else []:  # seed after seed
            if row["Agent"] == PUBLISHED.partition("/")[2]:
                seeds[row["Iteration"]].append(row["Value"])
        full = max((len(values) for values in seeds.values()), default=0)
        return None if not full else np.array([values for _, values in sorted(seeds.items()) if len(values) == full]).T
    curve = json.loads(path.read_text())[PUBLISHED].get(game)
    return None if curve is None else np.atleast_2d(np.array(curve, float))


def table(found: Sequence[Curve], frames: int, dopamine: Path | None) -> Table:
    """Our scores beside the published ones, at so many frames."""
    at = f"{frames / MILLION:g}M"
    shown = Table("game", "agent", "seeds", f"ours at {at}", f"Dopamine's DQN at {at}", "inside its seeds?")
    for game, agent in dict.fromkeys((c.game, c.agent) for c in found):
        mine = [score_at(c.rows, frames) for c in found if (c.game, c.agent) == (game, agent)]
        scores = [score for score in mine if score is not None]
        ours = f"{np.mean(scores):.1f}" if scores else "not there yet"
        if len(scores) > 1:
            ours += f" ({min(scores):.1f} .. {max(scores):.1f})"
        curve, theirs, inside = published(dopamine, game) if dopamine else None, "", ""
        if curve is not None and curve.shape[1] >= frames // MILLION:
            column = curve[:, frames // MILLION - 1]  # number 9 is of the frames from 9M to 10M
            theirs = f"{column.mean():.1f}"
            theirs += f" ({column.min():.1f} .. {column.max():.1f})" if len(column) > 1 else ""
            if scores and agent == "dqn":
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
        theirs = published(dopamine, game) if dopamine else None
        if theirs is not None:
            theirs = theirs[:, : int(last) + 1]  # the rest would only squeeze ours
            millions, grey = np.arange(1, theirs.shape[1] + 1), "#9aa5b1"
            axes.plot(millions, theirs.mean(axis=0), color=grey, ls="--", label="Dopamine's DQN")
            axes.fill_between(millions, theirs.min(axis=0), theirs.max(axis=0), color=grey, alpha=0.25, lw=0)
        for agent in dict.fromkeys(curve.agent for curve, _ in mine):
            for j, rows in enumerate(rows for curve, rows in mine if curve.agent == agent):
                frames, returns = zip(*((row["frames"] / MILLION, row["mean_return"]) for row in rows), strict=True)
                axes.plot(frames, returns, color=COLOURS.get(agent, "#1b2733"), label=None if j else agent)
        axes.set_xlim(0, last)
        axes.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=8)
    figure.savefig(to, dpi=150)


def main() -> None:
    """Trains what is asked for, and writes down what there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True, help="folder of the run folders")
    parser.add_argument("--set", choices=SETS, help="a list of runs by its name")
    parser.add_argument("--games", nargs="+", default=[])
    parser.add_argument("--agents", nargs="+", default=["dqn"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--frames", type=int, default=10 * MILLION)
    parser.add_argument("--at-once", type=int, default=1, help="runs that train side by side")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop with checkpoints after this long")
    parser.add_argument("--collect", action="store_true", help="train nothing")
    parser.add_argument("--dopamine", type=Path, help="published curves to compare with")
    parser.add_argument("--at", type=int, default=10, help="millions of frames at which scores are compared")
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results" / "atari")
    options, settings = parser.parse_known_args()
    jobs = [*SETS.get(options.set, ())]
    jobs += [Job(g, a, options.frames, s) for g in options.games for a in options.agents for s in options.seeds]
    if not options.collect:
        train(jobs, options.out, options.at_once, options.minutes, settings)
    found = list(curves(options.out))
    if not found:
        sys.exit(f"There are no Atari runs in {options.out}.")
    options.results.mkdir(parents=True, exist_ok=True)
    for curve in found:
        write_csv(curve, options.results)
    draw(found, options.results / "curves.png", options.dopamine)
    Console(width=None if sys.stdout.isatty() else 120).print(table(found, options.at * MILLION, options.dopamine))


if __name__ == "__main__":
    main()
