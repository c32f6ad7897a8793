"""Every rule against hand-worked numbers, its identities, and the tabular operators; in numpy and in jax."""

import doctest
import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sail import rules, tabular
from sail.rules import RULES, UNKNOWN_RETURN, bonus, bootstrap, parts

NAMES = tuple(RULES)
LN3 = math.log(3.0)
UNKNOWN = -math.inf

# Seven transitions from a state with q = [1, 0.5, -2], so V = 1, and what the three rules make of them.
Q = [1.0, 0.5, -2.0]
ACTIONS = [1, 1, 1, 2, 0, 2, 1]
RETURNS = [1.25, 0.0, 0.75, UNKNOWN, 4.0, -1.0, UNKNOWN]
# Q(s, a):  0.5   0.5   0.5   -2.0   1.0  -2.0   0.5
BRACKETS = {
    "bellman": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    # Q(s, a) - V:        0.5 - 1 = -0.5 wherever a = 1; -2 - 1 = -3 where a = 2; 1 - 1 = 0 where a = 0
    "al": [-0.5, -0.5, -0.5, -3.0, 0.0, -3.0, -0.5],
    # max(G, Q(s, a)) - V: 1.25 - 1; 0.5 - 1; 0.75 - 1; -2 - 1; 4 - 1; -1 - 1; 0.5 - 1
    "sail": [0.25, -0.5, -0.25, -3.0, 3.0, -2.0, -0.5],
    # (G - V)+:            1.25 - 1; 0; 0; 0; 4 - 1; 0; 0
    "strsil": [0.25, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0],
}
CLIPPED_AT_1 = {
    "bellman": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "al": [-0.5, -0.5, -0.5, -1.0, 0.0, -1.0, -0.5],
    "sail": [0.25, -0.5, -0.25, -1.0, 1.0, -1.0, -0.5],
    "strsil": [0.25, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
}
CLIPPED_AT_0_375 = {
    "bellman": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "al": [-0.375, -0.375, -0.375, -0.375, 0.0, -0.375, -0.375],
    "sail": [0.25, -0.375, -0.25, -0.375, 0.375, -0.375, -0.375],
    "strsil": [0.25, 0.0, 0.0, 0.0, 0.375, 0.0, 0.0],
}
BY_HAND = [(None, BRACKETS), (1.0, CLIPPED_AT_1), (0.375, CLIPPED_AT_0_375)]


def transitions(xp, dtype="float32"):
    q = xp.asarray(np.tile(np.array(Q, dtype), (len(ACTIONS), 1)))
    return q, xp.asarray(np.array(ACTIONS)), xp.asarray(np.array(RETURNS, dtype))


# By hand. With alpha = 0.5 every product is exact in binary, so the comparisons are exact too.


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize(("clip", "expected"), BY_HAND)
@pytest.mark.parametrize("name", BRACKETS)
def test_bonus_by_hand(name: str, clip: float | None, expected: dict[str, list[float]], xp) -> None:
    result = bonus(name, *transitions(xp), alpha=0.5, clip=clip)
    assert isinstance(result, jax.Array if xp is jnp else np.ndarray)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, 0.5 * np.array(expected[name]))


def test_one_transition_at_a_time_in_numpy() -> None:
    for name, brackets in BRACKETS.items():
        for a, g, bracket in zip(ACTIONS, RETURNS, brackets, strict=True):
            result = bonus(name, np.array(Q), a, g, alpha=0.5, clip=None)
            assert np.shape(result) == () and result == 0.5 * bracket, (name, a, g)


def all_bonuses(q, a, g):
    return [[bonus(name, q, a, g, alpha=0.5, clip=clip) for name in BRACKETS] for clip, _ in BY_HAND]


