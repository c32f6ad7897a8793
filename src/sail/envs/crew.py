"""Atari games in processes of their own, for machines with many cores.

Threads of one process share its interpreter's lock with the loop that feeds the device, and the emulator starts its
games one after the other under that lock, a tenth of a second each. A crew has none of that. Every process of it plays
some games of every pool, so that all cores work on whichever pool is due. The games are the same, bit for bit.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import sys
import tempfile
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sail.envs.atari import AtariEnv, seeds_of_games
from sail.envs.atari_settings import AtariSettings
from sail.envs.host import Rows, Rows1D, checked_actions
from sail.envs.worker import ANSWERS, DONE, ORDER, RESET, STEP, Table, tables
from sail.errors import BadInputError, TrainingError

PATIENCE_SECONDS = 2.0
"""How long a process may take to end before it is killed."""


class Crew:
    """Processes, and the pools that they play together."""

    def __init__(self, settings: AtariSettings, num_pools: int, num_envs: int) -> None:
        """`num_envs` games in each pool."""
        if os.name != "posix":
            raise BadInputError("env.processes needs Linux or macOS: leave it at 0.")
        sizes = [num_envs] * num_pools
        _, length = tables(sizes)
        self._name = settings.name
        self._memory = _unnamed_file()
        self._memory.truncate(length)
        shared, _ = tables(sizes, mmap.mmap(self._memory.fileno(), length))
        single = {**vars(settings), "threads": 1, "processes": 0, "give_way": False}
        shown = AtariEnv(AtariSettings(**single), 1)  # only to be asked for its actions
        shown.close()
        number = min(settings.processes, num_envs)
        bounds = [num_envs * i // number for i in range(number + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._orders: list[FileIO] = []
        self._answers: list[list[FileIO]] = []  # [process][pool]
        try:
            for part in pairwise(bounds):
                self._start(single, settings.give_way, sizes, part)
        except BaseException:
            self.close()
            raise
        self.pools = [CrewPool(self, shown, i, table) for i, table in enumerate(shared)]

    def _start(self, settings: dict[str, Any], give_way: bool, sizes: list[int], part: tuple[int, int]) -> None:
        orders_in, orders = os.pipe()
        self._orders.append(FileIO(orders, "wb"))
        pipes = [os.pipe() for _ in sizes]
        self._answers.append([FileIO(reading, "rb") for reading, _ in pipes])
        writing = [end for _, end in pipes]
        told = {
            "settings": settings,
            "give_way": give_way,
            "sizes": sizes,
            "part": part,
            "memory": self._memory.fileno(),
            "orders": orders_in,
            "done": writing,
        }
        here = str(Path(__file__).parents[2])
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "sail.envs.worker", json.dumps(told)],
                pass_fds=(self._memory.fileno(), orders_in, *writing),
                # One thread each: numpy's own would be as many as there are cores, in every process.
                env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
            )
        finally:
            for end in (orders_in, *writing):
                os.close(end)  # or a process that dies would not be noticed
        self._processes.append(process)

    def order(self, what: bytes, pool: int) -> None:
        """Tells every process to do something with its games of a pool."""
        order = ORDER.pack(what, pool)
        for number, orders in enumerate(self._orders):
            try:
                orders.write(order)
            except BrokenPipeError:
                self._fail(number, b"")

    def wait(self, pool: int) -> None:
        """Waits until every process has answered for a pool."""
        for number, answers in enumerate(self._answers):
            if (answer := answers[pool].read(1)) != DONE:
                self._fail(number, answers[pool].read(400) if answer else b"")

    def _fail(self, number: int, reason: bytes | None) -> NoReturn:
        why = (reason or b"").decode(errors="replace")
        if not why:
            why = "a process of its emulators has ended"
            with contextlib.suppress(subprocess.TimeoutExpired):
                why += f" with exit code {self._processes[number].wait(PATIENCE_SECONDS)}"
        raise TrainingError(f"{self._name} failed: {why}")

    def close(self) -> None:
        """Ends all processes, also one that hangs."""
        for orders in self._orders:
            orders.close()
        for process in self._processes:
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class CrewPool:
    """One pool of a crew's games: to whoever uses it, an AtariEnv."""

    resets_within_step = False
    reward_threshold: float | None = None

    def __init__(self, crew: Crew, one: AtariEnv, index: int, table: Table) -> None:
        """`one` is an environment with one of the games."""
        self.name, self.stack = one.name, one.stack
        self.num_actions, self.max_episode_steps = one.num_actions, one.max_episode_steps
        self.observation_shape, self.observation_dtype = one.observation_shape, one.observation_dtype
        self.num_envs = len(table["action"])
        self._crew, self._index, self._table = crew, index, table
        self._order = np.arange(self.num_envs, dtype=np.int32)

    def reset(self, seed: int) -> None:
        """Begins an episode everywhere."""
        self._table["seed"][:] = seeds_of_games(seed, self.num_envs)
        self._crew.order(RESET, self._index)

    def recv(self) -> Rows:
        """Waits until every game has answered. The rows are copies: the next `send` has the table written again."""
        self._crew.wait(self._index)
        return Rows(self._order, **{name: self._table[name].copy() for name in ANSWERS})

    def send(self, actions: Rows1D) -> None:
        """The actions for the rows of the last `recv`."""
        self._table["action"][:] = checked_actions(self, actions)
        self._crew.order(STEP, self._index)

    def close(self) -> None:
        """Nothing: the processes are the crew's."""


def _unnamed_file() -> Any:
    """Memory that processes can share and that is gone with the last of them, whatever ends them."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("sail"), "wb+")
    return tempfile.TemporaryFile()
