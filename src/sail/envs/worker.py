"""A process that plays some games of every pool. `sail.envs.crew` starts it, as `python -m sail.envs.worker JSON`.

It and the crew share a table for every pool: actions and seeds come in there, rows go out. Pipes say when. Should the
crew be gone, even by kill -9, its pipe is closed and this process ends. Other signals it does not get.

Games are played in groups of a few, a group by one thread at a time, in the order in which their pools were told to: so
the pool that is due first is done first, and no thread waits while this process has a game to play. A group's emulator
is a thread of its own, and is held to the core of whoever plays it, who does nothing meanwhile: two such threads and
their emulators then keep 1.75 of 2 cores busy, and left to the system 1.5.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import struct
import sys
import threading
import traceback
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import numpy as np

from sail.envs.atari import AtariEnv
from sail.envs.atari_settings import AtariSettings
from sail.machine import and_its_threads, current_core, hold_to

COLUMNS: dict[str, Any] = {
    "observation": np.uint8,  # of every pixel; the others have one number a game
    "seed": np.int64,
    "action": np.int32,
    "reward": np.float32,
    **dict.fromkeys(("terminated", "truncated", "stepped", "begins"), np.bool_),
}
ANSWERS = tuple(name for name in COLUMNS if name not in ("seed", "action"))
RESET, STEP = b"r", b"s"
ORDER = struct.Struct("<cI")
"""What is to be done with which pool, in one pipe for all of them."""
DONE, FAILED = b".", b"!"
MOST_GAMES = 8
"""Of a group. To hand one to a thread takes 0.1 ms, as long as a fifth of a game's step."""

Table = dict[str, Any]


def tables(sizes: list[int], screen: Sequence[int], memory: Any) -> list[Table]:
    """A table for each pool of so many games, in shared memory, with screens of that height and width."""
    found: list[Table] = []
    begin = 0
    for size in sizes:
        found.append({})
        for name, dtype in COLUMNS.items():
            column = np.ndarray((size, *_shape(name, screen)), dtype, memory, begin)
            found[-1][name] = column
            begin += _padded(column.nbytes)
    return found


def bytes_of_tables(sizes: list[int], screen: Sequence[int]) -> int:
    """What they take."""
    widths = [np.dtype(dtype).itemsize * math.prod(_shape(name, screen)) for name, dtype in COLUMNS.items()]
    return sum(_padded(size * width) for size in sizes for width in widths)


def _shape(name: str, screen: Sequence[int]) -> tuple[int, ...]:
    return tuple(screen) if name == "observation" else ()


def _padded(length: int) -> int:
    """To whole lines of a cache, for columns to begin on."""
    return -(-length // 64) * 64


_starting = threading.Lock()
"""Games are started one group after the other, so that it is known which threads are whose."""


class Group:
    """Some games of a pool, for one thread at a time. The table has the rows of these games."""

    def __init__(self, settings: AtariSettings, screen: tuple[int, int], table: Table) -> None:
        self._settings, self._screen, self._table = settings, screen, table
        self._env: AtariEnv | None = None
        self._threads: list[int] = []
        self._core: int | None = None

    def play(self, order: bytes) -> None:
        """What the order says; the rows are in the table afterwards. The first one starts the games."""
        table = self._table
        if self._env is None:
            with _starting:
                start = partial(AtariEnv, self._settings, len(table["action"]), self._screen)
                self._env, self._threads = and_its_threads(start)
        core = current_core()
        if core is not None and core != self._core:
            for thread in self._threads:
                hold_to([core], thread)
            self._core = core
        if order == RESET:
            self._env.reset_each(table["seed"])
        else:
            self._env.send(table["action"])
        rows = self._env.recv()
        for name in ANSWERS:
            table[name][:] = getattr(rows, name)


class Part:
    """What this process plays of a pool."""

    def __init__(self, groups: list[Group], done: int) -> None:
        self.groups = groups
        self._done, self._left, self._lock = done, 0, threading.Lock()

    def begin(self) -> None:
        """All groups are told to play."""
        self._left = len(self.groups)

    def one_is_done(self) -> None:
        """A group has played; the crew is told after the last of them."""
        with self._lock:
            self._left -= 1
            left = self._left
        if left == 0:
            os.write(self._done, DONE)


def groups(table: Table, settings: AtariSettings, screen: tuple[int, int], threads: int) -> list[Group]:
    """The games of a table in groups that are as equal as can be: one for each thread, or more where they are many."""
    games = len(table["action"])
    number = min(max(threads, -(-games // MOST_GAMES)), games)
    bounds = [games * i // number for i in range(number + 1)]
    return [
        Group(settings, screen, {name: column[begin:end] for name, column in table.items()})
        for begin, end in pairwise(bounds)
    ]


def main() -> None:
    """What the crew says as JSON: settings, threads, cores, sizes of pools and screens, its rows, open files."""
    told = json.loads(sys.argv[1])
    try:
        if told["cores"] is not None:
            hold_to(told["cores"])
        own, settings = slice(*told["part"]), AtariSettings(**told["settings"])
        parts: list[Part] = []
        pools = tables(told["sizes"], told["screen"], mmap.mmap(told["memory"], 0))
        for table, done in zip(pools, told["done"], strict=True):
            mine = {name: column[own] for name, column in table.items()}
            parts.append(Part(groups(mine, settings, told["screen"], told["threads"]), done))
        waiting: SimpleQueue[tuple[Part, Group, bytes]] = SimpleQueue()
        for _ in range(told["threads"]):
            threading.Thread(target=_work, args=(waiting, told["done"])).start()
        while order := os.read(told["orders"], ORDER.size):
            what, pool = ORDER.unpack(order)
            parts[pool].begin()
            for group in parts[pool].groups:
                waiting.put((parts[pool], group, what))
        os._exit(0)  # the crew is gone, whatever the threads are doing
    except BaseException as error:
        _fail(error, told["done"])


def _work(waiting: SimpleQueue[tuple[Part, Group, bytes]], done: list[int]) -> None:
    """Plays whatever group is next."""
    try:
        while True:
            part, group, order = waiting.get()
            group.play(order)
            part.one_is_done()
    except BaseException as error:
        _fail(error, done)


def _fail(error: BaseException, done: list[int]) -> None:
    """Tells whoever waits for any pool, and ends the process: what is left of it cannot be trusted."""
    try:
        reason = f"{type(error).__name__}: {error}".encode()[:400]
        for pipe in done:
            with contextlib.suppress(OSError):
                os.write(pipe, FAILED + reason)
        traceback.print_exception(error)
        sys.stderr.flush()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
