"""Losses by hand, networks against a plain numpy forward pass, and the DQN head made of both."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sail.agents.dqn import DQN
from sail.agents.torso import Torso
from sail.losses import huber, squared, td_error
from sail.networks import MLP, Dense, QNetwork

ERRORS = [0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -3.0]

# Losses


@pytest.mark.parametrize(
    ("delta", "values", "slopes"),
    [
        # |x| <= 1: x^2 / 2, slope x. Beyond: 1/2 + (|x| - 1), slope +-1: 2 -> 1.5, -3 -> 2.5.
        (1.0, [0.0, 0.125, 0.125, 0.5, 0.5, 1.5, 2.5], [0.0, 0.5, -0.5, 1.0, -1.0, 1.0, -1.0]),
        # |x| <= 2: x^2 / 2. Beyond: 2^2 / 2 + 2 (|x| - 2): -3 -> 2 + 2 = 4.
        (2.0, [0.0, 0.125, 0.125, 0.5, 0.5, 2.0, 4.0], [0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0]),
        # |x| <= 1/4: x^2 / 2. Beyond: 1/32 + (|x| - 1/4) / 4: 1/2 -> 3/32, 1 -> 7/32, 2 -> 15/32, 3 -> 23/32.
        (
            0.25,
            [0.0, 3 / 32, 3 / 32, 7 / 32, 7 / 32, 15 / 32, 23 / 32],
            [0.0, 0.25, -0.25, 0.25, -0.25, 0.25, -0.25],
        ),
    ],
)
def test_huber_by_hand(delta: float, values: list[float], slopes: list[float]) -> None:
    errors = jnp.array(ERRORS)
    np.testing.assert_array_equal(huber(errors, delta), values)
    np.testing.assert_array_equal(jax.vmap(jax.grad(lambda x: huber(x, delta)))(errors), slopes)


def test_huber_is_dqns_by_default() -> None:
    assert huber(jnp.array(-3.0)) == 2.5


def test_squared_by_hand() -> None:
    errors = jnp.array(ERRORS)
    np.testing.assert_array_equal(squared(errors), [0.0, 0.125, 0.125, 0.5, 0.5, 2.0, 4.5])
    np.testing.assert_array_equal(jax.vmap(jax.grad(squared))(errors), ERRORS)


Q = np.array([[1.0, 2.0, 4.0], [-1.0, 0.5, 0.0]], np.float32)
ACTIONS = np.array([2, 0])
TARGETS = np.array([1.5, -3.0], np.float32)


def test_td_error_by_hand() -> None:
    # 4 - 1.5 and -1 - (-3)
    np.testing.assert_array_equal(td_error(jnp.array(Q), jnp.array(ACTIONS), jnp.array(TARGETS)), [2.5, 2.0])
    assert td_error(jnp.array(Q[0]), jnp.array(1), jnp.array(0.5)) == 1.5
    two_axes = td_error(jnp.tile(Q, (3, 1, 1)), jnp.tile(ACTIONS, (3, 1)), jnp.tile(TARGETS, (3, 1)))
    np.testing.assert_array_equal(two_axes, [[2.5, 2.0]] * 3)


def test_td_error_moves_only_the_taken_action() -> None:
    by_q, by_target = jax.grad(lambda q, t: td_error(q, jnp.array(ACTIONS), t).sum(), (0, 1))(
        jnp.array(Q), jnp.array(TARGETS)
    )
    np.testing.assert_array_equal(by_q, [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(by_target, [-1, -1])


# Networks

key = jax.random.key(0)
rng = np.random.default_rng(0)


def numpy_dense(layer: Dense, x):
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def with_biases(layer: Dense) -> Dense:
    # Fresh biases are zero, and a network without any would look the same.
    return jax.tree.map(lambda x: jnp.array(np.linspace(-0.5, 0.7, x.size), x.dtype) if x.ndim == 1 else x, layer)


def numpy_mlp(mlp: MLP, x):
    for layer in mlp.layers:
        x = np.maximum(numpy_dense(layer, x), 0.0)
    return x


def test_dense_by_hand() -> None:
    layer = jax.tree.unflatten(
        jax.tree.structure(Dense(2, 3, key)), [jnp.array([[1.0, 2, 3], [4, 5, 6]]), jnp.array([10.0, 20, 30])]
    )
    # [1, -1] @ [[1, 2, 3], [4, 5, 6]] = [-3, -3, -3]
    np.testing.assert_array_equal(layer(jnp.array([1.0, -1.0])), [7, 17, 27])


def q_network(inputs: int, hidden: tuple[int, ...], num_actions: int, key: jax.Array) -> QNetwork:
    torso_key, head_key = jax.random.split(key)
    return QNetwork(MLP(inputs, hidden, torso_key), hidden[-1], num_actions, head_key)


@pytest.mark.parametrize("leading", [(), (5,), (2, 3), (0,)])
def test_dense_is_numpys(leading: tuple[int, ...]) -> None:
    layer = with_biases(Dense(4, 3, key))
    x = rng.standard_normal((*leading, 4)).astype(np.float32)
    result = layer(jnp.array(x))
    assert result.shape == (*leading, 3)
    np.testing.assert_allclose(result, numpy_dense(layer, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [(7,), (6, 6, 5)])
def test_mlp_is_numpys(hidden: tuple[int, ...]) -> None:
    mlp = with_biases(MLP(4, hidden, key))
    assert [layer.weight.shape for layer in mlp.layers] == list(zip((4, *hidden), hidden, strict=False))
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    expected = numpy_mlp(mlp, x)
    assert (expected == 0).any() and (expected > 0).any()  # the ReLU has something to do
    np.testing.assert_allclose(mlp(jnp.array(x)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [(8, 5), (6,)])
@pytest.mark.parametrize("leading", [(), (5,), (2, 3)])
def test_q_network_is_numpys(hidden: tuple[int, ...], leading: tuple[int, ...]) -> None:
    network = with_biases(q_network(4, hidden, 3, key))
    x = rng.standard_normal((*leading, 4)).astype(np.float32)
    expected = numpy_dense(network.head, numpy_mlp(network.torso, x))
    assert (numpy_dense(network.head, numpy_mlp(network.torso, rng.standard_normal((50, 4)))) < 0).any()  # no last ReLU
    result = network(jnp.array(x))
    assert result.shape == (*leading, 3) and result.dtype == jnp.float32
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_bytes_are_seen_as_their_numbers() -> None:
    network = q_network(4, (8,), 3, key)
    x = np.array([[0, 1, 0, 255], [1, 0, 0, 3]], np.uint8)
    np.testing.assert_array_equal(network(jnp.array(x)), network(jnp.array(x, jnp.float32)))


@pytest.mark.parametrize(("inputs", "outputs"), [(100, 200), (300, 60), (3, 3000)])
def test_weights_begin_as_glorots_uniform(inputs: int, outputs: int) -> None:
    layer = Dense(inputs, outputs, jax.random.key(inputs))
    weight = np.asarray(layer.weight, np.float64)
    bound = math.sqrt(6 / (inputs + outputs))
    # The largest of over 9,000 uniform draws is within 0.2 % of the bound but with probability 0.998^9000 = 1e-8.
    assert 0.998 * bound < np.abs(weight).max() <= bound * (1 + 1e-6)
    # A uniform has mean 0 and variance bound^2 / 3; their errors over n draws are bound sqrt(1 / 3n), and a relative
    # sqrt(0.8 / n) = sqrt(E[x^4] / E[x^2]^2 - 1) / sqrt(n) with E[x^4] = bound^4 / 5. Five of each.
    n = weight.size
    assert abs(weight.mean()) < 5 * bound / math.sqrt(3 * n)
    assert abs(weight.var() / (bound**2 / 3) - 1) < 5 * math.sqrt(0.8 / n)
    np.testing.assert_array_equal(layer.bias, np.zeros(outputs))


def test_every_layer_has_weights_of_its_own() -> None:
    network = q_network(6, (6, 6), 6, key)
    weights = [np.asarray(layer.weight) for layer in (*network.torso.layers, network.head)]
    for i, first in enumerate(weights):
        for second in weights[i + 1 :]:
            assert not np.array_equal(first, second)
    again, other = q_network(6, (6, 6), 6, key), q_network(6, (6, 6), 6, jax.random.key(1))
    x = jnp.ones(6)
    np.testing.assert_array_equal(network(x), again(x))
    assert not np.array_equal(network(x), other(x))


# The DQN head


def test_dqn_targets_and_loss_by_hand() -> None:
    outputs = jnp.array(Q)  # V = 4 and 0.5
    reward, discount = jnp.array([1.0, -1.0]), jnp.array([0.5, 0.0])
    for rule in ("bellman", "al", "sail", "strsil"):
        # 1 + 0.5 * 4 = 3 and -1 + 0 * 0.5 = -1
        np.testing.assert_array_equal(DQN(Torso((4,)), 3, rule=rule).targets(outputs, reward, discount), [3.0, -1.0])
    # tau = 1: log(e + e^2 + e^4) = log(2.718282 + 7.389056 + 54.598150) = log(64.705488) = 4.169846
    np.testing.assert_allclose(
        DQN(Torso((4,)), 3, rule="munchausen", tau=1.0).targets(outputs, reward, discount),
        [1 + 0.5 * 4.169846, -1.0],
        rtol=1e-6,
    )
    # Errors 4 - 1.5 = 2.5 and -1 + 3 = 2: Huber 2 and 1.5, squared 3.125 and 2.
    actions, targets = jnp.array(ACTIONS), jnp.array(TARGETS)
    np.testing.assert_array_equal(DQN(Torso((4,)), 3).loss(outputs, actions, targets), [2.0, 1.5])
    np.testing.assert_array_equal(
        DQN(Torso((4,)), 3, loss_name="squared").loss(outputs, actions, targets), [3.125, 2.0]
    )


def test_dqn_is_its_q_network() -> None:
    agent = DQN(Torso((4,), hidden=(8, 5)), 3)
    params = agent.init(key)
    x = jnp.array(rng.standard_normal((2, 3, 4)), jnp.float32)
    np.testing.assert_array_equal(agent.q_values(agent.evaluate(params, x)), q_network(4, (8, 5), 3, key)(x))
