"""The tabular laboratory against hand-worked numbers, brute force, and the theory stated at the top of its file."""

from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sail.tabular import (
    ADVANCE,
    GAMBLE,
    NO_RETURN,
    QUIT,
    SAFE,
    Array,
    FiniteMDP,
    action_gap,
    action_gaps,
    advantage_learning,
    bellman,
    fixed_point,
    greedy_policy,
    key_door_chain,
    lottery,
    make_terminal,
    optimal_value,
    policy_returns,
    policy_value,
    random_mdp,
    sail,
    strsil,
)

# A two-state MDP, gamma = 1/2. State 0: action 0 stays (+1), action 1 goes to 0 or 1 with equal chance (0).
# State 1: action 0 stays (+2), action 1 goes to 0 (-1).
TWO_STATES = FiniteMDP(
    np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [1.0, 0.0]]]), np.array([[1.0, 0.0], [2.0, -1.0]]), 0.5
)
Q = np.array([[4.0, 2.0], [6.0, 3.0]])  # max: 4, 6
G = np.array([[5.0, 3.0], [NO_RETURN, 9.0]])
# Q*: staying for ever is worth 1 / (1 - 1/2) = 2 in state 0 and 2 / (1 - 1/2) = 4 in state 1, and nothing beats it:
# leaving 0 is worth 1/2 (1/2 * 2 + 1/2 * 4) = 1.5, leaving 1 is worth -1 + 1/2 * 2 = 0.
Q_STAR = np.array([[2.0, 1.5], [4.0, 0.0]])
# Q_pi of always taking action 1: v0 = 1/4 v0 + 1/4 v1 so v1 = 3 v0, and v1 = -1 + 1/2 v0; hence v0 = -0.4, v1 = -1.2.
# Taking action 0 first: 1 + 1/2 * -0.4 = 0.8 in state 0 and 2 + 1/2 * -1.2 = 1.4 in state 1.
LEAVE = np.array([1, 1])
Q_LEAVE = np.array([[0.8, -0.4], [1.4, -1.2]])


