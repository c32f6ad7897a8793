"""Checkpoints on disk: what a kill in the midst of a save leaves, and what is read while one is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sail.studies.supervisor import newest_step
from sail.training import checkpoint

LIKE = {"weights": np.zeros(3, np.float32)}
CHANGES = ((os, "rename"), (os, "replace"), (shutil, "rmtree"))
"""Whatever a save does to what is there."""


class Killed(BaseException):
    """As kill -9: nothing is done after it."""


def save(folder: Path, step: int, what: str, keep: int) -> None:
    state = {"weights": np.frombuffer(what.ljust(12).encode(), np.float32)}
    checkpoint.save_checkpoint(folder, step, state, {"what": what}, keep)


def found(folder: Path) -> tuple[int, str]:
    """The step of the newest checkpoint, and what it holds; none is damaged."""
    state, meta, passed_over = checkpoint.load_newest(folder, LIKE)
    assert not passed_over
    assert np.asarray(state["weights"]).tobytes().decode().strip() == meta["what"]
    assert meta["step"] == checkpoint.step_of(checkpoint.list_checkpoints(folder)[-1])
    return meta["step"], meta["what"]


def steps(folder: Path) -> list[int]:
    return [checkpoint.step_of(path) for path in checkpoint.list_checkpoints(folder)]


def until_killed(monkeypatch: pytest.MonkeyPatch, number: int, work: Callable[[], None]) -> bool:
    """Works until so many changes were made: each is a moment before and one after it, and those inside of rmtree."""
    left = [number]

    def moment() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    def killing(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **named: Any) -> None:
            moment()
            if change.__name__ == "rmtree" and arguments[0].is_dir():
                for inside in sorted(arguments[0].iterdir()):
                    inside.unlink()
                    moment()
            change(*arguments, **named)
            moment()

        return changed

    with monkeypatch.context() as context:
        for module, name in CHANGES:
            context.setattr(module, name, killing(getattr(module, name)))
        try:
            work()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("step", [20, 30], ids=["the same step", "a later step"])
def test_a_kill_at_any_moment_of_a_save_leaves_a_newest_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, keep: int
) -> None:
    """A run that was stopped at the end of a phase saves that step once more when it has gone on."""
    number, killed = 0, True
    while killed:
        folder = tmp_path / f"{number}"
        save(folder, 10, "old", keep)
        save(folder, 20, "old", keep)
        killed = until_killed(monkeypatch, number, partial(save, folder, step, "new", keep))
        assert found(folder) in [(20, "old"), (step, "new")] and len(steps(folder)) >= keep
        # And once more, while what the kill has left is put in order.
        again = until_killed(monkeypatch, number // 2, partial(save, folder, 30, "last", keep))
        assert found(folder) in [(20, "old"), (step, "new"), (30, "last")] and len(steps(folder)) >= keep
        assert again or found(folder) == (30, "last")
        save(folder, 40, "last", keep)
        assert found(folder) == (40, "last") and len(steps(folder)) == keep
        assert [path.name for path in sorted(folder.iterdir())] == [f"{one:012d}" for one in steps(folder)]
        number += 1
    assert number > 5


def test_who_reads_while_a_checkpoint_is_replaced_or_removed_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not take for damaged what was overtaken between the reading of its two files."""
    read, overtaken = Path.read_bytes, [(10, "two"), (20, "three")]

    def slowly(path: Path) -> bytes:
        if overtaken:
            save(tmp_path, *overtaken.pop(0), keep=1)
        return read(path)

    save(tmp_path, 10, "one", keep=1)
    monkeypatch.setattr(Path, "read_bytes", slowly)
    assert found(tmp_path) == (20, "three") and not overtaken


def test_a_reader_leaves_a_checkpoint_that_is_aside_where_it_is(tmp_path: Path) -> None:
    """Its writer may be at it."""
    folder = tmp_path / "checkpoints"
    save(folder, 10, "one", keep=2)
    save(folder, 20, "two", keep=2)
    (folder / f"{20:012d}").rename(folder / f".replaced-{20:012d}")
    assert found(folder) == (20, "two") and steps(folder) == [10, 20]
    assert newest_step(tmp_path) == 20  # what sail study status shows
    assert (folder / f".replaced-{20:012d}").is_dir() and not (folder / f"{20:012d}").exists()


@pytest.mark.parametrize("keep", [1, 2])
def test_a_run_that_fell_back_keeps_what_it_saves_and_not_what_was_damaged(tmp_path: Path, keep: int) -> None:
    """The damaged one is of a later step, and was once counted among the newest."""
    for step in (50, 100):
        save(tmp_path, step, "before", 2)
    (tmp_path / f"{100:012d}" / "state.safetensors").write_bytes(b"damaged")
    assert checkpoint.load_newest(tmp_path, LIKE)[1]["step"] == 50
    for step in (60, 70):
        save(tmp_path, step, "after", keep)
        assert found(tmp_path) == (step, "after")
    assert steps(tmp_path) == [60, 70][-keep:]


def test_copies_and_files_beside_them_are_no_checkpoints(tmp_path: Path) -> None:
    save(tmp_path, 10, "one", keep=2)
    shutil.copytree(tmp_path / f"{10:012d}", tmp_path / f"{20:012d}.kept")
    (tmp_path / "30").write_text("")
    assert found(tmp_path) == (10, "one") and steps(tmp_path) == [10]
    assert newest_step(tmp_path.parent) == 0 and steps(tmp_path / "nowhere") == []
