"""Learning curves on Atari games: from run folders to a CSV file for each run, and back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidence import tables
from evidence.runs import provenance, run_folders
from sail.analysis.groups import tells_apart
from sail.analysis.runs import flatten
from sail.config import Config, config_to_tree, make_config
from sail.envs.atari_settings import FRAME_SKIP
from sail.errors import BadInputError
from sail.presets import PRESETS
from sail.studies.records import read_record
from sail.training.run_folder import RunFolder

MILLION = 1_000_000
LOGGED = ("episodes", "max_q", "bonus", "advantage_part", "imitation_part", "active_share", "known_share", "seconds")
NOT_HELD = Path("atari") / "not_held"
"""Runs from before emulators kept their networks (learning.hold), in the folder of results."""
OTHER_ROMS = Path("atari") / "atari_py_roms"
"""Runs on other files of the games than ale-py's (env.roms), which are not for the same tables."""
_ASIDE = {"learning.num_envs", "learning.max_block", "env.roms"}
"""What does not make it another agent here, beside what never does. The number of emulators stands in every file, and
so does the folder of the game's own file if it was not ale-py's."""


class Curve(NamedTuple):
    """What one seed of one run has learned so far: a row for each phase of a million frames."""

    game: str
    agent: str
    """As `sail train` names it, and what was set otherwise: iqn@dopamine (a preset), or dqn,env.sticky=0.0."""
    seed: int
    rows: list[dict[str, Any]]
    about: Mapping[str, Any]

    @property
    def frames(self) -> int:
        """How far it got."""
        return int(self.rows[-1]["frames"]) if self.rows else 0


def collect(study: Path, to: Path) -> list[str]:
    """Writes a file for each run of a study that has begun, and says what was done.

    Of two runs that would have the same file, the longer one stays; one with another number of emulators is refused.
    Runs on other files of the games go into a folder of their own.
    """
    said: list[str] = []
    for curve in from_runs(study, said):
        own = to / OTHER_ROMS.name if "roms" in curve.about else to
        path = own / f"{curve.game}_{curve.agent}_seed{curve.seed}.csv"
        there = _read(path) if path.is_file() else None
        if not curve.rows:
            said.append(f"left out {path.name}: no million frames yet")
        elif there is not None and str(there.about["emulators"]) != str(curve.about["emulators"]):
            said.append(f"left out {path.name}: the one that is there has {there.about['emulators']} emulators")
        elif there is not None and there.frames >= curve.frames:
            said.append(f"left out {path.name}: the one that is there is as long")
        else:
            tables.write(path, curve.about, curve.rows)
            said.append(f"wrote {path.name}: {curve.frames / MILLION:g}M frames")
    return said


def from_runs(folder: Path, said: list[str] | None = None) -> Iterator[Curve]:
    """Every seed of every Atari run in a folder, such as a study's, but for those that were set aside."""
    for path in run_folders(folder):
        try:
            run = RunFolder(path)
        except BadInputError as error:
            if said is not None:
                said.append(f"left out {path}: {error}")
            continue
        kind, _, game = run.config.env.name.partition(":")
        if kind != "atari":
            continue
        source = provenance(path)
        about = {name: source.get(name) for name in ("command", "started", "commit", "hardware", "versions")}
        about["seconds"] = "of training so far, beside whatever else ran on the machine"
        about["mean_return"] = "of the training episodes that ended in the million frames before"
        about["emulators"] = run.config.learning.num_envs
        if roms := getattr(run.config.env, "roms", None):
            about["roms"] = roms
        if again := _resumed_at(folder, path, run.config.steps):
            ring = "its ring" if run.config.checkpoint.replay else "a ring that was filled anew by the policies of then"
            about["resumed"] = f"at {again} frames, with {ring}"
        metrics = run.metrics()
        for seed in range(run.config.seed, run.config.seed + run.config.seeds):
            rows = [
                {"frames": row["step"] * FRAME_SKIP, "mean_return": row["train_return"]}
                | {name: row.get(name) for name in LOGGED}
                for row in metrics
                if row["seed"] == seed
            ]
            curve = Curve(game, label(run.config), seed, rows, about)
            planned = run.config.steps * FRAME_SKIP
            ends = {"broken_off": f"at {curve.frames} of {planned} frames"} if curve.frames < planned else {}
            yield curve._replace(about={**about, **ends})