@dataclass(frozen=True)
class Case:
    """A random MDP with tables to apply operators to."""

    mdp: FiniteMDP
    alpha: float
    q: Array
    other_q: Array
    returns: Array  # of any size, some missing
    old_policy: Array  # [S, A]

    @property
    def optimal(self) -> Array:
        return optimal_value(self.mdp)

    @property
    def zero(self) -> Array:
        return np.zeros_like(self.q)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    num_states, num_actions = draw(st.integers(1, 6)), draw(st.integers(2, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    mdp = random_mdp(num_states, num_actions, draw(st.floats(0.0, 0.95)), seed, draw(st.integers(1, num_states)))
    rng = np.random.default_rng([seed, 1])
    q, other_q, returns = draw(st.sampled_from([0.1, 1.0, 10.0])) * rng.normal(size=(3, num_states, num_actions))
    returns[rng.random(returns.shape) < 0.3] = NO_RETURN
    old_policy = rng.dirichlet(np.full(num_actions, 0.3), size=num_states)
    return Case(mdp, draw(st.floats(0.0, 0.95)), q, other_q, returns, old_policy)


def on_random_mdps(test):
    # Derandomised: a failure here must mean that the code changed.
    return settings(max_examples=150, deadline=None, derandomize=True, database=None)(given(cases())(test))


def close(a: Array, b: Array, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=atol)


# Hand-worked numbers


def test_bellman_by_hand() -> None:
    # 1 + 4/2, 0 + (4 + 6)/4; 2 + 6/2, -1 + 4/2
    close(bellman(TWO_STATES, Q), np.array([[3.0, 2.5], [5.0, 1.0]]))


def test_advantage_learning_by_hand() -> None:
    # brackets 4 - 4 = 0, 2 - 4 = -2; 6 - 6 = 0, 3 - 6 = -3; half of each on top of Bellman
    close(advantage_learning(TWO_STATES, Q, 0.5), np.array([[3.0, 1.5], [5.0, -0.5]]))
    # brackets clipped to -1 before alpha
    close(advantage_learning(TWO_STATES, Q, 0.5, clip=1.0), np.array([[3.0, 2.0], [5.0, 0.5]]))


def test_sail_by_hand() -> None:
    # brackets max(5, 4) - 4 = 1, max(3, 2) - 4 = -1; max(-inf, 6) - 6 = 0, max(9, 3) - 6 = 3
    close(sail(TWO_STATES, Q, G, 0.5), np.array([[3.5, 2.0], [5.0, 2.5]]))
    # brackets clipped to 0.5, -0.5, 0, 0.5 before alpha
    close(sail(TWO_STATES, Q, G, 0.5, clip=0.5), np.array([[3.25, 2.25], [5.0, 1.25]]))


def test_strsil_by_hand() -> None:
    # brackets (5 - 4)+ = 1, (3 - 4)+ = 0; (-inf)+ = 0, (9 - 6)+ = 3
    close(strsil(TWO_STATES, Q, G, 0.5), np.array([[3.5, 2.5], [5.0, 2.5]]))
    # brackets clipped to 0.5, 0, 0, 0.5
    close(strsil(TWO_STATES, Q, G, 0.5, clip=0.5), np.array([[3.25, 2.5], [5.0, 1.25]]))


def test_values_gaps_and_policies_by_hand() -> None:
    close(optimal_value(TWO_STATES), Q_STAR)
    close(policy_value(TWO_STATES, LEAVE), Q_LEAVE)
    close(policy_value(TWO_STATES, np.array([[0.0, 1.0], [0.0, 1.0]])), Q_LEAVE)
    # A fair coin: v0 = (1 + v0/2)/2 + (v0 + v1)/8 and v1 = (2 + v1/2)/2 + (-1 + v0/2)/2, so 5 v0 = 4 + v1 and
    # 3 v1 = 2 + v0; v0 = 1, v1 = 1. Then q = 1 + 1/2, 0 + 1/2; 2 + 1/2, -1 + 1/2.
    close(policy_value(TWO_STATES, np.full((2, 2), 0.5)), np.array([[1.5, 0.5], [2.5, -0.5]]))
    assert greedy_policy(Q_STAR).tolist() == [0, 0]
    close(action_gaps(Q_STAR), np.array([[0.0, 0.5], [0.0, 4.0]]))
    close(action_gap(np.array([[1.0, 5.0, 3.5], [2.0, 2.0, 0.0]])), np.array([1.5, 0.0]))


def test_fixed_points_by_hand() -> None:
    zero, stale = np.zeros((2, 2)), Q_LEAVE
    close(fixed_point(partial(bellman, TWO_STATES), zero), Q_STAR)
    # AL, alpha = 1/2, doubles the gaps 0.5 and 4.
    close(fixed_point(partial(advantage_learning, TWO_STATES, alpha=0.5), zero), np.array([[2.0, 1.0], [4.0, -4.0]]))
    # SAIL: min(1, 0.5 + (2 + 0.4)/2 = 1.7) = 1 and min(8, 4 + (4 + 1.2)/2 = 6.6) = 6.6.
    close(fixed_point(partial(sail, TWO_STATES, returns=stale, alpha=0.5), zero), np.array([[2.0, 1.0], [4.0, -2.6]]))
    close(fixed_point(partial(strsil, TWO_STATES, returns=stale, alpha=0.5), zero), Q_STAR)


# The laboratory itself


def test_optimal_value_is_the_best_of_all_policies() -> None:
    for seed in range(5):
        mdp = random_mdp(4, 3, 0.9, seed)
        policies = [np.array(actions) for actions in product(range(3), repeat=4)]
        best = np.max([policy_value(mdp, policy) for policy in policies], axis=0)
        close(optimal_value(mdp), best)


def test_random_mdp_has_the_asked_branching_and_seed() -> None:
    mdp = random_mdp(7, 3, 0.9, seed=3, branching=4)
    assert mdp.transitions.shape == (7, 3, 7) and (mdp.num_states, mdp.num_actions) == (7, 3)
    assert ((mdp.transitions > 0).sum(axis=-1) == 4).all()
    assert (random_mdp(7, 3, 0.9, seed=3, branching=4).rewards == mdp.rewards).all()
    assert (random_mdp(7, 3, 0.9, seed=4, branching=4).rewards != mdp.rewards).all()


def test_terminal_states_are_worth_nothing() -> None:
    mdp = make_terminal(random_mdp(5, 3, 0.9, seed=0), [1, 4])
    assert (optimal_value(mdp)[[1, 4]] == 0.0).all()
    assert (np.abs(optimal_value(mdp)[[0, 2, 3]]) > 0.01).all()


def test_policy_returns_from_a_start_know_only_what_its_episodes_contain() -> None:
    mdp = key_door_chain(length=3)
    old = np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])  # state 2 is never reached
    known = policy_returns(mdp, old, start=0)
    assert np.isfinite(known).tolist() == [[True, True], [True, False], [False, False], [True, False]]
    close(known[np.isfinite(known)], policy_value(mdp, old)[np.isfinite(known)])
    assert (policy_returns(mdp, old) == policy_value(mdp, old)).all()


