"""What a person sees of a study: a progress bar or plain lines while it runs, and tables."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from sail.envs.atari_settings import FRAME_SKIP
from sail.studies.cells import Cell
from sail.studies.folder import StudyFolder
from sail.studies.resources import bytes_text, time_text
from sail.studies.status import study_status
from sail.studies.supervisor import Outcome

MOST_ROWS = 40


class StudyReporter:
    """Tells a person how a study goes, on standard error."""

    def __init__(self, study: StudyFolder, quiet: bool = False) -> None:
        self.study = study
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self._done = sum(study.is_done(cell) for cell in study.cells)
        self._next = 0.0
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        total = len(study.cells)
        self._task = self._progress.add_task(study.name, total=total, completed=self._done, news="")

    def __enter__(self) -> StudyReporter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def note(self, sentence: str) -> None:
        """Prints a sentence above the bar."""
        self.console.print(Text(sentence), soft_wrap=True)

    def tick(self) -> None:
        """Renews what is said beside the bar, as often as reading the folder allows."""
        if not self.console.is_terminal or time.monotonic() < self._next:
            return
        began = time.monotonic()
        status = study_status(self.study)
        self._progress.update(self._task, completed=status["done"], news=_news(status))
        self._next = time.monotonic() + max(1.0, 20 * (time.monotonic() - began))

    def ended(self, cell: Cell, outcome: Outcome) -> None:
        """A line for each cell that ended."""
        self._done += outcome.done
        self._progress.update(self._task, completed=self._done)
        if outcome.done:
            self.note(f"{self._done} of {len(self.study.cells)} done: {cell.name}")
        elif outcome.error:
            self.note(f"{cell.name}: {outcome.error}{' Once more.' if outcome.again else ''}")


def _news(status: dict[str, Any]) -> str:
    parts = [f"{status['running']} running"]
    if status["failed"]:
        parts.append(f"{status['failed']} failed")
    if status["frames_per_second"]:
        parts.append(f"{status['frames_per_second']:,} frames/s")
    elif status["steps_per_second"]:
        parts.append(f"{status['steps_per_second']:,} steps/s")
    if status["seconds_left"] is not None:
        parts.append(f"about {time_text(status['seconds_left'])} left")
    return ", ".join(parts)


def status_table(status: dict[str, Any], most_rows: int = MOST_ROWS) -> Group:
    """A line that sums up, and a table: what failed, what runs, what waits, what is done, as far as there is room."""
    order = {"failed": 0, "running": 1, "waiting": 2, "done": 3}
    rows = sorted(status["cells"], key=lambda row: order[row["state"]])
    games = all(row["env"].startswith("atari:") for row in rows)
    rate, unit = (FRAME_SKIP, "frames/s") if games else (1, "steps/s")
    table = Table("cell", "state", "step", unit, "return", "last error", box=None, pad_edge=False)
    for column in (2, 3, 4):
        table.columns[column].justify = "right"
    colours = {"failed": "red", "running": "cyan", "waiting": "dim", "done": "green"}
    for row in rows[:most_rows]:
        step = f"{row['step']:,}" + (f" of {row['steps']:,}" if row["steps"] and row["state"] != "done" else "")
        table.add_row(
            Text(row["cell"], overflow="fold"),
            Text(row["state"], style=colours[row["state"]]),
            step if row["step"] else "",
            f"{rate * row['steps_per_second']:,}" if row["steps_per_second"] else "",
            f"{row['mean_return']:.2f}" if row["mean_return"] is not None else "",
            Text(row["error"] or "", overflow="fold"),
        )
    head = Text(f"{status['study']}: {status['done']} of {status['total']} cells done", style="bold")
    if status["done"] < status["total"]:
        head.append(f", {status['waiting']} waiting, {_news(status)}")
        head.append("" if status["driver"] else "; nobody runs it now")
    parts: list[Any] = [head, table]
    if len(rows) > most_rows:
        parts.append(Text(f"... and {len(rows) - most_rows:,} more (--json has all)"))
    return Group(*parts)


def print_status(status: dict[str, Any]) -> None:
    """The table, once."""
    Console(highlight=False).print(status_table(status))


def live_status(study: StudyFolder) -> dict[str, Any]:
    """The table, until the study is done or nobody runs it any more; returns the last one."""
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            status = study_status(StudyFolder(study.path))
            live.update(status_table(status, max(live.console.height - 5, 5)), refresh=True)
            if not status["driver"]:
                return status
            time.sleep(max(1.0, 10 * (time.monotonic() - began)))


def print_list(rows: list[dict[str, Any]]) -> None:
    """The studies of the library."""
    table = Table("study", "runs", "what it is", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for row in rows:
        table.add_row(row["name"], f"{row['runs']:,}", Text(row["title"]))
    Console(highlight=False).print(table)


def print_plan(plan: dict[str, Any]) -> None:
    """What a study costs."""
    console = Console(highlight=False)
    table = Table("agent", "where", "runs", "steps", "steps/s", "hours", "rate from", box=None, pad_edge=False)
    for column in (2, 3, 4, 5):
        table.columns[column].justify = "right"
    for row in plan["rows"]:
        rate = f"{row['steps_per_second']:,.0f}" if row["steps_per_second"] else "?"
        hours = f"{row['hours']:,.2f}" if row["hours"] is not None else "?"
        source = Text(row["rate_from"] or "not measured", overflow="fold")
        table.add_row(row["agent"], row["where"], f"{row['runs']:,}", f"{row['steps']:,}", rate, hours, source)
    frames = f" ({plan['frames']:,} Atari frames)" if plan["frames"] else ""
    console.print(
        f"[bold]{plan['study']}[/bold]: {plan['cells']:,} cells, {plan['runs']:,} runs, {plan['steps']:,} steps{frames}"
    )
    console.print(table)
    if plan["hours"] is None:
        console.print("Not all rates are known. Measure them with --measure, or by")
        for command in plan["missing"]:
            console.print(f"  {command}", soft_wrap=True)
    else:
        console.print(f"  time   {plan['hours']:,.1f} hours of one {plan['unit']}", soft_wrap=True)
        for k, seconds in plan["wall_seconds"].items():
            console.print(f"         {time_text(seconds)} on {k}")
    console.print(f"  disk   {bytes_text(plan['disk_bytes'])}: checkpoints and logs", soft_wrap=True)
