"""Atari from end to end, as a person would use it: train, kill, resume, evaluate, watch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ale_py")

# Small enough for one core: a nature network, few emulators, short games.
SETTINGS = """
--agent.network nature --agent.hidden 32 --learning.batch-size 8 --learning.num-envs 8 --learning.starts 200
--learning.target-period 200 --learning.max-block 40 --replay.capacity 2000 --evaluation.period 400
--checkpoint.seconds 0.5 --env.time-limit 40
"""
FLAGS = SETTINGS.split()


def sail(*arguments: str) -> list[str]:
    # With the programs and the threads that users get: the other tests compile theirs without optimisation.
    return ["env", "-u", "XLA_FLAGS", "-u", "OPENBLAS_NUM_THREADS", sys.executable, "-m", "sail", *arguments]


def test_pong_through_checkpoint_kill_resume_eval_play(tmp_path: Path) -> None:
    run = tmp_path / "pong"
    training = subprocess.Popen(
        sail("train", "atari:Pong", "--out", str(run), "--frames", "4800", *FLAGS),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: len(checkpoints(run)) >= 1, training)
        training.send_signal(signal.SIGKILL)
    finally:
        training.kill()
        training.wait()
    assert not (run / "DONE").exists()
    at = int(checkpoints(run)[-1].name)
    assert 0 < at < 1200

    resumed = call("resume", str(run))
    assert f"Resuming at step {at:,}." in resumed.stderr
    assert "The replay ring is not there: filling it with" in resumed.stderr
    done = json.loads((run / "DONE").read_text())
    assert done["steps"] == 1200 and done["returns_are"] == "training"
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    # 200 steps come first; then one update for each 4 steps, and the 40 steps up to step 200 have earned theirs.
    assert [(row["step"], row["updates"]) for row in rows] == [(400, 60), (800, 160), (1200, 260)]
    assert all(np.isfinite(row["loss"]) for row in rows)
    episodes = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    assert episodes and all(episode["length"] == 40 for episode in episodes)  # cut off long before a Pong game ends
    assert [episode["step"] for episode in episodes] == sorted(episode["step"] for episode in episodes)

    result = json.loads(call("eval", str(run), "--json", "--steps", "500").stdout)
    assert result["episodes"] >= 12 and result["mean_length"] == 40 and result["epsilon"] == 0.001
    assert -6 < result["mean_return"] < 6

    video = tmp_path / "pong.webp"
    played = json.loads(call("play", str(run), "--video", str(video), "--max-steps", "20", "--json").stdout)
    assert played["steps"] == 20 and played["video"] == str(video)
    from PIL import Image

    with Image.open(video) as film:
        assert film.n_frames == 20 and film.size[0] >= 320  # type: ignore[attr-defined]


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(sail(*arguments), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done


def checkpoints(run: Path) -> list[Path]:
    folder = run / "checkpoints"
    return sorted(path for path in folder.glob("[0-9]*")) if folder.is_dir() else []


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["atari:Pung"], "There is no Atari game 'Pung': did you mean 'Pong'?"),
        (["Pong"], "There is no environment 'Pong': did you mean 'atari:Pong'?"),
        (["atari:Pong", "--learning.num-envs", "0"], "learning.num_envs must be greater than or equal to 1, not '0'."),
        (
            ["atari:Pong", "--learning.num-envs", "8", "--replay.capacity", "32"],
            "replay.capacity must be at least 40 for these settings (5 observations for each of 8 environments)",
        ),
        (["atari:Pong", "--env.actions", "all"], "env.actions must be 'minimal' or 'full', not 'all'."),
        (["atari:Pong", "--frames", "many"], "--frames must be a whole number, not 'many'."),
        (["kdt", "--frames", "1000"], "--frames counts emulator frames, which only Atari games have: use --steps."),
        (["kdt", "--evaluation.steps", "1000"], "evaluation.steps is for outside environments"),
        (["gym:Pendulum-v1"], "gym:Pendulum-v1 has continuous actions"),
        (["gym:CartPole-v9"], "CartPole-v1"),
        (["gym:CartPole-v1", "--agent.network", "nature"], "The nature network is for images, not for vectors"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence(arguments: list[str], says: str, tmp_path: Path, capsys: Any) -> None:
    from sail.cli import main

    out = tmp_path / "run"
    assert main(["train", *arguments, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert not out.exists()


def test_an_interrupted_first_phase_is_not_lost(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a phase: a checkpoint there, and the exit code of an interruption."""
    run = tmp_path / "pong"
    flags = ["--frames", "400000", "--checkpoint.seconds", "1000"]
    training = subprocess.Popen(sail("train", "atari:Pong", "--out", str(run), *FLAGS, *flags), stderr=subprocess.PIPE)
    try:
        wait_for(lambda: (run / "episodes.jsonl").is_file() and (run / "episodes.jsonl").stat().st_size > 0, training)  # type: ignore[arg-type]
        os.kill(training.pid, signal.SIGINT)
        training.wait(timeout=120)
    finally:
        training.kill()
    assert training.returncode == 130
    assert len(checkpoints(run)) == 1