@pytest.mark.parametrize(
    "transform",
    [jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f))],
    ids=["jit", "vmap", "jit-vmap"],
)
def test_bonus_by_hand_under_transformations(transform) -> None:
    results = transform(all_bonuses)(*transitions(jnp))
    for (clip, expected), of_clip in zip(BY_HAND, results, strict=True):
        for name, result in zip(BRACKETS, of_clip, strict=True):
            np.testing.assert_array_equal(result, 0.5 * np.array(expected[name]), err_msg=f"{name} {clip}")


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize("name", BRACKETS)
def test_two_leading_axes(name: str, xp) -> None:
    q, a, g = transitions(xp)
    pairs = [x[:6].reshape(2, 3, *x.shape[1:]) for x in (q, a, g)]
    expected = 0.5 * np.array(CLIPPED_AT_1[name][:6]).reshape(2, 3)
    np.testing.assert_array_equal(bonus(name, *pairs, alpha=0.5), expected)


def test_defaults_are_the_papers() -> None:
    # alpha 0.9 and the clip at 1: 0.9 * 0.25 = 0.225, 0.9 * -0.5 = -0.45, -0.225, -0.9, 0.9, -0.9, -0.45.
    np.testing.assert_allclose(
        bonus("sail", *transitions(np, "float64")), [0.225, -0.45, -0.225, -0.9, 0.9, -0.9, -0.45], rtol=1e-15
    )
    clips = {name: rule.default_clip for name, rule in RULES.items()}
    assert clips == {"bellman": None, "al": None, "sail": 1.0, "strsil": 1.0, "munchausen": 1.0}
    # Only a rule that reads Qt(s, .) costs the learner an evaluation of the target network.
    assert [name for name, rule in RULES.items() if not rule.needs_values] == ["bellman"]


# q / tau = [0, ln 3] makes the policy [1/4, 3/4]: log pi = [-ln 4, ln 3 - ln 4], and logsumexp = ln 4.
MUNCHAUSEN = [
    # tau, q, tau * log pi unclipped, soft value
    (1.0, [0.0, LN3], [-math.log(4), LN3 - math.log(4)], math.log(4)),
    (0.5, [0.0, LN3 / 2], [-math.log(4) / 2, (LN3 - math.log(4)) / 2], math.log(4) / 2),
    (2.0, [10.0, 10.0 + 2 * LN3], [-2 * math.log(4), 2 * (LN3 - math.log(4))], 10 + 2 * math.log(4)),
    # At the default temperature a gap of 100 is far beyond what exp can hold: log pi = [0, -100 / 0.03].
    (0.03, [100.0, 0.0], [0.0, -100.0], 100.0),
    # Three equal actions of value -5: log pi = -ln 3 each, and the entropy adds tau ln 3 to the value.
    (0.03, [-5.0, -5.0, -5.0], [-0.03 * LN3] * 3, -5 + 0.03 * LN3),
]


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize(("tau", "q", "scaled_log_policy", "soft"), MUNCHAUSEN)
def test_munchausen_by_hand(tau: float, q: list[float], scaled_log_policy: list[float], soft: float, xp) -> None:
    actions = xp.arange(len(q))
    values = xp.tile(xp.asarray(np.array(q, np.float32)), (len(q), 1))
    returns = xp.full(len(q), 7.0, xp.float32)  # Munchausen does not look at returns
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(
        bonus("munchausen", values, actions, returns, alpha=0.9, clip=None, tau=tau),
        0.9 * np.array(scaled_log_policy),
        **close,
    )
    for clip in (1.0, 0.2):
        np.testing.assert_allclose(
            bonus("munchausen", values, actions, returns, alpha=0.9, clip=clip, tau=tau),
            0.9 * np.clip(scaled_log_policy, -clip, 0.0),
            **close,
        )
    np.testing.assert_allclose(bootstrap("munchausen", values, tau), [soft] * len(q), **close)


