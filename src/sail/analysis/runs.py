"""Run folders as data: the curves of every seed, and a reason for each folder that could not be read.

A folder may be in any state: still training, killed, half copied, written by another version. Nothing here raises for
that; what cannot be used is left out and said.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from sail.jsonl import read_rows

FRAMES_A_STEP = {"atari": 4}
SKIPPED = {"checkpoints", "replay", "video", "state"}
"""Folders inside a study or a run that hold no run folders, and may hold a great many files."""
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where PyYAML was built with it


class LeftOut(NamedTuple):
    """Something that is not in a report, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class SeedCurve:
    """What one seed has logged: a number for each phase, NaN where there is none."""

    seed: int
    steps: np.ndarray  # [phases], agent steps, increasing
    columns: dict[str, np.ndarray]  # each [phases]

    def column(self, name: str) -> np.ndarray:
        """One of them; NaN throughout where it was never logged."""
        found = self.columns.get(name)
        return np.full(len(self.steps), math.nan) if found is None else found

    @property
    def no_episode_yet(self) -> bool:
        """Whether no training episode has ended. A log that does not speak of them leaves it open."""
        found = self.columns.get("train_return")
        return found is not None and bool(np.isnan(found).all())


@dataclass(frozen=True)
class Run:
    """One run folder."""

    path: Path
    env: str
    agent: str
    seeds: tuple[SeedCurve, ...]
    done: bool
    flat: dict[str, Any]
    """The settings by dotted name."""
    provenance: dict[str, Any] = field(default_factory=dict)
    study: Path | None = None
    """The study folder that it is part of."""
    videos: tuple[Path, ...] = ()

    @property
    def frames_a_step(self) -> int:
        """Emulator frames of one agent step."""
        return FRAMES_A_STEP.get(self.env.partition(":")[0], 1)


class Known(NamedTuple):
    """What was read of a folder, and what its files looked like then."""

    signature: tuple[Any, ...]
    outcome: Run | LeftOut
    notes: list[LeftOut]


def read_runs(
    paths: Iterable[str | os.PathLike[str]], known: dict[Path, Known] | None = None
) -> tuple[list[Run], list[LeftOut]]:
    """Every run in these folders (run folders, study folders, or folders of either), and what was left out.

    With `known`, folders whose files have not changed since are not read again.
    """
    known = {} if known is None else known
    runs: list[Run] = []
    left_out: list[LeftOut] = []
    seen: set[Path] = set()
    read: set[Path] = set()
    for path in map(Path, paths):
        if not path.is_dir():
            left_out.append(LeftOut(str(path), "there is no such folder"))
            continue
        found = False
        for folder, study in _run_folders(path, None, left_out, set()):
            found = True
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            read.add(folder)
            signature = _signature(folder)
            if folder not in known or known[folder].signature != signature:
                notes: list[LeftOut] = []
                known[folder] = Known(signature, _read_run(folder, study, notes), notes)
            left_out += known[folder].notes
            outcome = known[folder].outcome
            if isinstance(outcome, Run):
                runs.append(outcome)
            else:
                left_out.append(outcome)
        if not found:
            left_out.append(LeftOut(str(path), "there are no run folders in it"))
    for gone in known.keys() - read:
        del known[gone]
    return runs, left_out


def _signature(folder: Path) -> tuple[Any, ...]:
    """When and how long the files of a run were last: they are read again when that changes."""
    parts: list[Any] = []
    for name in ("config.yaml", "metrics.jsonl", "DONE", "video"):
        try:
            stat = os.stat(folder / name)
            parts.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            parts.append(None)
    return tuple(parts)


def _run_folders(
    folder: Path, study: Path | None, left_out: list[LeftOut], above: set[str]
) -> Iterator[tuple[Path, Path | None]]:
    """Run folders below a folder, each with the study it belongs to. A folder that looks like one counts as one."""
    real = os.path.realpath(folder)
    if real in above:  # a link to a folder that it is in
        return
    if os.path.isfile(folder / "study.json"):
        study = folder
    if any(os.path.isfile(folder / name) for name in ("config.yaml", "metrics.jsonl", "DONE")):
        yield folder, study
        return
    try:
        inside = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError as error:
        left_out.append(LeftOut(str(folder), f"it cannot be read: {error.strerror}"))
        return
    for path in map(Path, inside):
        if path.name not in SKIPPED and not path.name.startswith("."):
            yield from _run_folders(path, study, left_out, above | {real})


