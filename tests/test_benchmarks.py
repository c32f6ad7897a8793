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
from sail.envs.atari_settings import AtariSettings
from sail.envs.settings import KeyDoorTreasureSettings

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import atari_race  # noqa: E402
import atari_speed  # noqa: E402
import emulators  # noqa: E402
import turns  # noqa: E402
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


# Atari on the CPU -----------------------------------------------------------------------------------------------------


def rates(frames, peak):
    keys = ("updates_per_second", "ms_per_update", "update_alone_ms", "start_seconds")
    return {"frames_per_second": frames, "peak_gib": peak, **dict.fromkeys(keys, 1.0)}


def test_the_cpu_comparison_takes_the_fastest_and_the_leanest_peer():
    rows = [
        atari_race.summarise("dqn", "", [rates(300, 1.0), rates(500, 1.2), rates(310, 1.1)]),
        atari_race.summarise("sb3", "", [rates(200, 6.0)]),
        atari_race.summarise("sb3-lean", "", [rates(100, 3.0)]),
    ]
    assert (rows[0]["frames_per_second"], rows[0]["peak_gib"]) == (310, 1.2)
    fastest, leanest = atari_race.compare(rows)
    assert "(sb3)" in fastest["against"] and "(sb3-lean)" in leanest["against"]
    assert (fastest["speed_ratio"], fastest["memory_ratio"]) == pytest.approx((1.55, 0.2))
    assert (leanest["speed_ratio"], leanest["memory_ratio"]) == pytest.approx((3.1, 0.4))
    assert atari_race.compare(rows[:1]) == []


def test_memory_is_that_of_all_processes_of_a_session(tmp_path):
    for pid, session, pages in ((10, 10, 5), (11, 10, 7), (12, 99, 1000)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", "1", "1", str(session), *["0"] * 17, str(pages), "0"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (odd ) name) {' '.join(fields)}\n")
    assert atari_race.session_rss(10, tmp_path) == 12 * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_a_session_that_exists_has_memory():
    assert atari_race.session_rss(os.getsid(0)) > 1_000_000


def test_the_ring_is_full_before_it_is_measured():
    pytest.importorskip("ale_py")
    from atari_peers import full

    from sail.training.host import HostProgram

    config = make_config("atari:Pong", "dqn", {"replay": {"capacity": 64}, "learning": {"num_envs": 2}})
    program = HostProgram(config)
    state = full(program.init())
    program.close()
    assert np.asarray(state.ring.size).tolist() == [[32, 32]]
    assert (np.asarray(state.ring.observation) != 0).mean() > 0.9


class Buffer:
    """The parts of Stable-Baselines3's replay buffer that are filled."""

    def __init__(self, lean):
        self.optimize_memory_usage, self.pos, self.full = lean, 3, False
        self.observations = np.zeros((50, 2, 4, 84, 84), np.uint8)
        if not lean:
            self.next_observations = np.zeros_like(self.observations)
        self.actions, self.rewards, self.dones, self.timeouts = (np.ones((50, 2)) for _ in range(4))


@pytest.mark.parametrize("lean", [False, True])
def test_the_peers_buffer_is_full_before_it_is_measured(lean):
    from atari_peers import fill

    buffer = Buffer(lean)
    fill(buffer)
    assert (buffer.pos, buffer.full) == (0, True)
    assert (buffer.observations != 0).mean(axis=(1, 2, 3, 4)).min() > 0.9
    assert buffer.dones.sum() == buffer.rewards.sum() == 0


def test_every_way_of_using_stable_baselines_makes_one_update_for_four_steps():
    config = atari_race.configure("dqn", "Pong", 100_000)
    from atari_peers import sb3_variants as atari_variants

    for variant in atari_variants(config).values():
        assert variant.steps_per_round % (4 * variant.num_envs) == 0 or variant.num_envs == 1
        assert variant.steps_per_round % 4 == 0
    assert (config.agent.network, config.agent.loss, config.optimiser.name) == ("nature", "huber", "adam")
    assert (config.learning.batch_size, config.learning.update_period) == (32, 4)
    assert (config.env.sticky, config.env.stack, config.env.noop_max) == (0.25, 4, 0)


def test_the_loop_in_pytorch_does_the_agreed_work():
    pytest.importorskip("ale_py")
    torch = pytest.importorskip("torch")
    from atari_torch import AtariLoop

    loop = AtariLoop(atari_race.configure("dqn", "Pong", 100), "cpu")
    seen = loop.observation.copy()
    before = [parameter.clone() for parameter in loop.network.parameters()]
    loop.run(12)
    assert (loop.steps, loop.updates) == (12, 3)
    np.testing.assert_array_equal(loop.observations[0], seen)
    assert loop.discounts[:12].tolist() == pytest.approx([0.99] * 12)
    assert (
        sum(parameter.numel() for parameter in loop.network.parameters()) == 1_687_206
    )  # the Nature network, 6 actions
    changed = [not torch.equal(a, b) for a, b in zip(before, loop.network.parameters(), strict=True)]
    assert all(changed)


