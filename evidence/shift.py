"""Works on a study of games for as long as a machine is to be had, such as a GPU for half an hour.

    python -m evidence shift evidence/atari --minutes 25

It runs what has no CSV file yet. Nothing is expected to be left of that machine but the CSV files: so they are brought
up to date every minute, and a run that would not come to its end in time is not begun if others have shown how long
one takes. Nor does the machine wait: a run imports, compiles and starts its emulators while the one before it ends.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from evidence import atari, remaining
from sail.errors import BadInputError, SailError
from sail.machine import cores
from sail.studies.cells import Cell, expand
from sail.studies.console import StudyReporter
from sail.studies.definition import read_definition
from sail.studies.driver import run_study
from sail.studies.folder import StudyFolder, open_or_create
from sail.studies.library import find
from sail.studies.local import LocalExecutor, visible_gpus
from sail.studies.resources import Resources
from sail.studies.status import cell_status, study_status
from sail.studies.supervisor import Outcome

COLLECT_SECONDS = 60.0
SERVICE = "nvidia-cuda-mps-control"
"""NVIDIA's multi-process service, without which a GPU takes turns between processes."""
QUIT_SECONDS = 10.0
"""How long it is waited for when it is to end."""
MARGIN = 1.05
"""How much longer than the longest one so far a run may take."""


class ShiftOverError(SailError):
    """The time is up, or too short for what is left."""


class Shift(LocalExecutor):
    """Cells in processes of this machine, until the time is up.

    So many play at a time; one more may get ready as soon as one of them has less to do than that takes.
    """

    def __init__(
        self, study: StudyFolder, resources: Resources, workers: int, seconds: float, collect: Callable[[], None]
    ) -> None:
        """`collect` is called now and then."""
        super().__init__(study, resources, workers)
        self._slots.append(None)  # for the one that gets ready
        self._end, self._collect = time.monotonic() + seconds, collect
        self._collected = time.monotonic()
        self._begun: dict[str, float] = {}
        self._ready: set[str] = set()  # of the cells that were begun, those that play
        self._whole: set[str] = set()  # and those that had not been begun before
        self._longest = 0.0  # seconds that a whole cell took
        self._start = 0.0  # seconds that a cell took until it played, at most

    def room(self) -> bool:
        """Not for a cell that would not come to its end."""
        if not super().room() or time.monotonic() + MARGIN * self._expected() >= self._end:
            return False
        return len(self._begun) < self.workers or self._one_ends_soon()

    def submit(self, cell: Cell) -> None:
        """Starts a cell."""
        self._begun[cell.name] = time.monotonic()
        super().submit(cell)
        if not self.study.record(cell).starts[-1]["from_step"]:
            self._whole.add(cell.name)

    def wait(self, seconds: float) -> list[Outcome]:
        """The cells that have ended; raises when nothing more will."""
        outcomes = super().wait(seconds)
        now = time.monotonic()
        for cell in self._cells():
            if cell.name not in self._ready and self.study.state_path(cell, ".progress").is_file():
                self._ready.add(cell.name)
                if cell.name in self._whole:  # others fill their ring first
                    self._start = max(self._start, now - self._begun[cell.name])
        for outcome in outcomes:
            self._ready.discard(outcome.cell)
            took = now - self._begun.pop(outcome.cell)
            if outcome.done and outcome.cell in self._whole:
                self._longest = max(self._longest, took)
            self._whole.discard(outcome.cell)  # one that failed goes on from a checkpoint
        over = now > self._end
        if over or now - self._collected > COLLECT_SECONDS or any(outcome.done for outcome in outcomes):
            self._collected = now
            self._collect()
        if over or not (outcomes or self._begun or self.room()):
            raise ShiftOverError("The time is up.")
        return outcomes

    def _cells(self) -> list[Cell]:
        return [cell for cell in self.study.cells if cell.name in self._begun]

    def _expected(self) -> float:
        """Seconds that a whole cell takes: as the longest one so far, or as those that play would at their rates."""
        playing = [cell_status(self.study, cell) for cell in self._cells()]
        return max([self._longest, *(self._start + _seconds(row, row["steps"]) for row in playing if _has_rate(row))])

    def _one_ends_soon(self) -> bool:
        """Whether all play that may, and one of them has less left than another takes to begin."""
        if len(self._begun) > self.workers or len(self._ready) < self.workers:
            return False
        return any(_seconds_left(cell_status(self.study, cell)) < self._start for cell in self._cells())


