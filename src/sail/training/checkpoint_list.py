"""Which checkpoints a run has: their folders, without a look inside. No jax here: `sail study status` asks often."""

from __future__ import annotations

import os
from pathlib import Path

WRITING, ASIDE = ".writing-", ".replaced-"
"""What stands before a step while its checkpoint is written, and while it makes room for another of that step."""


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first; see `step_of`. One that is aside counts where nothing is in its place."""
    by_step = {step_name(name): folder / name for name in sorted(folders(folder))}  # ASIDE sorts in front
    return [by_step[name] for name in sorted(by_step)]


def step_of(checkpoint: Path) -> int:
    """The step of one of those that `list_checkpoints` gives."""
    return int(step_name(checkpoint.name))


def step_name(name: str) -> str:
    """The name without what says that it is aside."""
    return name.removeprefix(ASIDE)


def folders(folder: Path) -> dict[str, int]:
    """Those of checkpoints by name, with what tells one from another of that name; as they are at one moment."""
    try:
        with os.scandir(folder) as found:
            return {one.name: one.inode() for one in found if step_name(one.name).isdecimal() and one.is_dir()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
