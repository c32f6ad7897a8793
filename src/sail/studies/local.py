"""Cells as processes of this machine: as many at a time as its cores, memory and GPUs allow."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from sail.errors import BadInputError
from sail.machine import cores
from sail.studies.cells import Cell
from sail.studies.folder import StudyFolder
from sail.studies.resources import Resources, bytes_text
from sail.studies.supervisor import Outcome, WatchedCell, environment_of

POLL_SECONDS = 0.05
PROC_GPUS, DEVICES = Path("/proc/driver/nvidia/gpus"), Path("/dev")
"""Where Linux says which NVIDIA GPUs there are."""


class LocalExecutor:
    """Runs cells in processes of their own on this machine."""

    def __init__(self, study: StudyFolder, resources: Resources, workers: int | None = None) -> None:
        self.study, self.resources = study, resources
        self._gpus = visible_gpus() if resources.gpus else []
        self.notes: list[str] = []
        if resources.gpus and not self._gpus:
            self.notes.append("This machine has no GPU, so the cells run on its CPU.")
        fit = max(self._fit(), 1)
        self.workers = workers or fit
        if self.workers > fit:
            self.notes.append(f"{self.workers} cells at a time share what {fit} would have to themselves.")
        self._slots: list[WatchedCell | None] = [None] * self.workers
        places = len(self._gpus) // max(int(resources.gpus), 1) or 1
        self._share = min(resources.gpus, 1 / -(-self.workers // places))  # of the memory of a GPU, for each cell on it

    def _fit(self) -> int:
        needs = self.resources
        limits = [cores() // needs.cores]
        if memory := machine_memory():
            if memory < needs.memory:
                raise BadInputError(
                    f"A cell of this study needs {bytes_text(needs.memory)} of memory (resources.memory), and this "
                    f"machine has {bytes_text(memory)}."
                )
            limits.append(memory // needs.memory)
        if self._gpus:
            if needs.gpus > len(self._gpus):
                raise BadInputError(
                    f"A cell of this study needs {needs.gpus:g} GPUs (resources.gpus), not {len(self._gpus)}."
                )
            each = int(1 / needs.gpus) if needs.gpus < 1 else 1
            limits.append(len(self._gpus) // max(int(needs.gpus), 1) * each)
        return min(limits)

    def room(self) -> bool:
        """Whether another cell can be submitted."""
        return None in self._slots

    def submit(self, cell: Cell) -> None:
        """Starts a cell."""
        slot = self._slots.index(None)
        environment = environment_of(self.resources, self._gpus_of(slot), self._share)
        self._slots[slot] = WatchedCell(self.study, cell, self.resources, environment)

    def _gpus_of(self, slot: int) -> list[str]:
        if not self._gpus:
            return []
        whole = max(int(self.resources.gpus), 1)
        places = len(self._gpus) // whole
        first = slot % places * whole
        return self._gpus[first : first + whole]

    def wait(self, seconds: float) -> list[Outcome]:
        """The cells that have ended; waits so long for one to."""
        until = time.monotonic() + seconds
        while True:
            ended: list[Outcome] = []
            for i, watched in enumerate(self._slots):
                if watched is not None and (outcome := watched.poll()) is not None:
                    self._slots[i] = None
                    ended.append(outcome)
            if ended or time.monotonic() >= until:
                return ended
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Asks every cell to end with a checkpoint."""
        for watched in self._slots:
            if watched is not None:
                watched.stop()

    def close(self) -> None:
        """Ends what still runs, at once."""
        for watched in self._slots:
            if watched is not None:
                watched.kill()
                watched.process.wait()
                with suppress(OSError):  # the disk may be what has failed
                    watched.poll()  # which keeps the record


def machine_memory() -> int | None:
    """Bytes of memory that this machine, or the container it is, has; None where the system does not say."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        return min(whole, int(limit)) if limit.isdigit() else whole
    except OSError:
        return whole


def visible_gpus() -> list[str]:
    """The GPUs of this machine that we may use, by the names that CUDA_VISIBLE_DEVICES takes."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [one for one in chosen.split(",") if one and one != "-1"]
    # Containers may have one of them alone.
    found = len(list(PROC_GPUS.iterdir())) if PROC_GPUS.is_dir() else 0
    return [str(i) for i in range(found or len(list(DEVICES.glob("nvidia[0-9]*"))))]
