"""What is known about a cell beside its run folder: who trains it since when, how far it is, and why it failed.

state/CELL.json      written by whoever watches over the cell, and touched while he does
state/CELL.progress  written by the cell's own process
state/CELL.log       what that process printed
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from sail.files import write_whole

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
"""Who has not touched his file for so long is taken for dead."""

State = Literal["waiting", "running", "failed", "done"]


@dataclass
class Record:
    """One cell's state. Whether it is done its run folder's DONE says, whatever stands here."""

    state: State = "waiting"
    starts: list[dict[str, Any]] = field(default_factory=list)
    """Every start of it: when, where, and from which step."""
    seconds: float = 0.0
    """Spent on it, over all starts."""
    error: str | None = None
    """Why it failed last."""


def read_record(path: Path) -> Record:
    """A cell's record; a new one where there is none, or none that can be read."""
    try:
        tree = json.loads(path.read_text())
        return Record(**{one.name: tree[one.name] for one in fields(Record) if one.name in tree})
    except (OSError, ValueError, TypeError):
        return Record()


def write_record(path: Path, record: Record) -> None:
    """Writes it whole or not at all."""
    write_json(path, asdict(record))


def write_json(path: Path, tree: Any, durable: bool = False) -> None:
    """Writes a small file whole or not at all, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(tree, indent=1) + "\n", durable)


def age(path: Path) -> float:
    """Seconds since a file was touched; infinity where there is none."""
    try:
        return max(time.time() - path.stat().st_mtime, 0.0)
    except OSError:
        return float("inf")
