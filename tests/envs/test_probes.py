"""The known answers of the probes, computed again by value iteration over their real step function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sail import envs
from sail.envs.probes import ProbeState

PROBES = [
    ("probe-constant", 5),
    ("probe-discount", 5),
    ("probe-observation", 5),
    ("probe-action", 5),
    ("probe-chain", 1),
    ("probe-chain", 2),
    ("probe-chain", 5),
    ("probe-time-limit", 1),
    ("probe-time-limit", 5),
]
every_probe = pytest.mark.parametrize(("name", "length"), PROBES)


def explore(env) -> tuple[dict, dict]:
    """All (place, sign) that can be met, with their observations, and what each of the two actions leads to there."""
    starts = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 64))
    observe = jax.jit(env.observe)
    step = jax.jit(jax.vmap(lambda state, action: env.step(state, action, jax.random.key(0)), (None, 0)))
    waiting = sorted({(int(place), int(sign)) for place, sign in zip(starts.place, starts.sign, strict=True)})
    observations, outcomes = {}, {}
    while waiting:
        here = waiting.pop()
        # Late in the episode, where a limit may cut it: an end by time is not one of the task.
        state = ProbeState(*jnp.array([*here, env.max_episode_steps - 1], jnp.int32))
        observations[here] = tuple(np.asarray(observe(state)).tolist())
        after, outcome = jax.tree.map(np.asarray, step(state, jnp.arange(2)))
        outcomes[here] = []
        for action in range(2):
            there = (int(after.place[action]), int(after.sign[action]))
            outcomes[here].append((float(outcome.reward[action]), bool(outcome.terminated[action]), there))
            assert outcome.terminated[action] != outcome.truncated[action]  # the last step always ends it, in one way
            if not outcome.terminated[action] and there not in observations and there not in waiting:
                waiting.append(there)
    return observations, outcomes


def value_iteration(outcomes: dict, discount: float) -> dict:
    values = {here: [0.0, 0.0] for here in outcomes}
    for _ in range(400):  # 0.9^400 is 5e-19
        values = {
            here: [reward + (0.0 if dead else discount * max(values[there])) for reward, dead, there in steps]
            for here, steps in outcomes.items()
        }
    return values


@every_probe
def test_optimal_values_are_those_of_value_iteration(name: str, length: int) -> None:
    env = envs.make(name, length=length)
    observations, outcomes = explore(env)
    assert len(set(observations.values())) == len(observations)  # what is seen is all there is to know
    for discount in (0.9, 0.5):
        computed = {observations[here]: q for here, q in value_iteration(outcomes, discount).items()}
        claimed = {tuple(observation): q for observation, q in env.optimal_values(discount)}
        assert set(claimed) == set(computed)
        for observation, q in claimed.items():
            np.testing.assert_allclose(q, computed[observation], rtol=1e-12, err_msg=str(observation))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # With gamma = 0.5, worked out by hand from the table at the top of the module.
        ("probe-constant", {(1, 1): [1, 1]}),
        ("probe-discount", {(1, 1, 0): [0.5, 0.5], (1, 0, 1): [1, 1]}),
        ("probe-observation", {(-1, 1): [-1, -1], (1, 1): [1, 1]}),
        ("probe-action", {(-1, 1): [1, -1], (1, 1): [-1, 1]}),
        # Three places: right is worth 1/4, 1/2, 1; left is half of what the best at the place before is worth.
        ("probe-chain", {(1, 1, 0, 0): [1 / 8, 1 / 4], (1, 0, 1, 0): [1 / 8, 1 / 2], (1, 0, 0, 1): [1 / 4, 1]}),
        ("probe-time-limit", {(1, 1): [2, 2]}),  # 1 + 1/2 + 1/4 + ...
    ],
)
def test_optimal_values_by_hand(name: str, expected: dict) -> None:
    claimed = envs.make(name, length=3).optimal_values(0.5)
    assert {tuple(observation): q for observation, q in claimed} == expected


@pytest.mark.parametrize(
    ("name", "limit"), [("probe-time-limit", 4), ("probe-chain", 80), ("probe-constant", 1), ("probe-discount", 2)]
)
def test_episodes_last_as_long_as_they_say(name: str, limit: int) -> None:
    env = envs.make(name, length=4)
    assert env.max_episode_steps == limit

    def step(state, _):
        return env.step(state, jnp.array(0), jax.random.key(0))  # to the left, on the chain: never there

    _, outcome = jax.jit(lambda: jax.lax.scan(step, env.reset(jax.random.key(0)), length=limit))()
    last = np.arange(limit) == limit - 1
    cut = name in ("probe-time-limit", "probe-chain")
    np.testing.assert_array_equal(outcome.truncated, last & cut)
    np.testing.assert_array_equal(outcome.terminated, last & (not cut))
    np.testing.assert_array_equal(outcome.reward, np.ones(limit) if name == "probe-time-limit" else last & (not cut))


@every_probe
def test_shapes_and_dtypes(name: str, length: int) -> None:
    env = envs.make(name, length=length)
    state = jax.eval_shape(env.reset, jax.random.key(0))
    after, outcome = jax.eval_shape(env.step, state, jnp.array(0), jax.random.key(0))
    for seen in (jax.eval_shape(env.observe, state), outcome.observation):
        assert seen.shape == env.observation_shape and seen.dtype == env.observation_dtype
    assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(lambda x: (x.shape, x.dtype), state)
    assert (outcome.reward.dtype, outcome.reward.shape) == (jnp.float32, ())
    for flag in (outcome.terminated, outcome.truncated, outcome.success):
        assert (flag.dtype, flag.shape) == (jnp.bool_, ())


def test_both_signs_are_drawn_equally_often() -> None:
    for name in ("probe-observation", "probe-action"):
        signs = np.asarray(jax.vmap(envs.make(name).reset)(jax.random.split(jax.random.key(2), 10_000)).sign)
        assert set(signs.tolist()) == {-1, 1}
        assert abs(signs.mean()) < 5 / np.sqrt(len(signs))
