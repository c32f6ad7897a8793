"""Learning curves on Atari games: from run folders to a CSV file for each run, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from evidence import tables
from sail.envs.atari_settings import FRAME_SKIP
from sail.training.run_folder import RunFolder

MILLION = 1_000_000
LOGGED = ("episodes", "max_q", "bonus", "advantage_part", "imitation_part", "active_share", "known_share", "seconds")


class Curve(NamedTuple):
    """What one seed of one run has learned so far: a row for each phase of a million frames."""

    game: str
    agent: str
    """As `sail train` names it; with a preset of its own, as in iqn@dopamine."""
    seed: int
    rows: list[dict[str, Any]]
    about: Mapping[str, Any]

    @property
    def frames(self) -> int:
        """How far it got."""
        return int(self.rows[-1]["frames"]) if self.rows else 0


def collect(study: Path, to: Path) -> list[Path]:
    """A file for each run of a study that has begun; a shorter curve does not replace a longer one."""
    made = []
    for curve in from_runs(study):
        path = to / f"{curve.game}_{curve.agent}_seed{curve.seed}.csv"
        if curve.rows and (not path.is_file() or _read(path).frames <= curve.frames):
            tables.write(path, curve.about, curve.rows)
            made.append(path)
    return made


def from_runs(folder: Path) -> Iterator[Curve]:
    """Every seed of every Atari run in a folder, such as a study's."""
    for path in sorted(folder.rglob("config.yaml")):
        run = RunFolder(path.parent)
        kind, _, game = run.config.env.name.partition(":")
        if kind != "atari":
            continue
        source = yaml.safe_load(path.read_text()).get("provenance") or {}
        about = {name: source.get(name) for name in ("command", "started", "commit", "hardware", "versions")}
        about["seconds"] = "of training so far, with what it shared the machine with"
        about["mean_return"] = "of the training episodes that ended in the million frames before"
        about["emulators"] = run.config.learning.num_envs
        preset = re.search(r"--preset (\w+)", str(source.get("command")))
        agent = run.config.agent_name + (f"@{preset[1]}" if preset else "")
        metrics = run.metrics()
        for seed in range(run.config.seed, run.config.seed + run.config.seeds):
            rows = [
                {"frames": row["step"] * FRAME_SKIP, "mean_return": row["train_return"]}
                | {name: row.get(name) for name in LOGGED}
                for row in metrics
                if row["seed"] == seed
            ]
            yield Curve(game, agent, seed, rows, about)


def read_all(folder: Path) -> list[Curve]:
    """The curves of a folder's CSV files."""
    return [_read(path) for path in sorted(folder.glob("*_seed*.csv"))]


def by_agent(curves: Iterable[Curve]) -> dict[str, dict[str, Any]]:
    """{agent: {game: [seeds, millions of frames]}}, with NaN where a run has no score."""
    found: dict[str, dict[str, list[Any]]] = {}
    for curve in curves:
        scores = np.full(curve.frames // MILLION, np.nan)
        for million in range(len(scores)):
            score = score_at(curve.rows, (million + 1) * MILLION)
            scores[million] = np.nan if score is None else score
        if len(scores):
            found.setdefault(curve.agent, {}).setdefault(curve.game, []).append(scores)
    return {agent: {game: _stacked(seeds) for game, seeds in games.items()} for agent, games in found.items()}


def score_at(rows: Sequence[Mapping[str, Any]], frames: int) -> float | None:
    """The mean return of the training episodes that ended in the million frames up to `frames`."""
    near = [row for row in rows if frames - MILLION < row["frames"] <= frames and row["episodes"]]
    reached = any(row["frames"] >= frames for row in rows)
    episodes = sum(row["episodes"] for row in near)
    return sum(row["mean_return"] * row["episodes"] for row in near) / episodes if near and reached else None


def _read(path: Path) -> Curve:
    game, agent, seed = path.stem.split("_")
    return Curve(game, agent, int(seed.removeprefix("seed")), tables.read(path), tables.about(path))


def _stacked(seeds: list[Any]) -> Any:
    """Curves of different lengths as one table."""
    longest = max(len(scores) for scores in seeds)
    return np.stack([np.pad(scores, (0, longest - len(scores)), constant_values=np.nan) for scores in seeds])