def test_an_mdp_cannot_be_changed_from_outside() -> None:
    rewards = np.zeros((1, 2))
    mdp = FiniteMDP(np.ones((1, 2, 1)), rewards, 0.5)
    rewards[0, 0] = 9.0
    assert mdp.rewards[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        mdp.rewards[0, 0] = 9.0


P, R = TWO_STATES.transitions, TWO_STATES.rewards


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FiniteMDP(P[0], R, 0.5), "transitions must have shape"),
        (lambda: FiniteMDP(P, R[:1], 0.5), "rewards must have shape"),
        (lambda: FiniteMDP(P, R * np.nan, 0.5), "finite"),
        (lambda: FiniteMDP(P * 0.9, R, 0.5), "sum to 1"),
        (lambda: FiniteMDP(np.array([[[2.0, -1.0]] * 2] * 2), R, 0.5), "non-negative"),
        (lambda: FiniteMDP(P, R, 1.0), "discount"),
        (lambda: random_mdp(2, 2, 0.5, 0, branching=3), "branching"),
        (lambda: key_door_chain(length=1), "length"),
        (lambda: bellman(TWO_STATES, Q[:, :1]), "q must have shape"),
        (lambda: advantage_learning(TWO_STATES, Q, 1.0), "alpha"),
        (lambda: sail(TWO_STATES, Q, G[0], 0.5), "returns must have shape"),
        (lambda: sail(TWO_STATES, Q, G * np.nan, 0.5), "returns must be numbers"),
        (lambda: strsil(TWO_STATES, Q, -G, 0.5), "returns must be numbers"),  # -(-inf)
        (lambda: strsil(TWO_STATES, Q, G, 0.5, clip=0.0), "clip"),
        (lambda: policy_value(TWO_STATES, np.array([0, 2])), "deterministic policy"),
        (lambda: policy_value(TWO_STATES, np.full((2, 2), 0.4)), "stochastic policy"),
        (lambda: action_gap(Q[:, :1]), "two actions"),
        (lambda: fixed_point(partial(bellman, TWO_STATES), Q, step=0.0), "step"),
    ],
)
def test_wrong_input_is_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# Identities of the operators, at any q


@on_random_mdps
def test_bellman_is_a_contraction(case: Case) -> None:
    before, after = case.q - case.other_q, bellman(case.mdp, case.q) - bellman(case.mdp, case.other_q)
    assert np.abs(after).max() <= case.mdp.discount * np.abs(before).max() + 1e-12


@on_random_mdps
def test_without_returns_sail_is_al_and_strsil_is_bellman(case: Case) -> None:
    none = np.full_like(case.q, NO_RETURN)
    for clip in (None, 0.5):
        al = advantage_learning(case.mdp, case.q, case.alpha, clip)
        assert (sail(case.mdp, case.q, none, case.alpha, clip) == al).all()
        assert (strsil(case.mdp, case.q, none, case.alpha, clip) == bellman(case.mdp, case.q)).all()


