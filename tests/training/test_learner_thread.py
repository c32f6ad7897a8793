"""The learner's thread: which networks act when, that its timing changes nothing, and how its failures are told."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from sail.config import Config
from sail.errors import TrainingError
from sail.training import emulators
from sail.training.learner_thread import LearnerThread

pytest.importorskip("gymnasium")

from host_training import NEVER, Trained, assert_same_bits, last_bias, program_of, tiny

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments


def always(action: int, params: Any) -> Any:
    zeros = jax.tree.map(lambda x: 0 * x, params)
    return eqx.tree_at(last_bias, zeros, last_bias(zeros).at[:, action].set(1.0))


def test_actions_are_chosen_with_the_networks_of_a_block_ago() -> None:
    config = tiny("Chain", learning={**NEVER, "num_envs": 4}, exploration={"start": 0.0, "end": 0.0})
    program = program_of(config)
    try:
        state = program.init()
        fresh = state.learner.params
        assert_same_bits(state.acting, fresh)
        learner = state.learner._replace(params=always(0, fresh))
        state = program.advance(state._replace(learner=learner, acting=always(1, fresh)), 0, config.block_steps).state
        assert_same_bits(state.acting, learner.params)
        state = program.advance(state, config.block_steps, config.block_steps).state
        actions, size = np.asarray(state.ring.action[0]), np.asarray(state.ring.size[0])
        # 200 steps are 50 rounds of 4. The last actions of a block are taken in the next, as the first of all was.
        for row, used in zip(actions, size, strict=True):
            assert row[:51].tolist() == [1] * 51 and row[51:used].tolist() == [0] * (used - 51)
    finally:
        program.close()


def test_updates_use_the_old_networks_up_but_not_those_that_act() -> None:
    config = tiny()
    program = program_of(config)
    try:
        state = program.advance(program.init(), 0, 1000).state
        old = jax.tree.leaves(state.learner.params)
        new = program.learn(state, 1200)
        assert all(leaf.is_deleted() for leaf in old)
        assert not any(leaf.is_deleted() for leaf in jax.tree.leaves((new.learner, new.acting)))
    finally:
        program.close()


def test_networks_act_one_block_after_they_were_learned() -> None:
    config = tiny()
    learned = [program_of(config).device.init().learner.params]
    for blocks in range(1, 6):
        states = (Trained(config, 200 * blocks).state, Trained(config, *[200] * blocks).state)
        for state in states:
            assert_same_bits(state.acting, learned[-1])
        learned.append(states[0].learner.params)
    changed = [not np.array_equal(*map(last_bias, pair)) for pair in itertools.pairwise(learned)]
    assert changed == [True] * 5  # from step 200 on


def test_networks_that_are_held_act_until_every_environment_has_taken_so_many_steps() -> None:
    # Blocks of 200 steps, and a period of 4 environments x 75 steps: the blocks in which 300, 600, 900 and 1,200 are
    # reached end at 400, 600, 1,000 and 1,200, and from then on what was there a block before acts.
    learned = [program_of(tiny()).device.init().learner.params]
    config = tiny(learning={"num_envs": 4, "hold": 75})
    expected = [0, 1, 2, 2, 4, 5]
    for blocks, acting in zip(range(1, 7), expected, strict=True):
        states = (Trained(config, 200 * blocks).state, Trained(config, *[200] * blocks).state)
        learned.append(states[0].learner.params)
        for state in states:
            assert_same_bits(state.acting, learned[acting])
    assert len({np.asarray(last_bias(params)).tobytes() for params in learned}) == 7


def test_held_networks_are_played_with() -> None:
    learning = {**NEVER, "num_envs": 4, "hold": 100}
    config = tiny("Chain", learning=learning, exploration={"start": 0.0, "end": 0.0})
    program = program_of(config)
    try:
        state = program.init()
        fresh = state.learner.params
        learner = state.learner._replace(params=always(0, fresh))
        state = state._replace(learner=learner, acting=always(1, fresh))
        for block in range(3):
            state = program.advance(state, 200 * block, 200).state
        actions, size = np.asarray(state.ring.action[0]), np.asarray(state.ring.size[0])
        for row, used in zip(actions, size, strict=True):  # 400 steps are 100 rounds of 4, and one is ahead
            assert row[:101].tolist() == [1] * 101 and row[101:used].tolist() == [0] * (used - 101)
            assert used > 140
    finally:
        program.close()


@pytest.mark.parametrize("frames", ["device", "host"])
def test_timing_changes_nothing(monkeypatch: pytest.MonkeyPatch, frames: str) -> None:
    def config() -> Config:
        learning = {"starts": 200, "num_envs": 8, "num_pools": 4, "max_block": 40}
        return tiny("Ragged", "sail-dqn+rnd", learning=learning, replay={"frames": frames}, seeds=2)

    calm = Trained(config(), 800)
    random = np.random.default_rng(0)
    do, rows = LearnerThread._do, emulators.Pools.rows

    def late(method: Callable[..., Any], chance: float) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            if random.random() < chance:
                time.sleep(0.02)
            return method(*arguments)

        return called

    for in_thread, in_loop in ((0.1, 0.0), (0.0, 0.1)):
        monkeypatch.setattr(LearnerThread, "_do", late(do, in_thread))
        monkeypatch.setattr(emulators.Pools, "rows", late(rows, in_loop))
        shaken = Trained(config(), 80, 720)
        assert_same_bits(calm.state._replace(key=None), shaken.state._replace(key=None))
        assert calm.episodes == shaken.episodes


def test_a_long_slice_keeps_no_old_networks() -> None:
    program = program_of(tiny(learning={"max_block": 8}))
    try:
        state, kept = program.init(), []
        for step, num_steps in ((0, 400), (400, 80), (480, 800)):
            state = program.advance(state, step, num_steps).state
            kept.append(len(jax.live_arrays()))
        assert kept[2] == kept[1]
    finally:
        program.close()


@pytest.mark.parametrize("frames", ["device", "host"])
@pytest.mark.parametrize("what", ["update", "write", "fill"])
def test_what_fails_in_the_thread_of_the_learner_stops_the_run(
    monkeypatch: pytest.MonkeyPatch, what: str, frames: str
) -> None:
    program = program_of(tiny(replay={"frames": frames}))
    what = "learn" if (what, frames) == ("update", "host") else what
    before = threading.active_count()
    asked: list[int] = []

    def broken(*arguments: Any) -> Any:
        asked.append(1)
        raise MemoryError("the device is full")

    try:
        state = program.advance(program.init(), 0, 200).state
        with monkeypatch.context() as patch:
            patch.setattr(program.device, what, broken)
            with pytest.raises(MemoryError, match="the device is full"):
                program.advance(state, 200, 100_000)
        assert len(asked) == 1  # what was asked for after it is not done
        assert program._taken[0] < 1200  # and the loop has noticed soon
    finally:
        program.close()
    assert threading.active_count() == before


def test_a_ring_that_cannot_be_filled_again_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = Trained(tiny(), 400)
    program = program_of(tiny(steps=200_000))

    def broken(*arguments: Any) -> Any:
        raise MemoryError("the device is full")

    monkeypatch.setattr(program.device, "write", broken)
    try:
        with pytest.raises(MemoryError, match="the device is full"):
            program.restore(trained.program.saved(trained.state), {"step": 100_000}, lambda _: None)
        assert program._rounds[0] < 100_000 + 80
    finally:
        program.close()


def test_a_failure_of_emulators_and_of_the_learner_are_both_told(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(tiny())
    try:
        state = program.advance(program.init(), 0, 200).state
        fails = TrainingError("the emulator is on fire")

        def burning(*arguments: Any) -> Any:
            raise fails

        def broken(*arguments: Any) -> Any:
            raise MemoryError("the device is full")

        monkeypatch.setattr(program.device, "write", broken)
        monkeypatch.setattr(program, "_account", burning)
        with pytest.raises(MemoryError, match="the device is full") as raised:
            program.advance(state, 200, 200)
        assert raised.value.__cause__ is fails
    finally:
        program.close()
