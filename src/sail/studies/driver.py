"""Runs a study: every cell that is not done yet, again where it failed, until all are done or nothing more can be."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from sail.errors import SailError
from sail.interrupts import stop_requests
from sail.studies.cells import Cell
from sail.studies.folder import StudyFolder
from sail.studies.records import HEARTBEAT_SECONDS
from sail.studies.resources import Resources
from sail.studies.supervisor import Outcome, newest_step

STOPPING = "Stopping: each cell writes a checkpoint first; Ctrl-C once more to stop at once."
LOST_NODES = 100
"""How often a cell may lose its node before that counts as its own failure."""


class StudyError(SailError):
    """A study cannot go on."""


class InterruptedStudyError(StudyError):
    """The user stopped the study."""

    exit_code = 130


class Executor(Protocol):
    """Where cells run."""

    workers: int
    notes: list[str]

    def room(self) -> bool:
        """Whether another cell can be submitted."""
        ...

    def submit(self, cell: Cell) -> None:
        """Starts a cell, or queues it where cells run."""
        ...

    def wait(self, seconds: float) -> list[Outcome]:
        """The cells that have ended; waits so long for one to."""
        ...

    def stop(self) -> None:
        """Asks every cell to end with a checkpoint."""
        ...

    def close(self) -> None:
        """Ends what still runs, at once."""
        ...


class Listener(Protocol):
    """Who hears how a study goes."""

    def note(self, sentence: str) -> None:
        """Something worth a sentence."""
        ...

    def tick(self) -> None:
        """A moment has passed."""
        ...

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        """A start of a cell has ended."""
        ...


def run_study(study: StudyFolder, executor: Executor, resources: Resources, listener: Listener) -> dict[str, str]:
    """Runs what is missing, and returns the cells that failed for good, with the reasons.

    The caller holds `study.driving()`.
    """
    cells = {cell.name: cell for cell in study.cells}
    failed: dict[str, str] = {}
    # Those that have begun come first: what is nearly done should be done.
    todo = [cell for cell in study.cells if not study.is_done(cell)]
    waiting = deque(sorted(todo, key=lambda cell: not newest_step(study.run_path(cell))))
    tries: dict[str, int] = {}
    lost: dict[str, int] = {}
    running = 0
    for note in executor.notes:
        listener.note(note)
    beat = time.monotonic()
    with stop_requests(lambda: listener.note(STOPPING)) as stop:
        try:
            for cell in todo:
                _forget_failures(study, cell)
            while waiting or running:
                while waiting and executor.room() and not stop.is_set():
                    executor.submit(cells[waiting.popleft().name])
                    running += 1
                if stop.is_set():
                    _wind_down(study, executor, running, listener, cells)
                    raise InterruptedStudyError(f"Stopped; go on with 'sail study run {study.path}'.")
                for outcome in executor.wait(0.25):
                    running -= 1
                    cell = cells[outcome.cell]
                    listener.ended(cell, outcome)
                    if outcome.stops_study:
                        _wind_down(study, executor, running, listener, cells)
                        raise StudyError(
                            f"{cell.name}: {outcome.error} The study stopped; go on with 'sail study run {study.path}'."
                        )
                    if outcome.done:
                        continue
                    if _goes_again(outcome, resources, tries, lost):
                        waiting.append(cell)
                    else:
                        failed[cell.name] = outcome.error or "It was stopped by someone else."
                        _mark_failed(study, cell, failed[cell.name])
                if time.monotonic() - beat > HEARTBEAT_SECONDS:
                    beat = time.monotonic()
                    study.touch()
                listener.tick()
        except OSError as error:
            raise StudyError(
                f"{error.strerror or error} in {study.path}. Go on with 'sail study run {study.path}'."
            ) from None
        finally:
            executor.close()
    return failed


def _forget_failures(study: StudyFolder, cell: Cell) -> None:
    """Whoever runs a study again may have mended what was wrong."""
    record = study.record(cell)
    if record.state != "waiting":
        record.state = "waiting"
        study.write_record(cell, record)


def _goes_again(outcome: Outcome, resources: Resources, tries: dict[str, int], lost: dict[str, int]) -> bool:
    """Whether a cell that did not get to its end is started again."""
    if outcome.error is None or not outcome.is_cells_fault:
        # Someone sent it a signal and it has its checkpoint, or it lost its node.
        lost[outcome.cell] = lost.get(outcome.cell, 0) + 1
        return (outcome.error is None or outcome.again) and lost[outcome.cell] <= LOST_NODES
    tries[outcome.cell] = tries.get(outcome.cell, 0) + 1
    return outcome.again and tries[outcome.cell] <= resources.retries


def _mark_failed(study: StudyFolder, cell: Cell, error: str) -> None:
    record = study.record(cell)
    record.state, record.error = "failed", error
    study.write_record(cell, record)


def _wind_down(
    study: StudyFolder, executor: Executor, running: int, listener: Listener, cells: dict[str, Cell]
) -> None:
    """Every running cell ends, with a checkpoint if it can; those that could not are named."""
    executor.stop()
    without = []
    while running:
        for outcome in executor.wait(0.25):
            running -= 1
            cell = cells[outcome.cell]
            listener.ended(cell, outcome)
            if not outcome.done and not newest_step(study.run_path(cell)):
                without.append(cell.name)
        study.touch()
        listener.tick()
    if without:
        listener.note(
            f"Without a checkpoint, so to begin anew: {', '.join(without[:5])}{', ...' * (len(without) > 5)}."
        )
