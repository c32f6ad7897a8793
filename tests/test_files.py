"""Files and folders that are there as a whole or not at all; a full disk is no fault of whoever named them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sail.cli import main
from sail.envs import crew
from sail.envs.atari_settings import AtariSettings
from sail.errors import BadInputError, SailError
from sail.files import NewFolder, check_can_be_made, disk_error

FULL = pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=["disk", "quota"])


def full(number: int) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@FULL
@pytest.mark.parametrize("where", ["mkdir", "write_text"])
def test_no_room_for_a_run_folder_is_the_machines_fault(
    number: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(Path, where, full(number))
    assert main(["train", "kdt", "--steps", "400", "--out", str(tmp_path / "runs" / "run")]) == 1
    assert f"runs/run cannot be written: {os.strerror(number)}." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@FULL
@pytest.mark.parametrize("where", ["mkdir", "open"])
def test_no_room_for_a_study_folder_is_the_machines_fault(
    number: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("environments: [kdt]\nagents: [dqn]\nsteps: 400\n")
    real = Path.open

    def refuse(path: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        return full(number)() if "w" in mode else real(path, mode, *arguments, **more)

    monkeypatch.setattr(Path, where, refuse if where == "open" else full(number))
    assert main(["study", "run", str(file), "--out", str(tmp_path / "studies" / "mine")]) == 1
    assert f"studies/mine cannot be written: {os.strerror(number)}." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [file]


def test_no_room_for_the_memory_of_processes_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ale_py")
    monkeypatch.setattr(crew, "_unnamed_file", full(errno.ENOSPC))
    with pytest.raises(SailError, match="cannot be had here") as error:
        crew.Crew(AtariSettings(name="atari:Pong", processes=1), 1, 1)
    assert error.value.exit_code == 1


def test_other_failures_are_the_fault_of_who_named_it() -> None:
    assert isinstance(disk_error("No.", OSError(errno.EACCES, "no")), BadInputError)
    assert not isinstance(disk_error("No.", OSError(errno.ENOSPC, "full")), BadInputError)


def test_a_new_folder_goes_with_what_was_made_for_it_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "kept").write_text("kept")
    for path in (tmp_path / "a" / "b" / "c", tmp_path / "old"):
        with pytest.raises(KeyError), NewFolder(path):
            (path / "inside" / "deeper").mkdir(parents=True)
            (path / "inside" / "file").write_text("x")
            (path / "link").symlink_to(tmp_path / "kept")
            raise KeyError
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["kept", "old"]
    assert (tmp_path / "kept").read_text() == "kept"


def test_what_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with pytest.raises(KeyError), NewFolder(tmp_path):
        raise KeyError
    assert (tmp_path / "old").read_text() == "old"


def test_a_folder_above_a_new_one_stays_if_others_use_it(tmp_path: Path) -> None:
    with pytest.raises(KeyError), NewFolder(tmp_path / "a" / "b"):
        (tmp_path / "a" / "theirs").mkdir()
        raise KeyError
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["theirs"]


@pytest.mark.parametrize("path", ["", "no/such/x.png", "x" * 300 + "/y.png"], ids=["a folder", "nowhere", "too long"])
def test_where_no_file_can_be_is_said_beforehand(path: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="name a file in a folder that exists"):
        check_can_be_made(tmp_path / path)
    assert check_can_be_made(tmp_path / "x.png") == tmp_path / "x.png"
