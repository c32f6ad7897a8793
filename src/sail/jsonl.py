"""Reading append-only logs of JSON lines, which a kill may have left with half a last line."""

from __future__ import annotations

import json
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
