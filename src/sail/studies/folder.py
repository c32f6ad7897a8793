"""The study folder: a definition, its cells, and a run folder for each of them.

    study/ study.json  study.yaml  cells/ENV/AGENT/SEED/...  state/ENV/AGENT/SEED.{json,log,progress}  driver.json

`study.json` is the truth; `study.yaml` says the same to people. Cells are run folders as `sail train` makes them.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sail.errors import BadInputError, SailError
from sail.files import NewFolder, disk_error, write_whole
from sail.studies.cells import Cell, expand
from sail.studies.definition import Definition, read_definition
from sail.studies.marked import Marked, dump
from sail.studies.records import STALE_SECONDS, Record, age, read_record, write_json, write_record

SCHEMA = 1


class StudyFolder:
    """A study on disk. `create` makes a new one, `StudyFolder(path)` opens one that exists."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._new: NewFolder | None = None
        file = self.path / "study.json"
        if not file.is_file():
            raise BadInputError(f"{path} is no study folder: it has no study.json.")
        try:
            tree = json.loads(file.read_text())
            if tree["schema"] != SCHEMA:
                raise BadInputError(f"{file} has schema {tree['schema']}, and this version of sail reads {SCHEMA}.")
            self.name: str = tree["name"]
            self._definition_tree: dict[str, Any] = tree["definition"]
            self.cells = [Cell(**cell) for cell in tree["cells"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, BadInputError):
                raise
            raise BadInputError(f"{file} is not what sail writes: {error}.") from None

    @classmethod
    def create(cls, path: str | os.PathLike[str], definition: Definition, cells: list[Cell]) -> StudyFolder:
        """A new study folder."""
        path = Path(path).absolute()
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise BadInputError(f"{path} exists and is no study folder: name another with --out.")
        try:
            with NewFolder(path) as new:
                _write(path, definition, cells)
                study = cls(path)
        except OSError as error:
            raise _unwritable(path, error) from None
        study._new = new
        return study

    def discard(self) -> None:
        """Leaves nothing of a folder that `create` has just made; nothing happens to one that was there before.

        The caller is its driver, and has started no cell.
        """
        if self._new is not None:
            self._new.undo()

    def rewrite(self, definition: Definition, cells: list[Cell]) -> StudyFolder:
        """The same folder with another definition; the caller has made sure that its cells stay true."""
        _write(self.path, definition, cells)
        return StudyFolder(self.path)

    def definition(self) -> tuple[Definition, Marked]:
        """The definition it was made from."""
        marked = Marked(str(self.path / "study.yaml"), dump(self._definition_tree))
        return read_definition(marked, self.name), marked

    def run_path(self, cell: Cell) -> Path:
        """A cell's run folder."""
        return self.path / "cells" / cell.name

    def state_path(self, cell: Cell, suffix: str = ".json") -> Path:
        """A cell's record, or another of its files under state/."""
        return self.path / "state" / f"{cell.name}{suffix}"

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell's training has come to its end."""
        return (self.run_path(cell) / "DONE").is_file()

    def record(self, cell: Cell) -> Record:
        """What is known about a cell."""
        return read_record(self.state_path(cell))

    def write_record(self, cell: Cell, record: Record) -> None:
        """Keeps what is known about a cell."""
        write_record(self.state_path(cell), record)

    def driver_age(self) -> float:
        """Seconds since a driver was last seen at work here."""
        return age(self.path / "driver.json")

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Keeps other drivers away, on this machine by a lock and on others by a file that is touched while we work."""
        file = self.path / "driver.json"
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._driven(file) from None
            host, _ = _owner(file)
            if host not in (None, socket.gethostname()) and age(file) < STALE_SECONDS:
                raise self._driven(file)
            write_json(file, {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()})
            try:
                yield
            finally:
                with suppress(OSError):
                    if _owner(file) == (socket.gethostname(), os.getpid()):
                        file.unlink(missing_ok=True)

    def _driven(self, file: Path) -> BadInputError:
        try:
            tree = json.loads(file.read_text())
            who = f"process {tree['pid']} on {tree['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            who = "another process"
        return BadInputError(f"{self.path} is being run by {who}: 'sail study status {self.path}' shows how far it is.")

    def touch(self) -> None:
        """Says that the driver is alive."""
        with suppress(OSError):  # a shared disk may have a bad moment
            os.utime(self.path / "driver.json")


def _owner(file: Path) -> tuple[str | None, int | None]:
    """The host and process that driver.json names."""
    try:
        tree = json.loads(file.read_text())
        return str(tree["host"]), int(tree["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


def _write(path: Path, definition: Definition, cells: list[Cell]) -> None:
    tree = definition.to_tree()
    whole = {"schema": SCHEMA, "name": definition.name, "definition": tree, "cells": [cell.to_tree() for cell in cells]}
    write_json(path / "study.json", whole, durable=True)
    text = f"# {definition.name}: what 'sail study run' was given. A copy: changes here change nothing.\n"
    write_whole(path / "study.yaml", text + dump(tree))


def _unwritable(path: Path, error: OSError) -> SailError:
    return disk_error(f"The study folder {path} cannot be written: {error.strerror}.", error)


def open_or_create(path: Path, marked: Marked, name: str) -> StudyFolder:
    """The folder of a study file: a new one, or the one that is there (which `up_to_date` then looks at)."""
    try:
        exists = (path / "study.json").is_file()
    except OSError as error:
        raise _unwritable(path, error) from None
    if exists:
        return StudyFolder(path)
    definition = read_definition(marked, name)
    return StudyFolder.create(path, definition, expand(definition, marked))


def up_to_date(study: StudyFolder, marked: Marked, name: str) -> StudyFolder:
    """The study as its file describes it now: refused where that changes its runs. The caller is its driver."""
    study = StudyFolder(study.path)
    new, (old, _) = read_definition(marked, name), study.definition()
    if old.decides_results() != new.decides_results():
        raise BadInputError(
            f"{marked.file} has changed since {study.path} was begun:\n{difference(old, new)}\nUse another folder "
            f"(--out), or 'sail study extend {study.path} --file {marked.file}' if it only adds to what was there."
        )
    _check_kept(study, expand(new, marked, study.cells), marked.file)
    return study.rewrite(new, study.cells)


def extend(study: StudyFolder, marked: Marked, name: str) -> tuple[StudyFolder, list[Cell]]:
    """The study with a larger definition, and the cells that are new. Everything that was there must stay as it was."""
    new = read_definition(marked, name)
    cells = expand(new, marked, study.cells)
    _check_kept(study, cells, marked.file)
    known = {cell.name for cell in study.cells}
    return study.rewrite(new, cells), [cell for cell in cells if cell.name not in known]


def _check_kept(study: StudyFolder, cells: list[Cell], file: str) -> None:
    by_name = {cell.name: cell for cell in cells}
    for cell in study.cells:
        if cell.name not in by_name:
            raise BadInputError(
                f"{file} has no cell {cell.name} any more, and {study.path} has it: only add to a study."
            )
        if by_name[cell.name] != cell:
            now, was = by_name[cell.name].to_tree(), cell.to_tree()
            key = next(key for key in was if was[key] != now[key])
            raise BadInputError(
                f"{file} changes the {key} of {cell.name} from {was[key]} to {now[key]}, and {study.path} was begun "
                "with the former: use another folder (--out)."
            )


def difference(old: Definition, new: Definition) -> str:
    """The lines that differ, as `diff` shows them."""
    before, now = (dump(one.decides_results()).splitlines() for one in (old, new))
    lines = difflib.unified_diff(before, now, "before", "now", lineterm="", n=1)
    return "\n".join(f"  {line}" for line in lines)
