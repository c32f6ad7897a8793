"""What `sail bench` found on this machine, kept for `sail study plan`."""

from __future__ import annotations

import json
import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any


def cache_folder() -> Path | None:
    """Where sail keeps what can be had again; None where nobody is at home."""
    with suppress(RuntimeError):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sail"
    return None


def remember(result: dict[str, Any]) -> None:
    """Keeps a measurement; one for each environment, agent, number of seeds and device. A full disk is no failure."""
    folder = cache_folder()
    if folder is None:
        return
    parts = (socket.gethostname(), result["device"], result["env"], result["agent"], f"{result['seeds']}seeds")
    name = re.sub(r"[^A-Za-z0-9.+_-]+", "-", "_".join(map(str, parts))) + ".json"
    with suppress(OSError):
        (folder / "bench").mkdir(parents=True, exist_ok=True)
        (folder / "bench" / name).write_text(json.dumps(result | {"host": socket.gethostname()}, indent=1) + "\n")


def remembered() -> list[dict[str, Any]]:
    """The measurements of this machine, newest first."""
    folder = cache_folder()
    files = (folder / "bench").glob("*.json") if folder is not None else ()
    results = []
    for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError):
            result = json.loads(path.read_text())
            if isinstance(result, dict) and result.get("host") == socket.gethostname():
                results.append(result)
    return results
