"""A process that plays some games of every pool. `sail.envs.crew` starts it, as `python -m sail.envs.worker JSON`.

It and the crew share a table for every pool: actions and seeds come in there, rows go out. Pipes say when. Should the
crew be gone, even by kill -9, its pipe is closed and this process ends. Other signals it does not get.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import struct
import sys
import traceback
from typing import Any

import numpy as np

from sail.envs.atari import SCREEN, AtariEnv
from sail.envs.atari_settings import AtariSettings
from sail.machine import enter_idle_class

COLUMNS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "observation": (np.uint8, (SCREEN, SCREEN)),
    "seed": (np.int64, ()),
    "action": (np.int32, ()),
    "reward": (np.float32, ()),
    **dict.fromkeys(("terminated", "truncated", "stepped", "begins"), (np.bool_, ())),
}
ANSWERS = tuple(name for name in COLUMNS if name not in ("seed", "action"))
ORDER = struct.Struct("<cH")  # what to do, and for which pool
RESET, STEP = b"r", b"s"
DONE, FAILED = b".", b"!"

Table = dict[str, Any]


def tables(sizes: list[int], memory: Any) -> list[Table]:
    """A table for each pool of so many games, in shared memory."""
    found: list[Table] = []
    begin = 0
    for size in sizes:
        found.append({})
        for name, (dtype, shape) in COLUMNS.items():
            column = np.ndarray((size, *shape), dtype, memory, begin)
            found[-1][name] = column
            begin += _padded(column.nbytes)
    return found


def bytes_of_tables(sizes: list[int]) -> int:
    """What they take."""
    widths = [np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in COLUMNS.values()]
    return sum(_padded(size * width) for size in sizes for width in widths)


def _padded(length: int) -> int:
    """To whole lines of a cache, for columns to begin on."""
    return -(-length // 64) * 64


def serve(part: slice, pools: list[Table], settings: AtariSettings, orders: int, done: list[int]) -> None:
    """Does as it is told until there is nobody to tell it. `part` are the rows of every pool that are its own."""
    own = [{name: column[part] for name, column in table.items()} for table in pools]
    games = [AtariEnv(settings, len(table["action"])) for table in own]
    while order := os.read(orders, ORDER.size):
        what, pool = ORDER.unpack(order)
        table, env = own[pool], games[pool]
        if what == RESET:
            env.reset_each(table["seed"])
        else:
            env.send(table["action"])
        rows = env.recv()
        for name in ANSWERS:
            table[name][:] = getattr(rows, name)
        os.write(done[pool], DONE)


def main() -> None:
    """What the crew says as JSON: settings, sizes of pools, its rows of each, and numbers of open files."""
    told = json.loads(sys.argv[1])
    if told["give_way"]:
        enter_idle_class()
    pools = tables(told["sizes"], mmap.mmap(told["memory"], 0))
    try:
        serve(slice(*told["part"]), pools, AtariSettings(**told["settings"]), told["orders"], told["done"])
    except BaseException as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}".encode()[:400]
        for pipe in told["done"]:
            with contextlib.suppress(OSError):
                os.write(pipe, FAILED + reason)
        sys.exit(1)


if __name__ == "__main__":
    main()
