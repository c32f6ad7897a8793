"""The host loop: what it collects, how often it learns, and that no environment, signal or seed can spoil a run."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import tiny_flags, tiny_overrides
from hypothesis import given, settings
from hypothesis import strategies as st

import sail
from sail import envs, replay
from sail.config import Config, make_config
from sail.envs.host import Rows
from sail.training import checkpoint, emulators
from sail.training.host import HostProgram
from sail.training.loop import InterruptedTrainingError, Silent
from sail.training.metrics import updates_at
from sail.training.program import Advance
from sail.training.run_folder import RunFolder

gymnasium = pytest.importorskip("gymnasium")

import host_envs  # noqa: E402
from host_envs import Counter  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments
NEVER = {"starts": 100_000}
DEVICES: dict[str, Any] = {}


def tiny(env: str = "Counter", agent: str = "sail-dqn", **changes: Any) -> Config:
    return make_config(f"gym:host_envs:{env}", agent, tiny_overrides(**changes))


def program_of(config: Config) -> HostProgram:
    """A program whose compiled part is shared with others of the same settings."""
    program = HostProgram(config)
    program.device = DEVICES.setdefault(str(dataclasses.asdict(config)), program.device)
    return program


class Trained:
    """What some pieces of training gave."""

    def __init__(self, config: Config, *pieces: int) -> None:
        self.program = program_of(config)
        self.state, self.step, self.episodes = self.program.init(), 0, []
        try:
            for piece in pieces:
                self.go_on(piece)
        finally:
            self.program.close()

    def go_on(self, num_steps: int) -> Advance:
        result = self.program.advance(self.state, self.step, num_steps)
        self.state, self.step = result.state, self.step + result.steps
        self.episodes += result.episodes
        if result.failure:
            raise result.failure
        return result

    def ring(self, seed: int = 0) -> replay.Ring:
        return jax.tree.map(lambda x: np.asarray(x[seed]), self.state.ring)

    def updates(self) -> list[int]:
        return np.asarray(self.state.learner.optimiser[0].count).tolist()  # Adam counts its steps


def assert_same_bits(a: Any, b: Any) -> None:
    for (path, x), (_, y) in zip(*map(jax.tree_util.tree_leaves_with_path, (a, b)), strict=True):
        np.testing.assert_array_equal(x, y, err_msg=str(path))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("emulators")]


class Heard(Silent):
    """Keeps what it is told, and interrupts its own process (as Ctrl-C would) at a step."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.notes: list[str] = []
        self.steps: list[int] = []
        self.stop_at = stop_at

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def advanced(self, step: int) -> None:
        self.steps.append(step)
        if self.stop_at is not None and step >= self.stop_at:
            self.stop_at = None
            os.kill(os.getpid(), signal.SIGINT)


# Environments that answer in any order --------------------------------------------------------------------------------