def label(config: Config) -> str:
    """The agent's name, with the preset that it has all numbers of, or with every setting that differs."""
    own = _own_settings(config_to_tree(config))
    differing: list[dict[str, Any]] = []
    for preset in PRESETS:
        usual = _own_settings(config_to_tree(make_config(config.env.name, config.agent_name, preset=preset)))
        differing.append(
            {key: own.get(key) for key in sorted(own.keys() | usual.keys()) if own.get(key) != usual.get(key)}
        )
        if not differing[-1]:
            return config.agent_name + ("" if preset == PRESETS[0] else f"@{preset}")
    return ",".join([config.agent_name, *(f"{key}={value}" for key, value in differing[0].items())])


def read_all(folder: Path) -> list[Curve]:
    """The curves of a folder's CSV files."""
    return [_read(path) for path in sorted(folder.glob("*_seed*.csv"))]


def by_agent(curves: Iterable[Curve], millions: int, agents: Sequence[str]) -> dict[str, dict[str, Any]]:
    """{agent: {game: [seeds, millions]}} of the runs that got so far, with NaN where no episode ended.

    Of agents that are to be compared, so their runs on a game are those with the same number of emulators.
    """
    found: dict[str, dict[str, list[Any]]] = {}
    own = [curve for curve in curves if curve.agent in agents and curve.frames >= millions * MILLION]
    for curve in comparable(own):
        scores = [score_at(curve.rows, (million + 1) * MILLION) for million in range(millions)]
        row = np.array([np.nan if score is None else score for score in scores])
        found.setdefault(curve.agent, {}).setdefault(curve.game, []).append(row)
    return {agent: {game: np.stack(seeds) for game, seeds in games.items()} for agent, games in found.items()}


def compared(results: Path, millions: int, agents: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`by_agent` of all runs that count."""
    return by_agent(read_all(results / "atari"), millions, agents)


def comparable(curves: Sequence[Curve]) -> list[Curve]:
    """Of each game the runs with the same number of emulators: that of most runs, the larger one if it is a draw."""
    numbers: dict[str, Counter[int]] = defaultdict(Counter)
    for curve in curves:
        numbers[curve.game][_emulators(curve)] += 1
    usual = {game: max(counts, key=lambda number: (counts[number], number)) for game, counts in numbers.items()}
    return [curve for curve in curves if _emulators(curve) == usual[curve.game]]


def _emulators(curve: Curve) -> int:
    return int(curve.about.get("emulators", 0))


def score_at(rows: Sequence[Mapping[str, Any]], frames: int) -> float | None:
    """The mean return of the training episodes that ended in the million frames up to `frames`."""
    near = [row for row in rows if frames - MILLION < row["frames"] <= frames and row["episodes"]]
    reached = any(row["frames"] >= frames for row in rows)
    episodes = sum(row["episodes"] for row in near)
    return sum(row["mean_return"] * row["episodes"] for row in near) / episodes if near and reached else None


def _resumed_at(study: Path, run: Path, steps: int) -> str:
    """The frames at which a study's run went on after it had stopped; nothing where there is no study or no stop.

    One that had stopped at its end was only evaluated then.
    """
    if study / "cells" not in run.parents or not (study / "study.json").is_file():
        return ""
    state = study / "state" / run.relative_to(study / "cells")
    starts = {start["from_step"] for start in read_record(state.with_name(f"{state.name}.json")).starts}
    return ", ".join(f"{step * FRAME_SKIP:,}" for step in sorted(starts) if 0 < step < steps)


def _read(path: Path) -> Curve:
    game, _, rest = path.stem.partition("_")
    agent, _, seed = rest.rpartition("_seed")
    return Curve(game, agent, int(seed), tables.read(path), tables.about(path))


def _own_settings(tree: dict[str, Any]) -> dict[str, Any]:
    """The settings by their dotted names, without what is aside."""
    return {name: value for name, value in flatten(tree).items() if tells_apart(name) and name not in _ASIDE}
