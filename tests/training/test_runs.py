"""Runs on disk: what is in the folder, and that no kill, damage or bad loss costs more than it must."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import tiny_flags, tiny_overrides
from hypothesis import given, settings
from hypothesis import strategies as st

import sail
from sail.training import checkpoint
from sail.training.loop import InterruptedTrainingError
from sail.training.reporting import Silent
from sail.training.run_folder import RunFolder

Train = Callable[..., RunFolder]


def final_state(run: RunFolder) -> bytes:
    newest = checkpoint.list_checkpoints(run.checkpoints)[-1]
    return (newest / "state.safetensors").read_bytes()


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def sail_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sail", *arguments]


class StopAt(Silent):
    """Interrupts its own process (as Ctrl-C would) once a phase is logged."""

    def __init__(self, step: int) -> None:
        self.at = step

    def phase(self, rows: list[dict[str, Any]]) -> None:
        if rows[0]["step"] == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def test_the_run_folder_has_what_the_design_says(train_tiny: Train) -> None:
    run = train_tiny(seeds=2, seed=3)
    names = {path.name for path in run.path.iterdir() if not path.name.startswith(".")}
    assert names == {"config.yaml", "metrics.jsonl", "episodes.jsonl", "checkpoints", "route.json", "DONE"}
    tree = yaml.safe_load((run.path / "config.yaml").read_text())
    provenance = tree.pop("provenance")
    assert {"started", "command", "commit", "versions", "hardware"} <= provenance.keys()
    assert provenance["versions"]["jax"] and provenance["hardware"]["cores"] >= 1
    assert sail.config.config_from_tree(tree) == run.config  # every setting is in the file
    rows = run.metrics()
    assert [(row["step"], row["seed"]) for row in rows] == [
        (s, seed) for s in (400, 800, 1200, 1600) for seed in (3, 4)
    ]
    needed = {"loss", "bonus", "advantage_part", "imitation_part", "active_share", "known_share", "stale_share"}
    needed |= {"action_gap", "max_q", "eval_return", "train_return", "epsilon", "updates"}
    assert all(needed <= row.keys() and all(row[name] is not None for name in needed) for row in rows[2:])
    for row in rows:
        assert row["bonus"] == pytest.approx(row["advantage_part"] + row["imitation_part"], abs=1e-6)
    summary = run.summary()
    assert summary is not None and summary["steps"] == 1600 and summary["seeds"] == 2
    # Every finished episode is logged: 1600 steps of 100 each, for two seeds, or more if some ended early.
    episodes = run.episodes()
    assert len(episodes) >= 32 and {row["seed"] for row in episodes} == {3, 4}
    assert [row["step"] for row in episodes] == sorted(row["step"] for row in episodes)
    for row in rows:
        mine = [e for e in episodes if e["seed"] == row["seed"] and row["step"] - 400 < e["step"] <= row["step"]]
        assert row["episodes"] == len(mine)


def test_config_yaml_alone_reproduces_the_run(train_tiny: Train, tmp_path: Path) -> None:
    run = train_tiny(env={"slip": 0.25, "random_start_moves": 3})
    again = sail.train_config(RunFolder(run.path).config, out=tmp_path / "again")
    assert final_state(run) == final_state(again)
    assert untimed(run.metrics()) == untimed(again.metrics())
    assert run.episodes() == again.episodes()


@pytest.mark.parametrize("seeds", [1, 2])
def test_an_interrupted_run_resumes_to_the_same_bits(train_tiny: Train, tmp_path: Path, seeds: int) -> None:
    whole = train_tiny(seeds=seeds)
    config = sail.make_config("kdt", "sail-dqn", tiny_overrides(seeds=seeds))
    out = tmp_path / "cut"
    with pytest.raises(InterruptedTrainingError, match="sail resume"):
        sail.train_config(config, out=out, reporter=StopAt(800))
    assert not (out / "DONE").exists()
    run = sail.resume(out)
    assert final_state(run) == final_state(whole)
    assert untimed(run.metrics()) == untimed(whole.metrics())
    assert run.episodes() == whole.episodes()
    with pytest.raises(sail.BadInputError, match="finished"):
        sail.resume(out)


@pytest.mark.parametrize("step", [800, 1600])
def test_a_run_that_is_stopped_when_a_phase_has_ended_does_not_evaluate_first(
    train_tiny: Train, tmp_path: Path, step: int
) -> None:
    """An evaluation may take minutes, and whoever stops a run may not have them."""

    class StopThere(Silent):
        def advanced(self, at: int) -> None:
            if at == step:
                os.kill(os.getpid(), signal.SIGINT)

    whole, out = train_tiny(), tmp_path / "cut"
    with pytest.raises(InterruptedTrainingError, match=f"step {step:,}"):
        sail.train_config(sail.make_config("kdt", "sail-dqn", tiny_overrides()), out=out, reporter=StopThere())
    assert all(row["step"] < step for row in RunFolder(out).metrics())
    run = sail.resume(out)
    assert final_state(run) == final_state(whole)
    assert untimed(run.metrics()) == untimed(whole.metrics())


def test_kill_9_loses_at_most_the_time_since_the_last_checkpoint(train_tiny: Train, tmp_path: Path) -> None:
    flags = tiny_flags(steps=16_000)
    whole = train_tiny(steps=16_000)
    out = tmp_path / "killed"
    kills = 0
    command = sail_command("train", "kdt", "--out", str(out), *flags)
    while not (out / "DONE").exists():
        seen = len(checkpoint.list_checkpoints(out / "checkpoints"))
        newest = max([int(p.name) for p in checkpoint.list_checkpoints(out / "checkpoints")], default=0)
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        while process.poll() is None and kills < 3:
            now = max([int(p.name) for p in checkpoint.list_checkpoints(out / "checkpoints")], default=0)
            if now > newest + 1200 * kills:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.001)
        _, error = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), error
        if process.returncode == -signal.SIGKILL:
            assert len(checkpoint.list_checkpoints(out / "checkpoints")) >= min(seen, 1)
        command = sail_command("resume", str(out))
    assert kills == 3
    run = RunFolder(out)
    assert final_state(run) == final_state(whole)
    assert untimed(run.metrics()) == untimed(whole.metrics())
    assert run.episodes() == whole.episodes()


def test_a_run_killed_before_its_first_checkpoint_begins_anew(train_tiny: Train) -> None:
    run = train_tiny(steps=800)
    whole, episodes = untimed(run.metrics()), run.episodes()
    state = final_state(run)
    shutil.rmtree(run.checkpoints)
    (run.path / "DONE").unlink()
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 12')  # what a kill in the middle of a line leaves
    resumed = sail.resume(run.path)
    assert untimed(resumed.metrics()) == whole and resumed.episodes() == episodes
    assert final_state(resumed) == state


def test_a_truncated_checkpoint_falls_back_to_the_one_before(train_tiny: Train, capsys: Any) -> None:
    run = train_tiny()
    older, newest = checkpoint.list_checkpoints(run.checkpoints)
    digest = hashlib.sha256(final_state(run)).hexdigest()
    state = newest / "state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    player = sail.load(run.path)
    assert player.step == int(older.name) == 1200
    assert len(player.notes) == 1 and newest.name in player.notes[0] and "falling back" in player.notes[0]
    assert sail.cli.main(["eval", str(run.path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["step"] == 1200
    assert "falling back" in err
    # And a resume goes on from there, to the same bits.
    copy = run.path.parent / "copy"
    shutil.copytree(run.path, copy)
    (copy / "DONE").unlink()
    resumed = sail.resume(copy)
    assert untimed(resumed.metrics()) == untimed(run.metrics())
    assert resumed.episodes() == run.episodes()
    assert hashlib.sha256(final_state(resumed)).hexdigest() == digest


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: (c / "meta.json").unlink(),
        lambda c: (c / "meta.json").write_text("{"),
        lambda c: (c / "meta.json").write_text("[1]"),
        lambda c: (c / "state.safetensors").write_bytes(b""),
        lambda c: (c / "state.safetensors").unlink(),
        lambda c: flip_a_bit(c / "state.safetensors"),
    ],
)
def test_any_damage_is_seen(train_tiny: Train, damage: Callable[[Path], Any]) -> None:
    run = train_tiny(steps=800)
    older, newest = checkpoint.list_checkpoints(run.checkpoints)
    damage(newest)
    assert sail.load(run.path).step == int(older.name)
    damage(older)
    with pytest.raises(sail.BadInputError, match="no usable checkpoint"):
        sail.load(run.path)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_a_checkpoint_of_other_settings_is_refused(train_tiny: Train) -> None:
    run = train_tiny(steps=800)
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("- 16\n", "- 17\n"))
    with pytest.raises(sail.BadInputError, match="does not fit"):
        sail.load(run.path)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, capsys: Any
) -> None:
    """A learning rate this large makes the squared loss overflow within a few updates, after a good start."""
    out = tmp_path / "bad"
    flags = tiny_flags(agent={"loss": "squared"}, optimiser={"learning_rate": 1e30}, learning={"starts": 1000})
    assert sail.cli.main(["train", "kdt", "--out", str(out), *flags]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "not finite at step 1,2" in error or "not finite at step 1,0" in error or "not finite at step 1,1" in error
    assert "last good checkpoint is that of step 800" in error
    assert not (out / "DONE").exists()
    assert sail.load(out).step == 800
    assert [row["step"] for row in RunFolder(out).metrics()] == [400, 800]


def test_a_network_that_is_not_finite_is_never_saved(tmp_path: Path) -> None:
    """One update a phase, the first at step 800: its loss is finite, and what it makes of the network is not."""
    changes: dict[str, Any] = {
        "optimiser": {"learning_rate": 1e39},
        "learning": {"num_envs": 4, "starts": 800, "update_period": 400, "target_period": 400, "max_block": 400},
        "replay": {"capacity": 4000},
    }
    config = sail.make_config("kdt", "dqn", tiny_overrides(**changes))
    assert config.block_steps == 400
    with pytest.raises(
        sail.TrainingError, match=r"network of seed 0 is not finite at step 800.*checkpoint is that of step 400"
    ):
        sail.train_config(config, out=tmp_path / "run")
    assert sail.load(tmp_path / "run").step == 400


def test_what_does_not_fit_into_memory_leaves_no_folder(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "run"
    assert sail.cli.main(["train", "kdt", "--seeds", "1000", "--replay.capacity", "2000000000", "--out", str(out)]) == 1
    error = capsys.readouterr().err.strip()
    assert error.startswith("sail: The device could not run this") and "\n" not in error
    assert not out.exists()


def test_two_processes_do_not_train_into_one_folder(train_tiny: Train) -> None:
    run = train_tiny(steps=800)
    (run.path / "DONE").unlink()
    holder = RunFolder(run.path)
    holder.lock()
    try:
        with pytest.raises(sail.BadInputError, match="another process"):
            sail.resume(run.path)
    finally:
        holder.unlock()


def test_half_a_last_line_is_dropped(train_tiny: Train) -> None:
    run = train_tiny(steps=800)
    rows = run.metrics()
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 12')
    assert RunFolder(run.path).metrics() == rows


def test_a_loaded_agent_plays(train_tiny: Train) -> None:
    run = train_tiny(seeds=2)
    player = sail.load(run, seed=1)
    observation = np.zeros(player.program.env.observation_shape, np.uint8)
    values = player.q_values(observation)
    assert values.shape == (4,)
    assert player.act(observation) == values.argmax()
    assert player.q_values(np.stack([observation] * 3)).shape == (3, 4)
    with pytest.raises(sail.BadInputError, match="one observation, not 3"):
        player.act(np.stack([observation] * 3))
    assert not np.array_equal(values, sail.load(run, seed=0).q_values(observation))
    with pytest.raises(sail.BadInputError, match="shape"):
        player.act(np.zeros(3))
    with pytest.raises(sail.BadInputError, match="seeds 0 to 1"):
        sail.load(run, seed=2)
    result = player.evaluate(episodes=5, epsilon=1.0)
    assert result["episodes"] == 10 and result["epsilon"] == 1.0
    assert result["mean_length"] <= 100


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    arrays=st.dictionaries(
        st.sampled_from("abcdef"),
        st.sampled_from(
            [np.float32(1.5), np.zeros((2, 0), np.int8), np.array([True, False]), np.arange(6).reshape(2, 3)]
        ),
        min_size=1,
    ),
    step=st.integers(0, 10**11),
)
def test_checkpoints_give_back_what_they_were_given(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Any], step: int
) -> None:
    import jax
    import jax.numpy as jnp

    folder = tmp_path_factory.mktemp("checkpoints")
    state = {
        "arrays": {k: jnp.asarray(v) for k, v in arrays.items()},
        "key": jax.random.split(jax.random.key(step % 97), 3),
    }
    checkpoint.save_checkpoint(folder, step, state, {"more": 1}, keep=1)
    loaded, meta, notes = checkpoint.load_newest(folder, jax.eval_shape(lambda: state))
    assert meta["step"] == step and meta["more"] == 1 and not notes
    assert jax.tree.structure(loaded) == jax.tree.structure(state)
    np.testing.assert_array_equal(jax.random.key_data(loaded["key"]), jax.random.key_data(state["key"]))
    for name, array in state["arrays"].items():
        np.testing.assert_array_equal(loaded["arrays"][name], array)
        assert loaded["arrays"][name].dtype == array.dtype
