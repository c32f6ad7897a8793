"""A shift: runs of a study for as long as a machine is to be had, and the files that are left of them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ale_py")
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import atari, shift  # noqa: E402
from evidence.__main__ import main  # noqa: E402

from sail.errors import BadInputError  # noqa: E402
from sail.studies.cells import Cell  # noqa: E402
from sail.studies.folder import StudyFolder, open_or_create  # noqa: E402
from sail.studies.library import find  # noqa: E402
from sail.studies.local import LocalExecutor  # noqa: E402
from sail.studies.records import Record, write_json  # noqa: E402
from sail.studies.supervisor import Outcome  # noqa: E402

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
    wrote, done = shift.work(study, 20, 1, results, folder, ["sail-dqn"]).splitlines()
    assert wrote.startswith("wrote Pong_sail-dqn,") and wrote.endswith(": 0.0016M frames")
    assert done == "1 of 1 done; nothing runs"
    (curve,) = atari.read_all(results)
    assert curve.agent.startswith("sail-dqn,") and curve.frames == 1600 and "broken_off" not in curve.about
    # The next one has the other agent left, and no time for it.
    said = shift.work(study, 0, 1, results, tmp_path / "more", [])
    assert said.splitlines()[-1] == "0 of 1 done; nothing runs"
    assert [cell.agent for cell in StudyFolder(tmp_path / "more").cells] == ["dqn"]
    assert not (tmp_path / "more" / "cells").exists()


def test_a_run_that_would_not_end_in_time_is_not_begun(study: str, tmp_path: Path) -> None:
    name, marked = find(study)
    folder = open_or_create(tmp_path / "runs", marked, name)
    resources = folder.definition()[0].resources
    crew = shift.Shift(folder, resources, 1, 1000, lambda: None)
    assert crew.room() and crew.wait(0) == []
    crew._longest = 940
    assert crew.room()
    crew._longest = 960  # which would leave no margin
    assert not crew.room()
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


def test_how_long_a_run_takes_is_seen_from_whole_ones(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, marked = find(study)
    folder = open_or_create(tmp_path / "runs", marked, name)
    whole, resumed = folder.cells

    def submit(self: LocalExecutor, cell: Cell) -> None:
        record = folder.record(cell)
        record.starts.append({"from_step": 0 if cell == whole else 400})
        folder.write_record(cell, record)

    ended: list[Outcome] = []
    monkeypatch.setattr(LocalExecutor, "submit", submit)
    monkeypatch.setattr(LocalExecutor, "wait", lambda self, seconds: ended)
    crew = shift.Shift(folder, folder.definition()[0].resources, 2, 1000, lambda: None)
    for cell, seconds in ((whole, 30.0), (resumed, 50.0)):
        crew.submit(cell)
        crew._begun[cell.name] -= seconds
    for outcome, longest in (
        (Outcome(resumed.name, done=True), 0.0),  # it had only its end to do
        (Outcome(whole.name, done=True), 30.0),
    ):
        ended[:] = [outcome]
        crew.wait(0)
        assert longest <= crew._longest <= 2 * longest  # a busy machine may add to it


def test_a_run_that_failed_on_the_way_tells_nothing_of_how_long_one_takes(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, marked = find(study)
    folder = open_or_create(tmp_path / "runs", marked, name)
    cell, from_step = folder.cells[0], [400, 0]  # the first time from the beginning, then from a checkpoint

    def submit(self: LocalExecutor, cell: Cell) -> None:
        record = folder.record(cell)
        record.starts.append({"from_step": from_step.pop()})
        folder.write_record(cell, record)

    monkeypatch.setattr(LocalExecutor, "submit", submit)
    crew = shift.Shift(folder, folder.definition()[0].resources, 1, 1000, lambda: None)
    for done, seconds in ((False, 300.0), (True, 20.0)):
        crew.submit(cell)
        crew._begun[cell.name] -= seconds
        monkeypatch.setattr(LocalExecutor, "wait", lambda self, _, done=done: [Outcome(cell.name, done=done)])
        crew.wait(0)
    assert crew._longest == 0


def test_runs_that_are_cut_off_leave_what_they_have(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is up as soon as the first phase is in."""
    long = tmp_path / "long.yaml"
    long.write_text(Path(study).read_text().replace("frames: 1_600", "frames: 160_000_000").replace("dqn, ", ""))
    results, folder = tmp_path / "results", tmp_path / "runs"

    def wait(self: shift.Shift, seconds: float) -> list[Outcome]:
        metrics = list((folder / "cells").rglob("metrics.jsonl"))
        if metrics and metrics[0].read_text().count("\n") > 1:
            raise shift.ShiftOverError
        return LocalExecutor.wait(self, seconds)

    monkeypatch.setattr(shift.Shift, "wait", wait)
    assert "0 of 1 done" in shift.work(str(long), 20, 1, results, folder, [])
    (curve,) = atari.read_all(results)
    assert curve.frames >= 1600 and curve.about["broken_off"] == f"at {curve.frames} of 160000000 frames"