def _read_run(folder: Path, study: Path | None, left_out: list[LeftOut]) -> Run | LeftOut:
    if not os.path.isfile(folder / "config.yaml"):  # a pipe by that name would keep us for ever
        return LeftOut(str(folder), "it has no config.yaml")
    try:
        tree = yaml.load((folder / "config.yaml").read_text(), Loader=_Loader)  # safe: it makes no objects
        settings = {key: value for key, value in tree.items() if key != "provenance"}
        flat = flatten(settings)
        env = _text(settings["env"]["name"])
        agent = agent_name(settings)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        return LeftOut(str(folder), f"its config.yaml cannot be read: {' '.join(str(error).split())[:200]}")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return LeftOut(str(folder), "its config.yaml does not say which agent trained where")
    try:
        seeds = read_curves(folder, left_out)
    except OSError as error:
        return LeftOut(str(folder), f"its metrics.jsonl cannot be read: {error.strerror}")
    if not seeds:
        return LeftOut(str(folder), "it has no metrics yet")
    provenance = tree.get("provenance")
    return Run(
        path=folder,
        env=env,
        agent=agent,
        seeds=seeds,
        done=(folder / "DONE").is_file(),
        flat=flat,
        provenance=provenance if isinstance(provenance, dict) else {},
        study=study,
        videos=_videos(folder),
    )


def agent_name(settings: dict[str, Any]) -> str:
    """The paper's name for an agent, from its settings: sail-iqn, or a base alone; `+rnd` for curiosity."""
    rule, base = _text(settings["rule"]["name"]), _text(settings["agent"]["base"])
    curious = isinstance(settings.get("rnd"), dict) and settings["rnd"].get("enabled") is True
    return (base if rule == "bellman" else f"{rule}-{base}") + ("+rnd" if curious else "")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def read_curves(folder: Path, left_out: list[LeftOut]) -> tuple[SeedCurve, ...]:
    """The curve of every seed in a run folder; what cannot be used of its metrics is added to `left_out`."""
    path = folder / "metrics.jsonl"
    rows, bad = read_rows(path)
    bad += sum(not _says_when(row) for row in rows)
    odd = sum(_is_odd(value) for row in rows for value in row.values())
    if bad:
        left_out.append(LeftOut(str(path), f"{bad} broken line(s)"))
    if odd:
        left_out.append(LeftOut(str(path), f"{odd} value(s) that are no usable numbers"))
    return tuple(_curves(rows))


def _curves(rows: list[dict[str, Any]]) -> Iterator[SeedCurve]:
    """A curve for each seed; of several lines for one step the last counts, as after a resumption."""
    by_seed: dict[int, dict[int, dict[str, Any]]] = {}
    for row in rows:
        if _says_when(row):
            by_seed.setdefault(int(row["seed"]), {})[int(row["step"])] = row
    for seed, by_step in sorted(by_seed.items()):
        steps = sorted(by_step)
        names = dict.fromkeys(name for row in by_step.values() for name in row if name not in ("seed", "step"))
        columns = {name: np.array([_number(by_step[step].get(name)) for step in steps]) for name in names}
        yield SeedCurve(seed, np.array(steps), columns)


def _says_when(row: dict[str, Any]) -> bool:
    return _is_count(row.get("seed")) and _is_count(row.get("step"))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


LARGEST = 1e100
"""Beyond it a number is no score, and sums of squares would not be finite."""


def _is_odd(value: Any) -> bool:
    """Whether a logged value is neither a usable number nor nothing."""
    return value is not None and math.isnan(_number(value)) and not isinstance(value, str | bool)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:
        return math.nan
    return float(value)


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by dotted name."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = repr(value) if isinstance(value, list) else value
    return flat


def _videos(folder: Path) -> tuple[Path, ...]:
    """The videos of a run: files of its own, no links to elsewhere."""
    video = folder / "video"
    try:
        found = sorted(path for path in video.iterdir() if path.suffix in (".mp4", ".webp", ".gif"))
    except OSError:
        return ()
    return tuple(path for path in found if path.is_file() and not path.is_symlink() and not video.is_symlink())
