"""The tabular laboratory: the paper's operators on finite MDPs, exact, in plain numpy.

Nothing here samples or learns. Every operator maps an action-value table q [S, A] to another, so that what a rule does
to values, action gaps and greedy policies can be computed instead of estimated.

Write V* = max_a Q* and g = V* - Q* for the optimal gaps. Unclipped, each operator has one fixed point (alpha < 1):

- Bellman: Q*.
- Advantage learning: max q = V* and gaps g / (1 - alpha), so q is not Q*. From q = r + gamma P v + alpha (q - v) with
  v = max q, the maximum over actions leaves v = max (r + gamma P v), so v = V*; then (1 - alpha) q = Q* - alpha V*.
- SAIL and strSIL share v = max q and the greedy actions, whatever the returns: with x = r + gamma P v, both have
  v = max_a max(x, (x + alpha G) / (1 + alpha)). They differ in the gaps of the other actions.
- If no return beats the optimal value of its state (G <= V*), then v = V*, strSIL's fixed point is Q* (its bonus is
  gone), and SAIL's gaps are min(g / (1 - alpha), g + alpha (V* - G)): AL's, but a return is a floor for its action.
  If some G > V*, both may overestimate, and prefer the wrong action.

Reaching the fixed point is another matter. Bellman's operator is a gamma-contraction; the others are not, in general.
AL is optimality-preserving (max q converges to V*) and gap-increasing: Bellemare et al. 2016, arxiv.org/abs/1512.04860.
Full sweeps of SAIL and strSIL can cycle for ever, SAIL's even with G <= Q*; `fixed_point` then raises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Policy = npt.NDArray[np.integer] | Array  # [S] actions, or [S, A] probabilities
Operator = Callable[[Array], Array]

NO_RETURN = float("-inf")
"""Stands in `returns` for a pair whose episode has not ended (or was never seen): max(G, q) is then q."""

QUIT, ADVANCE = 0, 1  # actions of key_door_chain
SAFE, GAMBLE = 0, 1  # actions of lottery


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """A finite MDP; a terminal state is one that loops on itself with reward zero (see `make_terminal`)."""

    transitions: Array  # [S, A, S], P(s' | s, a)
    rewards: Array  # [S, A], expected
    discount: float

    def __post_init__(self) -> None:
        # Own read-only copies, so that a frozen MDP cannot be changed through the caller's arrays.
        for name in ("transitions", "rewards"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        p, r = self.transitions, self.rewards
        if p.ndim != 3 or 0 in p.shape or p.shape[0] != p.shape[2]:
            raise ValueError(f"transitions must have shape [S, A, S], got {list(p.shape)}.")
        if r.shape != p.shape[:2]:
            raise ValueError(f"rewards must have shape [S, A] = {list(p.shape[:2])}, got {list(r.shape)}.")
        if not (np.isfinite(p).all() and np.isfinite(r).all()):
            raise ValueError("transitions and rewards must be finite.")
        if (p < 0).any() or not np.allclose(p.sum(axis=-1), 1.0, rtol=0.0, atol=1e-9):
            raise ValueError("transitions[s, a] must be non-negative and sum to 1 for every state and action.")
        if not 0.0 <= self.discount < 1.0:
            raise ValueError(f"discount must be in [0, 1), got {self.discount}.")

    @property
    def num_states(self) -> int:
        """S, the number of states."""
        return len(self.rewards)

    @property
    def num_actions(self) -> int:
        """A, the number of actions in every state."""
        return int(self.rewards.shape[1])


# MDPs


def make_terminal(mdp: FiniteMDP, states: Sequence[int]) -> FiniteMDP:
    """Return a copy of the MDP in which the given states are terminal: they loop on themselves with reward zero."""
    transitions, rewards = mdp.transitions.copy(), mdp.rewards.copy()
    for state in states:
        transitions[state] = np.eye(mdp.num_states)[state]
        rewards[state] = 0.0
    return FiniteMDP(transitions, rewards, mdp.discount)


def random_mdp(num_states: int, num_actions: int, discount: float, seed: int, branching: int = 2) -> FiniteMDP:
    """Draw a Garnet MDP: every pair leads to `branching` states, and its reward is standard normal."""
    if not 1 <= branching <= num_states:
        raise ValueError(f"branching must be between 1 and num_states = {num_states}, got {branching}.")
    rng = np.random.default_rng(seed)
    transitions = np.zeros((num_states, num_actions, num_states))
    for pair in np.ndindex(num_states, num_actions):
        successors = rng.choice(num_states, size=branching, replace=False)
        transitions[pair][successors] = rng.dirichlet(np.ones(branching))
    return FiniteMDP(transitions, rng.standard_normal((num_states, num_actions)), discount)


def key_door_chain(
    length: int = 5, discount: float = 0.9, treasure: float = 1.0, distraction: float = 0.4
) -> FiniteMDP:
    """Build the paper's Key-Door-Treasure as a chain of `length` states, with the terminal state last.

    ADVANCE takes the key in state 0 and opens the door to the treasure in the last one. QUIT ends the episode with
    nothing, except in state 0, where it pays a `distraction`.
    """
    if length < 2:
        raise ValueError(f"length must be at least 2, a key and a door, got {length}.")
    end = length
    transitions, rewards = np.zeros((length + 1, 2, length + 1)), np.zeros((length + 1, 2))
    transitions[:, QUIT, end] = 1.0
    transitions[np.arange(length), ADVANCE, np.arange(length) + 1] = 1.0
    transitions[end, ADVANCE, end] = 1.0
    rewards[0, QUIT] = distraction
    rewards[length - 1, ADVANCE] = treasure
    return FiniteMDP(transitions, rewards, discount)


def lottery(safe: float = 0.5, jackpot: float = 1.0, chance: float = 0.1, discount: float = 0.9) -> FiniteMDP:
    """Build a one-step choice between SAFE pay and a GAMBLE that sometimes wins; state 1 is terminal."""
    transitions = np.zeros((2, 2, 2))
    transitions[:, :, 1] = 1.0
    return FiniteMDP(transitions, np.array([[safe, chance * jackpot], [0.0, 0.0]]), discount)


# Operators


def bellman(mdp: FiniteMDP, q: Array) -> Array:
    """T q(s, a) = r(s, a) + gamma E[max_b q(s', b)]."""
    target: Array = mdp.rewards + mdp.discount * mdp.transitions @ _checked_table(mdp, "q", q).max(axis=-1)
    return target


def advantage_learning(mdp: FiniteMDP, q: Array, alpha: float, clip: float | None = None) -> Array:
    """T_AL q(s, a) = T q(s, a) + alpha (q(s, a) - max_b q(s, b)), the bracket in [-clip, clip]."""
    bracket = q - q.max(axis=-1, keepdims=True)
    return bellman(mdp, q) + _bonus(bracket, alpha, clip)


def sail(mdp: FiniteMDP, q: Array, returns: Array, alpha: float, clip: float | None = None) -> Array:
    """T_SAIL q(s, a) = T q(s, a) + alpha (max(G(s, a), q(s, a)) - max_b q(s, b)), the bracket in [-clip, clip]."""
    bracket = np.maximum(_checked_returns(mdp, returns), q) - q.max(axis=-1, keepdims=True)
    return bellman(mdp, q) + _bonus(bracket, alpha, clip)


def strsil(mdp: FiniteMDP, q: Array, returns: Array, alpha: float, clip: float | None = None) -> Array:
    """T_strSIL q(s, a) = T q(s, a) + alpha (G(s, a) - max_b q(s, b))+, the bracket in [0, clip]."""
    bracket = np.maximum(_checked_returns(mdp, returns) - q.max(axis=-1, keepdims=True), 0.0)
    return bellman(mdp, q) + _bonus(bracket, alpha, clip)


def fixed_point(
    operator: Operator, q0: Array, tolerance: float = 1e-10, max_iterations: int = 100_000, step: float = 1.0
) -> Array:
    """Iterate q <- q + step (operator(q) - q) until |operator(q) - q| <= tolerance, or raise RuntimeError.

    A step below 1 keeps the fixed points; 0.5 has ended every cycle of SAIL and strSIL that we met. A small residual is
    not a small error: Bellman's is at most tolerance / (1 - gamma), and the others come with no such bound.
    """
    if not 0.0 < step <= 1.0:
        raise ValueError(f"step must be in (0, 1], got {step}.")
    q, residual = q0, np.inf
    for _ in range(max_iterations):
        target = operator(q)
        residual = float(np.abs(target - q).max())
        q = (1.0 - step) * q + step * target
        if residual <= tolerance:
            return q
    raise RuntimeError(f"No fixed point after {max_iterations} iterations: the residual is still {residual:.3g}.")


# Policies, values and gaps


def greedy_policy(q: Array) -> npt.NDArray[np.intp]:
    """Return the greedy action [S] of every state, the first one where several tie."""
    policy: npt.NDArray[np.intp] = q.argmax(axis=-1)
    return policy


def action_gaps(q: Array) -> Array:
    """g(s, a) = max_b q(s, b) - q(s, a), the paper's action gap, [S, A]."""
    gaps: Array = q.max(axis=-1, keepdims=True) - q
    return gaps


def action_gap(q: Array) -> Array:
    """Return the best action's value minus the second best's, [S]."""
    if q.shape[-1] < 2:
        raise ValueError("An action gap needs at least two actions.")
    ranked = np.sort(q, axis=-1)
    gap: Array = ranked[:, -1] - ranked[:, -2]
    return gap


def policy_value(mdp: FiniteMDP, policy: Policy) -> Array:
    """Q_pi = r + gamma P V_pi, with V_pi from the linear system (I - gamma P_pi) V_pi = r_pi."""
    pi = _probabilities(mdp, policy)
    p_pi = np.einsum("sa,sat->st", pi, mdp.transitions)  # [S, S]
    v_pi = np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * p_pi, (pi * mdp.rewards).sum(axis=-1))
    q_pi: Array = mdp.rewards + mdp.discount * mdp.transitions @ v_pi
    return q_pi


def policy_returns(mdp: FiniteMDP, policy: Policy, start: int | None = None) -> Array:
    """Return the expected returns that an old policy's episodes carry: Q_pi, never better than Q*.

    With `start`, the pairs that no episode from that state can contain have NO_RETURN, as in a replay buffer.
    """
    returns = policy_value(mdp, policy)
    if start is None:
        return returns
    pi = _probabilities(mdp, policy)
    p_pi = np.einsum("sa,sat->st", pi, mdp.transitions)  # [S, S]
    reached = np.arange(mdp.num_states) == start
    for _ in range(mdp.num_states):  # the longest path without a loop
        reached |= reached @ p_pi > 0
    return np.where(reached[:, None] & (pi > 0), returns, NO_RETURN)


def optimal_value(mdp: FiniteMDP) -> Array:
    """Return Q* by policy iteration, exact up to rounding."""
    policy, states = np.zeros(mdp.num_states, dtype=np.intp), np.arange(mdp.num_states)
    while True:
        q = policy_value(mdp, policy)
        # Change an action only for more than rounding, or two tied policies could alternate for ever.
        improves = q.max(axis=-1) - q[states, policy] > 1e-12 * (1.0 + np.abs(q).max())
        if not improves.any():
            return q
        policy = np.where(improves, greedy_policy(q), policy)


# Checks


def _bonus(bracket: Array, alpha: float, clip: float | None) -> Array:
    if not 0.0 <= alpha < 1.0:
        raise ValueError(f"alpha must be in [0, 1), got {alpha}.")
    if clip is not None and not clip > 0.0:
        raise ValueError(f"clip must be positive or None, got {clip}.")
    return alpha * (bracket if clip is None else np.clip(bracket, -clip, clip))


def _checked_table(mdp: FiniteMDP, name: str, table: Array) -> Array:
    if table.shape != mdp.rewards.shape:
        raise ValueError(f"{name} must have shape [S, A] = {list(mdp.rewards.shape)}, got {list(table.shape)}.")
    return table


def _checked_returns(mdp: FiniteMDP, returns: Array) -> Array:
    if not (returns < np.inf).all():  # false for NaN too
        raise ValueError("returns must be numbers, or NO_RETURN (-inf) where none is known.")
    return _checked_table(mdp, "returns", returns)


def _probabilities(mdp: FiniteMDP, policy: Policy) -> Array:
    shape = (mdp.num_states, mdp.num_actions)
    if policy.ndim == 1 and np.issubdtype(policy.dtype, np.integer):
        if policy.shape != shape[:1] or not ((policy >= 0) & (policy < shape[1])).all():
            raise ValueError(f"A deterministic policy must hold {shape[0]} actions between 0 and {shape[1] - 1}.")
        return np.eye(shape[1])[policy]
    if policy.shape != shape or not (
        (policy >= 0).all() and np.allclose(policy.sum(axis=-1), 1.0, rtol=0.0, atol=1e-9)
    ):
        raise ValueError(f"A stochastic policy must hold probabilities of shape [S, A] = {list(shape)}.")
    return policy.astype(np.float64)
