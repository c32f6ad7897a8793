"""A shift: runs of a study for as long as a machine is to be had, and the files that are left of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("ale_py")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import atari, shift  # noqa: E402
from evidence.__main__ import main  # noqa: E402

from sail.studies.folder import StudyFolder, open_or_create  # noqa: E402
from sail.studies.library import find  # noqa: E402

STUDY = """
environments: [atari:Pong]
agents: [dqn, sail-dqn]
frames: 1_600
settings:
  {agent.network: nature, agent.hidden: [16], learning.batch_size: 4, learning.num_envs: 8, learning.starts: 200,
   learning.target_period: 200, learning.max_block: 40, replay.capacity: 2000, evaluation.period: 400,
   env.time_limit: 40}
resources: {memory: 4GB}
"""


@pytest.fixture
def study(tmp_path: Path) -> str:
    (tmp_path / "tiny.yaml").write_text(STUDY)
    (tmp_path / "results").mkdir()
    return str(tmp_path / "tiny.yaml")


def test_a_shift_runs_what_is_missing_and_leaves_its_files(study: str, tmp_path: Path) -> None:
    results, folder = tmp_path / "results", tmp_path / "runs"
    wrote, done = shift.work(study, 20, 1, results, folder, None, ["sail-dqn"]).splitlines()
    assert wrote.startswith("wrote Pong_sail-dqn,") and wrote.endswith(": 0.0016M frames")
    assert done == "1 of 1 done; nothing runs"
    (curve,) = atari.read_all(results)
    assert curve.agent.startswith("sail-dqn,") and curve.frames == 1600 and "broken_off" not in curve.about
    # The next one has the other agent left, and no time for it.
    said = shift.work(study, 0, 1, results, tmp_path / "more", None, [])
    assert said.splitlines()[-1] == "0 of 1 done; nothing runs"
    assert [cell.agent for cell in StudyFolder(tmp_path / "more").cells] == ["dqn"]
    assert not (tmp_path / "more" / "cells").exists()


def test_a_run_that_would_not_end_in_time_is_not_begun(study: str, tmp_path: Path) -> None:
    name, marked = find(study)
    folder = open_or_create(tmp_path / "runs", marked, name)
    resources = folder.definition()[0].resources
    crew = shift.Shift(folder, resources, 1, 1000, lambda: None)
    assert crew.room() and crew.wait(0) == []
    crew._longest = 900
    assert crew.room()
    crew._longest = 1100  # seconds that another one took
    assert not crew.room()
    with pytest.raises(shift.ShiftOverError):
        crew.wait(0)
    crew._begun["one that was begun before"] = 0.0
    assert crew.wait(0) == []  # and is waited for
    over = shift.Shift(folder, resources, 1, 0, lambda: None)
    over._begun["one that still runs"] = 0.0
    with pytest.raises(shift.ShiftOverError):
        over.wait(0)


def test_files_are_brought_up_to_date_meanwhile(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift, "COLLECT_SECONDS", -1.0)
    name, marked = find(study)
    folder = open_or_create(tmp_path / "runs", marked, name)
    collected: list[int] = []
    crew = shift.Shift(folder, folder.definition()[0].resources, 1, 1000, lambda: collected.append(1))
    crew.wait(0)
    crew.wait(0)
    assert len(collected) == 2


def test_what_cannot_be_is_one_sentence(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, sentence in (
        ([study, "--minutes", "1", "--agents", "sail-dqm"], "did you mean 'sail-dqn'?"),
        ([study, "--minutes", "1", "--workers", "0"], "whole number of at least 1"),
        ([study, "--minutes", "soon"], "invalid float value"),
        (["evidence/atri", "--minutes", "1"], "did you mean 'evidence/atari'?"),
    ):
        places = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "runs")]
        monkeypatch.setattr(sys, "argv", ["evidence", "shift", *arguments, *places])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