@pytest.mark.parametrize("over", [False, True], ids=["all_done", "time_is_up"])
def test_what_fails_is_said(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: bool) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(Path(study).read_text().replace("4GB", "10MB, retries: 0").replace("dqn, ", ""))
    run_study = shift.run_study

    def running(*arguments: Any) -> dict[str, str]:
        failed = run_study(*arguments)
        if over:
            raise shift.ShiftOverError
        return failed

    monkeypatch.setattr(shift, "run_study", running)
    said = shift.work(str(bad), 20, 1, tmp_path / "results", tmp_path / "runs", [])
    assert "failed: " in said and "0 of 1 done" in said


def test_a_folder_of_another_shift_is_refused(study: str, tmp_path: Path) -> None:
    places = tmp_path / "results", tmp_path / "runs"
    shift.work(study, 0, 1, *places, ["dqn"])
    with pytest.raises(BadInputError, match="another shift"):
        shift.work(study, 0, 1, *places, ["sail-dqn"])
    assert "0 of 1 done" in shift.work(study, 0, 1, *places, ["dqn"])


def test_files_that_cannot_be_written_now_do_not_end_the_runs(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shift, "COLLECT_SECONDS", 0.0)
    once: list[Exception] = [OSError("no space left"), KeyError("emulators")]
    collect = atari.collect

    def failing(study: Path, to: Path) -> list[str]:
        if once:
            raise once.pop()
        return collect(study, to)

    monkeypatch.setattr(atari, "collect", failing)
    said = shift.work(study, 20, 1, tmp_path / "results", tmp_path / "runs", ["dqn"])
    assert not once and "1 of 1 done" in said


