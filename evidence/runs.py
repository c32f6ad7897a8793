"""Run folders, for those who sum them up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml


def run_folders(folder: Path) -> list[Path]:
    """All of a folder, such as a study's, but for those that were set aside because they were damaged."""
    found = [path.parent for path in sorted(folder.rglob("config.yaml"))]
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def provenance(run: Path) -> dict[str, Any]:
    """Commit, command, hardware and versions of a run."""
    source: dict[str, Any] = yaml.safe_load((run / "config.yaml").read_text()).get("provenance") or {}
    # Where it was written to and how much it said is nothing to anyone who runs it again.
    if "command" in source:
        source["command"] = re.sub(r" --(out[ =]\S+|quiet)(?= |$)", "", str(source["command"]))
    return source