def test_games_for_stable_baselines_end_as_it_expects():
    pytest.importorskip("ale_py")
    pytest.importorskip("stable_baselines3")
    from atari_torch import sb3_games

    games = sb3_games(AtariSettings(name="atari:Pong", time_limit=5), 2)
    assert games.reset().shape == (2, 4, 84, 84)
    for _ in range(5):
        observation, reward, done, infos = games.step(np.zeros(2, int))
    assert done.all() and reward.dtype == np.float32
    assert infos[0]["TimeLimit.truncated"] and infos[0]["terminal_observation"].shape == (4, 84, 84)
    assert not np.array_equal(infos[0]["terminal_observation"], observation[0])


# Atari speed ----------------------------------------------------------------------------------------------------------


def test_emulators_play_with_small_screens_and_in_colours(monkeypatch, tmp_path):
    pytest.importorskip("ale_py")
    monkeypatch.setattr(emulators, "STARTUP_SECONDS", 0.0)
    assert emulators.play("atari:Pong", "small", 0.0, 0.2) > 0
    monkeypatch.setattr(sys, "argv", ["emulators.py", "--processes", "1", "--seconds", "1", "--rounds", "1"])
    sys.argv += ["--out", str(tmp_path / "found.json")]
    emulators.main()
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["command"] == "emulators.py --processes 1 --seconds 1 --rounds 1" and found["versions"]["jax"]
    (row,) = found["results"]
    assert row["processes"] == 1 and row["small"][0] > 0
    assert row["colours_to_small"] == round(row["colours"][0] / row["small"][0], 3)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks the system about processes")
def test_turns_are_measured_for_every_delay(monkeypatch, tmp_path):
    pytest.importorskip("ale_py")
    monkeypatch.setattr(sys, "argv", ["turns.py", "--games", "6", "--delays", "0,200", "--seconds", "1"])
    sys.argv += ["--rounds", "1", "--out", str(tmp_path / "found.json")]
    turns.main()
    soon, late = json.loads((tmp_path / "found.json").read_text())["results"]
    assert (soon["delay_ms"], late["delay_ms"]) == (0, 200)
    assert soon["frames_per_second"][0] > 0 and soon["cores_busy"] > 0
    # Three pools of two games that play once in 200 ms at most, and a round that ends after the second is over.
    assert late["frames_per_second"][0] <= (3 * 2 * 4) * (1.2 / 0.2 + 1)


@pytest.mark.parametrize(
    ("benchmark", "arguments", "sentence"),
    [
        (emulators, ["--game", "Pongg"], "did you mean 'Pong'?"),
        (emulators, ["--processes", "0"], "must be a whole number of at least 1, not '0'"),
        (emulators, ["--out", "nowhere/found.json"], "There is no folder nowhere to write to."),
        (turns, ["--game", "Pongg"], "did you mean 'Pong'?"),
        (turns, ["--games", "8"], "--games must be a multiple of --pools, not 8 in 3."),
        (turns, ["--delays", "0,-1"], "must be milliseconds like 0,1.5,3, not '0,-1'"),
        (turns, ["--delays", "soon"], "must be milliseconds like 0,1.5,3, not 'soon'"),
        (turns, ["--out", "nowhere/found.json"], "There is no folder nowhere to write to."),
    ],
)
def test_emulators_are_not_begun_in_vain(benchmark, arguments, sentence, monkeypatch, capsys):
    pytest.importorskip("ale_py")
    monkeypatch.setattr(sys, "argv", [f"{benchmark.__name__}.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 2 and sentence in capsys.readouterr().err


def test_the_prototypes_rate_is_the_best_after_its_first_line():
    lines = [
        "  20 s    0.42M frames  90,000 frames/s  episodes 0  mean of last 100 0.0",
        "  40 s    1.60M frames    59012 frames/s  episodes 9  mean of last 100 -20.3",
        "something else",
        "  60 s    2.90M frames    66123 frames/s  episodes 30  mean of last 100 -20.1",
    ]
    assert atari_speed.prototype_rate(lines) == 66123
    assert atari_speed.prototype_rate(lines[:1]) is None
    assert atari_speed.result_of("prototype", lines[:1]) is None


def test_results_are_found_among_other_lines_and_compared():
    assert atari_speed.result_of("dqn", ["a warning", '{"achieved": 5}', ""]) == {"achieved": 5}
    assert atari_speed.result_of("dqn", ["a warning"]) is None
    found = {"sail-dqn": {"achieved": 90}, "dqn": {"achieved": 100}, "prototype": {"achieved": 60}}
    assert atari_speed.ratios(found) == {"sail-dqn to dqn": 0.9, "sail-dqn to the prototype": 1.5}
    assert atari_speed.device_slug("NVIDIA H200") == "h200" and atari_speed.device_slug("cpu") == "cpu"


def test_a_child_that_hangs_or_fails_is_told_from_one_that_ends():
    python = [sys.executable, "-u", "-c"]
    assert atari_speed.run_child([*python, "print(1); print(2)"], 60) == (["1", "2"], None)
    assert atari_speed.run_child([*python, "print(1); raise SystemExit(3)"], 60) == (["1"], "it ended with 3")
    lines, failure = atari_speed.run_child([*python, "import time; print(1); time.sleep(100)"], 3)
    assert lines == ["1"] and failure == "it ran past its limit of 3 s"
