"""The run folder: the only interface between training and everything after it.

    run/ config.yaml  metrics.jsonl  episodes.jsonl  checkpoints/STEP/{state.safetensors,meta.json}  route.json  DONE

The logs are append-only lines of JSON. A kill can leave half a last line: readers drop it, and a resumed run cuts its
logs back to where its checkpoint was written.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import yaml

from sail.config import Config, config_from_tree, config_to_tree
from sail.errors import BadInputError, SailError
from sail.files import NewFolder, disk_error, write_whole
from sail.jsonl import read_lines

LOGS = ("metrics.jsonl", "episodes.jsonl")


class TakenError(BadInputError):
    """A new run folder's name is taken."""


class RunInUseError(BadInputError):
    """Another process trains into the folder."""


class RunFolder:
    """A run on disk. `create` makes a new one, `RunFolder(path)` opens one that exists."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not os.path.isfile(self.path / "config.yaml"):
            raise BadInputError(f"{self.path} is no run folder: it has no config.yaml.")
        self.config = _read_config(self.path / "config.yaml")
        self._lock: IO[str] | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Config, provenance: dict[str, Any]) -> RunFolder:
        """A new run folder, which must not exist yet, with its config.yaml."""
        path = check_new(path)
        tree = config_to_tree(config) | {"provenance": provenance}
        text = f"# sail train: {config.agent_name} on {config.env.name}\n" + yaml.safe_dump(tree, sort_keys=False)
        making = path.with_name(f".{path.name}.making-{os.getpid()}")
        try:
            with NewFolder(making):
                (making / "config.yaml").write_text(text)
                for log in LOGS:
                    (making / log).touch()
                os.rename(making, path)  # there, as a whole or not at all
        except OSError as error:
            # What is in the way may also be where a folder above it should be: a symlink that leads nowhere.
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY) and os.path.lexists(path):
                raise _taken(path) from None
            raise _unwritable(path, error) from None
        return cls(path)

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def done(self) -> bool:
        """Whether training has come to its end."""
        return (self.path / "DONE").is_file()

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl: one for each seed and phase."""
        return list(read_lines(self.path / "metrics.jsonl"))

    def episodes(self) -> list[dict[str, Any]]:
        """The lines of episodes.jsonl: one for each training episode."""
        return list(read_lines(self.path / "episodes.jsonl"))

    def summary(self) -> dict[str, Any] | None:
        """What training said at its end, or None before that."""
        return json.loads((self.path / "DONE").read_text()) if self.done else None

    def check_seed(self, seed: int) -> None:
        """Refuses a seed that the run does not have."""
        first, last = self.config.seed, self.config.seed + self.config.seeds - 1
        if not first <= seed <= last:
            has = f"seed {first} only" if first == last else f"seeds {first} to {last}"
            raise BadInputError(f"{self.path} has {has}, not {seed}.")

    def lock(self) -> None:
        """Keeps other processes from training into this folder, until this one ends."""
        lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise RunInUseError(f"{self.path} is being trained by another process.") from None
        self._lock = lock

    def unlock(self) -> None:
        """Lets go of the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def append(self, log: str, rows: Iterable[dict[str, Any]]) -> None:
        """Adds lines to a log."""
        text = "".join(json.dumps(_finite(row)) + "\n" for row in rows)
        with (self.path / log).open("a") as file:
            file.write(text)

    def sync_logs(self) -> None:
        """Waits until the logs are on the disk."""
        for log in LOGS:
            with (self.path / log).open("rb") as file:
                os.fsync(file.fileno())

    def log_sizes(self) -> dict[str, int]:
        """How long each log is now: a checkpoint remembers it."""
        return {log: (self.path / log).stat().st_size for log in LOGS}

    def cut_logs(self, sizes: dict[str, int]) -> None:
        """Forgets what was logged after a checkpoint, since it will be logged again."""
        for log in LOGS:
            path = self.path / log
            if not path.is_file() or path.stat().st_size < sizes[log]:
                raise BadInputError(f"{path} is shorter than its checkpoint says: the run cannot be resumed.")
            os.truncate(path, sizes[log])

    def write(self, name: str, content: str) -> None:
        """Writes a small file whole or not at all."""
        write_whole(self.path / name, content, durable=True)


def check_new(path: str | os.PathLike[str]) -> Path:
    """The path, if nothing is there yet and something can be."""
    path = Path(path)
    try:
        exists = path.exists() or path.is_symlink()
    except OSError as error:
        raise _unwritable(path, error) from None
    if exists:
        raise _taken(path)
    return path


def _taken(path: Path) -> TakenError:
    what = "or resume it with 'sail resume'" if (path / "config.yaml").is_file() else "since nothing is written over"
    return TakenError(f"The output folder {path} exists already: name another, {what}.")


def _unwritable(path: Path, error: OSError) -> SailError:
    reason = f"{error.filename} is no folder" if error.errno == errno.EEXIST else error.strerror
    return disk_error(f"The output folder {path} cannot be written: {reason}.", error)


def _read_config(path: Path) -> Config:
    try:
        tree = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInputError(f"{path} cannot be read: {' '.join(str(error).split())}.") from None
    if not isinstance(tree, dict):
        raise BadInputError(f"{path} is not a mapping of settings.")
    tree.pop("provenance", None)
    try:
        return config_from_tree(tree)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from None


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN or infinity: they become null."""
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}
