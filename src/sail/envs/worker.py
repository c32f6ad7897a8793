"""A process that plays some games of every pool. `sail.envs.crew` starts it, as `python -m sail.envs.worker JSON`.

It and the crew share a table for every pool: actions and seeds come in there, rows go out. Pipes say when. Should the
run that the crew is part of be gone, even by kill -9, this process ends, in mid-game. Other signals it does not get.

Pools are played one after the other, in the order in which they were told to: so the pool that is due first is done
first.
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
import time
import traceback
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sail.envs.atari import AtariEnv
from sail.envs.atari_games import AtariGames
from sail.envs.atari_settings import AtariSettings
from sail.machine import hold_to

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
WATCH_SECONDS = 0.1
"""Between two looks at whether the run is still there. (To wait for its pipe to close does not work on a Mac.)"""

Table = dict[str, Any]


def tables(sizes: list[int], screen: Sequence[int], memory: Any) -> list[Table]:
    """A table for each pool of so many games, in shared memory, with screens of that shape."""
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


class Games(Protocol):
    """Whatever plays the games of a table."""

    def reset(self) -> None:
        """Begins an episode everywhere, with the seeds of the table."""
        ...

    def step(self) -> None:
        """A step everywhere, with the actions of the table."""
        ...


class GreyScreens:
    """Games of the emulator's vector environment in one thread of its own, with grey screens, small or whole."""

    def __init__(self, settings: AtariSettings, table: Table, screen: tuple[int, int]) -> None:
        self._env, self._table = AtariEnv(settings, len(table["action"]), screen), table

    def reset(self) -> None:
        """Begins an episode everywhere, with the seeds of the table."""
        self._env.reset_each(self._table["seed"])
        self._write()

    def step(self) -> None:
        """A step everywhere, with the actions of the table."""
        self._env.send(self._table["action"])
        self._write()

    def _write(self) -> None:
        rows = self._env.recv()
        for name in ANSWERS:
            self._table[name][:] = getattr(rows, name)


def games(settings: AtariSettings, table: Table, screen: tuple[int, ...]) -> Games:
    """Those of a table. To make screens grey [H, W] is left to the emulator; two in colours [2, H, W] are faster."""
    if len(screen) == 2:
        return GreyScreens(settings, table, (screen[0], screen[1]))
    return AtariGames(settings, table)


def main() -> None:
    """What the crew says as JSON: its process, settings, cores, sizes of pools and screens, its rows, open files."""
    told = json.loads(sys.argv[1])
    threading.Thread(target=_end_with, args=(told["run"],), daemon=True).start()
    try:
        if told["cores"] is not None:
            hold_to(told["cores"])
        settings, screen = AtariSettings(**told["settings"]), tuple(told["screen"])
        shared = tables(told["sizes"], screen, mmap.mmap(told["memory"], 0))
        own: dict[int, Games] = {}
        for pool, (table, (begin, end)) in enumerate(zip(shared, told["parts"], strict=True)):
            if begin < end:
                own[pool] = games(settings, {name: column[begin:end] for name, column in table.items()}, screen)
        while order := os.read(told["orders"], ORDER.size):
            what, pool = ORDER.unpack(order)
            own[pool].reset() if what == RESET else own[pool].step()
            os.write(told["done"][pool], DONE)
        os._exit(0)  # the crew is gone
    except BrokenPipeError:
        os._exit(0)  # likewise, and nobody waits for what was played
    except BaseException as error:
        _fail(error, told["done"])


def _end_with(run: int) -> None:
    """Ends this process, whatever it is doing, once the run that has started it is gone."""
    while os.getppid() == run:
        time.sleep(WATCH_SECONDS)
    os._exit(0)


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
