"""DeepSea against a reimplementation in numpy of what Behaviour Suite's does, over every cell."""

import math
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sail import envs
from sail.envs.deep_sea import DeepSeaState

SAMPLES = 20_000


def mapping(size: int, seed: int) -> np.ndarray:
    """Which action goes right, as bsuite draws it."""
    return np.random.RandomState(seed).binomial(1, 0.5, [size, size])


def cells_of(size: int) -> list[tuple[int, int]]:
    """Where the diver can be: no further right than down."""
    return [(row, column) for row in range(size) for column in range(row + 1)]


def to_jax(cells: list[tuple[int, int]]) -> DeepSeaState:
    return DeepSeaState(*jnp.array(cells, jnp.int32).T)


def every_step(env, cells: list[tuple[int, int]], samples: int = 1):
    """Outcomes [cells, 2 actions, samples], every one with a key of its own."""
    keys = jax.random.split(jax.random.key(3), (len(cells), 2, samples))
    over_keys = jax.vmap(env.step, (None, None, 0))
    over_actions = jax.vmap(over_keys, (None, 0, 0))
    outcomes = jax.jit(jax.vmap(over_actions, (0, None, 0)))(to_jax(cells), jnp.arange(2), keys)
    return jax.tree.map(np.asarray, outcomes)


def numpy_step(size: int, seed: int, row: int, column: int, action: int):
    """Next row and column, reward, last step and treasure."""
    right = action == mapping(size, seed)[row, column]
    reward = -0.01 / size if right else 0.0
    treasure = bool(right and column == size - 1)
    moved = min(column + 1, size - 1) if right else max(column - 1, 0)
    return row + 1, moved, reward + treasure, row == size - 1, treasure


@pytest.mark.parametrize(("size", "seed"), [(2, 42), (5, 0), (10, 42), (12, 7)])
def test_every_cell(size: int, seed: int) -> None:
    env = envs.make("deep-sea", size=size, mapping_seed=seed)
    cells = cells_of(size)
    after, outcome = every_step(env, cells)
    for (i, cell), action in product(enumerate(cells), range(2)):
        row, column, reward, last, treasure = numpy_step(size, seed, *cell, action)
        where = (i, action, 0)
        assert (after.row[where], after.column[where]) == (row, column), (cell, action)
        np.testing.assert_allclose(outcome.reward[where], reward, rtol=1e-6, err_msg=f"{cell} {action}")
        assert outcome.terminated[where] == last and outcome.success[where] == treasure
        expected = np.zeros((size, size))
        if row < size:
            expected[row, column] = 1  # nothing is seen at the floor
        np.testing.assert_array_equal(outcome.observation[where], expected.ravel())
    assert not outcome.truncated.any()
    assert outcome.reward.dtype == np.float32
    assert outcome.success.sum() == 1  # one treasure, from one cell, by one action


def play_all(env, decisions: np.ndarray):
    """Rewards and ends [paths, N] of going right where the decisions [paths, N] say so."""
    right_action = jnp.asarray(env.right_action)

    def one(rights):
        def step(state, right):
            right_here = right_action[state.row, state.column]
            return env.step(state, jnp.where(right, right_here, 1 - right_here), jax.random.key(0))

        return jax.lax.scan(step, env.reset(jax.random.key(9)), rights)[1]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(jnp.array(decisions)))


@pytest.mark.parametrize("size", [2, 10, 31, 50])
def test_the_dive_to_the_right_is_worth_0_99(size: int) -> None:
    env = envs.make("deep-sea", size=size)
    outcome = play_all(env, np.ones((1, size), bool))
    np.testing.assert_allclose(outcome.reward.sum(), 0.99, rtol=1e-5)
    np.testing.assert_array_equal(outcome.terminated[0], [False] * (size - 1) + [True])  # N steps, no more and no less
    np.testing.assert_array_equal(outcome.success[0], [False] * (size - 1) + [True])
    assert env.max_episode_steps == size


def test_every_other_path_pays_for_its_right_turns() -> None:
    size = 6
    paths = np.array(list(product([False, True], repeat=size)))
    outcome = play_all(envs.make("deep-sea", size=size), paths)
    # 0.01 / N for each turn right; the treasure for N of them only.
    rights = paths.sum(1)
    np.testing.assert_allclose(outcome.reward.sum(1), (rights == size) - 0.01 * rights / size, atol=1e-6)
    np.testing.assert_array_equal(outcome.success.any(1), rights == size)
    np.testing.assert_array_equal(outcome.terminated, [[False] * 5 + [True]] * len(paths))


