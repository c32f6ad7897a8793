"""New run folders: which names are taken, and what is said where none can be made."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import tiny_overrides

import sail
from sail.training import api
from sail.training.run_folder import RunFolder, TakenError

CONFIG = sail.make_config("kdt", "sail-dqn", tiny_overrides())


def test_a_folder_of_runs_that_leads_nowhere_takes_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or another name would be tried for ever."""
    monkeypatch.chdir(tmp_path)
    Path("runs").symlink_to("nowhere")
    with pytest.raises(sail.BadInputError, match=r"^The output folder runs/x cannot be written: runs is no folder\.$"):
        RunFolder.create("runs/x", CONFIG, {})
    with pytest.raises(sail.BadInputError, match="runs is no folder"):
        api._new_folder(CONFIG, None)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_name_that_is_taken_while_the_folder_is_made_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sail.training.run_folder.check_new", Path)  # it was free when it was looked at
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(TakenError, match="exists already"):
        RunFolder.create(tmp_path / "run", CONFIG, {})


def test_where_a_run_comes_from_is_asked_once_however_many_names_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a few processes of git."""
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(api, "provenance", lambda: asked.append({"commit": "0"}) or asked[-1])
    monkeypatch.chdir(tmp_path)
    names = [api._new_folder(CONFIG, None).path.name for _ in range(3)]
    assert names == ["kdt-sail-dqn-seed0", "kdt-sail-dqn-seed0-2", "kdt-sail-dqn-seed0-3"]
    assert len(asked) == 3
