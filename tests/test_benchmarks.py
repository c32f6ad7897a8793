"""The benchmark runs and says what it promises; how fast anything is, is no test's business."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sail.config import make_config
from sail.envs.settings import KeyDoorTreasureSettings

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from numpy_kdt import NumpyKeyDoorTreasure, check_same_rules, gymnasium_env  # noqa: E402
from peers import TorchLoop, sb3_variants, time_sb3  # noqa: E402

ODD_REWARDS = KeyDoorTreasureSettings(key_reward=0.25, door_reward=-0.5, treasure_reward=2.0, time_limit=17)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmark") / "report.json"
    command = [sys.executable, str(BENCHMARKS / "kdt_speed.py"), "--quick", "--only", "sail", "--json", str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done.stdout


def is_positive(number):
    return isinstance(number, float) and math.isfinite(number) and number > 0


def test_the_report_says_where_and_with_what_it_was_measured(report):
    found, _ = report
    assert {"started", "commit", "command", "versions", "hardware", "timing", "settings"} <= set(found)
    assert found["hardware"]["cores"] >= 1
    assert found["hardware"]["cpu"]
    assert found["versions"]["jax"]
    assert found["settings"]["optimiser"]["learning_rate"] == 1e-3
    assert found["settings"]["agent"]["hidden"] == [64, 64]
    assert (found["settings"]["learning"]["batch_size"], found["settings"]["learning"]["update_period"]) == (32, 4)


def test_every_contestant_has_a_rate(report):
    found, text = report
    assert [(row["agent"], row["seeds"]) for row in found["results"]] == [("dqn", 1), ("sail-dqn", 1), ("sail-dqn", 4)]
    for row in found["results"]:
        rate = row["steps_per_second"]
        assert is_positive(rate["median"])
        assert rate["min"] <= rate["median"] <= rate["max"]
        assert row["updates_per_second"] == pytest.approx(rate["median"] / 4)
        assert row["compile_seconds"] >= 0
        assert f"{rate['median']:,.0f}" in text


def test_the_overhead_and_the_targets_are_ratios(report):
    found, text = report
    (overhead,) = found["overhead"]
    assert len(overhead["ratios"]) == 2
    assert all(is_positive(ratio) for ratio in overhead["ratios"])
    assert is_positive(overhead["cpu_time_median"])
    assert overhead["quartiles"][0] <= overhead["median"] <= overhead["quartiles"][1]
    assert [target["at_least"] for target in found["targets"]] == [0.95, 1.3]
    for target in found["targets"]:
        assert is_positive(target["measured"])
        assert target["met"] == (target["measured"] >= target["at_least"])
        assert target["what"] in text


@pytest.mark.parametrize("settings", [KeyDoorTreasureSettings(), ODD_REWARDS])
def test_the_numpy_environment_is_the_jax_environment(settings):
    assert check_same_rules(NumpyKeyDoorTreasure(settings)) > 5000


class OpenDoor(NumpyKeyDoorTreasure):
    """Lets anyone through the door."""

    def step(self, action):
        had_key, self.has_key = self.has_key, True
        outcome = super().step(action)
        self.has_key = had_key or self.cell == self._key
        return self.observe(), *outcome[1:]


class LateEnd(NumpyKeyDoorTreasure):
    """Cuts off a step late."""

    def step(self, action):
        *outcome, _ = super().step(action)
        return *outcome, self.time > self.settings.time_limit


@pytest.mark.parametrize("wrong", [OpenDoor, LateEnd])
def test_a_wrong_numpy_environment_is_found_out(wrong):
    with pytest.raises(RuntimeError, match="differs from sail's at"):
        check_same_rules(wrong(ODD_REWARDS))


def test_settings_that_are_not_written_in_numpy_are_refused():
    with pytest.raises(ValueError, match="Only plain Key-Door-Treasure"):
        NumpyKeyDoorTreasure(KeyDoorTreasureSettings(slip=0.1))


@pytest.mark.skipif(importlib.util.find_spec("gymnasium") is None, reason="gymnasium is not installed")
def test_the_gymnasium_environment_is_the_numpy_environment():
    env, inner = gymnasium_env(ODD_REWARDS), NumpyKeyDoorTreasure(ODD_REWARDS)
    first, _ = env.reset(seed=0)
    assert env.observation_space.contains(first)
    np.testing.assert_array_equal(first, inner.reset())
    for action in np.random.default_rng(0).integers(0, env.action_space.n, 500):
        observation, *outcome, info = env.step(action)
        expected, *expected_outcome = inner.step(int(action))
        np.testing.assert_array_equal(observation, expected)
        assert outcome == expected_outcome
        assert info == {}
        if any(outcome[1:]):
            np.testing.assert_array_equal(env.reset()[0], inner.reset())


@pytest.mark.skipif(importlib.util.find_spec("stable_baselines3") is None, reason="stable-baselines3 is not installed")
@pytest.mark.parametrize("variant", range(3))
def test_stable_baselines_makes_one_update_for_every_four_steps(variant):
    config = make_config("kdt", "dqn", {"learning": {"starts": 200}})
    timing = time_sb3(config, sb3_variants(config)[variant], threads=1, seconds=0.01)
    assert timing.updates * 4 == timing.steps > 0


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_torch_loop_knows_the_returns_of_the_episodes_that_ended():
    config = make_config("kdt", "sail-dqn", {"env": {"time_limit": 10}, "learning": {"starts": 100}})
    loop = TorchLoop(config)
    loop.env._start = loop.env._treasure + 2  # so near that random walks find it
    loop.observation = loop.env.reset()
    loop.run(403)
    assert loop.updates == 75
    finished = loop.returns[: loop.episode_began]
    ends = (loop.discounts[: loop.episode_began] == 0) & (loop.rewards[: loop.episode_began] == 1)
    assert ends.sum() > 3
    np.testing.assert_array_equal(finished[ends], 1.0)
    before = np.flatnonzero(ends) - 1
    np.testing.assert_allclose(finished[before], 0.99, rtol=1e-6)
    assert np.isneginf(loop.returns[loop.episode_began : loop.steps]).all()