@pytest.mark.parametrize("size", [2, 7])
def test_observations_are_one_hot_and_distinct(size: int) -> None:
    env = envs.make("deep-sea", size=size)
    cells = cells_of(size)
    seen = np.asarray(jax.jit(jax.vmap(env.observe))(to_jax(cells)))
    assert seen.shape == (len(cells), *env.observation_shape) == (len(cells), size**2)
    assert seen.dtype == env.observation_dtype == np.uint8
    assert (seen.sum(1) == 1).all()
    np.testing.assert_array_equal(seen.argmax(1), [row * size + column for row, column in cells])


def test_it_begins_at_the_top_left() -> None:
    state = envs.make("deep-sea").reset(jax.random.key(8))
    assert (state.row, state.column) == (0, 0)


def test_the_mapping_is_bsuites_and_follows_its_seed() -> None:
    for size, seed in [(10, 42), (10, 0), (25, 1)]:
        env = envs.make("deep-sea", size=size, mapping_seed=seed)
        np.testing.assert_array_equal(env.right_action, mapping(size, seed))
        np.testing.assert_array_equal(
            env.right_action, envs.make("deep-sea", size=size, mapping_seed=seed).right_action
        )
    tables = [envs.make("deep-sea", mapping_seed=seed).right_action for seed in range(5)]
    assert all((a != b).any() for i, a in enumerate(tables) for b in tables[i + 1 :])
    np.testing.assert_array_equal(envs.make("deep-sea").right_action, mapping(10, 42))  # the default seed


# The stochastic variant: every frequency within five standard errors.

SIZE = 5
CELLS = cells_of(SIZE)
CORNERS = {(SIZE - 1, 0), (SIZE - 1, SIZE - 1)}


@pytest.fixture(scope="module")
def stochastic():
    env = envs.make("deep-sea", size=SIZE, stochastic=True)
    after, outcome = every_step(env, CELLS, SAMPLES)
    rights = [int(env.right_action[cell]) for cell in CELLS]
    return after, outcome, rights


def test_right_fails_once_in_n(stochastic) -> None:
    after, _, rights = stochastic
    p = 1 - 1 / SIZE
    for (i, (row, column)), right in zip(enumerate(CELLS), rights, strict=True):
        assert (after.row[i] == row + 1).all()
        assert (after.column[i, 1 - right] == max(column - 1, 0)).all()  # left never fails
        if column < SIZE - 1:
            succeeded = (after.column[i, right] == column + 1).sum()
            assert abs(succeeded - p * SAMPLES) <= 5 * math.sqrt(p * (1 - p) * SAMPLES), (row, column)


def test_a_failed_right_stays_in_its_column(stochastic) -> None:
    after, _, rights = stochastic
    for (i, (_, column)), right in zip(enumerate(CELLS), rights, strict=True):
        assert set(after.column[i, right].tolist()) == {column, min(column + 1, SIZE - 1)}


def test_noise_is_in_the_last_rows_corners_only(stochastic) -> None:
    _, outcome, rights = stochastic
    for (i, cell), right in zip(enumerate(CELLS), rights, strict=True):
        for action in range(2):
            # A turn right costs the same where it fails, and the treasure is paid all the same.
            mean = -0.01 / SIZE * (action == right) + (action == right and cell == (SIZE - 1, SIZE - 1))
            noise = outcome.reward[i, action].astype(np.float64) - mean
            if cell not in CORNERS:
                np.testing.assert_allclose(noise, 0.0, atol=1e-7)
                continue
            # A unit Gaussian: mean 0 +- sqrt(1 / n), variance 1 +- sqrt(2 / n), and 68.27 % within one of 0.
            assert abs(noise.mean()) < 5 / math.sqrt(SAMPLES)
            assert abs(noise.var() - 1) < 5 * math.sqrt(2 / SAMPLES)
            assert abs((np.abs(noise) < 1).mean() - 0.6827) < 5 * math.sqrt(0.6827 * 0.3173 / SAMPLES)


def test_noise_does_not_tell_whether_right_failed(stochastic) -> None:
    after, outcome, rights = stochastic
    i = CELLS.index((SIZE - 1, 0))
    moved = after.column[i, rights[i]] == 1
    assert abs(np.corrcoef(moved, outcome.reward[i, rights[i]])[0, 1]) < 5 / math.sqrt(SAMPLES)


def test_the_deterministic_sea_does_not_look_at_its_key() -> None:
    env = envs.make("deep-sea", size=3)
    after, outcome = every_step(env, cells_of(3), samples=50)
    assert (after.column == after.column[..., :1]).all() and (outcome.reward == outcome.reward[..., :1]).all()
