"""A process that plays some games of a pool. `sail.envs.crew` starts it, as `python -m sail.envs.worker JSON`.

It and the crew share a table for every pool: actions and seeds come in there, rows go out. Pipes say when. Should the
crew be gone, even by kill -9, its pipe is closed and this process ends. Other signals it does not get.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sail.envs.atari import SCREEN, AtariEnv
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
DONE, FAILED = b".", b"!"

Table = dict[str, Any]


def tables(num_pools: int, num_envs: int, screen: Sequence[int], memory: Any) -> list[Table]:
    """A table for each pool of so many games, in shared memory, with screens of that height and width."""
    found: list[Table] = []
    begin = 0
    for _ in range(num_pools):
        found.append({})
        for name, dtype in COLUMNS.items():
            column = np.ndarray((num_envs, *_shape(name, screen)), dtype, memory, begin)
            found[-1][name] = column
            begin += _padded(column.nbytes)
    return found


def bytes_of_tables(num_pools: int, num_envs: int, screen: Sequence[int]) -> int:
    """What they take."""
    widths = [np.dtype(dtype).itemsize * math.prod(_shape(name, screen)) for name, dtype in COLUMNS.items()]
    return num_pools * sum(_padded(num_envs * width) for width in widths)


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


class SmallScreens:
    """Games of the emulator's vector environment, which makes screens small."""

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


def games(settings: AtariSettings, table: Table, screen: tuple[int, int]) -> Games:
    """Those of a table, played in the fastest way there is for them."""
    if screen == (SCREEN, SCREEN) or settings.noop_max:
        return SmallScreens(settings, table, screen)
    return AtariGames(settings, table)


def main() -> None:
    """What the crew says as JSON: settings, cores, pools and their size, screens, which games of which, open files."""
    told = json.loads(sys.argv[1])
    try:
        if told["cores"] is not None:
            hold_to(told["cores"])
        screen = (told["screen"][0], told["screen"][1])
        shared = tables(told["num_pools"], told["num_envs"], screen, mmap.mmap(told["memory"], 0))
        table = {name: column[slice(*told["part"])] for name, column in shared[told["pool"]].items()}
        own = games(AtariSettings(**told["settings"]), table, screen)
        while order := os.read(told["orders"], 1):
            own.reset() if order == RESET else own.step()
            os.write(told["done"], DONE)
        os._exit(0)  # the crew is gone
    except BaseException as error:
        _fail(error, told["done"])


def _fail(error: BaseException, done: int) -> None:
    """Tells whoever waits, and ends the process."""
    try:
        reason = f"{type(error).__name__}: {error}".encode()[:400]
        with contextlib.suppress(OSError):
            os.write(done, FAILED + reason)
        traceback.print_exception(error)
        sys.stderr.flush()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