class Pool:
    """Counters as a HostEnv, `num_rows` answers at a time in random order; remembers what the ring should hold."""

    name = "gym:host_envs:Pool"
    num_actions, stack = 2, 1
    observation_shape, observation_dtype = (3,), np.float32
    max_episode_steps = reward_threshold = None

    def __init__(self, num_envs: int, num_rows: int, lengths: tuple[int, ...] = (3, 5), within_step: bool = False):
        self.num_envs, self.num_rows, self.resets_within_step = num_envs, num_rows, within_step
        self.envs = [Counter(lengths) for _ in range(num_envs)]
        self.told: list[list[dict[str, Any]]] = [[] for _ in range(num_envs)]
        """Of each environment: a slot for each step that was answered, and one for each end."""

    def reset(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.waiting = deque((i, self.began(i, seed + i), []) for i in range(self.num_envs))
        self.asked: list[int] = []

    def began(self, i: int, seed: int | None = None) -> dict[str, Any]:
        self.last = self.envs[i].reset(seed=seed)[0]
        return {"observation": self.last, "stepped": False, "begins": True, "closing": self.last}

    def stepped(self, i: int, action: int) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
        env = self.envs[i]
        if env.time == env.length() and not self.resets_within_step:
            return i, self.began(i), []
        before = {"observation": env.seen(), "action": action, "age": env.time}
        seen, reward, terminated, truncated, _ = env.step(action)
        end = replay.TERMINATED if terminated else replay.TRUNCATED if truncated else replay.GOES_ON
        slots = [before | {"reward": reward, "end": end}]
        row = {"observation": seen, "stepped": True, "begins": False, "closing": seen}
        row |= {"reward": reward, "terminated": terminated, "truncated": truncated}
        if end:
            slots += [{"observation": seen, "action": 0, "age": env.time, "reward": 0.0, "end": replay.CLOSING}]
            if self.resets_within_step:
                row |= {"observation": env.reset()[0], "begins": True}
        return i, row, slots

    def recv(self) -> Rows:
        chosen = self.random.permutation(len(self.waiting))[: self.num_rows]
        given = [self.waiting[i] for i in chosen]
        self.waiting = deque(one for i, one in enumerate(self.waiting) if i not in chosen)
        for i, _, slots in given:
            self.told[i] += slots
        self.asked = [i for i, _, _ in given]

        def column(name: str, dtype: Any) -> Any:
            return np.array([row.get(name, 0) for _, row, _ in given], dtype)

        return Rows(
            env=np.array(self.asked, np.int32),
            observation=column("observation", np.float32),
            reward=column("reward", np.float32),
            terminated=column("terminated", bool),
            truncated=column("truncated", bool),
            stepped=column("stepped", bool),
            begins=column("begins", bool),
            closing=column("closing", np.float32) if self.resets_within_step else None,
        )

    def send(self, actions: Any) -> None:
        self.waiting.extend(self.stepped(i, int(action)) for i, action in zip(self.asked, actions, strict=True))

    def close(self) -> None:
        pass


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Pool]]:
    """Has the host loop make pools instead; gives the list of those it will have made."""

    def use(**how: Any) -> list[Pool]:
        made: list[Pool] = []

        def make_host(settings: Any, num_envs: int, num_rows: int | None = None) -> Pool:
            made.append(Pool(num_envs, num_rows or num_envs, **how))
            return made[-1]

        monkeypatch.setattr(envs, "make_host", make_host)
        return made

    return use


def expected_returns(slots: list[dict[str, Any]], discount: float) -> list[float]:
    """Backwards, one by one; unknown until the episode has ended."""
    found, value = [], replay.UNKNOWN_RETURN
    for slot in reversed(slots):
        if slot["end"] == replay.CLOSING:
            found.append(replay.UNKNOWN_RETURN)
            continue
        value = slot["reward"] if slot["end"] else slot["reward"] + discount * value
        found.append(value)
    return found[::-1]


def assert_ring_holds(ring: replay.Ring, told: list[list[dict[str, Any]]], discount: float = 0.99) -> None:
    """Each row of the ring is the newest of what its environment told, in order, and nothing else."""
    for row, slots in enumerate(told):
        size = min(len(slots), ring.length)
        assert (ring.size[row], ring.head[row]) == (size, len(slots) % ring.length)
        order = (ring.head[row] - size + np.arange(size)) % ring.length
        newest = slots[len(slots) - size :]
        for name in ("observation", "action", "reward", "end", "age"):
            np.testing.assert_array_equal(
                getattr(ring, name)[row][order], np.array([slot[name] for slot in newest], np.float32), err_msg=name
            )
        np.testing.assert_allclose(ring.returns[row][order], expected_returns(newest, discount), rtol=1e-5)


@pytest.mark.parametrize("within_step", (False, True))
def test_the_ring_holds_what_environments_did_in_any_order(pools: Callable[..., list[Pool]], within_step: bool) -> None:
    """Three of four at a time, round the ring of 25 slots each and round again."""
    config = tiny(learning=NEVER, replay={"capacity": 100}, steps=400)

    @settings(deadline=None, derandomize=True, max_examples=8)
    @given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4), seed=st.integers(0, 9))
    def check(lengths: list[int], seed: int) -> None:
        made = pools(lengths=tuple(lengths), within_step=within_step)
        asynchronous = dataclasses.replace(config, learning=dataclasses.replace(config.learning, num_rows=3))
        trained = Trained(asynchronous, 200, 200)
        assert [pool.num_rows for pool in made] == [1, 3]  # one to be asked for shapes, one to be trained in
        assert_ring_holds(trained.ring(), made[1].told)
        steps = sum(slot["end"] != replay.CLOSING for slots in made[1].told for slot in slots)
        assert 400 <= steps == trained.program._taken[0] < 400 + 3

    check()


