"""The replay ring on disk: what the emulators sent and what they were told, in files that are never changed.

Rounds are gathered until there are enough of them for a file, which a thread of its own writes while training goes on.
A checkpoint names the files that together hold a whole ring; playing them again fills a new one. Files that no
checkpoint names any more are removed.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from sail.envs.host import Rows
from sail.errors import TrainingError

FILE_BYTES = 64 * 2**20
WAITING_FILES = 4  # more than these are not kept in memory: training waits for the disk


class DamagedJournalError(Exception):
    """The files do not hold what a checkpoint says they do."""


class Entry(NamedTuple):
    """A file, and how many slots of each environment's ring its rounds take."""

    name: str
    sha256: str
    begins: bool  # whether all environments began anew with it
    slots: Any  # [seeds, E]


class Journal:
    """Rounds in, files out; and back again."""

    def __init__(self, folder: Path, num_seeds: int, num_envs: int, needed: int, keep: int) -> None:
        """`needed` slots of each environment are kept at least; `keep` is the number of checkpoints."""
        self.folder, self.needed = folder, needed
        self._shape = (num_seeds, num_envs)
        self._entries: deque[Entry] = deque()
        self._begins = True
        self._promised: deque[set[str]] = deque(maxlen=keep + 1)  # the newest may not be on the disk yet
        self._rounds: list[tuple[Rows, Any]] = []
        self._bytes = 0
        self._next = 0
        self._failure: BaseException | None = None
        self._files: queue.Queue[list[tuple[Rows, Any]] | None] = queue.Queue(maxsize=WAITING_FILES)
        folder.mkdir(exist_ok=True)
        for unfinished in folder.glob(".*.safetensors.writing"):  # a run was killed there
            unfinished.unlink(missing_ok=True)
        for file in folder.glob("*"):
            self._next = max(self._next, int(file.stem) + 1) if file.stem.isdigit() else self._next
        self._thread = threading.Thread(target=self._write_files, daemon=True, name="journal")
        self._thread.start()

    def add(self, rows: Rows, actions: Any) -> None:
        """A round of all seeds [seeds, W, ...] and the actions that were chosen for it."""
        self._check()
        self._rounds.append((rows, actions))
        self._bytes += rows.observation.nbytes * (1 if rows.closing is None else 2)
        if self._bytes >= FILE_BYTES:
            self._hand_over()

    def flush(self) -> list[dict[str, Any]]:
        """Waits until all rounds are on the disk, and names the files that hold the newest ring."""
        if self._rounds:
            self._hand_over()
        self._files.join()
        self._check()
        self._forget()
        self._promised.append({entry.name for entry in self._entries})
        kept = set().union(*self._promised)
        for file in self.folder.glob("*.safetensors"):
            if file.name not in kept:
                file.unlink(missing_ok=True)
        return [{"name": entry.name, "sha256": entry.sha256, "begins": entry.begins} for entry in self._entries]

    def close(self) -> None:
        """Ends the thread; what is not flushed is not kept."""
        if self._thread.is_alive():
            self._files.put(None)
            self._thread.join()

    def read(self, names: list[dict[str, Any]]) -> Iterator[tuple[Rows, Any, bool]]:
        """The rounds of these files, oldest first, and whether all environments began anew with one.

        The files are this journal's from now on; if one is damaged, none of them is.
        """
        for name in names:
            try:
                begins = bool(name["begins"])
                content = (self.folder / Path(name["name"]).name).read_bytes()
                if hashlib.sha256(content).hexdigest() != name["sha256"]:
                    raise DamagedJournalError(f"{name['name']} is not what was written")
                columns = load(content)
                actions = columns.pop("action")
            except (OSError, SafetensorError, KeyError, TypeError, DamagedJournalError) as error:
                self._entries.clear()
                raise DamagedJournalError(str(error)) from None
            rounds = [
                (Rows(**{key: column[i] for key, column in columns.items()}), actions[i]) for i in range(len(actions))
            ]
            self._entries.append(Entry(name["name"], name["sha256"], begins, self._slots(rounds)))
            for i, (rows, action) in enumerate(rounds):
                yield rows, action, begins and i == 0
        self._promised.append({entry.name for entry in self._entries})

    def _hand_over(self) -> None:
        self._files.put(self._rounds)
        self._rounds, self._bytes = [], 0

    def _check(self) -> None:
        failure = self._failure
        if failure is None:
            return
        if isinstance(failure, OSError) and failure.strerror:
            why = failure.strerror
        else:  # such as no memory, or what the device has to say about the actions: its first line, if it has any
            why = ": ".join([type(failure).__name__, *str(failure).splitlines()[:1]])
        raise TrainingError(f"The replay ring cannot be kept in {self.folder}: {why.rstrip('.')}.") from failure

    def _write_files(self) -> None:
        """After a failure, of whatever kind, rounds are still taken, and lost: nobody waits for this thread in vain."""
        while (rounds := self._files.get()) is not None:
            try:
                if self._failure is None:
                    self._entries.append(self._write(rounds))
            except BaseException as error:
                self._failure = error
            finally:
                self._files.task_done()
        self._files.task_done()

    def _write(self, rounds: list[tuple[Rows, Any]]) -> Entry:
        columns = {
            key: np.stack([getattr(rows, key) for rows, _ in rounds])
            for key in Rows._fields
            if getattr(rounds[0][0], key) is not None
        }
        content = save({**columns, "action": np.stack([np.asarray(actions) for _, actions in rounds])})
        name = f"{self._next:08d}.safetensors"
        self._next += 1
        temporary = self.folder / f".{name}.writing"
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        begins, self._begins = self._begins, False
        return Entry(name, hashlib.sha256(content).hexdigest(), begins, self._slots(rounds))

    def _slots(self, rounds: list[tuple[Rows, Any]]) -> Any:
        """[seeds, E]: a step takes one slot, an end one more."""
        slots = np.zeros(self._shape, np.int64)
        for rows, _ in rounds:
            for seed in range(self._shape[0]):
                there = rows.env[seed] < self._shape[1]
                taken = rows.stepped[seed].astype(int) + (rows.terminated[seed] | rows.truncated[seed])
                np.add.at(slots[seed], rows.env[seed][there], taken[there])
        return slots

    def _forget(self) -> None:
        """Lets go of files that are older than everything that is needed."""
        newer = sum((entry.slots for entry in self._entries), np.zeros(self._shape, np.int64))
        while self._entries and (newer - self._entries[0].slots >= self.needed).all():
            newer = newer - self._entries.popleft().slots
