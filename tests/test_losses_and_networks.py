"""Losses by hand and against plain loops, networks against a numpy forward pass, and the DQN made of both."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sail.agents.dqn import DQN
from sail.agents.torso import Torso
from sail.losses import cross_entropy, huber, project, quantile_huber, squared, td_error
from sail.networks import MLP, Dense, Head, Network

key = jax.random.key(0)


def normal(*shape: int):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


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


# Distributions on atoms

# Compiled once for all the examples of a test.
fast_project, fast_quantile_huber = jax.jit(project), jax.jit(quantile_huber)
fast_cross_entropy = jax.jit(jax.value_and_grad(cross_entropy))


def numpy_project(atoms, probabilities, support):
    """Bellemare et al. (2017), Algorithm 1, atom by atom, in float64."""
    low, high = float(support[0]), float(support[-1])
    spacing = (high - low) / (len(support) - 1)
    result = np.zeros(len(support))
    for atom, probability in zip(atoms.astype(np.float64), probabilities.astype(np.float64), strict=True):
        place = (min(max(atom, low), high) - low) / spacing
        below, above = math.floor(place), math.ceil(place)
        if below == above:  # the paper's algorithm loses this one's probability
            result[below] += probability
        else:
            result[below] += probability * (above - place)
            result[above] += probability * (place - below)
    return result


def test_project_by_hand() -> None:
    atoms, probabilities, support = jnp.array([0.25, 2.5, -3.0]), jnp.array([0.4, 0.5, 0.1]), jnp.arange(3.0)
    # 0.25 is 3/4 with 0 and 1/4 with 1: 0.3 and 0.1. All of 2.5 goes to 2, and all of -3 to 0: [0.3 + 0.1, 0.1, 0.5].
    np.testing.assert_allclose(project(atoms, probabilities, support), [0.4, 0.1, 0.5], rtol=1e-6)
    # On a support of spacing 2, 0.5 is 3/4 with 0 and 1/4 with 2, and -1.5 is 1/4 with 0 and 3/4 with -2.
    result = project(jnp.array([0.5, -1.5]), jnp.array([0.2, 0.8]), jnp.array([-4.0, -2.0, 0.0, 2.0]))
    np.testing.assert_allclose(result, [0.0, 0.6, 0.15 + 0.2, 0.05], rtol=1e-6)


def test_a_point_and_a_terminal_state_are_projected_by_hand() -> None:
    # Discount 0: all atoms are at the reward, 0.3, whatever their probabilities. 0.3 is 0.25 + 0.05, with spacing 0.25.
    probabilities = jnp.array([0.1, 0.2, 0.3, 0.25, 0.15])
    result = project(jnp.full(5, 0.3), probabilities, jnp.linspace(-0.5, 0.5, 5))
    np.testing.assert_allclose(result, [0, 0, 0, 0.8, 0.2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_project_is_the_papers_algorithm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    support = np.linspace(-10, 10, 51, dtype=np.float32)
    atoms, probabilities = rng.uniform(-13, 13, 30).astype(np.float32), rng.dirichlet(np.ones(30)).astype(np.float32)
    expected = numpy_project(atoms, probabilities, support)
    assert ((atoms > 10) | (atoms < -10)).any()
    np.testing.assert_allclose(
        project(jnp.array(atoms), jnp.array(probabilities), jnp.array(support)), expected, atol=1e-6
    )


# Spacings that float32 has exactly, so that only the last digits of sums are uncertain.
SUPPORTS = st.builds(
    lambda first, spacing, size: np.float32(first + spacing * np.arange(size)),
    st.integers(-20, 20),
    st.sampled_from([0.25, 0.5, 2.0]),
    st.sampled_from([2, 3, 11]),
)
ATOMS = hnp.arrays(np.float32, 5, elements=st.floats(-50, 50, width=32))
PROBABILITIES = hnp.arrays(np.float64, 5, elements=st.floats(0, 1)).map(
    lambda x: np.float32((x + 1e-3) / (x + 1e-3).sum())
)


@settings(max_examples=40, deadline=None)
@given(ATOMS, PROBABILITIES, SUPPORTS)
def test_a_projection_is_a_distribution_with_the_same_mean(atoms, probabilities, support) -> None:
    result = np.asarray(fast_project(atoms, probabilities, support))
    assert result.shape == support.shape and (result >= 0).all()
    assert result.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(result, numpy_project(atoms, probabilities, support), atol=1e-5)
    # What lies beyond an end counts as that end; nothing else moves the mean.
    inside = np.clip(atoms, support[0], support[-1])
    assert result @ support == pytest.approx(probabilities @ inside, abs=1e-3)
    np.testing.assert_allclose(fast_project(inside, probabilities, support), result, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(PROBABILITIES, st.integers(-20, 20), st.floats(0.1, 10))
def test_a_distribution_on_the_support_stays_as_it_is(probabilities, first: int, width: float) -> None:
    support = np.linspace(first, first + width, 5, dtype=np.float32)
    # Of a spacing of 1/40 or more, float32 is off by a few times 1e-6 this far from zero.
    np.testing.assert_allclose(fast_project(support, probabilities, support), probabilities, atol=1e-3)


def test_cross_entropy_by_hand() -> None:
    # softmax([0, log 3]) = [1/4, 3/4]: (log 4 + log(4/3)) / 2 = log(16 / 3) / 2 = 0.8369882.
    assert cross_entropy(jnp.array([0.0, math.log(3)]), jnp.array([0.5, 0.5])) == pytest.approx(0.8369882)
    # Far apart, exp would overflow: log softmax = [0, -1000].
    assert cross_entropy(jnp.array([1000.0, 0.0]), jnp.array([0.0, 1.0])) == 1000
    assert cross_entropy(jnp.array([1000.0, 0.0]), jnp.array([1.0, 0.0])) == 0


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.float32, 5, elements=st.floats(-30, 30, width=32)), PROBABILITIES)
def test_cross_entropy_is_numpys_and_its_gradient_softmax_minus_p(logits, probabilities) -> None:
    exact = np.exp(logits.astype(np.float64))
    softmax = exact / exact.sum()
    loss, gradient = fast_cross_entropy(logits, probabilities)
    assert loss == pytest.approx(-(probabilities * np.log(softmax)).sum(), rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(gradient, softmax - probabilities, atol=1e-5)


# Quantiles


def numpy_quantile_huber(quantiles, taus, targets, kappa):
    """Dabney et al. (2018), Eq. (3), pair by pair, in float64."""
    total = 0.0
    for quantile, tau in zip(quantiles, taus, strict=True):
        for target in targets:
            error = float(target) - float(quantile)
            size = abs(error)
            loss = 0.5 * size**2 if size <= kappa else kappa * (size - 0.5 * kappa)
            total += abs(float(tau) - (1.0 if error < 0 else 0.0)) * loss / kappa / len(targets)
    return total


@pytest.mark.parametrize(
    ("kappa", "expected"),
    [
        # At 0, tau 1/4: errors 0.5 and 3, Huber 1/8 and 2.5, times 1/4: the mean of 0.03125 and 0.625, 0.328125.
        # At 1, tau 3/4: errors -0.5 and 2, Huber 1/8 and 1.5, times 1/4 and 3/4: of 0.03125 and 1.125, 0.578125.
        (1.0, 0.328125 + 0.578125),
        # Huber / 2: 1/16 and (2 + 2) / 2 = 2, times 1/4: the mean of 0.015625 and 0.5, 0.2578125.
        # 1/16 and 2 / 2 = 1, times 1/4 and 3/4: the mean of 0.015625 and 0.75, 0.3828125.
        (2.0, 0.2578125 + 0.3828125),
    ],
)
def test_quantile_huber_by_hand(kappa: float, expected: float) -> None:
    quantiles, taus, targets = jnp.array([0.0, 1.0]), jnp.array([0.25, 0.75]), jnp.array([0.5, 3.0])
    assert quantile_huber(quantiles, taus, targets, kappa) == pytest.approx(expected)


def test_kappa_is_one_unless_told() -> None:
    # One quantile and one target: the error is 3, so 1/4 of 2.5.
    assert quantile_huber(jnp.zeros(1), jnp.full(1, 0.25), jnp.full(1, 3.0)) == 0.625


# More online than target quantiles: what is summed and what is averaged cannot be swapped.
QUANTILES = hnp.arrays(np.float32, 5, elements=st.floats(-4, 4, width=32))
FRACTIONS = hnp.arrays(np.float32, 5, elements=st.floats(0, 1, width=32))
QUANTILE_TARGETS = hnp.arrays(np.float32, 3, elements=st.floats(-4, 4, width=32))


@settings(max_examples=60, deadline=None)
@given(QUANTILES, FRACTIONS, QUANTILE_TARGETS, st.sampled_from([0.1, 1.0, 2.5]), st.permutations(range(5)))
def test_quantile_huber_is_the_papers_sum(quantiles, taus, targets, kappa: float, order: list[int]) -> None:
    result = float(fast_quantile_huber(quantiles, taus, targets, kappa))
    assert result == pytest.approx(numpy_quantile_huber(quantiles, taus, targets, kappa), rel=1e-4, abs=1e-5)
    assert result >= 0
    # Neither the order of the fractions matters, nor where zero is.
    moved = fast_quantile_huber(quantiles[order] + 2, taus[order], targets[::-1] + 2, kappa)
    assert moved == pytest.approx(result, rel=1e-4, abs=1e-4)
    fixed = np.full(5, 1.5, np.float32)
    assert fast_quantile_huber(fixed, taus, fixed[:3], kappa) == 0


# Ten equally likely returns, and fractions whose quantiles are 0, 2, 5 and 9: the k-th of ten is where F passes k / 10.
RETURNS = np.arange(10, dtype=np.float32)
TAUS, TRUE_QUANTILES = np.array([0.05, 0.25, 0.55, 0.95], np.float32), np.array([0.0, 2.0, 5.0, 9.0], np.float32)


def test_gradients_push_towards_the_true_quantiles() -> None:
    slope = jax.jit(jax.grad(lambda x: quantile_huber(x, jnp.array(TAUS), jnp.array(RETURNS), 0.25)))
    # Where all returns are further off than kappa, the slope is F(x) - tau: half a step up F is 0.1, 0.3, 0.6, 1.
    np.testing.assert_allclose(slope(TRUE_QUANTILES + 0.5), [0.05, 0.05, 0.05, 0.05], atol=1e-6)
    # Half a step down F is 0, 0.2, 0.5, 0.9.
    np.testing.assert_allclose(slope(TRUE_QUANTILES - 0.5), [-0.05, -0.05, -0.05, -0.05], atol=1e-6)
    # From far below every return, the slope is -tau; from far above, 1 - tau.
    np.testing.assert_allclose(slope(np.full(4, -20.0, np.float32)), -TAUS, atol=1e-6)
    np.testing.assert_allclose(slope(np.full(4, 30.0, np.float32)), 1 - TAUS, atol=1e-6)


def test_gradient_descent_finds_the_quantiles() -> None:
    slope = jax.jit(jax.grad(lambda x: quantile_huber(x, jnp.array(TAUS), jnp.array(RETURNS), 0.25)))
    found = jax.lax.fori_loop(0, 400, lambda _, x: x - slope(x), jnp.full(4, 4.5))
    np.testing.assert_allclose(found, TRUE_QUANTILES, atol=0.25)  # Huber's rounding of the corner is kappa wide
    np.testing.assert_allclose(slope(found), np.zeros(4), atol=1e-4)


# Networks


def numpy_dense(layer: Dense, x):
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def filled(make):
    """A network with numbers from numpy: drawing its own has to be compiled for every shape there is.

    Fresh biases would be zero, and a network without any would look the same.
    """
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: jnp.array(rng.uniform(-1, 1, x.shape), jnp.float32), jax.eval_shape(make))


@jax.jit
def evaluate(network, x):
    return network(x)


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


def q_network(inputs: int, hidden: tuple[int, ...], num_actions: int, key: jax.Array) -> Network:
    torso_key, head_key = jax.random.split(key)
    torso = MLP(inputs, hidden[:-1], torso_key)  # the last hidden layer is the head's
    return Network(torso, Head((inputs, *hidden)[-2], hidden[-1], num_actions, head_key))


def numpy_q(network: Network, x):
    """[..., A]."""
    stream = network.head.advantage
    return numpy_dense(stream.out, np.maximum(numpy_dense(stream.hidden, numpy_mlp(network.torso, x)), 0.0))


@pytest.mark.parametrize("leading", [(), (5,), (2, 3), (0,)])
def test_dense_is_numpys(leading: tuple[int, ...]) -> None:
    layer = filled(lambda: Dense(4, 3, key))
    x = normal(*leading, 4)
    result = evaluate(layer, x)
    assert result.shape == (*leading, 3)
    np.testing.assert_allclose(result, numpy_dense(layer, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [(7,), (6, 6, 5)])
def test_mlp_is_numpys(hidden: tuple[int, ...]) -> None:
    mlp = filled(lambda: MLP(4, hidden, key))
    assert [layer.weight.shape for layer in mlp.layers] == list(zip((4, *hidden), hidden, strict=False))
    x = normal(2, 3, 4)
    expected = numpy_mlp(mlp, x)
    assert (expected == 0).any() and (expected > 0).any()  # the ReLU has something to do
    np.testing.assert_allclose(evaluate(mlp, x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [(8, 7, 5), (8, 5), (6,)])
@pytest.mark.parametrize("leading", [(), (5,), (2, 3)])
def test_q_network_is_numpys(hidden: tuple[int, ...], leading: tuple[int, ...]) -> None:
    network = filled(lambda: q_network(4, hidden, 3, key))
    x = normal(*leading, 4)
    assert (numpy_q(network, normal(50, 4)) < 0).any()  # no last ReLU
    result = evaluate(network, x)
    assert result.shape == (*leading, 3, 1) and result.dtype == jnp.float32
    np.testing.assert_allclose(result[..., 0], numpy_q(network, x), rtol=1e-5, atol=1e-6)


def test_bytes_are_seen_as_their_numbers() -> None:
    network = filled(lambda: q_network(4, (8,), 3, key))
    x = np.array([[0, 1, 0, 255], [1, 0, 0, 3]], np.uint8)
    np.testing.assert_array_equal(evaluate(network, x), evaluate(network, x.astype(np.float32)))


def test_no_hidden_layer_is_the_observation_itself() -> None:
    np.testing.assert_array_equal(MLP(4, (), key)(jnp.array([0, 1, 0, 255], jnp.uint8)), [0.0, 1.0, 0.0, 255.0])


def test_every_layer_has_weights_of_its_own() -> None:
    network = q_network(6, (6, 6, 6), 6, key)
    stream = network.head.advantage
    weights = [np.asarray(layer.weight) for layer in (*network.torso.layers, stream.hidden, stream.out)]
    assert len(weights) == 4
    for i, first in enumerate(weights):
        for second in weights[i + 1 :]:
            assert not np.array_equal(first, second)
    again, other = q_network(6, (6, 6, 6), 6, key), q_network(6, (6, 6, 6), 6, jax.random.key(1))
    x = jnp.ones(6)
    np.testing.assert_array_equal(network(x), again(x))
    assert not np.array_equal(network(x), other(x))


# DQN


def itself(prepared, key=None):
    """A network that reads off its outputs: [..., A] to [..., A, 1]."""
    return prepared[..., None]


def test_dqn_targets_and_loss_by_hand() -> None:
    outputs = jnp.array(Q)  # V = 4 and 0.5
    reward, discount = jnp.array([1.0, -1.0]), jnp.array([0.5, 0.0])
    for rule in ("bellman", "al", "sail", "strsil"):
        # 1 + 0.5 * 4 = 3 and -1 + 0 * 0.5 = -1
        np.testing.assert_array_equal(DQN(Torso((4,)), 3, rule=rule).targets(outputs, reward, discount), [3.0, -1.0])
        # Where another network has chosen actions 1 and 0: 1 + 0.5 * 2 = 2 and -1 + 0 * -1 = -1; with discount 1, -2.
        agent, chosen = DQN(Torso((4,)), 3, rule=rule, double=True), jnp.array([1, 0])
        np.testing.assert_array_equal(agent.targets(outputs, reward, discount, chosen), [2.0, -1.0])
        np.testing.assert_array_equal(agent.targets(outputs, reward, jnp.ones(2), chosen), [3.0, -2.0])
    # tau = 1: log(e + e^2 + e^4) = log(2.718282 + 7.389056 + 54.598150) = log(64.705488) = 4.169846
    np.testing.assert_allclose(
        DQN(Torso((4,)), 3, rule="munchausen", tau=1.0).targets(outputs, reward, discount),
        [1 + 0.5 * 4.169846, -1.0],
        rtol=1e-6,
    )
    # Errors 4 - 1.5 = 2.5 and -1 + 3 = 2: Huber 2 and 1.5, squared 3.125 and 2.
    actions, targets = jnp.array(ACTIONS), jnp.array(TARGETS)
    np.testing.assert_array_equal(DQN(Torso((4,)), 3).loss(itself, outputs, actions, targets), [2.0, 1.5])
    np.testing.assert_array_equal(
        DQN(Torso((4,)), 3, loss_name="squared").loss(itself, outputs, actions, targets), [3.125, 2.0]
    )


def test_dqn_is_its_q_network() -> None:
    agent = DQN(Torso((4,), hidden=(8, 5)), 3)
    params = agent.init(key)
    x = normal(2, 3, 4)
    q = agent.q_values(params, agent.prepare(jnp.array(x)))
    np.testing.assert_array_equal(q, q_network(4, (8, 5), 3, key)(x)[..., 0])
    np.testing.assert_array_equal(agent.outlook(params, agent.prepare(x)), q)
    first, second = agent.both(params, agent.prepare(x))
    np.testing.assert_array_equal(first, q[0])
    np.testing.assert_array_equal(second, q[1])