@on_random_mdps
def test_sail_is_al_plus_self_imitation(case: Case) -> None:
    imitation = case.alpha * np.maximum(case.returns - case.q, 0.0)
    al = advantage_learning(case.mdp, case.q, case.alpha)
    close(sail(case.mdp, case.q, case.returns, case.alpha), al + imitation)


@on_random_mdps
def test_order_of_the_operators(case: Case) -> None:
    # strSIL's (G - V)+ is max(G, V) - V, and V >= q: at the same q it never values an action less than SAIL does.
    al = advantage_learning(case.mdp, case.q, case.alpha)
    sailed, imitated = (rule(case.mdp, case.q, case.returns, case.alpha) for rule in (sail, strsil))
    assert (al <= sailed).all() and (sailed <= imitated).all() and (bellman(case.mdp, case.q) <= imitated).all()
    # On the greedy action they agree: the max matters for the others.
    best = greedy_policy(case.q)[:, None]
    close(np.take_along_axis(sailed, best, 1), np.take_along_axis(imitated, best, 1))


# Fixed points


@on_random_mdps
def test_bellman_converges_to_the_optimal_value(case: Case) -> None:
    close(fixed_point(partial(bellman, case.mdp), case.q), case.optimal, atol=1e-8)


@on_random_mdps
def test_al_keeps_the_optimal_policy_and_divides_the_gaps_by_one_minus_alpha(case: Case) -> None:
    q_al = fixed_point(partial(advantage_learning, case.mdp, alpha=case.alpha), case.q)
    close(q_al.max(axis=-1), case.optimal.max(axis=-1), atol=1e-7)
    close(action_gaps(q_al), action_gaps(case.optimal) / (1.0 - case.alpha), atol=1e-7)
    assert (greedy_policy(q_al) == greedy_policy(case.optimal)).all()
    assert (action_gap(q_al) >= action_gap(case.optimal) - 1e-7).all()


def sail_fixed_point(case: Case, returns: Array, clip: float | None = None) -> Array:
    """The closed form for G <= V*: gaps g + alpha min(V* - G, g / (1 - alpha), clip)."""
    v, gaps = case.optimal.max(axis=-1, keepdims=True), action_gaps(case.optimal)
    bracket = np.minimum(np.minimum(v - returns, gaps / (1.0 - case.alpha)), np.inf if clip is None else clip)
    return v - gaps - case.alpha * bracket


@on_random_mdps
def test_sail_and_strsil_fixed_points_when_no_return_beats_the_optimal_value(case: Case) -> None:
    # G may beat Q*(s, a) here, only not V*(s).
    returns = np.minimum(case.returns, case.optimal.max(axis=-1, keepdims=True))
    for clip in (None, 0.5):
        q_sail = sail_fixed_point(case, returns, clip)
        close(sail(case.mdp, q_sail, returns, case.alpha, clip), q_sail)
        close(strsil(case.mdp, case.optimal, returns, case.alpha, clip), case.optimal)
        # The optimal policy is kept, and no gap shrinks.
        assert (greedy_policy(q_sail) == greedy_policy(case.optimal)).all()
        assert (action_gaps(q_sail) >= action_gaps(case.optimal) - 1e-12).all()


@on_random_mdps
def test_sail_and_strsil_agree_on_the_value_and_the_policy_whatever_the_returns(case: Case) -> None:
    for clip in (None, 0.5):
        rules = [partial(rule, case.mdp, returns=case.returns, alpha=case.alpha, clip=clip) for rule in (sail, strsil)]
        q_sail, q_strsil = (fixed_point(rule, case.zero, 1e-9, step=0.5) for rule in rules)
        close(q_sail.max(axis=-1), q_strsil.max(axis=-1), atol=1e-6)
        assert (greedy_policy(q_sail) == greedy_policy(q_strsil)).all()
        assert (action_gaps(q_sail) >= action_gaps(q_strsil) - 1e-6).all()
        # Luck only ever adds: neither falls below the optimal value.
        assert (q_strsil.max(axis=-1) >= case.optimal.max(axis=-1) - 1e-6).all()


