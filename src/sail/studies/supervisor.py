"""Watches over the process of one cell: keeps its record, its limits of time and memory, and says how it ended.

Both executors use it, so a cell is the same on a laptop and on a cluster.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sail.files import FULL
from sail.studies.cells import Cell
from sail.studies.folder import StudyFolder
from sail.studies.records import HEARTBEAT_SECONDS
from sail.studies.resources import Resources, bytes_text, time_text
from sail.studies.worker import GRACE_SECONDS, NEEDS_GPU
from sail.training.checkpoint_list import list_checkpoints, step_of

MEMORY_SECONDS = 1.0
DISK_IS_FULL = tuple(map(os.strerror, FULL))


@dataclass(frozen=True)
class Outcome:
    """How one start of a cell ended."""

    cell: str
    done: bool = False
    error: str | None = None
    """Why not, in a sentence; None with `done` False: it was stopped, and can go on."""
    again: bool = False
    """Whether another try may end better."""
    is_cells_fault: bool = True
    """Whether it counts as a try: a node that died is not the cell's fault."""
    stops_study: bool = False
    """Whether the next cells would end the same way."""


class WatchedCell:
    """A started cell."""

    def __init__(self, study: StudyFolder, cell: Cell, resources: Resources, environment: dict[str, str]) -> None:
        self.study, self.cell, self.resources = study, cell, resources
        self.record = study.record(cell)
        self._before = self.record.seconds
        self._began = self._beat = self._weighed = time.monotonic()
        self._stopping: float | None = None
        self._verdict: str | None = None
        start = {"at": time.time(), "host": socket.gethostname(), "from_step": newest_step(study.run_path(cell))}
        self.record.state, self.record.error = "running", None
        self.record.starts.append(start)
        study.write_record(cell, self.record)
        study.state_path(cell, ".progress").unlink(missing_ok=True)
        self._log = self._open_log()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sail.studies.worker", *self._arguments()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment,
            start_new_session=True,  # a Ctrl-C at the terminal is for the driver, which then stops its cells
        )

    def _arguments(self) -> list[str]:
        paths = (self.study.run_path(self.cell), self.study.state_path(self.cell, ".progress"))
        return [str(os.getpid()), *map(str, paths), json.dumps(self.cell.to_tree())]

    def _open_log(self) -> IO[bytes]:
        log = self.study.state_path(self.cell, ".log").open("ab")
        log.write(f"--- start {len(self.record.starts)}\n".encode())
        log.flush()
        return log

    def poll(self) -> Outcome | None:
        """How the cell ended, or None while it runs. To be called a few times a second."""
        code = self.process.poll()
        now = time.monotonic()
        if code is not None:
            return self._ended(code)
        if now - self._beat >= HEARTBEAT_SECONDS:
            self._beat = now
            self.record.seconds = self._before + now - self._began
            with suppress(OSError):  # a shared disk may have a bad moment
                self.study.write_record(self.cell, self.record)
        if now - self._weighed >= MEMORY_SECONDS:
            self._weighed = now
            self._check_memory()
        limit = self.resources.time_limit
        if limit is not None and self._before + now - self._began > limit and self._verdict is None:
            self._verdict = f"took longer than its time limit of {time_text(limit)} (--time-limit sets another)"
            self.stop()
        if self._stopping is not None and now - self._stopping > GRACE_SECONDS:
            self.kill()
        return None

    def stop(self) -> None:
        """Asks it to end with a checkpoint; `poll` ends it after a while if it does not."""
        if self._stopping is None:
            self._stopping = time.monotonic()
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once, with everything it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _check_memory(self) -> None:
        used = resident_bytes(self.process.pid)
        if used > self.resources.memory and self._verdict is None:
            declared = bytes_text(self.resources.memory)
            self._verdict = f"took {bytes_text(used)} of memory, and resources.memory allows {declared}"
            self.kill()

    def _ended(self, code: int) -> Outcome:
        self._log.close()
        outcome = self._outcome(code)
        self.record.seconds = self._before + time.monotonic() - self._began
        self.record.state = "done" if outcome.done else "waiting" if outcome.again or not outcome.error else "failed"
        self.record.error = outcome.error
        self.study.write_record(self.cell, self.record)
        self.study.state_path(self.cell, ".progress").unlink(missing_ok=True)
        return outcome

    def _outcome(self, code: int) -> Outcome:
        name = self.cell.name
        if self.study.is_done(self.cell):
            return Outcome(name, done=True)
        if self._verdict is not None:
            return Outcome(name, error=f"The cell {self._verdict}.")
        if code == 130 or (self._stopping is not None and code in (-signal.SIGTERM, -signal.SIGKILL)):
            return Outcome(name)
        said = last_line(self.study.state_path(self.cell, ".log"))
        if code < 0:
            by = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return Outcome(name, error=f"The cell's process was killed ({by}).", again=True)
        if any(reason in said for reason in DISK_IS_FULL):
            return Outcome(name, error=said, stops_study=True)
        return Outcome(name, error=said, again=code != 2)


def last_line(log: Path) -> str:
    """The last thing a cell's process said."""
    with suppress(OSError):
        with log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        if lines and not lines[-1].startswith("---"):
            return lines[-1].removeprefix("sail: ")
    return "The cell's process said nothing."


def newest_step(run: Path) -> int:
    """The step of a run's newest checkpoint; 0 where there is none."""
    return max(map(step_of, list_checkpoints(run / "checkpoints")), default=0)


def resident_bytes(pid: int) -> int:
    """The memory of a process and of those it started; 0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident_bytes(int(child)) for child in children)


def environment_of(resources: Resources, gpus: list[str] | None = None, share: float | None = None) -> dict[str, str]:
    """The variables of a cell's process: so many threads, these GPUs (None: those set already), this share of one."""
    share = resources.gpus if share is None else share
    env = {"JAX_TRACEBACK_FILTERING": "off", **os.environ}  # or the last line would be jax's advice, not the error
    # XLA and numpy would otherwise start a thread for every core of the machine, in every cell.
    for name in ("SAIL_CORES", "PJRT_NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        env[name] = str(resources.cores)
    env.pop(NEEDS_GPU, None)
    if resources.gpus == 0 or gpus == []:
        env.setdefault("JAX_PLATFORMS", "cpu")
        return env
    if gpus is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if env.get("CUDA_VISIBLE_DEVICES") and "JAX_PLATFORMS" not in env:
        env[NEEDS_GPU] = "1"
    if share < 1:
        env["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.92 * share:.3f}"
    return env
