"""What comes after training in the host loop: evaluation, loading; and whole runs on Atari, and sail bench."""

from __future__ import annotations

import json
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from conftest import tiny_flags, tiny_overrides

import sail
from sail.config import Config, make_config
from sail.training import checkpoint
from sail.training.host import HostProgram

gymnasium = pytest.importorskip("gymnasium")

from host_envs import Counter  # noqa: E402
from host_training import Trained, assert_same_bits, last_bias, threads, tiny  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments


@pytest.fixture(scope="module")
def untrained() -> Trained:
    return Trained(tiny("Ragged", seed=20, seeds=2))


@pytest.mark.parametrize("episodes", (1, 5, 16, 37))
def test_evaluation_plays_so_many_episodes(untrained: Trained, episodes: int) -> None:
    program, params = untrained.program, untrained.state.learner.params
    scores = program.evaluate(params, 0, epsilon=0.5, episodes=episodes)
    assert len(scores) == 2  # one for each seed
    for one in scores:
        assert len(one.returns) == len(one.length) == episodes and one.success is None
        assert one.length.min() >= 5 and one.length.max() <= 60
        # n steps pay 3 or -0.5 each.
        ones = (one.returns + 0.5 * one.length) / 3.5
        np.testing.assert_allclose(ones, ones.round(), atol=1e-6)
        assert (ones >= 0).all() and (ones <= one.length).all()
    assert scores[0].length.tolist() != scores[1].length.tolist() and threads() == []
    again = program.evaluate(params, 0, epsilon=0.5, episodes=episodes)
    assert [one.returns.tolist() for one in again] == [one.returns.tolist() for one in scores]


@pytest.mark.parametrize(("steps", "num_envs"), [(1, 1), (500, 1), (3500, 3)])
def test_evaluation_plays_whole_episodes_until_so_many_steps(untrained: Trained, steps: int, num_envs: int) -> None:
    """Each environment its share, and then to the end of its episode, which is 60 steps away at most."""
    program, params = untrained.program, untrained.state.learner.params
    for one in program.evaluate(params, 0, epsilon=0.5, steps=steps):
        assert steps <= one.length.sum() < steps + num_envs + 60 * num_envs
        assert one.length.min() >= 5 and one.length.max() <= 60
        if num_envs == 1:
            assert one.length[:-1].sum() < steps


def test_success_is_gymnasiums() -> None:
    """The mean return has reached the threshold. A network that always says 1 gets 3 a step."""
    gymnasium.register("sail-host/Counter-v0", entry_point=Counter, reward_threshold=12.0)
    try:
        for lengths, solved in (((4,), True), ((3, 4), False), ((3, 5), True)):
            overrides = tiny_overrides(env={"kwargs": {"lengths": lengths}})
            program = HostProgram(make_config("gym:sail-host/Counter-v0", "dqn", overrides))
            zeros = jax.tree.map(lambda x: 0 * x, program.device.init().learner.params)
            params = eqx.tree_at(last_bias, zeros, last_bias(zeros).at[:, 1].set(1.0))
            scores = program.evaluate(params, 0, epsilon=0.0, episodes=4)[0]
            np.testing.assert_array_equal(scores.returns, 3 * scores.length)
            assert scores.success.tolist() == [solved] * 4, lengths
    finally:
        gymnasium.registry.pop("sail-host/Counter-v0")


# Loading --------------------------------------------------------------------------------------------------------------


def test_a_loaded_run_leaves_no_environments_behind(tmp_path: Path) -> None:
    run = sail.train_config(tiny(steps=400, seeds=2), out=tmp_path / "run")
    assert threads() == [] and run.done
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("processes: false", "processes: true"))
    before = threading.active_count()
    player = sail.load(run.path, seed=1)
    assert player.config.host_env.processes
    assert multiprocessing.active_children() == [] and threading.active_count() == before
    assert player.act(np.zeros(3, np.float32)) in (0, 1)
    result = player.evaluate(episodes=1)
    assert result["episodes"] == 2 and result["mean_length"] in (3, 4, 5)
    assert multiprocessing.active_children() == [] and threads() == []


