"""Atari games in processes of their own, for machines with many cores.

Threads of one process share its interpreter's lock with the loop that feeds the device, and the emulator starts its
games one after the other under that lock, a tenth of a second each. The processes of a crew share no lock, and start
their games side by side. Each plays some games of every pool, one after the other, so that all of them work on the pool
that is due. The games are the same, bit for bit.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sail.envs.atari import SCREEN, AtariEnv, seeds_of_games
from sail.envs.atari_settings import AtariSettings
from sail.envs.host import Rows, Rows1D, checked_actions
from sail.envs.worker import ANSWERS, DONE, ORDER, RESET, STEP, Table, bytes_of_tables, tables
from sail.errors import BadInputError, TrainingError
from sail.files import disk_error
from sail.machine import cores_to_share

PATIENCE_SECONDS = 2.0
"""How long a process may take to end before it is killed."""


class Crew:
    """Processes, and the pools that they play together."""

    def __init__(
        self, settings: AtariSettings, num_pools: int, num_envs: int, screen: tuple[int, ...] = (SCREEN, SCREEN)
    ) -> None:
        """`num_envs` games in each pool, whose rows have screens of that shape."""
        self._name = settings.name
        self._processes: list[subprocess.Popen[bytes]] = []
        self._orders: list[FileIO] = []  # [process]
        self._answers: list[list[FileIO]] = []  # [process][pool]
        if settings.threads:
            raise BadInputError("env.threads is for games without processes: leave it at 0, or set env.processes to 0.")
        parts = shares(settings.processes, num_pools, num_envs)
        self._players = [
            [process for process, own in enumerate(parts) if own[pool][0] < own[pool][1]] for pool in range(num_pools)
        ]
        places = cores_to_share() if settings.give_way else None
        each = {**vars(settings), "threads": 1, "processes": 0, "give_way": False}
        one = AtariEnv(AtariSettings(**each), 1)  # only to be asked for its actions
        one.close()
        sizes = [num_envs] * num_pools
        try:
            _allow_files(len(parts) * (num_pools + 1))
            with _unnamed_file() as memory:
                memory.truncate(bytes_of_tables(sizes, screen))
                shared = tables(sizes, screen, mmap.mmap(memory.fileno(), 0))
                for own in parts:
                    told = {"settings": each, "cores": places, "sizes": sizes, "screen": screen, "parts": own}
                    self._start(told, memory.fileno())
        except OSError as error:
            self.close()
            sentence = f"env.processes {settings.processes} cannot be had here, with {num_pools} pools"
            raise disk_error(f"{sentence}: {error.strerror}.", error) from error
        except BaseException:
            self.close()
            raise
        self.pools = [CrewPool(self, one, i, table) for i, table in enumerate(shared)]

    def _start(self, told: dict[str, Any], memory: int) -> None:
        """One process more."""
        theirs: list[FileIO] = []
        try:
            self._answers.append([])
            orders_in, orders = _pipe()
            self._orders.append(orders)
            theirs.append(orders_in)
            for _ in told["sizes"]:
                answers, answers_in = _pipe()
                self._answers[-1].append(answers)
                theirs.append(answers_in)
            numbers = [file.fileno() for file in theirs]
            told = {**told, "run": os.getpid(), "memory": memory, "orders": numbers[0], "done": numbers[1:]}
            # Whoever wants the run to stop tells the run, and the processes end when it closes their pipes. So they are
            # started deaf to what goes to the whole group: Ctrl-C, a terminal that is closed, a scheduler's request.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "sail.envs.worker", json.dumps(told)],
                    pass_fds=(memory, *numbers),
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        finally:
            for file in theirs:
                file.close()  # or a process that dies would not be noticed
        self._processes.append(process)

    def order(self, what: bytes, pool: int) -> None:
        """Tells every process that has games of a pool to do something with them."""
        for number in self._players[pool]:
            with contextlib.suppress(BrokenPipeError):  # `wait` finds out what it died of
                self._orders[number].write(ORDER.pack(what, pool))

    def answered(self, pool: int) -> bool:
        """Whether `wait` would not."""
        return all(_has_something(self._answers[number][pool], 0.0) for number in self._players[pool])

    def wait(self, pool: int, seconds: float | None = None) -> None:
        """Waits until every process that plays in a pool has answered, at most so long."""
        end = None if seconds is None else time.monotonic() + seconds
        for number in self._players[pool]:
            answers = self._answers[number][pool]
            if end is not None and not _has_something(answers, max(end - time.monotonic(), 0.0)):
                raise TrainingError(f"{self._name} has not answered for {seconds:g} s, so the run stops.")
            if (answer := answers.read(1)) != DONE:
                reason = answers.read(400) if answer else None
                raise TrainingError(f"{self._name} failed: {self._why(number, reason)}")

    def _why(self, number: int, reason: bytes | None) -> str:
        if reason:
            return reason.decode(errors="replace")
        why = "a process of its emulators has ended"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._processes[number].wait(PATIENCE_SECONDS)
            why += f" with exit code {code}" + (" (out of memory?)" if code == -signal.SIGKILL else "")
        return why

    @property
    def processes(self) -> list[int]:
        """Their numbers."""
        return [process.pid for process in self._processes]

    def peak_memory(self) -> int:
        """Bytes that the processes have taken at most, pages that they share in each of them; 0 where nobody knows."""
        peaks = [0]
        for process in self.processes:
            with contextlib.suppress(OSError, ValueError, IndexError):
                status = Path(f"/proc/{process}/status").read_text()
                peaks.append(1024 * int(status.partition("VmHWM:")[2].split()[0]))
        return sum(peaks)

    def close(self) -> None:
        """Ends all processes, also those that hang."""
        for pipe in self._orders:
            pipe.close()
        end = time.monotonic() + PATIENCE_SECONDS
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(end - time.monotonic(), 0.01))
        for process in self._processes:
            process.kill()  # nothing, where it has ended
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
        self._at_work = False
        # Whole screens go to the device and nowhere else, and it has read them before it chooses what to do about them.
        whole = table["observation"].shape[1:] != self.observation_shape
        self._copied = [name for name in ANSWERS if not (whole and name == "observation")]

    def reset(self, seed: int) -> None:
        """Begins an episode everywhere."""
        if self._at_work:
            raise RuntimeError(f"{self.name} cannot be reset while its emulators are at work.")
        self._table["seed"][:] = seeds_of_games(seed, self.num_envs)
        self._tell(RESET)

    def recv(self, seconds: float | None = None) -> Rows:
        """Waits until every game has answered, at most so long.

        The rows are copies, since the next `send` has the table written again; but whole screens are the table's own.
        """
        self._crew.wait(self._index, seconds)
        self._at_work = False
        rows = {name: self._table[name] for name in ANSWERS}
        return Rows(self._order, **rows | {name: rows[name].copy() for name in self._copied})

    def answered(self) -> bool:
        """Whether `recv` would not wait."""
        return self._crew.answered(self._index)

    def send(self, actions: Rows1D) -> None:
        """The actions for the rows of the last `recv`."""
        self._table["action"][:] = checked_actions(self, actions)
        self._tell(STEP)

    def _tell(self, what: bytes) -> None:
        self._at_work = True
        self._crew.order(what, self._index)

    def close(self) -> None:
        """Nothing: the processes are the crew's."""


