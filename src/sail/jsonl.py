"""Reading append-only logs of JSON lines, which a kill may have left with half a last line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a log; a broken last one is dropped, and a missing log is empty."""
    if not path.is_file():
        return
    with path.open() as file:
        for line in file:
            if not line.endswith("\n"):
                return
            yield json.loads(line)


def read_rows(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The lines of a log that are objects, and how many others there were; half a last line does not count."""
    rows: list[dict[str, Any]] = []
    bad = 0
    if not os.path.isfile(path):
        return rows, bad
    lines = path.read_bytes().split(b"\n")
    for line in lines[:-1]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            bad += 1
    return rows, bad
