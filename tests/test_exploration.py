"""The epsilon schedule by hand, and what epsilon-greedy picks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sail.exploration import epsilon_at, epsilon_greedy

SCHEDULES = [
    # The paper's: 1 until step 20,000, then linear to 0.01 at step 270,000. Halfway 1 - 0.99 / 2 = 0.505; at 45,000, a
    # tenth of the way, 1 - 0.099 = 0.901; one step in, 1 - 0.99 / 250,000 = 0.99999604.
    (
        {"start": 1.0, "end": 0.01, "begins": 20_000, "decay_steps": 250_000},
        {
            0: 1.0,
            19_999: 1.0,
            20_000: 1.0,
            20_001: 0.99999604,
            45_000: 0.901,
            145_000: 0.505,
            269_999: 0.01000396,
            270_000: 0.01,
            270_001: 0.01,
            50_000_000: 0.01,
        },
    ),
    # Ten steps down from 0.8 to 0.3, by 0.05 each.
    (
        {"start": 0.8, "end": 0.3, "begins": 100, "decay_steps": 10},
        {0: 0.8, 100: 0.8, 101: 0.75, 105: 0.55, 109: 0.35, 110: 0.3, 111: 0.3},
    ),
    # A switch: from 1 to 0 in one step.
    ({"start": 1.0, "end": 0.0, "begins": 5, "decay_steps": 1}, {4: 1.0, 5: 1.0, 6: 0.0, 7: 0.0}),
]


@pytest.mark.parametrize(("schedule", "expected"), SCHEDULES)
def test_epsilon_schedule_by_hand(schedule, expected: dict[int, float]) -> None:
    steps = np.array(list(expected), np.int32)
    values = list(expected.values())
    np.testing.assert_allclose(epsilon_at(jnp.array(steps), **schedule), values, rtol=1e-6, atol=1e-7)
    compiled = jax.jit(lambda step: epsilon_at(step, **schedule))
    np.testing.assert_allclose(compiled(jnp.array(steps)), values, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(epsilon_at(int(steps[3]), **schedule), values[3], rtol=1e-6, atol=1e-7)


Q = [[0.1, 0.9, 0.5], [2.0, -1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 3.0, 3.0], [-1.0, -2.0, -0.5]]
BEST = [1, 0, 0, 1, 2]  # the first of several
RANDOM = [2, 1, 2, 0, 0]
COINS = [0.0, 0.25, 0.5, 0.7499, 0.9999]


@pytest.mark.parametrize(
    ("epsilon", "explores"),
    [
        (0.0, [0, 0, 0, 0, 0]),  # never, not even where the coin is 0
        (0.25, [1, 0, 0, 0, 0]),  # the coin has to fall below epsilon
        (0.5, [1, 1, 0, 0, 0]),
        (0.75, [1, 1, 1, 1, 0]),
        (1.0, [1, 1, 1, 1, 1]),  # always: the coin is below 1
    ],
)
def test_epsilon_greedy_by_hand(epsilon: float, explores: list[int]) -> None:
    for dtype in (jnp.int32, jnp.uint8):
        action = epsilon_greedy(jnp.array(Q), epsilon, jnp.array(COINS), jnp.array(RANDOM, dtype))
        assert action.dtype == dtype
        np.testing.assert_array_equal(action, np.where(explores, RANDOM, BEST))


def test_epsilon_greedy_takes_one_state_and_an_epsilon_for_each() -> None:
    one = epsilon_greedy(jnp.array(Q[0]), 0.5, jnp.array(0.6), jnp.array(2))
    assert one.shape == () and one == 1
    epsilons = jnp.array([0.0, 0.3, 0.4, 0.8, 1.0])
    action = epsilon_greedy(jnp.array(Q), epsilons, jnp.array(COINS), jnp.array(RANDOM))
    np.testing.assert_array_equal(action, np.where([0, 1, 0, 1, 1], RANDOM, BEST))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 10**6), st.integers(1, 10**6))
def test_epsilon_falls_from_start_to_end_and_stays_between(start: float, end: float, begins: int, decay: int) -> None:
    steps = np.linspace(0, begins + 2 * decay, 50).astype(np.int32)
    values = np.asarray(epsilon_at(steps, start=start, end=end, begins=begins, decay_steps=decay), np.float64)
    # A straight line in float64, and flat on both sides.
    expected = np.interp(steps, [begins, begins + decay], [start, end])
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert (np.diff(values) * np.sign(end - start) >= -1e-7).all()
