"""TensorBoard and Weights & Biases get what metrics.jsonl gets."""

from __future__ import annotations

import json
import struct
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from conftest import tiny_flags

from sail.cli import main
from sail.integrations.writers import numbers, writer_names
from sail.training.run_folder import RunFolder


def events(folder: Path) -> dict[tuple[str, int], float]:
    """The scalars in event files: {(name, step): value}, the newest of several."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[tuple[str, int], float] = {}
    for path in sorted(folder.glob("events*")):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]
            for value in event.summary.value:
                found[(value.tag, event.step)] = value.simple_value
    return found


def expected(run: RunFolder, seed: int) -> dict[tuple[str, int], float]:
    rows = [row for row in run.metrics() if row["seed"] == seed]
    return {(name, row["step"]): value for row in rows for name, value in numbers(row).items()}


def test_tensorboard_has_what_the_run_folder_has(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    flags = tiny_flags(seeds=2)
    assert main(["train", "probe-chain", "--out", str(tmp_path / "run"), "--quiet", "--tensorboard", *flags]) == 0
    run = RunFolder(tmp_path / "run")
    for seed in (0, 1):
        found = events(run.path / "tensorboard" / f"seed{seed}")
        assert found == pytest.approx(expected(run, seed), rel=1e-6) and len(found) > 20
    assert ("eval_return", 400) in found and not any(name in ("seed", "step") for name, _ in found)


def test_a_resumed_run_goes_on_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorboard = pytest.importorskip("tensorboardX")
    second = SimpleNamespace(time=lambda: 1_800_000_000.0)  # all of it happens within one
    monkeypatch.setattr(tensorboard.event_file_writer, "time", second)
    monkeypatch.setenv("SAIL_WRITERS", "tensorboard")
    out = tmp_path / "run"
    assert main(["train", "probe-chain", "--out", str(out), "--quiet", *tiny_flags()]) == 0
    (out / "DONE").unlink()
    for newest in sorted((out / "checkpoints").iterdir())[-1:]:
        (newest / "meta.json").unlink()  # the last phase is to be done again
    assert main(["resume", str(out), "--quiet"]) == 0
    assert events(out / "tensorboard" / "seed0") == pytest.approx(expected(RunFolder(out), 0), rel=1e-6)


def test_weights_and_biases_has_what_the_run_folder_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    logged: list[tuple[int, dict[str, float]]] = []
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    log = wandb.sdk.wandb_run.Run.log

    def spy(self: Any, data: Any, step: Any = None, **more: Any) -> Any:
        logged.append((step, dict(data)))
        return log(self, data, step=step, **more)

    monkeypatch.setattr(wandb.sdk.wandb_run.Run, "log", spy)
    assert main(["train", "probe-chain", "--out", str(tmp_path / "run"), "--quiet", "--wandb", *tiny_flags()]) == 0
    run = RunFolder(tmp_path / "run")
    found = {(name, step): value for step, values in logged for name, value in values.items()}
    assert found == pytest.approx(expected(run, 0))
    assert list((run.path / "wandb").glob("offline-run-*"))


class FakeRun:
    """A run of a fake wandb."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments

    def log(self, values: dict[str, float], step: int) -> None:
        """Nobody looks."""

    def finish(self) -> None:
        """Nothing to end."""


def test_a_resumed_run_is_the_same_one_at_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[FakeRun] = []
    wandb = ModuleType("wandb")
    wandb.__spec__ = ModuleSpec("wandb", None)
    wandb.init = lambda **arguments: begun.append(FakeRun(**arguments)) or begun[-1]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setenv("SAIL_WRITERS", "wandb")
    for name in ("run", "other"):
        assert main(["train", "probe-chain", "--out", str(tmp_path / name), "--quiet", *tiny_flags()]) == 0
    (tmp_path / "run" / "DONE").unlink()
    assert main(["resume", str(tmp_path / "run"), "--quiet"]) == 0
    first, other, resumed = (run.arguments["id"] for run in begun)
    assert first == resumed != other and first.isalnum() and len(first) == 32
    assert all(run.arguments["resume"] == "allow" for run in begun)
    assert (tmp_path / "run" / "wandb-id.txt").read_text() == first + "\n"
    assert first not in (tmp_path / "run" / "config.yaml").read_text()


def test_numbers_are_what_can_be_drawn() -> None:
    row = {"seed": 0, "step": 9, "loss": 0.5, "eval_return": None, "updates": 3, "nan": float("nan"), "word": "x"}
    assert numbers(row) == {"loss": 0.5, "updates": 3.0}


def test_a_writer_that_is_not_there_is_said(capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SAIL_WRITERS", "tensorbord")
    assert main(["train", "kdt", "--out", str(tmp_path / "x")]) == 2
    assert "did you mean 'tensorboard'?" in capsys.readouterr().err and not (tmp_path / "x").exists()
    monkeypatch.setenv("SAIL_WRITERS", "")
    assert writer_names() == []
    monkeypatch.setattr("sail.integrations.writers.find_spec", lambda name: None)
    assert main(["train", "kdt", "--wandb", "--out", str(tmp_path / "x")]) == 2
    assert "pip install 'sail-rl[wandb]'" in capsys.readouterr().err
    assert json.dumps(writer_names()) == "[]"
