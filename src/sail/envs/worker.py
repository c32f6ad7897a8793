"""A process that plays some games of every pool. `sail.envs.crew` starts it, as `python -m sail.envs.worker JSON`.

It and the crew share a table for every pool: actions and seeds come in there, rows go out. Pipes say when. Should the
crew be gone, even by kill -9, its pipes are closed and this process ends. Other signals it does not get.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from sail.envs.atari import AtariEnv
from sail.envs.atari_settings import AtariSettings

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


def serve(env: AtariEnv, table: Table, orders: int, done: int) -> None:
    """Plays one pool's games as it is told, until there is nobody to tell it. The table has the rows of these games."""
    while order := os.read(orders, 1):
        if order == RESET:
            env.reset_each(table["seed"])
        else:
            env.send(table["action"])
        rows = env.recv()
        for name in ANSWERS:
            table[name][:] = getattr(rows, name)
        os.write(done, DONE)


def main() -> None:
    """What the crew says as JSON: settings, cores, sizes of pools and screens, its rows, numbers of open files."""
    told = json.loads(sys.argv[1])
    try:
        if told["cores"] is not None:
            with contextlib.suppress(OSError):  # they may have been taken away since
                os.sched_setaffinity(0, told["cores"])
        part, settings = slice(*told["part"]), AtariSettings(**told["settings"])

        def play(table: Table, orders: int, done: int) -> None:
            try:
                own = {name: column[part] for name, column in table.items()}
                serve(AtariEnv(settings, len(own["action"]), told["screen"]), own, orders, done)
                os._exit(0)  # the crew is gone, and with it all other pools, should one of them hang
            except BaseException as error:
                _fail(error, told["done"])

        pools = tables(told["sizes"], told["screen"], mmap.mmap(told["memory"], 0))
        for arguments in zip(pools, told["orders"], told["done"], strict=True):
            threading.Thread(target=play, args=arguments).start()
    except BaseException as error:
        _fail(error, told["done"])


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
