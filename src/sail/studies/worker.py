"""The process of one cell: it trains, or goes on where an earlier one stopped, and ends. `supervisor.py` starts it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sail.errors import BadInputError, SailError
from sail.studies.cells import Cell
from sail.studies.records import write_json

PROGRESS_SECONDS = 1.0
NEEDS_GPU = "SAIL_NEEDS_GPU"
"""Variable of a cell that was given a GPU: where JAX cannot use it, it would take days on the CPU without a word."""
LOCK_SECONDS = 120.0
"""How long to wait for a process that had the cell before and is still writing its checkpoint."""
GRACE_SECONDS = 120.0
"""How long a cell may take to write its checkpoint when it is asked to end."""


class ProgressFile:
    """Tells how far the cell is, in a file that `sail study status` reads."""

    def __init__(self, path: Path, steps: int) -> None:
        self.path, self.steps = path, steps
        self._began: tuple[float, int] | None = None
        self._last = float("-inf")

    def advanced(self, step: int) -> None:
        """Writes the step and the rate since the first report, now and then."""
        now = time.monotonic()
        self._began = self._began or (now, step)
        if now - self._last < PROGRESS_SECONDS and step < self.steps:
            return
        self._last = now
        began, first = self._began
        rate = (step - first) / (now - began) if step > first else None
        write_json(self.path, {"step": step, "steps": self.steps, "steps_per_second": rate})

    def begun(self, run: Any) -> None:
        """Nothing."""

    def ended(self) -> None:
        """Nothing."""

    def phase(self, rows: list[dict[str, Any]]) -> None:
        """Nothing: the run folder has it."""

    def note(self, sentence: str) -> None:
        """Into the cell's log."""
        print(sentence, flush=True)


def run_cell(cell: Cell, run: Path, progress: Path) -> None:
    """Trains a cell to its end, from wherever its run folder is."""
    from sail.training.api import resume, train_config
    from sail.training.checkpoint import NoCheckpointError
    from sail.training.run_folder import RunFolder

    if (run / "DONE").is_file():
        return
    if run.is_dir() and not (run / "config.yaml").is_file():
        raise BadInputError(f"{run} is in the way: it is no run folder.")
    if not (run / "config.yaml").is_file():
        config = cell.config()
        try:
            train_config(config, out=run, reporter=_reporter(progress, config.steps))
            return
        except BadInputError:
            if not (run / "config.yaml").is_file():
                raise
            # Another process has begun it in the meantime: after that one it is to be resumed, if it is not done.
    folder = RunFolder(run)
    reporter = _reporter(progress, folder.config.steps)
    try:
        _when_free(lambda: None if folder.done else resume(folder, reporter=reporter))
    except NoCheckpointError as error:
        print(f"{error} It begins anew, and what was there is kept beside it.", flush=True)
        run.rename(run.with_name(f".{run.name}.damaged-{time.time():.0f}"))
        run_cell(cell, run, progress)


def check_gpu() -> None:
    """Refuses to train on the CPU what was given a GPU."""
    import jax

    if os.environ.get(NEEDS_GPU) and jax.default_backend() == "cpu":
        raise BadInputError(
            "This machine has a GPU, and JAX cannot use it: install jax[cuda13], or run the study with --gpus 0."
        )


def _reporter(progress: Path, steps: int) -> Any:
    from sail.integrations.writers import WithWriters, writer_names

    return WithWriters(ProgressFile(progress, steps), writer_names())


def _when_free(action: Callable[[], Any]) -> None:
    from sail.training.run_folder import RunInUseError

    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            action()
            return
        except RunInUseError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def follow(parent: int) -> None:
    """Ends this process when its parent is gone: with a checkpoint, or without one where that takes too long."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> int:
    """`worker.py PARENT RUN PROGRESS CELL`: exit codes as those of `sail train`."""
    parent, run, progress, tree = arguments
    follow(int(parent))
    cell = Cell(**json.loads(tree))
    sys.argv = cell.command()  # what config.yaml will say it was made by
    try:
        check_gpu()
        run_cell(cell, Path(run), Path(progress))
    except SailError as error:
        print(f"sail: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        print(f"sail: {error.strerror or error}{place}.", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing is left to do, and tearing jax down takes its time