def test_fixed_point_refuses_to_answer_when_sweeps_cycle() -> None:
    # Two states in a ring, no reward, and the lucky return 1 everywhere: v0' = gamma v1 + alpha (1 - v0)+, and v1'
    # likewise. While both are below 1, a sweep multiplies their difference by -(gamma + alpha) = -1.89.
    ring = FiniteMDP(np.array([[[0.0, 1.0]], [[1.0, 0.0]]]), np.zeros((2, 1)), 0.99)
    lucky, uneven = np.ones((2, 1)), np.array([[1.0], [0.0]])
    # The fixed point itself: v = 0.99 v + 0.9 (1 - v), so v = 0.9 / 0.91.
    for rule in (sail, strsil):
        operator = partial(rule, ring, returns=lucky, alpha=0.9)
        with pytest.raises(RuntimeError, match="after 2000 iterations"):
            fixed_point(operator, uneven, max_iterations=2000)
        close(fixed_point(operator, uneven, step=0.5), np.full((2, 1), 0.9 / 0.91))


def test_full_sweeps_of_sail_can_cycle_even_when_the_returns_are_optimal() -> None:
    mdp = random_mdp(4, 2, 0.9, seed=55, branching=1)
    optimal = optimal_value(mdp)
    operator, zero = partial(sail, mdp, returns=optimal, alpha=0.9), np.zeros((4, 2))
    with pytest.raises(RuntimeError, match="No fixed point"):
        fixed_point(operator, zero, max_iterations=5000)
    # Half steps reach the fixed point; G = Q* leaves the gaps g (1 + alpha).
    close(action_gaps(fixed_point(operator, zero, step=0.5)), 1.9 * action_gaps(optimal), atol=1e-7)


# Stale returns: G = Q_old <= Q*


@on_random_mdps
def test_at_the_optimum_sail_ignores_stale_returns_and_strsil_has_no_bonus_left(case: Case) -> None:
    mdp, alpha, optimal = case.mdp, case.alpha, case.optimal
    stale = policy_returns(mdp, case.old_policy)
    assert (stale <= optimal + 1e-9).all()
    stale = np.minimum(stale, optimal)  # where the old policy was optimal, rounding can exceed Q*
    sailed = sail(mdp, optimal, stale, alpha)
    assert (sailed == advantage_learning(mdp, optimal, alpha)).all()
    assert (strsil(mdp, optimal, stale, alpha) == bellman(mdp, optimal)).all()
    # So one sweep of SAIL keeps the optimal policy and widens the gaps by 1 + alpha; strSIL changes nothing.
    assert (greedy_policy(sailed) == greedy_policy(optimal)).all()
    close(action_gaps(sailed), (1.0 + alpha) * action_gaps(optimal))
    close(strsil(mdp, optimal, stale, alpha), optimal)


@on_random_mdps
def test_at_the_fixed_point_stale_returns_bound_how_far_sail_widens(case: Case) -> None:
    # AL has pushed bad actions below their old returns by then, and max(G, q) = G stops SAIL from following it.
    stale = policy_returns(case.mdp, case.old_policy)
    q_sail = fixed_point(partial(sail, case.mdp, returns=stale, alpha=case.alpha), case.zero, 1e-9, step=0.5)
    q_strsil = fixed_point(partial(strsil, case.mdp, returns=stale, alpha=case.alpha), case.zero, 1e-9)
    close(q_sail, sail_fixed_point(case, stale), atol=1e-6)
    close(q_strsil, case.optimal, atol=1e-6)
    gaps, sail_gaps = action_gaps(case.optimal), action_gaps(q_sail)
    assert (sail_gaps >= (1.0 + case.alpha) * gaps - 1e-6).all()
    assert (sail_gaps <= gaps / (1.0 - case.alpha) + 1e-6).all()


