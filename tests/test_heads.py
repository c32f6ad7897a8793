"""Fresh weights, noisy layers, heads and the choice of an action's values, against numpy in plain steps."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sail.agents.c51 import C51
from sail.agents.dqn import DQN
from sail.agents.torso import Torso
from sail.losses import of_action
from sail.networks import MLP, Dense, Head, NoisyDense, Stream

key, other_key = jax.random.split(jax.random.key(0))


def filled(make):
    """A network with numbers from numpy: drawing its own has to be compiled for every shape there is.

    Fresh ones would have biases of zero, and deviations that are all alike: a mistake with them would look the same.
    """
    rng = np.random.default_rng(1)
    return jax.tree.map(
        lambda x: jnp.array(rng.standard_normal(x.shape) / math.sqrt(x.shape[0]), jnp.float32), jax.eval_shape(make)
    )


@jax.jit
def evaluate(network, x, noise_key=None):
    """Compiled as a whole: operation by operation takes several times as long. x comes in any float dtype."""
    return network(x) if noise_key is None else network(x, noise_key)


def exact(x):
    return np.asarray(x, np.float64)


def normal(*shape: int):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def numpy_layer(layer: Dense | NoisyDense, x, noise_key=None):
    """x @ weight + bias; with a key, both with the factorised noise of Fortunato et al. (2018), entry by entry."""
    weight, bias = exact(layer.weight).copy(), exact(layer.bias).copy()
    if noise_key is not None and isinstance(layer, NoisyDense):
        inputs, outputs = weight.shape
        noise = [math.copysign(math.sqrt(abs(e)), e) for e in exact(jax.random.normal(noise_key, (inputs + outputs,)))]
        for j in range(outputs):
            bias[j] += float(layer.bias_deviation[j]) * noise[inputs + j]
            for i in range(inputs):
                weight[i, j] += float(layer.weight_deviation[i, j]) * noise[i] * noise[inputs + j]
    return x @ weight + bias


def numpy_stream(stream: Stream, x, noise_key=None):
    hidden_key, out_key = (None, None) if noise_key is None else jax.random.split(noise_key)
    return numpy_layer(stream.out, np.maximum(numpy_layer(stream.hidden, x, hidden_key), 0), out_key)


def numpy_head(head: Head, x, numbers: int, keys=(None, None)):
    """[F] to [A, numbers], for one x."""
    advantage = numpy_stream(head.advantage, x, keys[0])
    rows = [advantage[a * numbers : (a + 1) * numbers] for a in range(head.num_actions)]
    if head.value is None:
        return np.array(rows)
    value = numpy_stream(head.value, x, keys[1])
    return np.array([value + row - sum(rows) / len(rows) for row in rows])


def assert_close(actual, expected) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


# Fresh weights


@pytest.mark.parametrize(
    ("initialiser", "inputs", "outputs", "bound"),
    [
        # sqrt(6 / (inputs + outputs)): sqrt(6 / 300), sqrt(6 / 360), sqrt(6 / 3003).
        ("glorot", 100, 200, 0.1414214),
        ("glorot", 300, 60, 0.1290994),
        ("glorot", 3, 3000, 0.0446990),
        # A variance of 1 / sqrt(3) / inputs is a bound of sqrt(sqrt(3) / inputs), whatever the outputs.
        ("fan_in", 100, 200, 0.1316074),
        ("fan_in", 300, 60, 0.0759836),
        ("fan_in", 3, 3000, 0.7598357),
    ],
)
def test_weights_of_a_dense_layer_begin_uniform(initialiser: str, inputs: int, outputs: int, bound: float) -> None:
    layer = Dense(inputs, outputs, jax.random.key(inputs), initialiser)
    weight = np.asarray(layer.weight, np.float64)
    # The largest of over 9,000 uniform draws is within 0.2 % of the bound but with probability 0.998^9000 = 1e-8.
    assert 0.998 * bound < np.abs(weight).max() <= bound * (1 + 1e-6)
    # A uniform has mean 0 and variance bound^2 / 3; their errors over n draws are bound sqrt(1 / 3n), and a relative
    # sqrt(0.8 / n) = sqrt(E[x^4] / E[x^2]^2 - 1) / sqrt(n) with E[x^4] = bound^4 / 5. Five of each.
    n = weight.size
    assert abs(weight.mean()) < 5 * bound / math.sqrt(3 * n)
    assert abs(weight.var() / (bound**2 / 3) - 1) < 5 * math.sqrt(0.8 / n)
    np.testing.assert_array_equal(layer.bias, np.zeros(outputs))


@pytest.mark.parametrize(("inputs", "outputs"), [(40, 15), (15, 40)])
def test_orthogonal_weights_of_a_dense_layer_begin_so(inputs: int, outputs: int) -> None:
    layer = jax.jit(lambda: Dense(inputs, outputs, key, "orthogonal"))()
    weight = np.asarray(layer.weight, np.float64)
    # Columns of length sqrt(2), any two at right angles; where there are too many for that, rows are.
    products = weight.T @ weight if inputs > outputs else weight @ weight.T
    np.testing.assert_allclose(products, 2 * np.eye(15), atol=1e-5)
    np.testing.assert_array_equal(layer.bias, np.zeros(outputs))


def test_glorot_is_the_initialiser_unless_told() -> None:
    np.testing.assert_array_equal(Dense(4, 3, key).weight, Dense(4, 3, key, "glorot").weight)
    np.testing.assert_array_equal(MLP(4, (3,), key).layers[0].weight, MLP(4, (3,), key, "glorot").layers[0].weight)


# bfloat16


def assert_close_in_bfloat16(actual, expected) -> None:
    np.testing.assert_allclose(exact(actual), expected, rtol=0.03, atol=0.03 * np.abs(expected).max())


@pytest.mark.parametrize("make", [lambda: Dense(40, 30, key), lambda: MLP(40, (30, 30), key)])
def test_layers_compute_in_bfloat16_where_that_comes_in(make) -> None:
    network, x = filled(make), normal(3, 40)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(network))
    expected, result = evaluate(network, x), evaluate(network, jnp.array(x, jnp.bfloat16))
    assert expected.dtype == jnp.float32 and result.dtype == jnp.bfloat16
    assert_close_in_bfloat16(result, expected)


# Noisy layers


def test_a_noisy_layer_by_hand() -> None:
    layer = jax.tree.unflatten(
        jax.tree.structure(NoisyDense(1, 1, key)),
        [jnp.array([[2.0]]), jnp.array([3.0]), jnp.array([[0.5]]), jnp.array([0.25])],
    )
    e, f = (float(x) for x in jax.random.normal(key, (2,)))
    root_e, root_f = math.copysign(abs(e) ** 0.5, e), math.copysign(abs(f) ** 0.5, f)
    # x = 4: 4 * (2 + 0.5 f(e) f(f)) + 3 + 0.25 f(f)
    expected = 4 * (2 + 0.5 * root_e * root_f) + 3 + 0.25 * root_f
    assert float(layer(jnp.array([4.0]), key)[0]) == pytest.approx(expected, rel=1e-5)
    assert layer(jnp.array([4.0]))[0] == 11


@pytest.mark.parametrize("leading", [(), (5,), (2, 3), (0,)])
def test_a_noisy_layer_is_numpys_with_and_without_its_noise(leading: tuple[int, ...]) -> None:
    layer, x = filled(lambda: NoisyDense(6, 5, key)), normal(*leading, 6)
    assert_close(evaluate(layer, x), numpy_layer(layer, x))
    noisy = evaluate(layer, x, other_key)
    assert noisy.shape == (*leading, 5)
    assert_close(noisy, numpy_layer(layer, x, other_key))


@pytest.mark.parametrize(("inputs", "outputs", "bound", "deviation"), [(100, 90, 0.1, 0.05), (4, 3000, 0.5, 0.25)])
def test_a_noisy_layer_begins_as_published(inputs: int, outputs: int, bound: float, deviation: float) -> None:
    # Means are uniform within 1 / sqrt(inputs), and deviations are 0.5 / sqrt(inputs): sqrt(100) = 10, sqrt(4) = 2.
    layer = NoisyDense(inputs, outputs, key)
    np.testing.assert_allclose(layer.weight_deviation, np.full((inputs, outputs), deviation), rtol=1e-6)
    np.testing.assert_allclose(layer.bias_deviation, np.full(outputs, deviation), rtol=1e-6)
    for mean in (layer.weight, layer.bias):
        assert 0.95 * bound < np.abs(mean).max() <= bound  # 0.95^90 = 0.01, and the key is fixed
    assert np.var(layer.weight) == pytest.approx(bound**2 / 3, rel=0.03)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(layer))
    assert layer.weight[0, 0] != layer.bias[0]
    louder = NoisyDense(inputs, outputs, key, 1.5)
    np.testing.assert_allclose(louder.weight_deviation, 3 * layer.weight_deviation, rtol=1e-6)
    np.testing.assert_allclose(louder.bias_deviation, 3 * layer.bias_deviation, rtol=1e-6)
    np.testing.assert_array_equal(louder.weight, layer.weight)


def test_noise_has_the_mean_and_the_variance_worked_out() -> None:
    layer, number = NoisyDense(4, 5, key), 20_000
    x = np.array([0.5, -1.0, 2.0, 0.0], np.float32)
    results = exact(jax.jit(jax.vmap(layer, (None, 0)))(x, jax.random.split(other_key, number)))
    # An output's noise is deviation * f(e') * (1 + sum_i x_i f(e_i)), and f(e)^2 = |e| has the mean sqrt(2 / pi). So
    # its mean is 0, and its variance deviation^2 * sqrt(2 / pi) * (1 + sqrt(2 / pi) |x|^2); |x|^2 = 5.25, and the
    # deviation 0.5 / sqrt(4).
    variance = 0.25**2 * math.sqrt(2 / math.pi) * (1 + math.sqrt(2 / math.pi) * 5.25)
    np.testing.assert_allclose(results.mean(axis=0), layer(x), atol=5 * math.sqrt(variance / number))
    np.testing.assert_allclose(results.var(axis=0), np.full(5, variance), rtol=0.1)
    # Outputs have noise of their own.
    assert np.abs(np.corrcoef(results.T) - np.eye(5)).max() < 0.05


def test_a_key_draws_one_noise_for_the_whole_batch() -> None:
    layer, x = filled(lambda: NoisyDense(6, 5, key)), normal(7, 6)
    together = np.asarray(evaluate(layer, x, other_key))
    for i in range(7):
        assert_close(together[i], evaluate(layer, x[i], other_key))
    same = np.asarray(evaluate(layer, np.tile(x[0], (7, 1)), other_key))
    assert_close(same, np.tile(same[0], (7, 1)))
    assert not np.allclose(together, evaluate(layer, x), atol=1e-2)
    assert not np.allclose(together, evaluate(layer, x, key), atol=1e-2)


def test_noise_in_bfloat16() -> None:
    layer, x = filled(lambda: NoisyDense(40, 30, key)), normal(3, 40)
    for noise_key in (None, other_key):
        result = evaluate(layer, jnp.array(x, jnp.bfloat16), noise_key)
        assert result.dtype == jnp.bfloat16
        assert_close_in_bfloat16(result, numpy_layer(layer, x, noise_key))


def test_deviations_learn_from_noise_alone() -> None:
    layer, x = filled(lambda: NoisyDense(6, 5, key)), jnp.array(normal(7, 6))
    slope = jax.jit(jax.grad(lambda one, noise_key: one(x, noise_key).sum()))
    with_noise, without = slope(layer, other_key), slope(layer, None)
    assert np.all(with_noise.weight_deviation != 0) and np.all(with_noise.bias_deviation != 0)
    assert not np.any(without.weight_deviation) and not np.any(without.bias_deviation)
    np.testing.assert_allclose(with_noise.weight, without.weight, rtol=1e-6)


# Heads

HEADS = [
    {"dueling": dueling, "noise": noise, "numbers": numbers}
    for dueling, noise, numbers in [
        (False, None, 1),
        (False, 0.5, 3),
        (True, None, 1),
        (True, None, 3),
        (True, 2.0, 3),
    ]
]


def make_head(**options) -> Head:
    return filled(lambda: Head(6, 5, 4, key, **options))


@pytest.mark.parametrize("options", HEADS)
def test_a_head_is_numpys(options) -> None:
    head, x, numbers = make_head(**options), normal(2, 3, 6), options["numbers"]
    result = evaluate(head, x)
    assert result.shape == (2, 3, 4, numbers) and result.dtype == jnp.float32
    assert_close(result, [[numpy_head(head, one, numbers) for one in row] for row in x])
    hidden = numpy_layer(head.advantage.hidden, x)
    assert (hidden < 0).any() and (hidden > 0).any() and (exact(result) < 0).any()  # one ReLU, and no last one
    assert (head.value is not None) == options["dueling"]


@pytest.mark.parametrize("options", [options for options in HEADS if options["noise"]])
def test_a_noisy_head_draws_anew_for_each_layer(options) -> None:
    head, x, numbers = make_head(**options), normal(6), options["numbers"]
    keys = jax.random.split(other_key) if options["dueling"] else (other_key, None)
    noisy = evaluate(head, x, other_key)
    assert_close(noisy, numpy_head(head, x, numbers, keys))
    np.testing.assert_array_equal(noisy, evaluate(head, x, other_key))
    assert not np.allclose(noisy, evaluate(head, x, key), atol=1e-2)
    assert not np.allclose(noisy, evaluate(head, x), atol=1e-2)


def test_a_head_without_noise_pays_no_heed_to_a_key() -> None:
    head, x = make_head(dueling=True), normal(6)
    np.testing.assert_array_equal(evaluate(head, x, other_key), evaluate(head, x))


@pytest.mark.parametrize("leading", [(), (5,), (0,)])
@pytest.mark.parametrize("dueling", [False, True])
def test_a_head_takes_any_leading_axes(leading: tuple[int, ...], dueling: bool) -> None:
    head, x = make_head(dueling=dueling, numbers=3), normal(*leading, 6)
    result = np.asarray(evaluate(head, x))
    assert result.shape == (*leading, 4, 3)
    for place in np.ndindex(leading):
        assert_close(result[place], numpy_head(head, x[place], 3))


@settings(max_examples=10, deadline=None)
@given(hnp.arrays(np.float32, 6, elements=st.floats(-3, 3, width=32)))
def test_the_mean_over_actions_of_a_dueling_head_is_its_value(x) -> None:
    head = make_head(dueling=True, numbers=3)
    assert_close(np.mean(exact(evaluate(head, x)), axis=0), numpy_stream(head.value, x))


def test_a_dueling_head_moves_all_actions_from_one() -> None:
    # Q(a) = V + A(a) - mean A: by its own stream's bias an action moves itself by 1 - 1/4 and the others by -1/4.
    head, x = make_head(dueling=True), jnp.array(normal(6))
    slope = jax.jit(jax.grad(lambda one: one(x)[2, 0]))(head)
    assert_close(slope.advantage.out.bias, [-0.25, -0.25, 0.75, -0.25])
    assert_close(slope.value.out.bias, [1.0])


@pytest.mark.parametrize("options", HEADS)
def test_a_head_in_bfloat16_gives_float32(options) -> None:
    head, x = make_head(**options), jnp.array(normal(5, 6), jnp.bfloat16)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(head))
    result = evaluate(head, x)
    assert result.dtype == jnp.float32
    assert_close_in_bfloat16(result, evaluate(head, np.asarray(x, np.float32)))
    slope = jax.eval_shape(jax.grad(lambda one: one(x).sum()), head)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(slope))


def test_only_the_hidden_layer_is_in_bfloat16() -> None:
    head, x = make_head(numbers=3), jnp.array(normal(5, 6), jnp.bfloat16)
    hidden = head.advantage.hidden(x)
    assert hidden.dtype == jnp.bfloat16
    expected = numpy_layer(head.advantage.out, np.maximum(exact(hidden), 0))
    assert_close(head(x).reshape(5, -1), expected)  # as exact as float32


def test_value_and_advantage_begin_with_weights_of_their_own() -> None:
    for noise in (None, 0.5):
        head = Head(6, 6, 6, key, numbers=1, dueling=True, noise=noise)
        weights = [head.advantage.hidden, head.advantage.out, head.value.hidden, head.value.out]
        first = [np.asarray(layer.weight).ravel()[0] / np.abs(layer.weight).max() for layer in weights]
        assert len(set(first)) == 4


# 1,000 features, 400 hidden units and 500 outputs: Glorot's bounds are sqrt(6 / 1400) and sqrt(6 / 900), and those of
# fan_in sqrt(sqrt(3) / 1000) and sqrt(sqrt(3) / 400). DQN begins with the former and C51 with the latter.
@pytest.mark.parametrize(
    ("agent", "bounds"),
    [
        (DQN(Torso((1000,), hidden=(400,)), 500, dueling=False), (0.0654654, 0.0816497)),
        (C51(Torso((1000,), hidden=(400,)), 50, atoms=10), (0.0416179, 0.0658037)),
    ],
)
def test_agents_begin_with_the_weights_of_dopamine(agent, bounds: tuple[float, float]) -> None:
    stream = agent.init(key).head.advantage
    for layer, bound in zip((stream.hidden, stream.out), bounds, strict=True):
        assert 0.999 * bound < np.abs(layer.weight).max() <= bound * (1 + 1e-5)


# The values of an action


def test_of_action_by_hand() -> None:
    q = jnp.array([[1.0, 2.0, 4.0], [-1.0, 0.5, 0.0]])
    np.testing.assert_array_equal(of_action(q, jnp.array([2, 0])), [4.0, -1.0])
    assert of_action(q[0], jnp.array(1)) == 2
    # Two actions with three atoms each.
    np.testing.assert_array_equal(of_action(q, jnp.array(1), axis=-2), [-1.0, 0.5, 0.0])


fast_of_action = jax.jit(of_action, static_argnames="axis")


# As many quantiles as actions, too: nothing would object if the axes were swapped.
@pytest.mark.parametrize(
    ("leading", "num_actions", "numbers"), [((), 4, 5), ((3,), 4, 4), ((2, 3), 3, 5), ((2,), 1, 3), ((0,), 4, 5)]
)
def test_of_action_is_an_index_along_either_axis(leading: tuple[int, ...], num_actions: int, numbers: int) -> None:
    action = np.asarray(np.random.default_rng(0).integers(0, num_actions, leading))
    # DQN's [..., A], C51's [..., A, atoms], and IQN's [..., N, A], where all quantiles share the action.
    last, atoms, quantiles = (
        normal(*leading, *shape) for shape in ((num_actions,), (num_actions, numbers), (numbers, num_actions))
    )
    of_last, of_atoms, of_quantiles = (
        np.asarray(x)
        for x in (
            fast_of_action(last, action),
            fast_of_action(atoms, action, axis=-2),
            fast_of_action(quantiles, action[..., None]),
        )
    )
    assert of_last.shape == leading and of_atoms.shape == of_quantiles.shape == (*leading, numbers)
    for place in np.ndindex(*leading):
        chosen = action[place]
        assert of_last[place] == last[place][chosen]
        np.testing.assert_array_equal(of_atoms[place], atoms[place][chosen])
        np.testing.assert_array_equal(of_quantiles[place], quantiles[place][:, chosen])


def test_of_action_moves_only_the_action() -> None:
    action = jnp.array([2, 0])
    slope = jax.jit(jax.grad(lambda x: of_action(x, action, axis=-2).sum()))(jnp.zeros((2, 3, 2)))
    np.testing.assert_array_equal(slope, [[[0, 0], [0, 0], [1, 1]], [[1, 1], [0, 0], [0, 0]]])
    slope = jax.jit(jax.grad(lambda x: of_action(x, action[:, None]).sum()))(jnp.zeros((2, 2, 3)))
    np.testing.assert_array_equal(slope, [[[0, 0, 1], [0, 0, 1]], [[1, 0, 0], [1, 0, 0]]])
