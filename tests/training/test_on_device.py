"""The on-device loop: what it collects, how often it learns, and that its numbers are reproducible."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from sail import replay
from sail.config import make_config
from sail.training.metrics import updates_at
from sail.training.on_device import OnDeviceProgram


def run(
    steps: int, pieces: list[int], agent: str = "sail-dqn", **overrides: Any
) -> tuple[OnDeviceProgram, Any, list[Any]]:
    overrides = {"steps": steps, "agent": {"hidden": (16,)}, **overrides}
    program = OnDeviceProgram(make_config("kdt", agent, overrides))
    state, step, episodes = program.init(), 0, []
    for piece in pieces:
        state, _, ended = program.advance_arrays(state, step, piece)
        step += piece
        episodes.append(jax.tree.map(np.asarray, ended))
    return program, state, episodes


def assert_same_bits(a: Any, b: Any) -> None:
    for (path, x), (_, y) in zip(*map(leaves_with_path, (a, b)), strict=True):
        np.testing.assert_array_equal(x, y, err_msg=str(path))


def leaves_with_path(tree: Any) -> list[Any]:
    def plain(x: Any) -> Any:
        return jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    return jax.tree_util.tree_leaves_with_path(jax.tree.map(plain, tree))


def last_weights(params: Any) -> Any:
    return params.head.advantage.out.weight


def test_same_seed_same_bits_however_it_is_cut() -> None:
    _, whole, _ = run(4000, [4000])
    _, again, _ = run(4000, [4000])
    _, pieces, _ = run(4000, [2000, 400, 1600])
    assert_same_bits(whole, again)
    assert_same_bits(whole, pieces)


def test_different_seeds_differ_and_a_seed_does_not_depend_on_its_neighbours() -> None:
    _, together, _ = run(2000, [2000], seed=3, seeds=2)
    _, alone, _ = run(2000, [2000], seed=4)
    first, second = (np.asarray(last_weights(together.learner.params)[i]) for i in (0, 1))
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(second, np.asarray(last_weights(alone.learner.params)[0]), rtol=1e-4, atol=1e-6)


def test_the_ring_holds_what_the_environment_did() -> None:
    """Replays the stored actions through the environment and finds the stored observations, rewards and ends."""
    program, state, episodes = run(
        2000, [2000], env={"time_limit": 23, "key_reward": 0.5, "random_start_moves": 0}, learning={"starts": 100_000}
    )
    ring = jax.tree.map(lambda x: np.asarray(x[0]), state.ring)
    env, step, observe = program.env, jax.jit(program.env.step), jax.jit(program.env.observe)
    key = jax.random.key(0)
    ends = 0
    for row in range(2):
        walker = env.reset(key)
        for slot in range(int(ring.head[row])):
            np.testing.assert_array_equal(ring.observation[row, slot], observe(walker))
            if ring.end[row, slot] == replay.CLOSING:
                walker = env.reset(key)
                continue
            assert ring.age[row, slot] == walker.time
            walker, outcome = step(walker, ring.action[row, slot], key)
            assert ring.reward[row, slot] == outcome.reward
            end = replay.TERMINATED if outcome.terminated else replay.TRUNCATED if outcome.truncated else replay.GOES_ON
            assert ring.end[row, slot] == end
            ends += end != replay.GOES_ON
    assert ends > 10
    # 2000 steps in 8 environments are 250 each: ten whole episodes of 23 steps, and 20 steps of the eleventh.
    assert int(sum(part.ended.sum() for part in episodes)) == 80
    np.testing.assert_array_equal(ring.head, 260)


@pytest.mark.parametrize("starts", [1, 200, 300, 1000])
def test_the_number_of_updates_is_exact(starts: int) -> None:
    program, state, _ = run(4000, [4000], learning={"starts": starts})
    made = int(np.asarray(state.learner.optimiser[0].count)[0])  # Adam counts its steps
    assert made == updates_at(program.config, 4000)
    # One update for every 4 steps from the block in which learning starts on.
    block = program.config.block_steps
    first_block = -(-starts // block)
    assert made == (4000 // block - first_block + 1) * block // 4


def test_the_target_network_is_copied_when_it_is_due() -> None:
    program, state, _ = run(4000, [4000], learning={"target_period": 4000, "starts": 400})
    assert_same_bits(state.learner.params, state.learner.target)
    fresh = program.init()
    program, state, _ = run(4000, [3800], learning={"target_period": 4000, "starts": 400})
    assert_same_bits(fresh.learner.target, state.learner.target)
    assert not np.array_equal(last_weights(state.learner.params), last_weights(state.learner.target))


def test_exploration_follows_its_schedule() -> None:
    """Before learning starts actions are uniform; with epsilon at 0 they are greedy."""
    _, state, _ = run(8000, [8000], learning={"starts": 100_000})
    actions = np.asarray(state.ring.action[0])[np.asarray(state.ring.end[0]) != replay.CLOSING]
    used = actions[: 8000 // 8]
    counts = np.bincount(used.ravel(), minlength=4)
    assert counts.min() > 0.2 * counts.sum()
    _, state, _ = run(400, [400], exploration={"start": 0.0, "end": 0.0}, learning={"starts": 100_000})
    params = jax.tree.map(lambda x: x[0], state.learner.params)
    ring = jax.tree.map(lambda x: np.asarray(x[0]), state.ring)
    for row in range(8):
        for slot in range(int(ring.head[row])):
            assert ring.action[row, slot] == int(np.argmax(params(ring.observation[row, slot])[..., 0]))


def test_values_at_landmarks_are_those_of_the_network() -> None:
    program = OnDeviceProgram(make_config("kdt", "sail-dqn", {"seeds": 2, "agent": {"hidden": (8,)}}))
    params = program.params(program.init())
    found = program.look(params)
    landmarks = program.env.landmarks()  # type: ignore[attr-defined]
    for seed in range(2):
        own = jax.tree.map(lambda x, seed=seed: x[seed], params)
        for name, (state, action) in landmarks.items():
            q = program.agent.q_values(own, program.agent.prepare(program.env.observe(state)))
            assert found[seed][f"q_{name}"] == pytest.approx(float(q[action]), rel=1e-5)
            assert found[seed][f"max_q_{name}"] == pytest.approx(float(q.max()), rel=1e-5)
    assert OnDeviceProgram(make_config("deep-sea")).look(params) == [{}]
