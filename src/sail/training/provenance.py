"""Where a run came from: versions, commit, hardware. Recorded beside its settings."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from sail.machine import cores


def provenance() -> dict[str, Any]:
    """What a reader needs to know to run it again: software, commit, machine and command."""
    packages = ("sail-rl", "jax", "jaxlib", "equinox", "optax", "numpy", "safetensors", "pydantic")
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join([_program(), *sys.argv[1:]]),
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "hardware": {
            "cpu": _cpu_model(),
            "cores": cores(),
            "backend": jax.default_backend(),
            "devices": sorted({device.device_kind for device in jax.devices()}),
        },
    }


def _program() -> str:
    path = Path(sys.argv[0])
    return path.parent.name if path.name == "__main__.py" else path.name  # python -m sail is sail


def commit() -> str | None:
    """The commit of sail's own checkout, with a + if the tree has changes.

    Where there is no checkout, as in a container, the variable SAIL_COMMIT can say it; otherwise None.
    """
    here = Path(__file__).parent
    try:
        _git(here, "ls-files", "--error-unmatch", Path(__file__).name)  # or it is someone else's checkout
        revision = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("SAIL_COMMIT")
    return revision + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
