"""The optimisers' first steps against their published formulas, in float64 numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sail.config import make_config
from sail.training.optimisers import make_optimiser

# Columns are parameters: ordinary, tiny, huge, of changing sign, and zero gradients.
GRADIENTS = np.array(
    [
        [0.5, 1e-4, 300.0, 1.0, 0.0],
        [0.25, -2e-4, 10.0, -1.0, 0.0],
        [-2.0, 5e-5, 0.1, 0.5, 0.0],
    ]
)
START = np.array([1.0, -2.0, 0.5, 0.0, 3.0])


def moves_of(name: str, **settings) -> np.ndarray:
    """[3, 5]: what each of three steps adds to the parameters."""
    optimiser = make_optimiser(make_config("kdt", overrides={"optimiser": {"name": name, **settings}}).optimiser)
    params = jnp.array(START, jnp.float32)
    state, moves = optimiser.init(params), []
    for gradient in GRADIENTS:
        updates, state = optimiser.update(jnp.array(gradient, jnp.float32), state, params)
        params = jax.tree.map(jnp.add, params, updates)
        moves.append(np.asarray(updates, np.float64))
    return np.array(moves)


def tensorflow_rmsprop(lr: float, decay: float, eps: float, centered: bool, initial: float) -> np.ndarray:
    mg, ms, moves = np.zeros(5), np.full(5, initial), []
    for g in GRADIENTS:
        mg = decay * mg + (1 - decay) * g
        ms = decay * ms + (1 - decay) * g**2
        moves.append(-lr * g / np.sqrt(ms - (mg**2 if centered else 0.0) + eps))
    return np.array(moves)


@pytest.mark.parametrize("initial", [1.0, 0.0])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize(("lr", "decay", "eps"), [(2.5e-4, 0.95, 1e-5), (0.1, 0.5, 0.01)])
def test_rmsprop_is_tensorflows(lr: float, decay: float, eps: float, centered: bool, initial: float) -> None:
    moves = moves_of("rmsprop", learning_rate=lr, decay=decay, eps=eps, centered=centered, initial_scale=initial)
    np.testing.assert_allclose(moves, tensorflow_rmsprop(lr, decay, eps, centered, initial), rtol=1e-5)


def test_first_rmsprop_step_by_hand() -> None:
    # The defaults are the paper's. For g = 0.5: mg = 0.05 * 0.5 = 0.025, ms = 0.95 + 0.05 * 0.25 = 0.9625, and the step
    # is 2.5e-4 * 0.5 / sqrt(0.9625 - 0.000625 + 0.00001) = 1.25e-4 / sqrt(0.961885) = 1.25e-4 / 0.980757 = 1.274526e-4.
    # For g = 1 (fourth): mg = 0.05, ms = 1, and 2.5e-4 / sqrt(1 - 0.0025 + 0.00001) = 2.5e-4 / 0.998754 = 2.503118e-4.
    first = moves_of("rmsprop")[0]
    np.testing.assert_allclose(first[[0, 3, 4]], [-1.274526e-4, -2.503118e-4, 0.0], rtol=2e-6)


def adam(lr: float, b1: float, b2: float, eps: float) -> np.ndarray:
    m, v, moves = np.zeros(5), np.zeros(5), []
    for t, g in enumerate(GRADIENTS, start=1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        moves.append(-lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps))
    return np.array(moves)


@pytest.mark.parametrize(
    ("lr", "b1", "b2", "eps"), [(1e-3, 0.9, 0.999, 1e-8), (6.25e-5, 0.9, 0.999, 1.5e-4), (0.1, 0.5, 0.8, 0.1)]
)
def test_adam_is_the_published_one(lr: float, b1: float, b2: float, eps: float) -> None:
    moves = moves_of("adam", learning_rate=lr, b1=b1, b2=b2, eps=eps)
    np.testing.assert_allclose(moves, adam(lr, b1, b2, eps), rtol=2e-5)


def test_first_adam_step_by_hand() -> None:
    # The corrections make m = g and v = g^2 at first, so the step is lr * g / (|g| + eps); eps = 1e-8, lr = 1e-3.
    # For g = 1e-4 that is 1e-3 * 1e-4 / 1.0001e-4 = 9.9990e-4.
    np.testing.assert_allclose(
        moves_of("adam", learning_rate=1e-3, eps=1e-8)[0], [-1e-3, -9.9990e-4, -1e-3, -1e-3, 0.0], rtol=1e-5
    )
    # With Dopamine's eps = 1.5e-4 it is 1e-3 * 1e-4 / 2.5e-4 = 4e-4.
    np.testing.assert_allclose(moves_of("adam", learning_rate=1e-3, eps=1.5e-4)[0][1], -4e-4, rtol=1e-5)