def shares(processes: int, num_pools: int, num_envs: int) -> list[list[tuple[int, int]]]:
    """Which games [process][pool] each has, the first and the one after its last: none has two more than another.

    Where games do not come out even, those that have one more of a pool have one less of another.
    """
    number = min(processes, num_pools * num_envs)
    parts = pairwise(num_envs * i // number for i in range(number + 1))
    largest_first = sorted(parts, key=lambda part: part[0] - part[1])
    dealt: list[list[tuple[int, int]]] = [[] for _ in range(number)]
    for _ in range(num_pools):
        poorest_first = sorted(dealt, key=lambda own: sum(end - begin for begin, end in own))
        for own, part in zip(poorest_first, largest_first, strict=True):
            own.append(part)
    return dealt


def _unnamed_file() -> Any:
    """Memory that processes can share and that is gone with the last of them, whatever ends them."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(_above_standard(os.memfd_create("sail")), "wb+")
    return tempfile.TemporaryFile()


def _pipe() -> tuple[FileIO, FileIO]:
    """The end to read from, and the one to write to."""
    reading, writing = map(_above_standard, os.pipe())
    return FileIO(reading, "rb"), FileIO(writing, "wb")


def _allow_files(number: int) -> None:
    """Has the system let this process open so many files more, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + 512  # beside all others, of which jax alone has some dozens
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))


def _has_something(pipe: FileIO, seconds: float) -> bool:
    """Whether there is something to read within some time, be it that the other end is closed."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def _above_standard(number: int) -> int:
    """The same file under a number that is none of standard input, output and error, should those be closed here."""
    if number > 2:
        return number
    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(number)
    return moved


def _environment() -> dict[str, str]:
    """Where to find sail, and one thread for numpy: it would have as many as there are cores, in every process."""
    here = str(Path(__file__).parents[2])
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