def test_munchausen_by_hand_under_jit_and_vmap() -> None:
    # As the first row above: 0.5 * -ln 4 and 0.5 * (ln 3 - ln 4), and the first of them clipped to -1.
    q, a, g = jnp.array([[0.0, LN3], [0.0, LN3]]), jnp.array([0, 1]), jnp.zeros(2)
    for clip, expected in [(None, [-0.5 * math.log(4), 0.5 * math.log(3 / 4)]), (1.0, [-0.5, 0.5 * math.log(3 / 4)])]:

        def one(q, a, g, clip=clip):
            return bonus("munchausen", q, a, g, alpha=0.5, clip=clip, tau=1.0)

        np.testing.assert_allclose(jax.jit(jax.vmap(one))(q, a, g), expected, rtol=1e-6)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_bootstrap_by_hand(xp) -> None:
    q = xp.asarray(np.array([[1.0, 0.5, -2.0], [-3.0, -4.0, -3.5]], np.float32))
    for name in NAMES:
        if name != "munchausen":
            np.testing.assert_array_equal(bootstrap(name, q), [1.0, -3.0])
    # tau log(e^(1/tau) + e^(0.5/tau) + e^(-2/tau)) at tau = 1: log(2.718282 + 1.648721 + 0.135335) = log(4.502338);
    # e^-3 + e^-4 + e^-3.5 = 0.049787 + 0.018316 + 0.030197 = 0.098300.
    expected = [math.log(4.502338), math.log(0.098300)]
    np.testing.assert_allclose(bootstrap("munchausen", q, tau=1.0), expected, rtol=2e-6)
    # Its definition is an expectation: sum_b pi(b) (q(b) - tau log pi(b)).
    pi = np.exp(np.asarray(q)) / np.exp(np.asarray(q)).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        bootstrap("munchausen", q, tau=1.0), (pi * (np.asarray(q) - np.log(pi))).sum(-1), rtol=1e-5
    )


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize(
    ("name", "q", "a", "g", "clip", "expected"),
    [
        # AL is 0.5 - 1 = -0.5; SAIL is 1.25 - 1 = 0.25, of which the return's share is 0.75. Times 0.9.
        ("sail", [1.0, 0.5], 1, 1.25, 1.0, (-0.45, 0.675)),
        ("sail", [1.0, 0.5], 1, 0.0, 1.0, (-0.45, 0.0)),  # a stale return adds nothing
        ("sail", [1.0, 0.5], 1, UNKNOWN, 1.0, (-0.45, 0.0)),
        # AL is -3, clipped to -1; SAIL is 0.5 - 1 = -0.5: the return's share is 0.5.
        ("sail", [1.0, -2.0], 1, 0.5, 1.0, (-0.9, 0.45)),
        ("sail", [1.0, -2.0], 1, 0.5, None, (-2.7, 2.25)),  # unclipped: -3 and 2.5
        ("strsil", [1.0, 0.5], 1, 1.25, 1.0, (0.0, 0.225)),
        ("strsil", [1.0, 0.5], 1, 0.75, 1.0, (0.0, 0.0)),
        ("al", [1.0, 0.5], 1, 1.25, 1.0, (-0.45, 0.0)),
        ("bellman", [1.0, 0.5], 1, 1.25, 1.0, (0.0, 0.0)),
    ],
)
def test_parts_by_hand(name: str, q, a: int, g: float, clip, expected: tuple[float, float], xp) -> None:
    arrays = xp.asarray(np.array([q], np.float32)), xp.array([a]), xp.asarray(np.array([g], np.float32))
    advantage, imitation = parts(name, *arrays, clip=clip)
    np.testing.assert_allclose(advantage, [expected[0]], rtol=1e-6)
    np.testing.assert_allclose(imitation, [expected[1]], rtol=1e-6)


def test_parts_of_munchausen_have_no_imitation() -> None:
    advantage, imitation = parts("munchausen", np.array([[0.0, LN3]]), np.array([1]), np.array([9.0]), tau=1.0)
    np.testing.assert_allclose(advantage, [0.9 * math.log(3 / 4)], rtol=1e-12)
    np.testing.assert_array_equal(imitation, [0.0])


def test_a_return_of_another_dtype_does_not_change_the_bonus() -> None:
    q, a, g = transitions(np)
    assert bonus("sail", q, a, g.astype(np.float64)).dtype == np.float32
    np.testing.assert_array_equal(bonus("sail", q[:1], a[:1], np.array([2]), alpha=0.5), [0.5])  # 2 - 1, an integer


# Properties, over values of every scale: q, actions, returns (some unknown), alpha and clip.