@pytest.mark.parametrize("works", [True, False])
def test_the_multi_process_service_is_started_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    """With a program of its name that writes down how it was called."""
    program, calls = tmp_path / shift.SERVICE, tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho "$1 $CUDA_MPS_PIPE_DIRECTORY" >> {calls}; [ "$1" = -d ] || cat >> {calls}\n')
    program.write_text(program.read_text() + f"exit {0 if works else 1}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    notes: list[str] = []
    with shift.multi_process_service(3, notes.append):
        place = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
        assert (place is not None) == works
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert len(notes) == (not works)
    if works:
        assert calls.read_text() == f"-d {place}\n {place}\nquit\n"


def test_runs_go_on_without_the_service_or_a_gpu_and_one_alone_needs_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    notes: list[str] = []
    for gpus, workers, number_of_notes in (("", 2, 0), ("0", 1, 0), ("0", 2, 1)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
        with shift.multi_process_service(workers, notes.append):
            pass
        assert len(notes) == number_of_notes


def test_the_next_run_gets_ready_while_one_ends(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, marked = find(study)
    folder = open_or_create(tmp_path / "runs", marked, name)
    first, second = folder.cells
    monkeypatch.setattr(LocalExecutor, "wait", lambda self, seconds: [])
    monkeypatch.setattr(shift.Shift, "submit", lambda self, cell: self._begun.update({cell.name: time.monotonic()}))
    crew = shift.Shift(folder, folder.definition()[0].resources, 1, 1000, lambda: None)

    def plays(cell: Cell, step: int) -> None:  # at 10 steps a second, of 4,000
        record = folder.record(cell)
        record.state = "running"
        folder.write_record(cell, record)
        progress = {"step": step, "steps": 4000, "steps_per_second": 10.0 if step else None}
        write_json(folder.state_path(cell, ".progress"), progress)
        crew.wait(0)

    assert crew.room()
    crew.submit(first)
    crew._begun[first.name] -= 100.0
    crew._whole.add(first.name)
    assert not crew.room()  # since nobody knows how long it has yet to go
    plays(first, 0)  # so a run begins within 100 seconds
    assert not crew.room()
    plays(first, 2000)
    assert not crew.room()  # 200 seconds are left
    plays(first, 3010)
    assert crew.room()  # 99 are
    crew.submit(second)
    assert not crew.room()
    crew._begun[second.name] -= 400.0  # it went on from a checkpoint, and filled its ring first
    plays(second, 3990)
    assert not crew.room()  # however soon it ends: there is one in hand
    assert crew._start < 400


def test_how_long_a_run_takes_is_seen_from_those_that_play(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, marked = find(study)
    folder = open_or_create(tmp_path / "runs", marked, name)
    cell = folder.cells[0]
    monkeypatch.setattr(LocalExecutor, "wait", lambda self, seconds: [])
    for left, begins in ((300.0, True), (60.0, False)):
        crew = shift.Shift(folder, folder.definition()[0].resources, 2, left, lambda: None)
        assert crew.room()
        crew._begun[cell.name] = time.monotonic() - 20.0
        crew._whole.add(cell.name)
        folder.write_record(cell, Record(state="running"))
        progress = {"step": 10, "steps": 400, "steps_per_second": 10.0}  # so 60 seconds with the beginning
        write_json(folder.state_path(cell, ".progress"), progress)
        crew.wait(0)
        assert crew.room() == begins


def test_what_is_done_is_kept_at_once(study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, marked = find(study)
    folder = open_or_create(tmp_path / "runs", marked, name)
    cell, collected = folder.cells[0], []
    crew = shift.Shift(folder, folder.definition()[0].resources, 1, 1000, lambda: collected.append(1))
    ended: list[Outcome] = []
    monkeypatch.setattr(LocalExecutor, "wait", lambda self, seconds: ended)
    for outcome, times in ((Outcome(cell.name, error="It failed.", again=True), 0), (Outcome(cell.name, done=True), 1)):
        crew._begun[cell.name] = time.monotonic()
        ended[:] = [outcome]
        crew.wait(0)
        assert len(collected) == times
    ended.clear()
    crew._end = 0.0
    with pytest.raises(shift.ShiftOverError):
        crew.wait(0)
    assert len(collected) == 2


def test_memory_of_the_gpu_is_there_for_one_more_run_and_one_alone_has_all_cores(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("PATH", "")
    seen: list[tuple[int, float]] = []

    def begin(folder: Any, crew: shift.Shift, resources: Any, reporter: Any) -> None:
        seen.append((resources.cores, crew._share))

    monkeypatch.setattr(shift, "run_study", begin)
    monkeypatch.setattr(shift, "cores", lambda: 16)
    for workers in (1, 3, 16):
        shift.work(study, 1, workers, tmp_path / "results", tmp_path / f"runs{workers}", [])
    assert seen == [(16, 1 / 2), (5, 1 / 4), (1, 1 / 17)]


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
