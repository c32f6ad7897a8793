"""CSV files that say where their numbers come from, in lines that begin with #."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sail.files import write_whole

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def write(path: Path, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows, which all have the same columns, under what there is to say about them."""
    if not rows:
        raise SystemExit(f"There is nothing to write into {path}.")
    text = io.StringIO()
    for name, value in about.items():
        text.write(f"# {name}: {value}\n")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue())


def read(path: Path) -> list[dict[str, Any]]:
    """The rows, with numbers as numbers, and None where there was nothing."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [{key: _value(value) for key, value in row.items()} for row in csv.DictReader(lines)]


def about(path: Path) -> dict[str, str]:
    """What the file says about itself."""
    lines = [line[1:].strip() for line in path.read_text().splitlines() if line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def _short(value: Any) -> Any:
    return f"{value:.5g}" if isinstance(value, float) else value


def _value(text: str) -> Any:
    if text == "":
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