@st.composite
def cases(draw, rows: int | None = None, actions: int | None = None, dtype=np.float64):
    rows = draw(st.integers(1, 6)) if rows is None else rows
    num_actions = draw(st.integers(1, 5)) if actions is None else actions
    scale = draw(st.sampled_from([1e-3, 1.0, 0.7, 100.0 / 3]))
    # Not st.floats: differences of its tiny numbers are subnormal, which XLA flushes to zero and numpy does not.
    value = st.integers(-(2**20), 2**20).map(lambda n: n / 2**20)
    # Coarse values too, so that ties and G = Q(s, a) = V happen.
    value = st.one_of(value, st.sampled_from([-1.0, -0.5, -0.0, 0.0, 0.5, 1.0]))
    q = draw(hnp.arrays(dtype, (rows, num_actions), elements=value)) * dtype(scale)
    a = draw(hnp.arrays(np.int32, rows, elements=st.integers(0, num_actions - 1)))
    g = draw(hnp.arrays(dtype, rows, elements=st.one_of(value, st.just(UNKNOWN)))) * dtype(scale)
    return q, a, g


alphas = st.one_of(st.floats(0.0, 0.999), st.just(0.9))
clips = st.one_of(st.none(), st.floats(0.0, 50.0), st.just(1.0))
many = settings(deadline=None, derandomize=True, max_examples=200)


@many
@given(cases(), alphas)
def test_sail_is_al_plus_the_surprise(case, alpha: float) -> None:
    q, a, g = case
    taken = q[np.arange(len(a)), a]
    surprise = np.maximum(g - taken, 0.0)
    expected = bonus("al", q, a, g, alpha, clip=None) + alpha * surprise
    rounding = 8 * np.finfo(np.float64).eps * (np.abs(q).max(-1) + surprise)
    assert (np.abs(bonus("sail", q, a, g, alpha, clip=None) - expected) <= rounding).all()


@many
@given(cases(), alphas, clips)
def test_an_unknown_return_leaves_al_or_nothing(case, alpha: float, clip: float | None) -> None:
    q, a, g = case
    unknown = np.full_like(g, UNKNOWN_RETURN)
    np.testing.assert_array_equal(bonus("sail", q, a, unknown, alpha, clip), bonus("al", q, a, g, alpha, clip))
    np.testing.assert_array_equal(bonus("strsil", q, a, unknown, alpha, clip), np.zeros(len(a)))


@many
@given(cases(), alphas, clips)
def test_order_and_bounds(case, alpha: float, clip: float | None) -> None:
    q, a, g = case
    al, sail, strsil, munchausen = (
        bonus(name, q, a, g, alpha, clip) for name in ("al", "sail", "strsil", "munchausen")
    )
    assert (al <= 0).all() and (munchausen <= 0).all() and (strsil >= 0).all()
    assert (al <= sail).all() and (sail <= strsil).all()
    if clip is not None:
        assert max(np.abs(x).max() for x in (al, sail, strsil, munchausen)) <= alpha * clip


@many
@given(cases(), clips)
def test_the_positive_part_of_sail_is_strsil(case, clip: float | None) -> None:
    # Why the authors' released SAIL-DQN is strSIL: Q(s, a) never exceeds V.
    sail, strsil = (RULES[name].bracket(*case, clip=clip, tau=0.03) for name in ("sail", "strsil"))
    np.testing.assert_array_equal(np.maximum(sail, 0.0), strsil)
    al = RULES["al"].bracket(*case, clip=clip, tau=0.03)
    np.testing.assert_array_equal(np.maximum(al, 0.0), np.zeros(len(al)))  # and the released AL-DQN is DQN


@many
@given(cases(), st.sampled_from([0.03, 0.5, 2.0]))
def test_munchausen_against_another_formula(case, tau: float) -> None:
    q, a, g = case
    # In higher precision, and with the probabilities themselves where they do not underflow.
    scaled = q.astype(np.longdouble) / tau
    shifted = scaled - scaled.max(-1, keepdims=True)
    log_policy = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    expected = tau * log_policy[np.arange(len(a)), a]
    size = np.abs(q).max()
    np.testing.assert_allclose(
        bonus("munchausen", q, a, g, 0.5, None, tau), 0.5 * expected, rtol=1e-12, atol=1e-13 * (1 + size)
    )
    # Soft values lie between the best value and that plus tau log A.
    soft, best = bootstrap("munchausen", q, tau), q.max(-1)
    assert (soft >= best).all() and (soft <= best + tau * math.log(q.shape[-1]) + 1e-13 * (1 + size)).all()