# Atari ----------------------------------------------------------------------------------------------------------------


def tiny_atari(**changes: Any) -> Config:
    settings: dict[str, Any] = {
        "env": {"time_limit": 30},
        "agent": {"network": "mlp", "hidden": (4,)},
        "optimiser": {"name": "adam"},
        # Pictures are large, and a small minibatch takes as many turns as a large one.
        "learning": {"num_envs": 4, "starts": 100, "target_period": 100, "batch_size": 4},
        "replay": {"capacity": 300},
        "evaluation": {"period": 200, "episodes": 0},
    }
    return make_config("atari:Pong", "sail-dqn", tiny_overrides(steps=200, **(settings | changes)))


def test_a_tiny_atari_run_comes_to_its_end(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    config = tiny_atari()
    assert config.num_pools == 4
    run = sail.train_config(config, out=tmp_path / "run")
    # 5 for each block of 20 from step 100 on.
    assert [row["updates"] for row in run.metrics()] == [30]
    assert {row["length"] for row in run.episodes()} == {30} and len(run.episodes()) >= 3
    player = sail.load(run.path)
    assert player.q_values(np.zeros((4, 84, 84), np.uint8)).shape == (6,)
    assert player.evaluate(steps=100)["mean_length"] == 30
    saved, _, _ = checkpoint.load_newest(run.checkpoints, player.program.saved_like())
    assert np.asarray(saved.learner.optimiser[0].count).tolist() == [30]


def test_an_atari_run_does_the_same_again() -> None:
    """Emulators in four pools of two, in threads of their own, and a policy that chooses: bit for bit."""
    pytest.importorskip("ale_py")
    learning = {"num_envs": 8, "starts": 100, "target_period": 100, "batch_size": 4}
    env = {"sticky": 0.25, "time_limit": 50, "processes": 0}
    config = tiny_atari(learning=learning, exploration={"decay_steps": 100}, env=env)
    first, second = (Trained(config, 200, 200, 200) for _ in range(2))
    assert_same_bits(first.state._replace(key=None), second.state._replace(key=None))
    assert first.episodes == second.episodes and len(first.episodes) >= 8


@pytest.mark.parametrize("frames", ["device", "host"])
def test_bench_says_what_this_machine_can_do(tmp_path: Path, capsys: Any, frames: str) -> None:
    out = tmp_path / "bench.json"
    flags = tiny_flags(replay={"frames": frames}, seeds=2)
    arguments = ["bench", "gym:host_envs:Counter", "--seconds", "1", "--json", "--out", str(out), *flags]
    assert sail.cli.main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert json.loads(out.read_text()) == result
    limits = {"emulators": result["emulator_limit"], "learner": result["learner_limit"]}
    assert result["binds"] == min(limits, key=lambda name: limits[name]) and min(limits.values()) > 0
    assert result["achieved"] > 0 and abs(result["updates_per_second"] - result["achieved"] / 4) <= 1  # both rounded
    assert result["seeds"] == 2 and result["provenance"]["versions"]
    whole = result["round_ms"].pop("whole")
    assert list(result["round_ms"]) == ["waits_for_games", "waits_for_actions", "waits_for_updates"]
    assert 0 < sum(result["round_ms"].values()) <= whole
    assert threads() == []


def test_bench_of_a_compiled_environment_has_only_the_whole(tmp_path: Path, capsys: Any) -> None:
    flags = ["--agent.hidden", "8", "--seconds", "1", "--seeds", "2"]
    assert sail.cli.main(["bench", "probe-chain", "--json", *flags]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["achieved"] > 0 and result["emulator_limit"] is None and result["seeds"] == 2
    assert sail.cli.main(["bench", "probe-chain", *flags]) == 0
    assert "  training " in capsys.readouterr().out


def test_bench_writes_only_where_it_can(tmp_path: Path) -> None:
    assert sail.cli.main(["bench", "gym:CartPole-v1", "--out", str(tmp_path)]) == 2