def _has_rate(status: Mapping[str, Any]) -> bool:
    return bool(status["steps_per_second"] and status["steps"])


def _seconds(status: Mapping[str, Any], steps: int) -> float:
    """For so many steps of each seed, by the cell's own rate."""
    return steps * float(status["seeds"]) / float(status["steps_per_second"])


def _seconds_left(status: Mapping[str, Any]) -> float:
    """Of a cell that runs; infinite where it has no rate yet."""
    return _seconds(status, status["steps"] - status["step"]) if _has_rate(status) else math.inf


def work(study: str, minutes: float, workers: int, results: Path, folder: Path, agents: Sequence[str]) -> str:
    """Runs what is missing of a study, of these agents if any are named; says how far it came."""
    if not (folder / "study.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "rest.yaml"
            how_many = remaining.write(study, file, results, agents)
            if not file.is_file():
                return how_many
            name, marked = find(str(file))
            open_or_create(folder, marked, name)
    rest = StudyFolder(folder)
    name, marked = find(study)
    wanted = remaining.missing(expand(read_definition(marked, name), marked), results, agents)
    if not {cell.name for cell in wanted} <= {cell.name for cell in rest.cells}:
        raise BadInputError(f"{folder} is the folder of another shift: name another one with --out.")
    resources = rest.definition()[0].resources
    # Memory of the GPU for one more, which gets ready; cores are the machine's own where few play.
    resources = replace(resources, gpus=1 / (workers + 1), cores=max(resources.cores, cores() // workers))
    with rest.driving(), StudyReporter(rest) as reporter, multi_process_service(workers, reporter.note):
        said: dict[str, str] = {}  # of each file, the last time that it was written

        def write_files() -> None:
            for line in atari.collect(folder, results):
                did, file = line.partition(": ")[0].rsplit(" ", 1)
                if did == "wrote" or file not in said:
                    said[file] = line

        def collect() -> None:
            try:
                write_files()
                reporter.note(how_far(rest))
            except Exception as error:  # the runs matter more, and there is another time in a minute
                reporter.note(f"The files are not up to date: {error}")

        shift = Shift(rest, resources, workers, 60 * minutes, collect)
        try:
            run_study(rest, shift, resources, reporter)
        except ShiftOverError:
            pass
        finally:
            write_files()
    failed = [row for row in study_status(rest)["cells"] if row["state"] == "failed"]
    return "\n".join([*said.values(), *(f"{row['cell']} failed: {row['error']}" for row in failed), how_far(rest)])


def how_far(study: StudyFolder) -> str:
    """A line for whoever looks on."""
    status = study_status(study)
    running = [
        f"{row['cell']} at {row['step']:,}" + (f", {_seconds_left(row):,.0f} s left" if _has_rate(row) else "")
        for row in status["cells"]
        if row["state"] == "running"
    ]
    rate = f" at {status['frames_per_second']:,} frames/s together" if status["frames_per_second"] else ""
    return f"{status['done']} of {status['total']} done{rate}; {', '.join(running) or 'nothing runs'}"


@contextmanager
def multi_process_service(workers: int, note: Callable[[str], None]) -> Iterator[None]:
    """Lets several processes use a GPU at the same time, where there is one and its service.

    A run that plays alone has no need of it: the one that gets ready beside it hardly uses the GPU.
    """
    if workers < 2 or not visible_gpus():
        yield
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folders = {"CUDA_MPS_PIPE_DIRECTORY": place, "CUDA_MPS_LOG_DIRECTORY": place}
        found = shutil.which(SERVICE)
        if found is None or subprocess.run([found, "-d"], env=os.environ | folders, check=False).returncode:
            note(f"{SERVICE} could not be started, so the runs take turns on the GPU.")
            yield
            return
        os.environ |= folders
        try:
            yield
        finally:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run([found], input=b"quit\n", check=False, timeout=QUIT_SECONDS)
            for name in folders:
                del os.environ[name]