@many
@given(cases(), st.sampled_from(NAMES), clips)
def test_alpha_zero_is_no_bonus(case, name: str, clip: float | None) -> None:
    np.testing.assert_array_equal(bonus(name, *case, alpha=0.0, clip=clip), np.zeros(len(case[0])))


@many
@given(cases(), st.sampled_from(NAMES), alphas, clips)
def test_parts_add_up(case, name: str, alpha: float, clip: float | None) -> None:
    advantage, imitation = parts(name, *case, alpha=alpha, clip=clip)
    whole = bonus(name, *case, alpha=alpha, clip=clip)
    np.testing.assert_allclose(advantage + imitation, whole, rtol=1e-14, atol=1e-13 * (1 + np.abs(case[0]).max()))
    assert (imitation >= 0).all()


EVERY = [(name, clip) for name in NAMES for clip in (None, 1.0, 0.25)]


@jax.jit
def in_jax(q, a, g):
    return [bonus(name, q, a, g, clip=clip, tau=0.5) for name, clip in EVERY]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(cases(rows=8, actions=3, dtype=np.float32))
def test_numpy_and_jax_agree(case) -> None:
    for (name, clip), result in zip(EVERY, in_jax(*case), strict=True):
        expected = bonus(name, *case, clip=clip, tau=0.5)
        assert expected.dtype == result.dtype == np.float32
        if name == "munchausen":  # two implementations of exp and log
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6 * (1 + np.abs(case[0]).max()))
        else:
            np.testing.assert_array_equal(result, expected, err_msg=f"{name} {clip}")


def test_no_gradient_flows_through_a_bonus() -> None:
    q, a, g = transitions(jnp)
    q = q + jnp.linspace(0.0, 0.3, q.size).reshape(q.shape)

    @jax.jit
    def gradients(q, g):
        found = []
        for name, clip in EVERY:

            def total(q, g, name=name, clip=clip):
                return bonus(name, q, a, g, clip=clip, tau=0.5).sum()

            def weighted(q, g, name=name, clip=clip):
                return (q[:, 0] * bonus(name, q, a, g, clip=clip, tau=0.5)).sum()

            found.append((*jax.grad(total, (0, 1))(q, g), jax.grad(weighted)(q, g)))
        return found

    for (name, clip), (by_q, by_g, by_q_weighted) in zip(EVERY, gradients(q, g), strict=True):
        np.testing.assert_array_equal(by_q, np.zeros(q.shape))
        np.testing.assert_array_equal(by_g, np.zeros(g.shape))
        # As a factor it is a constant: d/dq (q_0 * bonus) is the bonus, at q_0 only.
        expected = np.zeros(q.shape, np.float32)
        expected[:, 0] = bonus(name, q, a, g, clip=clip, tau=0.5)
        np.testing.assert_allclose(by_q_weighted, expected, rtol=1e-6)