def test_a_dozen_that_end_at_once_all_get_their_returns(pools: Callable[..., list[Pool]]) -> None:
    made = pools(lengths=(4,), within_step=True)
    trained = Trained(tiny(learning={**NEVER, "num_envs": 12, "num_rows": 12}), 200)
    assert_ring_holds(trained.ring(), made[1].told)
    # 17 rounds of 12 are 204 steps; four episodes of each have ended, and of the fifth there is one step.
    assert np.isfinite(trained.ring().returns).sum() == 12 * 16
    assert len(trained.episodes) == 12 * 4


@pytest.mark.parametrize("autoreset", ("next", "same"))
def test_the_ring_holds_what_gymnasium_did(monkeypatch: pytest.MonkeyPatch, autoreset: Any) -> None:
    """A Counter's observations say what they should be: only the actions must be taken from the ring itself.

    Odd episodes are cut off: they are bootstrapped from their own last observation, and not from the next one's first.
    """
    from sail.envs.gym import GymEnv

    monkeypatch.setattr(
        envs, "make_host", lambda settings, num_envs, num_rows=None: GymEnv(settings, num_envs, autoreset=autoreset)
    )
    trained = Trained(tiny(env={"clip_rewards": True}, learning=NEVER), 400, 400)
    ring = trained.ring()
    told: list[list[dict[str, Any]]] = []
    for row in range(4):
        lane = (int(ring.observation[0, 0, 0]) + row) % 1000
        slots: list[dict[str, Any]] = []
        episode = 0
        while len(slots) < ring.size[row]:
            length = (3, 5)[(lane + episode) % 2]
            for age in range(length):
                action = int(ring.action[row, len(slots)])
                end = 0 if age + 1 < length else replay.TRUNCATED if episode % 2 else replay.TERMINATED
                reward = 1.0 if action else -0.5  # 3 is clipped
                slots.append({"action": action, "reward": reward, "end": end, "age": age})
                slots[-1]["observation"] = (lane, episode, age)
            slots.append({"action": 0, "reward": 0.0, "end": replay.CLOSING, "age": length})
            slots[-1]["observation"] = (lane, episode, length)
            episode += 1
        told.append(slots[: ring.size[row]])
    assert_ring_holds(ring, told)
    assert (
        sum(slot["end"] != replay.CLOSING for slots in told for slot in slots)
        == 800 + len(trained.program.env.name) * 0
    )
    actions = [slot["action"] for slots in told for slot in slots if slot["end"] != replay.CLOSING]
    assert 300 < sum(actions) < 500
    # What the learner gets: every step but those whose next observation has not come in yet.
    usable = np.argwhere(replay.eligible(ring))
    running = sum(slots[-1]["end"] == replay.GOES_ON for slots in told)
    assert len(usable) == 800 - running
    batch = jax.device_get(replay.gather(ring, replay.Slots(*usable.T, True), discount=0.99))
    ends = ring.end[tuple(usable.T)]
    np.testing.assert_array_equal(batch.next_observation[:, :2], batch.observation[:, :2])
    np.testing.assert_array_equal(batch.next_observation[:, 2], batch.observation[:, 2] + 1)
    np.testing.assert_allclose(batch.discount, np.where(ends == replay.TERMINATED, 0.0, 0.99), rtol=1e-6)
    assert {0, 1, 2} == set(ends.tolist())
    terminal = replay.gather(ring, replay.Slots(*usable.T, True), discount=0.99, time_limit_is_terminal=True)
    np.testing.assert_allclose(terminal.discount, np.where(ends == replay.GOES_ON, 0.99, 0.0), rtol=1e-6)