# The key chain: 5 states, gamma 0.9, treasure 1, a sure 0.4 for quitting at the start.
# The key is worth 0.9^4 = 0.6561, a gap of 0.2561 over quitting.
CHAIN, KEY_VALUE, ALPHA = key_door_chain(), 0.6561, 0.9
# Half of the old episodes quit at once (return 0.4), half took the key and then quit (return 0).
STALE = policy_returns(CHAIN, np.array([[0.5, 0.5]] + [[1.0, 0.0]] * 5), start=0)
# One episode that found the treasure.
FRESH = policy_returns(CHAIN, np.full(6, ADVANCE), start=0)
RULES = {
    "bellman": partial(bellman, CHAIN),
    "al": partial(advantage_learning, CHAIN, alpha=ALPHA),
    "sail stale": partial(sail, CHAIN, returns=STALE, alpha=ALPHA),
    "strsil stale": partial(strsil, CHAIN, returns=STALE, alpha=ALPHA),
    "sail fresh": partial(sail, CHAIN, returns=FRESH, alpha=ALPHA),
    "strsil fresh": partial(strsil, CHAIN, returns=FRESH, alpha=ALPHA),
}


def sweeps(name: str, count: int) -> list[Array]:
    """The tables after 1, 2, ..., count sweeps from zero."""
    tables, q = [], np.zeros((6, 2))
    for _ in range(count):
        q = RULES[name](q)
        tables.append(q)
    return tables


def test_key_chain_returns() -> None:
    assert STALE[0].tolist() == [0.4, 0.0] and STALE[1].tolist() == [0.0, NO_RETURN] and (STALE[2:5] == NO_RETURN).all()
    close(FRESH[:5, ADVANCE], 0.9 ** np.arange(4, -1, -1))
    assert (FRESH[:, QUIT] == NO_RETURN).all()
    close(optimal_value(CHAIN)[0], np.array([0.4, KEY_VALUE]))


@pytest.mark.parametrize(
    ("name", "gap_at_start"),
    [
        ("bellman", 0.2561),
        ("al", 2.561),  # 0.2561 / (1 - 0.9)
        ("sail stale", 0.48659),  # quitting's old return is a floor: 0.2561 + 0.9 (0.6561 - 0.4)
        ("strsil stale", 0.2561),
        ("sail fresh", 2.561),  # quitting has no return: as AL
        ("strsil fresh", 0.2561),
    ],
)
def test_key_chain_fixed_points(name: str, gap_at_start: float) -> None:
    q = fixed_point(RULES[name], np.zeros((6, 2)))
    close(q.max(axis=-1), optimal_value(CHAIN).max(axis=-1))
    assert (greedy_policy(q)[:5] == ADVANCE).all()
    close(action_gap(q)[0], gap_at_start)


@pytest.mark.parametrize(
    ("name", "first_sweep"),
    [
        ("bellman", 5),  # the treasure needs five sweeps to reach the start
        ("al", 9),  # by then AL has pushed the key down, since quitting looked better
        ("sail stale", 6),  # as AL, but not below the floor that the key's old return 0 sets
        ("strsil stale", 5),  # as Bellman
        ("sail fresh", 1),  # 0.9 * 0.6561 = 0.59 > 0.4 at once
        ("strsil fresh", 1),
    ],
)
def test_when_the_key_is_first_preferred_from_zero(name: str, first_sweep: int) -> None:
    takes_key = [greedy_policy(q)[0] == ADVANCE for q in sweeps(name, 20)]
    assert takes_key == [sweep >= first_sweep for sweep in range(1, 21)]


def test_value_of_the_key_on_the_way_from_zero() -> None:
    key = {name: [q[0, ADVANCE] for q in sweeps(name, 5)] for name in RULES}
    # Fresh: 0.9 G at once for both rules, then 0.9 * (0.9 * 0.729) + 0.9 (0.6561 - 0.59049) = 0.649539.
    for name in ("sail fresh", "strsil fresh"):
        close(np.array(key[name][:2]), np.array([0.59049, 0.649539]))
    # Stale: nothing for either rule at first. Quitting then has 0.4 + 0.9 * 0.4 = 0.76 in both, and 0.4 afterwards.
    # strSIL's bonus is (0 - 0.4)+ = 0; SAIL's is 0.9 (max(0, q) - max) = -0.684, then -0.36 until the treasure comes.
    close(np.array(key["strsil stale"]), np.array([0.0, 0.0, 0.0, 0.0, KEY_VALUE]))
    close(np.array(key["sail stale"]), np.array([0.0, -0.684, -0.36, -0.36, KEY_VALUE - 0.36]))
    # AL has no floor: q' = 0.9 (q - 0.4).
    close(np.array(key["al"]), np.array([0.0, -0.36, -0.684, -0.9756, KEY_VALUE - 1.23804]))