# The tabular operators are the same rules.


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from([None, 1.0, 0.25]), st.floats(0.0, 0.99))
def test_tabular_operators_add_the_same_bonus(seed: int, clip: float | None, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    mdp = tabular.random_mdp(num_states=5, num_actions=3, discount=0.9, seed=seed)
    q, returns = 2 * rng.standard_normal((5, 3)), 3 * rng.standard_normal((5, 3))
    returns[rng.random((5, 3)) < 0.3] = tabular.NO_RETURN
    # One transition for each pair: q [S, A, A], a [S, A], g [S, A].
    q_tm1 = np.repeat(q[:, None, :], 3, axis=1)
    a_tm1 = np.tile(np.arange(3), (5, 1))
    plain = tabular.bellman(mdp, q)
    operators = {
        "bellman": plain,
        "al": tabular.advantage_learning(mdp, q, alpha, clip),
        "sail": tabular.sail(mdp, q, returns, alpha, clip),
        "strsil": tabular.strsil(mdp, q, returns, alpha, clip),
    }
    for name, result in operators.items():
        np.testing.assert_array_equal(result, plain + bonus(name, q_tm1, a_tm1, returns, alpha, clip), err_msg=name)


# Input that no rule can use.

GOOD = {"q_tm1": np.zeros((2, 3)), "a_tm1": np.zeros(2, int), "g_tm1": np.zeros(2)}


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize(
    ("bad", "mentions"),
    [
        ({"name": "sial"}, "did you mean 'sail'?"),
        ({"name": "SAIL"}, "did you mean 'sail'?"),
        ({"alpha": 1}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": -0.1}, "-0.1"),
        ({"alpha": math.nan}, "nan"),
        ({"clip": -1.0}, "-1.0"),
        ({"clip": math.nan}, "clip"),
        ({"tau": 0.0}, "tau"),
        ({"tau": -1.0}, "tau"),
        ({"tau": math.nan}, "tau"),
        ({"a_tm1": np.zeros(2)}, "integers"),
        ({"a_tm1": np.zeros(2, bool)}, "integers"),
        ({"q_tm1": np.zeros((2, 3), int)}, "q_tm1 must be a floating-point array"),
        ({"q_tm1": np.zeros(())}, "q_tm1 must be a floating-point array"),
        ({"q_tm1": np.zeros((3, 3))}, "[3, 3], [2] and [2]"),
        ({"q_tm1": np.zeros(3)}, "[3], [2] and [2]"),
        ({"a_tm1": np.zeros((2, 1), int)}, "[2, 3], [2, 1] and [2]"),
        ({"g_tm1": np.zeros((2, 1))}, "[2, 3], [2] and [2, 1]"),
        ({"g_tm1": np.zeros(())}, "[2, 3], [2] and []"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(bad, mentions: str, xp) -> None:
    given = {"name": "sail"} | GOOD | bad
    arrays = {name: xp.asarray(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
    with pytest.raises(ValueError) as caught:
        bonus(**arrays)
    message = str(caught.value)
    assert mentions in message
    assert "\n" not in message and message.endswith((".", "?")) and message.count(". ") == 0


@pytest.mark.parametrize("action", [-1, 3])
def test_an_action_that_there_is_not_is_refused(action: int) -> None:
    """numpy would take -1 for the last one."""
    with pytest.raises(ValueError, match=r"a_tm1 must be from 0 to 2: there are 3 action-values\."):
        bonus("sail", np.zeros((2, 3)), np.array([0, action]), np.zeros(2))
    with pytest.raises(ValueError, match="from 0 to 2"):
        bonus("sail", np.zeros(3), action, 0.0)


def test_bad_input_is_refused_while_tracing() -> None:
    q, a, g = (jnp.asarray(value) for value in GOOD.values())
    with pytest.raises(ValueError, match="integers"):
        jax.jit(lambda q, a, g: bonus("sail", q, a, g))(q, a.astype(float), g)
    with pytest.raises(ValueError, match="There is no rule"):
        bootstrap("sial", q)
    with pytest.raises(ValueError, match="tau must be above 0"):
        bootstrap("munchausen", q, tau=0.0)


def test_the_edges_of_the_settings_are_allowed() -> None:
    for good in ({"alpha": 0}, {"alpha": 0.999}, {"clip": 0.0}, {"clip": None}, {"tau": 1e-6}):
        assert bonus("sail", **GOOD, **good).shape == (2,)


# Without jax, and as documentation.

WITHOUT_JAX = """
import sys
import numpy as np
import sail.rules as rules
q, a, g = np.array([[1.0, 0.5]]), np.array([1]), np.array([1.25])
for name in rules.RULES:
    assert rules.bonus(name, q, a, g).shape == (1,)
    assert rules.bootstrap(name, q).shape == (1,)
assert abs(rules.bonus("sail", q, a, g)[0] - 0.225) < 1e-12
assert "jax" not in sys.modules, "jax was imported"
"""


def test_rules_do_not_import_jax() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_JAX], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_documented_example_runs() -> None:
    result = doctest.testmod(rules)
    assert result.failed == 0 and result.attempted >= 4
