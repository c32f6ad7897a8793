"""That no environment and no signal can spoil a run of the host loop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_flags

import sail
from sail.training import checkpoint, emulators, host
from sail.training.host import HostProgram
from sail.training.loop import InterruptedTrainingError
from sail.training.run_folder import RunFolder

pytest.importorskip("gymnasium")

import host_envs
from host_training import Heard, threads, tiny

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments


# When an environment breaks -------------------------------------------------------------------------------------------


def assert_whole(run: RunFolder) -> None:
    """A finished run of 1600 steps: every phase is there, and has counted each of its episodes once."""
    assert run.done and checkpoint.list_checkpoints(run.checkpoints)[-1].name == f"{1600:012d}"
    rows, episodes = run.metrics(), run.episodes()
    assert [row["step"] for row in rows] == [400, 800, 1200, 1600]
    # 50 for each block of 200 from step 200 on.
    assert [row["updates"] for row in rows] == [100, 200, 300, 400]
    steps = [row["step"] for row in episodes]
    assert steps == sorted(set(steps)) and steps[-1] <= 1600
    for row in rows:
        mine = [e for e in episodes if row["step"] - 400 < e["step"] <= row["step"]]
        assert row["episodes"] == len(mine) > 50
        assert row["train_return"] == pytest.approx(np.mean([e["return"] for e in mine]))
        assert row["train_length"] == pytest.approx(np.mean([e["length"] for e in mine]))
        assert {e["length"] for e in mine} <= {3, 5}
    saved, _, _ = checkpoint.load_newest(run.checkpoints, HostProgram(run.config).saved_like())
    assert np.asarray(saved.learner.optimiser[0].count).tolist() == [400]


def test_an_environment_that_raises_stops_the_run_which_goes_on_when_it_is_well(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its 300th step is near the 1200th of the run, in the block after step 1000 and in mid-phase."""
    monkeypatch.setitem(host_envs.HEALTHY, "now", False)
    out = tmp_path / "run"
    assert sail.cli.main(["train", "gym:host_envs:Failing", "--out", str(out), *tiny_flags()]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error == "sail: gym:host_envs:Failing raised ValueError in step: the emulator is on fire."
    assert not (out / "DONE").exists() and threads() == []
    assert sail.load(out).step == 1000
    broken = RunFolder(out).episodes()
    assert broken[-1]["step"] <= 1000
    # As long as it is ill, so is a resumed run: its refill takes 250 of the 300 steps.
    with pytest.raises(sail.TrainingError, match="on fire"):
        sail.resume(out)
    assert sail.load(out).step == 1000 and RunFolder(out).episodes() == broken
    monkeypatch.setitem(host_envs.HEALTHY, "now", True)
    heard = Heard()
    run = sail.resume(out, reporter=heard)
    assert heard.notes == [
        "Resuming at step 1,000.",
        "The replay ring is not there: filling it with 1,000 new steps first, which do not count.",
    ]
    assert min(heard.steps) > 1000 and heard.steps[-1] == 1600
    assert run.episodes()[: len(broken)] == broken
    assert_whole(run)
    assert threads() == []


@pytest.mark.parametrize("phase", [2, 4], ids=["in the middle", "at the end"])
def test_an_environment_that_raises_in_evaluation_costs_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: int
) -> None:
    """Nothing was saved since the phase before; and all that is left to do is the evaluation."""
    evaluate, calls = HostProgram.evaluate, []

    def failing(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == phase:
            raise sail.TrainingError("the emulator is on fire")
        return evaluate(*arguments, **named)

    monkeypatch.setattr(HostProgram, "evaluate", failing)
    with pytest.raises(sail.TrainingError, match="on fire"):
        sail.train_config(tiny(), out=tmp_path / "run")
    assert sail.load(tmp_path / "run").step == 400 * phase
    run = sail.resume(tmp_path / "run")
    assert run.done and [row["step"] for row in run.metrics()] == [400, 800, 1200, 1600]
    assert all(row["eval_return"] is not None for row in run.metrics())


def test_an_environment_that_hangs_stops_the_run_with_a_checkpoint(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(host_envs.HEALTHY, "now", False)
    monkeypatch.setattr(emulators, "PATIENCE_SECONDS", 2.0)
    out, began = tmp_path / "run", time.monotonic()
    assert sail.cli.main(["train", "gym:host_envs:Hanging", "--out", str(out), *tiny_flags()]) == 1
    assert time.monotonic() - began < 60
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error == "sail: gym:host_envs:Hanging has not answered for 2 s, so the run stops."
    assert sail.load(out).step == 1000
    assert RunFolder(out).episodes()[-1]["step"] <= 1000


def test_an_environment_that_raises_at_once_leaves_a_run_that_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, seed: Any = None, options: Any = None) -> Any:
        raise OSError("no display")

    with monkeypatch.context() as context, pytest.raises(sail.TrainingError, match="raised OSError in reset: no displ"):
        context.setattr(host_envs.Counter, "reset", broken)
        sail.train_config(tiny(steps=400), out=tmp_path / "run")
    run = sail.resume(tmp_path / "run")
    assert run.done and [row["step"] for row in run.metrics()] == [400]


# Interruptions --------------------------------------------------------------------------------------------------------


def test_a_run_interrupted_in_mid_phase_counts_what_came_before_and_after(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(InterruptedTrainingError, match="step 1,000; go on with 'sail resume"):
        sail.train_config(tiny(checkpoint={"seconds": 1e-6}), out=out, reporter=Heard(stop_at=1000))
    assert sail.load(out).step == 1000
    before = RunFolder(out).episodes()
    assert [row["step"] for row in RunFolder(out).metrics()] == [400, 800] and 950 < before[-1]["step"] <= 1000
    heard = Heard()
    run = sail.resume(out, reporter=heard)
    assert "filling it with 1,000 new steps" in heard.notes[-1]
    assert run.episodes()[: len(before)] == before and run.episodes()[len(before)]["step"] > 1000
    assert_whole(run)


@pytest.mark.parametrize("journal", [False, True])
def test_a_run_interrupted_at_its_last_step_is_evaluated_without_a_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: bool
) -> None:
    """Filling it again may take hours, for steps that nothing would be learned from."""
    out = tmp_path / "run"
    with pytest.raises(InterruptedTrainingError, match="step 1,600; go on with 'sail resume"):
        sail.train_config(tiny(checkpoint={"replay": journal}), out=out, reporter=Heard(stop_at=1600))
    for file in (out / "replay").glob("*.safetensors"):
        file.unlink()
    monkeypatch.setattr(host, "Pools", lambda *_: pytest.fail("no environments are needed but those of the evaluation"))
    heard = Heard()
    run = sail.resume(out, reporter=heard)
    assert heard.notes[0] == "Resuming at step 1,600." and len(heard.notes) == 1 + journal
    assert not any("filling" in note for note in heard.notes)
    assert_whole(run)


@pytest.mark.parametrize(
    "to_the_group",
    (False, True),
)
def test_ctrl_c_leaves_a_checkpoint_in_mid_phase(tmp_path: Path, to_the_group: bool) -> None:
    """A terminal sends it to the processes of the environments as well."""
    out = tmp_path / "run"
    flags = tiny_flags(steps=400_000, evaluation={"period": 400_000}, env={"processes": to_the_group})
    command = [sys.executable, "-m", "sail", "train", "gym:host_envs:Slow", "--out", str(out), *flags]
    environment = {**os.environ, "PYTHONPATH": str(Path(host_envs.__file__).parent)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    try:
        began = time.monotonic()
        while not (out.exists() and RunFolder(out).episodes()) and time.monotonic() - began < 60:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        (os.killpg if to_the_group else os.kill)(process.pid, signal.SIGINT)
        asked = time.monotonic()
        _, error = process.communicate(timeout=30)
        assert time.monotonic() - asked < 20
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130, error
    assert "Stopping with a checkpoint" in error
    stopped = int(re.search(r"sail: Interrupted at step ([\d,]+); go on", error)[1].replace(",", ""))
    assert 0 < stopped < 400_000 and sail.load(out).step == stopped
    assert RunFolder(out).episodes()[-1]["step"] <= stopped