def test_fresh_returns_overshoot_on_the_way() -> None:
    # Write v_s = G_s (1 + f_s) on the path. From f = -1: f_s' = f_{s+1} + 0.9 (-f_s)+ and f_4' = 0.9 (-f_4)+, hence
    #   f_4: 0.9, 0;   f_3: -0.1, 0.99, 0;   f_2: -0.1, -0.01, 0.999, 0;   ...   f_0 at sweep 5: 1 - 0.1^5; then 0.
    # The treasure is paid twice, as reward and as return, and that wave needs five sweeps to pass through the start.
    for name in ("sail fresh", "strsil fresh"):
        tables = sweeps(name, 6)
        close(tables[0][4, ADVANCE], 1.9)
        close(tables[4][0, ADVANCE], KEY_VALUE * (2.0 - 0.1**5))
        close(tables[5][0, ADVANCE], KEY_VALUE)


def test_without_the_max_stale_returns_would_undo_the_key() -> None:
    # The bonus alpha (G - V), with neither SAIL's max(G, q) nor strSIL's ReLU: quitting keeps 0.4 + 0.9 (0.4 - 0.4),
    # and the key falls to 0.6561 + 0.9 (0 - 0.4) = 0.2961.
    def pessimist(q: Array) -> Array:
        returns = np.where(np.isfinite(STALE), STALE, q)
        return bellman(CHAIN, q) + ALPHA * (returns - q.max(axis=-1, keepdims=True))

    close(fixed_point(pessimist, optimal_value(CHAIN))[0], np.array([0.4, 0.2961]))
    close(fixed_point(RULES["sail stale"], optimal_value(CHAIN))[0, ADVANCE], KEY_VALUE)


# Lucky returns: G > V*


def test_a_lucky_win_fools_both_self_imitating_rules() -> None:
    # Safe 0.5 against 1 with chance 0.1. The winner's return is 1: v = 0.1 + 0.9 (1 - v), so v = 1 / 1.9 > 0.5.
    mdp = lottery()
    returns = np.array([[0.5, 1.0], [NO_RETURN, NO_RETURN]])
    zero, fooled = np.zeros((2, 2)), 1.0 / 1.9
    q_sail = fixed_point(partial(sail, mdp, returns=returns, alpha=0.9), zero)
    q_strsil = fixed_point(partial(strsil, mdp, returns=returns, alpha=0.9), zero)
    assert greedy_policy(optimal_value(mdp))[0] == SAFE
    assert greedy_policy(q_sail)[0] == greedy_policy(q_strsil)[0] == GAMBLE
    close(q_sail[0], np.array([0.5 + 0.9 * (0.5 - fooled), fooled]))
    close(q_strsil[0], np.array([0.5, fooled]))
    # AL, which does not look at returns, is not fooled.
    assert greedy_policy(fixed_point(partial(advantage_learning, mdp, alpha=0.9), zero))[0] == SAFE


@on_random_mdps
def test_lucky_returns_on_every_pair_overestimate_every_state(case: Case) -> None:
    # With G = V* + 1 everywhere, v = V* + u: u >= alpha (1 - u), so u is at least alpha / (1 + alpha).
    lucky = np.broadcast_to(case.optimal.max(axis=-1, keepdims=True) + 1.0, case.q.shape)
    for rule in (sail, strsil):
        q = fixed_point(partial(rule, case.mdp, returns=lucky, alpha=case.alpha), case.zero, 1e-9, step=0.5)
        excess = q.max(axis=-1) - case.optimal.max(axis=-1)
        assert (excess >= case.alpha / (1.0 + case.alpha) - 1e-6).all() and (excess < 1.0).all()
