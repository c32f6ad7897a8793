"""Writers that listen to a run beside the console: TensorBoard and Weights & Biases.

They get what metrics.jsonl gets, when it gets it. The run folder stays the truth: what a writer has can be made again.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from sail.config import config_to_tree
from sail.errors import BadInputError, unknown_name
from sail.training.run_folder import RunFolder

VARIABLE = "SAIL_WRITERS"
"""Writers for every run, those of studies among them: SAIL_WRITERS=tensorboard,wandb."""

WANDB_ID = "wandb-id.txt"


class Writer(Protocol):
    """Who keeps metrics elsewhere as well."""

    def write(self, rows: list[dict[str, Any]]) -> None:
        """A phase: a row for each seed."""
        ...

    def close(self) -> None:
        """The run has ended, for now."""
        ...


class TensorBoard:
    """Event files under RUN/tensorboard, one folder for each seed: `tensorboard --logdir runs`."""

    def __init__(self, run: RunFolder) -> None:
        self._folder = run.path / "tensorboard"
        self._writers: dict[int, Any] = {}

    def write(self, rows: list[dict[str, Any]]) -> None:
        """A scalar for each number of each seed."""
        from tensorboardX import SummaryWriter

        for row in rows:
            seed, step = row["seed"], row["step"]
            if seed not in self._writers:
                # A resumed run has lost what came after its checkpoint, and says so to TensorBoard. Files are named by
                # the second: one that is resumed within it would write over what it had written.
                self._writers[seed] = SummaryWriter(
                    str(self._folder / f"seed{seed}"), purge_step=step, filename_suffix=f".{time.time_ns()}"
                )
            for name, value in numbers(row).items():
                self._writers[seed].add_scalar(name, value, step)
            self._writers[seed].flush()

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()


class WeightsAndBiases:
    """A run in the project `sail`, or WANDB_PROJECT; offline or not as WANDB_MODE says.

    The run folder keeps its id, so that a resumed run goes on there instead of beginning another one.
    """

    def __init__(self, run: RunFolder) -> None:
        import wandb

        self._seeds = run.config.seeds
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "sail"),
            name=run.path.name,
            group=f"{run.config.env.name} {run.config.agent_name}",
            config=config_to_tree(run.config),
            dir=str(run.path),
            id=_kept_id(run),
            resume="allow",
        )

    def write(self, rows: list[dict[str, Any]]) -> None:
        """All seeds at one step; with several, each under its own name."""
        values: dict[str, float] = {}
        for row in rows:
            prefix = f"seed{row['seed']}/" if self._seeds > 1 else ""
            values |= {f"{prefix}{name}": value for name, value in numbers(row).items()}
        self._run.log(values, step=rows[0]["step"])

    def close(self) -> None:
        """Ends it."""
        self._run.finish()


def _kept_id(run: RunFolder) -> str:
    """The id in the run folder, which is made up once."""
    file = run.path / WANDB_ID
    if not file.is_file():
        run.write(WANDB_ID, uuid.uuid4().hex + "\n")
    return file.read_text().strip()


WRITERS: dict[str, tuple[Callable[[RunFolder], Writer], str]] = {
    "tensorboard": (TensorBoard, "tensorboardX"),
    "wandb": (WeightsAndBiases, "wandb"),
}


def numbers(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics that are there."""
    return {
        name: float(value)
        for name, value in row.items()
        if name not in ("seed", "step") and isinstance(value, int | float) and value == value
    }


def writer_names(chosen: Sequence[str] = ()) -> list[str]:
    """The writers that were asked for, here or by the environment; an error where one is unknown or not installed."""
    names = [*chosen, *(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())]
    for name in names:
        if name not in WRITERS:
            raise unknown_name("writer", name, WRITERS)
        if find_spec(WRITERS[name][1]) is None:
            raise BadInputError(f"The writer '{name}' needs {WRITERS[name][1]}: pip install 'sail-rl[{name}]'.")
    return list(dict.fromkeys(names))


class WithWriters:
    """A reporter that hands every phase to writers, and everything to another reporter."""

    def __init__(self, reporter: Any, names: Sequence[str]) -> None:
        self.reporter, self.names = reporter, names
        self._writers: list[Writer] = []

    def begun(self, run: RunFolder) -> None:
        """Opens the writers."""
        self.reporter.begun(run)
        self._writers = [WRITERS[name][0](run) for name in self.names]

    def advanced(self, step: int) -> None:
        """Passed on."""
        self.reporter.advanced(step)

    def phase(self, rows: list[dict[str, Any]]) -> None:
        """Written, and passed on."""
        for writer in self._writers:
            writer.write(rows)
        self.reporter.phase(rows)

    def note(self, sentence: str) -> None:
        """Passed on."""
        self.reporter.note(sentence)

    def ended(self) -> None:
        """Closes the writers."""
        for writer in self._writers:
            writer.close()
        self._writers = []
        self.reporter.ended()
