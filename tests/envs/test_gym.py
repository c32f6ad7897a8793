"""GymEnv against hand-worked episodes and single Gymnasium environments, and what it says when something breaks."""

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sail.envs import gym, gym_making
from sail.envs.gym import GymEnv
from sail.envs.gym_settings import GymSettings
from sail.errors import BadInputError, TrainingError

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces
AutoresetMode = gymnasium.vector.AutoresetMode

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments below
MODES = ("next", "same", "disabled")


def length_of(lengths, lane: int, episode: int) -> int:
    return lengths[(lane + episode) % len(lengths)]


class Counter(gymnasium.Env):
    """Observes its lane (its first seed), episode and step; even episodes terminate and odd ones are truncated."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}  # noqa: RUF012
    observation_space = spaces.Box(0, 1e6, (3,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, lengths=(3,), render_mode=None):
        self.lengths, self.render_mode, self.lane, self.episode = lengths, render_mode, 0, -1

    def seen(self):
        return np.array([self.lane, self.episode, self.time], np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.lane, self.episode = seed, -1
        self.episode, self.time = self.episode + 1, 0
        return self.seen(), {}

    def step(self, action):
        self.time += 1
        ends = self.time == length_of(self.lengths, self.lane, self.episode)
        odd = self.episode % 2 == 1
        return self.seen(), 100.0 * action + self.time, ends and not odd, ends and odd, {}

    def render(self):
        return np.full((4, 5, 3), self.time, np.uint8)


class OwnVector(gymnasium.vector.VectorEnv):
    """Many Counters as one environment of its own, which says `final_obs` as one array."""

    def __init__(self, num_envs, lengths=(3,), mode="Disabled"):
        self.metadata = {"autoreset_mode": AutoresetMode(mode)} if mode else {}
        self.num_envs = num_envs
        self.envs = [Counter(lengths) for _ in range(num_envs)]
        self.single_observation_space, self.single_action_space = Counter.observation_space, Counter.action_space

    def reset(self, *, seed=None, options=None):
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        assert chosen.any()
        for i in np.flatnonzero(chosen):
            self.envs[i].reset(seed=None if seed is None else seed + int(i))
        seen = np.stack([env.seen() for env in self.envs])
        seen[~chosen] = np.nan  # must not be looked at
        return seen, {}

    def step(self, actions):
        seen, reward, terminated, truncated, _ = map(
            np.array, zip(*(env.step(a) for env, a in zip(self.envs, actions, strict=True)), strict=True)
        )
        info, ended = {}, terminated | truncated
        if self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP and ended.any():
            info = {"final_obs": np.where(ended[:, None], seen, np.nan), "_final_obs": ended}
            for i in np.flatnonzero(ended):
                seen[i] = self.envs[i].reset()[0]
        return seen, reward, terminated, truncated, info


gymnasium.register("sail-tests/OwnVector-v0", entry_point=None, vector_entry_point=OwnVector)
gymnasium.register("sail-tests/Counter-v0", entry_point=Counter, max_episode_steps=2, reward_threshold=7.0)


class Odd(Exception):
    """One that cannot pass between processes."""

    def __init__(self, what, why):
        super().__init__(f"{what}, {why}")


class Broken(Counter):
    """Does one thing wrong, at one step."""

    def __init__(self, how, at=1, lengths=(10**6,)):
        super().__init__(lengths)
        self.how, self.at = how, at
        if how == "construct":
            raise RuntimeError("no licence")

    def reset(self, *, seed=None, options=None):
        if self.how == "reset" and self.episode >= 0:
            raise KeyError("seed")
        return super().reset(seed=seed)

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        if self.time == self.at:
            if self.how == "raise":
                raise Odd("out of memory", "again")
            if self.how == "hang":
                time.sleep(30)
            if self.how == "exit":
                os._exit(3)
            seen = {"shape": np.zeros(7), "blind": seen * np.nan}.get(self.how, seen)
            reward = {"nan": np.nan, "huge": 1e300}.get(self.how, reward)
            terminated = truncated = self.how == "both"
        return seen, reward, terminated, truncated, info


class Spaced(gymnasium.Env):
    """Has the spaces it is told to have."""

    def __init__(self, observation_space=None, action_space=None):
        self.observation_space = observation_space or spaces.Box(0, 1, (2,), np.float32)
        self.action_space = action_space or spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), float(action), False, False, {}


def minigrid_image():
    from minigrid.wrappers import ImgObsWrapper

    return ImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))


def make(what="Counter", num_envs=1, render_mode=None, autoreset="next", **changes):
    name = what if what.startswith("gym:") else f"gym:{__name__}:{what}"
    return GymEnv(GymSettings(name=name, **changes), num_envs, render_mode=render_mode, autoreset=autoreset)


def spaced(**kwargs):
    return make("Spaced", num_envs=2, kwargs=kwargs)


def act(observation) -> int:
    """The same action for the same observation, in every way of delivering it."""
    return int(np.abs(observation).sum() * 1001) % 2


def transitions(env, seed: int, steps: int):
    """What each environment went through: (observation, action, reward, terminated, truncated, next observation)."""
    streams = [[] for _ in range(env.num_envs)]
    env.reset(seed)
    rows = env.recv()
    assert rows.begins.all() and not rows.stepped.any() and not (rows.terminated | rows.truncated).any()
    while min(map(len, streams)) < steps:
        before = rows.observation
        actions = np.array([act(observation) for observation in before])
        must_reset = (rows.terminated | rows.truncated) & (not env.resets_within_step)
        env.send(actions)
        rows = env.recv()
        ended = rows.terminated | rows.truncated
        assert rows.env.tolist() == list(range(env.num_envs)) and not (rows.terminated & rows.truncated).any()
        assert rows.reward.dtype == np.float32 and rows.observation.dtype == env.observation_dtype
        assert (rows.closing is not None) == env.resets_within_step
        assert (rows.begins == (ended if env.resets_within_step else must_reset)).all()
        assert (rows.stepped == ~must_reset).all() and not rows.reward[must_reset].any()
        after = rows.observation if rows.closing is None else np.where(ended[:, None], rows.closing, rows.observation)
        for i in np.flatnonzero(rows.stepped):
            ends = bool(rows.terminated[i]), bool(rows.truncated[i])
            streams[i].append((before[i].tolist(), int(actions[i]), float(rows.reward[i]), *ends, after[i].tolist()))
    env.close()
    return [stream[:steps] for stream in streams]


def counted(lengths, lane: int, steps: int):
    """What a Counter goes through."""

    def steps_of_all_episodes():
        for episode in count():
            length = length_of(lengths, lane, episode)
            for now in range(length):
                ends, odd = now + 1 == length, episode % 2 == 1
                before = [float(lane), float(episode), float(now)]
                reward = 100.0 * act(before) + now + 1
                yield before, act(before), reward, ends and not odd, ends and odd, [*before[:2], now + 1.0]

    return list(islice(steps_of_all_episodes(), steps))


@pytest.mark.parametrize("autoreset", MODES)
def test_transitions_worked_by_hand(autoreset):
    first, second = transitions(make(num_envs=2, autoreset=autoreset, kwargs={"lengths": [2, 1]}), seed=0, steps=4)
    assert first == [
        ([0, 0, 0], 0, 1.0, False, False, [0, 0, 1]),
        ([0, 0, 1], 1, 102.0, True, False, [0, 0, 2]),
        ([0, 1, 0], 1, 101.0, False, True, [0, 1, 1]),
        ([0, 2, 0], 0, 1.0, False, False, [0, 2, 1]),
    ]
    assert second == [
        ([1, 0, 0], 1, 101.0, True, False, [1, 0, 1]),
        ([1, 1, 0], 0, 1.0, False, False, [1, 1, 1]),
        ([1, 1, 1], 1, 102.0, False, True, [1, 1, 2]),
        ([1, 2, 0], 1, 101.0, True, False, [1, 2, 1]),
    ]


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4), num_envs=st.integers(1, 3), seed=st.integers(0, 99))
def test_every_way_of_resetting_gives_the_same_transitions(lengths, num_envs, seed):
    expected = [counted(lengths, seed + i, steps=20) for i in range(num_envs)]
    for autoreset in MODES:
        env = make(num_envs=num_envs, autoreset=autoreset, kwargs={"lengths": lengths})
        assert transitions(env, seed, steps=20) == expected
    for mode in ("SameStep", "Disabled"):
        own = make("gym:sail-tests/OwnVector-v0", num_envs, kwargs={"lengths": lengths, "mode": mode})
        assert own.resets_within_step
        assert transitions(own, seed, steps=20) == expected


@pytest.mark.parametrize("autoreset", MODES)
def test_processes_give_the_same_transitions(autoreset):
    env = make(num_envs=2, autoreset=autoreset, processes=True, kwargs={"lengths": [2, 1, 3]})
    assert transitions(env, seed=5, steps=20) == [counted([2, 1, 3], 5 + i, steps=20) for i in range(2)]


@pytest.mark.parametrize(("autoreset", "processes"), [("next", False), ("same", False), ("next", True)])
def test_cart_pole_is_gymnasiums(autoreset, processes):
    env = make("gym:CartPole-v1", num_envs=2, autoreset=autoreset, processes=processes)
    assert (env.num_actions, env.observation_shape, env.max_episode_steps, env.reward_threshold) == (2, (4,), 500, 475)
    for i, stream in enumerate(transitions(env, seed=7, steps=100)):
        single = gymnasium.make("CartPole-v1")
        observation, _ = single.reset(seed=7 + i)
        for before, action, reward, terminated, truncated, after in stream:
            assert before == observation.tolist()
            observation, *outcome, _ = single.step(action)
            assert [reward, terminated, truncated] == outcome and after == observation.tolist()
            if terminated or truncated:
                observation, _ = single.reset()
        assert any(transition[3] for transition in stream)


def test_a_second_reset_begins_anew():
    for processes in (False, True):
        env = make(num_envs=2, processes=processes, kwargs={"lengths": [1]})
        for sent in (False, True):
            env.reset(3)
            if sent:  # and its answer is never asked for
                env.recv()
                env.send(np.zeros(2, int))
            env.reset(8)
            rows = env.recv()
            assert rows.begins.all() and rows.observation.tolist() == [[8, 0, 0], [9, 0, 0]]
            env.send(np.zeros(2, int))
            assert env.recv().terminated.all()
        env.close()


def test_time_limits_are_truncations():
    for env, limit in (
        (make(kwargs={"lengths": [50]}, time_limit=4), 4),
        (make("gym:sail-tests/Counter-v0", kwargs={"lengths": [50]}), 2),
        (make("gym:sail-tests/Counter-v0", kwargs={"lengths": [50]}, time_limit=5), 5),
        (make("gym:CartPole-v1", time_limit=3), 3),
    ):
        assert env.max_episode_steps == limit
        (stream,) = transitions(env, seed=0, steps=3 * limit)
        assert [truncated for *_, truncated, _ in stream] == ([False] * (limit - 1) + [True]) * 3
        assert not any(terminated for *_, terminated, _, _ in stream)
    assert make().max_episode_steps is None and make().reward_threshold is None


def test_a_real_end_at_the_time_limit_is_a_real_end():
    for env in (make("Broken", kwargs={"how": "both"}), make(kwargs={"lengths": [4]}, time_limit=4)):
        ends = [transition[3:5] for transition in transitions(env, 0, steps=4)[0] if any(transition[3:5])]
        assert ends == [(True, False)] * len(ends) and ends


def test_actions_are_counted_from_the_first():
    env = spaced(action_space=spaces.Discrete(3, start=-1))
    env.reset(0)
    env.recv()
    env.send(np.array([0, 2]))
    assert env.num_actions == 3 and env.recv().reward.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("actions", "said"),
    [([0, 2], "not 2"), ([-1, 0], "not -1"), ([0], r"\[1\]"), ([0.0, 1.0], "float64"), ([[0], [0]], r"\[2, 1\]")],
)
def test_wrong_actions_are_refused_and_harm_nothing(actions, said):
    env = make(num_envs=2)
    env.reset(0)
    env.recv()
    with pytest.raises(BadInputError, match=said):
        env.send(np.array(actions))
    env.send(np.array([0, 1]))
    assert env.recv().reward.tolist() == [1, 101]


def test_recv_and_send_take_turns():
    env = make()
    with pytest.raises(RuntimeError, match="recv must follow"):
        env.recv()
    env.reset(0)
    with pytest.raises(RuntimeError, match="send must follow"):
        env.send(np.array([0]))


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (spaces.Box(0, 255, (8, 9, 3), np.uint8), (3, 8, 9), np.uint8),
        (spaces.Box(0, 255, (8, 9, 1), np.uint8), (1, 8, 9), np.uint8),
        (spaces.Box(0, 255, (4, 8, 9), np.uint8), (4, 8, 9), np.uint8),
        (spaces.Box(0, 255, (3, 8, 3), np.uint8), (3, 8, 3), np.uint8),
        (spaces.Box(0, 255, (8, 9), np.uint8), (1, 8, 9), np.uint8),
        (spaces.Box(0, 255, (8,), np.uint8), (8,), np.uint8),
        (spaces.Box(-5, 5, (8, 9, 3), np.float64), (8, 9, 3), np.float32),
        (spaces.Box(-5, 5, (2, 3), np.int64), (2, 3), np.float32),
        (spaces.Box(-5, 5, (), np.float32), (1,), np.float32),
        (spaces.Box(0, 1, (4,), np.bool_), (4,), np.uint8),
        (spaces.MultiBinary(5), (5,), np.uint8),
        (spaces.Discrete(4, start=3), (4,), np.float32),
    ],
    ids=str,
)
def test_spaces(space, shape, dtype):
    env = spaced(observation_space=space)
    env.reset(2)
    first = env.recv().observation
    assert env.observation_shape == shape and env.observation_dtype == dtype
    assert first.shape == (2, *shape) and first.dtype == dtype and first.flags.c_contiguous
    kept = first.copy()
    space.seed(3)
    sample = space.sample()
    if isinstance(space, spaces.Discrete):
        expected = np.arange(3, 7) == sample
    elif sample.shape[-1:] in ((1,), (3,)) and shape[1:] == sample.shape[:2]:
        expected = np.moveaxis(sample, 2, 0)
    else:
        expected = np.reshape(sample, shape)
    np.testing.assert_array_equal(first[1], expected.astype(dtype))
    for _ in range(3):
        env.send(np.zeros(2, int))
        env.recv()
    np.testing.assert_array_equal(first, kept)  # later steps do not write over it


def test_frozen_lake_without_ice():
    env = make("gym:FrozenLake-v1", kwargs={"is_slippery": "false", "map_name": "4x4"})
    env.reset(0)
    seen = [env.recv()]
    for action in (1, 1, 2, 1, 2, 2):  # down, down, right, down, right, right
        env.send(np.array([action]))
        seen.append(env.recv())
    assert [int(rows.observation.argmax()) for rows in seen] == [0, 4, 8, 9, 13, 14, 15]
    assert seen[-1].terminated.all() and [float(rows.reward[0]) for rows in seen] == [0] * 6 + [1]


def test_a_module_is_imported_first():
    pytest.importorskip("minigrid")
    with pytest.raises(BadInputError, match=r"observes a Dict.*ImgObsWrapper"):
        make("gym:minigrid:MiniGrid-Empty-5x5-v0")
    with pytest.raises(BadInputError, match="did you mean 'gym:minigrid:MiniGrid-Empty-5x5-v0'"):
        make("gym:minigrid:MiniGrid-Emty-5x5-v0")
    env = make("minigrid_image", num_envs=2)
    env.reset(0)
    assert env.recv().observation.shape == (2, 3, 7, 7) and env.num_actions == 7
    env.close()


@pytest.mark.parametrize(
    ("name", "kwargs", "said"),
    [
        ("gym:CartPoll-v1", {}, "There is no environment 'gym:CartPoll-v1': did you mean 'gym:CartPole-v1'"),
        ("gym:cartpole-v1", {}, "did you mean 'gym:CartPole-v1'"),
        ("gym:zzzzzz", {}, "gym:package:ID imports a package"),
        (f"gym:{__name__}:Countr", {}, "did you mean .*:Counter'"),
        ("gym:no_such_module:X-v0", {}, "the module 'no_such_module', which Python cannot import"),
        ("gym:Pendulum-v1", {}, r"has continuous actions \(Box.*needs a choice of one \(Discrete\)"),
        ("gym:Blackjack-v1", {}, "observes a Tuple"),
        ("gym:FrozenLake-v1", {"ice": 1}, "cannot be made with ice=1: TypeError"),
        ("gym:CartPole-v1", {"max_episode_steps": 3}, "set with env.time_limit"),
        ("gym:sail-tests/OwnVector-v0", {"mode": None}, "does not say when it resets itself"),
        (f"gym:{__name__}:Broken", {"how": "construct"}, "Broken cannot be made .*RuntimeError: no licence"),
        (f"gym:{__name__}:act", {"observation": 0}, "must inherit from the gymnasium.Env"),
    ],
)
def test_what_cannot_be_made_is_said_in_a_sentence(name, kwargs, said):
    with pytest.raises(BadInputError, match=said) as error:
        make(name, kwargs=kwargs)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_several_actions_at_once_are_refused():
    with pytest.raises(BadInputError, match="actions of several parts"):
        spaced(action_space=spaces.MultiDiscrete([2, 3]))
    with pytest.raises(BadInputError, match="no use for processes"):
        make("gym:sail-tests/OwnVector-v0", processes=True)


def test_missing_packages(monkeypatch):
    def refuse(*_, **__):
        raise gymnasium.error.DependencyNotInstalled("Box2D is not installed, run `pip install box2d`")

    monkeypatch.setattr(gymnasium, "make_vec", refuse)
    with pytest.raises(BadInputError, match="needs a package that is not installed: Box2D"):
        make()
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(BadInputError, match=r"needs gymnasium: pip install 'sail-rl\[gym\]'"):
        make()


def run_until_it_breaks(env, steps: int) -> None:
    try:
        env.reset(0)
        env.recv()
        for _ in range(steps):
            env.send(np.zeros(env.num_envs, int))
            env.recv()
    finally:
        env.close()
    assert not any(process.is_alive() for process in env._processes)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"how": "raise", "at": 1000}, "Broken raised Odd in step: out of memory, again"),
        ({"how": "reset", "lengths": [3]}, "Broken raised KeyError in reset: 'seed'"),
        ({"how": "shape"}, "Broken raised .* in step"),
        ({"how": "nan"}, "Broken gave a reward of nan"),
        ({"how": "huge"}, "Broken gave a reward of inf"),
        ({"how": "blind"}, "Broken gave an observation that is not finite"),
    ],
    ids=lambda value: value["how"] if isinstance(value, dict) else "",
)
def test_an_environment_that_breaks_is_named(how, said):
    # The last three are seen on this side, whichever side the environment is on.
    for processes in (False, True) if how["how"] in ("raise", "reset", "shape") else (False,):
        with pytest.raises(TrainingError, match=said):
            run_until_it_breaks(make("Broken", num_envs=2, processes=processes, kwargs=how), steps=1000)


@pytest.mark.parametrize(
    "how", [{"how": "raise", "at": 3}, {"how": "reset", "lengths": [3]}], ids=lambda how: how["how"]
)
def test_what_a_process_raised_is_said_by_us_alone(how, capfd, recwarn):
    said_before = gymnasium.logger.error
    with pytest.raises(TrainingError):
        run_until_it_breaks(make("Broken", num_envs=2, processes=True, kwargs=how), steps=1000)
    assert capfd.readouterr() == ("", "") and [str(one.message) for one in recwarn] == []
    assert gymnasium.logger.error is said_before


def test_gymnasium_is_silent_until_the_last_thread_is_through(monkeypatch):
    """Pools step in threads of their own, and come and go as they like."""
    said = []
    monkeypatch.setattr(gymnasium.logger, "error", said.append)
    first, second = gym_making.errors_left_to_us(), gym_making.errors_left_to_us()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    gymnasium.logger.error("while the second is still in there")
    second.__exit__(None, None, None)
    assert said == []

    def come_and_go():
        for _ in range(500):
            with gym_making.errors_left_to_us():
                gymnasium.logger.error("in there")

    often, interval = [threading.Thread(target=come_and_go) for _ in range(4)], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    for thread in often:
        thread.start()
    for thread in often:
        thread.join()
    sys.setswitchinterval(interval)
    assert said == []
    gymnasium.logger.error("after all")
    assert said == ["after all"]


def test_a_process_that_ends_or_hangs_is_noticed(monkeypatch):
    with pytest.raises(TrainingError, match=r"lost the process of environment \d \(exit code 3\)"):
        run_until_it_breaks(make("Broken", num_envs=2, processes=True, kwargs={"how": "exit", "at": 5}), steps=9)
    monkeypatch.setattr(gym, "CLOSE_SECONDS", 0.5)
    env = make("Broken", num_envs=2, processes=True, kwargs={"how": "hang", "at": 5})
    monkeypatch.setattr(gym, "ANSWER_SECONDS", 1.5)
    start = time.monotonic()
    with pytest.raises(TrainingError, match=r"did not answer a step within 1\.5 seconds"):
        run_until_it_breaks(env, steps=9)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("sent", [False, True])
def test_a_killed_process_is_noticed(sent):
    env = make("Broken", num_envs=2, processes=True, kwargs={"how": "hang" if sent else "", "at": 1})
    env.reset(0)
    env.recv()
    if sent:
        env.send(np.zeros(2, int))
    for process in env._processes[0 if sent else 1 :]:
        os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(TrainingError, match=r"lost the process of environment \d \(exit code -9\)"):
        for _ in range(2):
            if not sent:
                env.send(np.zeros(2, int))
            env.recv()
    env.close()
    assert not any(process.is_alive() for process in env._processes)


def test_processes_that_do_not_start(monkeypatch):
    def refuse(*_, **__):
        raise EOFError

    monkeypatch.setattr(gymnasium, "make_vec", refuse)
    with pytest.raises(BadInputError, match="could not start its processes"):
        make(processes=True)


@pytest.mark.parametrize("processes", [False, True])
def test_close_twice(processes):
    env = make(num_envs=2, processes=processes)
    env.reset(0)
    env.recv()
    env.send(np.zeros(2, int))  # and is closed before it answers
    started = list(env._processes)
    assert len(started) == 2 * processes
    env.close()
    env.close()
    assert not any(process.is_alive() for process in started)


def test_render():
    for processes in (False, True):
        env = make(num_envs=2, render_mode="rgb_array", processes=processes)
        env.reset(0)
        env.recv()
        env.send(np.zeros(2, int))
        env.recv()
        assert env.render().tolist() == np.full((4, 5, 3), 1).tolist()
        env.close()
    with pytest.raises(BadInputError, match="render_mode='rgb_array'"):
        make().render()


def test_settings():
    read = GymSettings(kwargs={"a": "false", "b": "0.5", "c": "4x4", "d": "[1, 2]", "e": 3}).kwargs
    assert read == {"a": False, "b": 0.5, "c": "4x4", "d": [1, 2], "e": 3}
    for wrong in ({"name": "gym:"}, {"name": "CartPole-v1"}, {"kwargs": {"a": "[1"}}, {"kwargs": 3}, {"stack": 0}):
        with pytest.raises(ValidationError):
            GymSettings(**wrong)


def test_settings_are_read_without_gymnasium():
    code = "import sys, sail.envs.gym_settings; print({'jax', 'gymnasium'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_an_error_without_a_message_is_named_by_its_kind():
    assert gym_making.message(ValueError()) == "ValueError"
    assert gym_making.message(ValueError("too far.\nMuch.")) == "too far"
