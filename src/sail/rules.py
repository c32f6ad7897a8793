"""The paper in one file: what each rule adds to the reward.

Self-Imitation Advantage Learning (Ferret, Pietquin and Geist, AAMAS 2021) changes one thing in an off-policy agent: the
reward of a replayed transition gets a bonus made of the target network's action-values and the observed return,

    r~(s, a) = r(s, a) + alpha * (max(G, Qt(s, a)) - max_b Qt(s, b))

Every function here takes one transition: `q_tm1` are the target action-values at s, shape [A]; `a_tm1` the action that
was replayed; `g_tm1` the discounted return observed from that step to the end of its episode, or `UNKNOWN_RETURN` while
the episode runs. Leading axes are carried along, so [B, A], [B], [B] gives [B]. numpy in, numpy out; jax in, jax out.

The clip acts on the bracket, before alpha; `clip=None` turns it off. No gradient flows through a bonus.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sail.errors import BadInputError, unknown_name
from sail.plugins import entries

Array = Any  # a numpy or a jax array

UNKNOWN_RETURN = -math.inf
"""The placeholder return of Alg. 1: max(G, Q) is then Q, and (G - V)+ is 0."""


def bellman(q_tm1: Array, a_tm1: Array, g_tm1: Array, *, clip: float | None, tau: float) -> Array:
    """No bonus: plain Q-learning."""
    return _numpy_for(q_tm1).zeros_like(_taken(q_tm1, a_tm1))


def advantage_learning(q_tm1: Array, a_tm1: Array, g_tm1: Array, *, clip: float | None, tau: float) -> Array:
    """Advantage Learning (Bellemare et al., 2016): Qt(s, a) - max_b Qt(s, b)."""
    return _clip(_taken(q_tm1, a_tm1) - _best(q_tm1), _negative(clip), clip)


def sail(q_tm1: Array, a_tm1: Array, g_tm1: Array, *, clip: float | None, tau: float) -> Array:
    """SAIL: max(G, Qt(s, a)) - max_b Qt(s, b)."""
    optimistic_return = _numpy_for(q_tm1).maximum(g_tm1, _taken(q_tm1, a_tm1))
    return _clip(optimistic_return - _best(q_tm1), _negative(clip), clip)


def strsil(q_tm1: Array, a_tm1: Array, g_tm1: Array, *, clip: float | None, tau: float) -> Array:
    """Straightforward self-imitation, the paper's weaker baseline: (G - max_b Qt(s, b))+.

    The authors' released SAIL-DQN is this rule: see docs/deviations.md.
    """
    return _clip(g_tm1 - _best(q_tm1), 0.0, clip)


def munchausen(q_tm1: Array, a_tm1: Array, g_tm1: Array, *, clip: float | None, tau: float) -> Array:
    """Munchausen RL (Vieillard et al., 2020): tau * log softmax(Qt(s, .) / tau)[a]."""
    return _clip(_taken(tau * _log_policy(q_tm1, tau), a_tm1), _negative(clip), 0.0)


def greedy_value(q_t: Array, tau: float) -> Array:
    """The bootstrap of every rule but one: max_b Qt(s', b)."""
    return _best(q_t)


def soft_value(q_t: Array, tau: float) -> Array:
    """Munchausen's bootstrap: sum_b pi(b) (Qt(s', b) - tau log pi(b)) = tau * logsumexp(Qt(s', .) / tau)."""
    xp = _numpy_for(q_t)
    best = _best(q_t)
    return best + tau * xp.log(xp.sum(xp.exp((q_t - best[..., None]) / tau), axis=-1))


@dataclass(frozen=True)
class Rule:
    """A rule: the bracket of its bonus, the policy it bootstraps from, and the clip its agents use by default."""

    bracket: Callable[..., Array]
    soft: bool = False
    """Whether it bootstraps from a softmax policy instead of the greedy one."""
    default_clip: float | None = 1.0
    needs_values: bool = True
    """False if the bonus does not read Qt(s, .): the learner then need not evaluate the target network at s."""


# A new rule is one function above and one line here.
RULES: dict[str, Rule] = {
    "bellman": Rule(bellman, default_clip=None, needs_values=False),
    "al": Rule(advantage_learning, default_clip=None),  # unclipped in the public configuration
    "sail": Rule(sail),
    "strsil": Rule(strsil),
    "munchausen": Rule(munchausen, soft=True),
}


def known() -> dict[str, Rule]:
    """Every rule, those of other packages included (docs/extending.md)."""
    for name, rule in entries("sail.rules"):
        if name not in RULES:
            register(name, rule)
    return RULES


def register(name: str, rule: Rule) -> None:
    """Makes a rule known by a name, for every base agent."""
    if not re.fullmatch(r"[a-z][a-z0-9]*", name):
        raise BadInputError(f"A rule's name is made of small letters and digits, unlike '{name}'.")
    if name in RULES:
        raise BadInputError(f"There is a rule '{name}' already.")
    if not isinstance(rule, Rule):
        raise BadInputError(f"The rule '{name}' must be a sail.rules.Rule, not a {type(rule).__name__}.")
    RULES[name] = rule


def bonus(
    name: str,
    q_tm1: Array,
    a_tm1: Array,
    g_tm1: Array,
    alpha: float = 0.9,
    clip: float | None = 1.0,
    tau: float = 0.03,
) -> Array:
    """What the rule called `name` adds to the reward: alpha * clip(bracket).

    >>> import numpy as np
    >>> q, best, other = np.array([1.0, 0.5]), 0, 1
    >>> float(bonus("sail", q, other, g_tm1=1.25))  # a better return than expected: repeat it
    0.225
    >>> float(bonus("sail", q, other, g_tm1=0.0))  # a stale return: max(G, Q) is Q, so this is Advantage Learning
    -0.45
    """
    check_settings(name, alpha, clip, tau)
    xp = _numpy_for(q_tm1, a_tm1, g_tm1)
    q_tm1, a_tm1 = xp.asarray(q_tm1), xp.asarray(a_tm1)
    g_tm1 = xp.asarray(g_tm1, dtype=q_tm1.dtype)
    _check_transition(q_tm1, a_tm1, g_tm1)
    if xp is not np:
        q_tm1, g_tm1 = sys.modules["jax"].lax.stop_gradient((q_tm1, g_tm1))
    return alpha * RULES[name].bracket(q_tm1, a_tm1, g_tm1, clip=clip, tau=tau)


def bootstrap(name: str, q_t: Array, tau: float = 0.03) -> Array:
    """The value of the next state under the rule called `name`: soft for Munchausen, greedy for the others."""
    check_settings(name, tau=tau)
    return soft_value(q_t, tau) if RULES[name].soft else greedy_value(q_t, tau)


def soft_policy(q_t: Array, tau: float) -> tuple[Array, Array]:
    """softmax(Qt(s', .) / tau) and tau times its logarithm: what Munchausen bootstraps from, action by action."""
    scaled_log = q_t - soft_value(q_t, tau)[..., None]
    return _numpy_for(q_t).exp(scaled_log / tau), scaled_log


def parts(
    name: str,
    q_tm1: Array,
    a_tm1: Array,
    g_tm1: Array,
    alpha: float = 0.9,
    clip: float | None = 1.0,
    tau: float = 0.03,
) -> tuple[Array, Array]:
    """The bonus split in two: what it would be without the return, and what the return (self-imitation) adds."""
    nothing_known = np.full(np.shape(g_tm1), UNKNOWN_RETURN)
    advantage_part = bonus(name, q_tm1, a_tm1, nothing_known, alpha, clip, tau)
    return advantage_part, bonus(name, q_tm1, a_tm1, g_tm1, alpha, clip, tau) - advantage_part


def check_settings(name: str, alpha: float = 0.9, clip: float | None = 1.0, tau: float = 0.03) -> None:
    """Refuses what no rule can use, with one sentence."""
    if name not in RULES and name not in known():
        raise unknown_name("rule", name, RULES)
    if isinstance(alpha, int | float | np.number) and not 0 <= alpha < 1:
        raise ValueError(f"alpha must be at least 0 and below 1, not {alpha}.")
    if clip is not None and not clip >= 0:
        raise ValueError(f"clip must be at least 0, or None for no clipping, not {clip}.")
    if not tau > 0:
        raise ValueError(f"tau must be above 0, not {tau}.")


def _check_transition(q_tm1: Array, a_tm1: Array, g_tm1: Array) -> None:
    is_float = np.issubdtype(q_tm1.dtype, np.floating) or q_tm1.dtype.name == "bfloat16"
    if q_tm1.ndim < 1 or not is_float:
        raise ValueError(f"q_tm1 must be a floating-point array [..., A], not {q_tm1.dtype}{list(q_tm1.shape)}.")
    if not np.issubdtype(a_tm1.dtype, np.integer):
        raise ValueError(f"a_tm1 must hold action numbers (integers), not {a_tm1.dtype}.")
    if not q_tm1.shape[:-1] == a_tm1.shape == g_tm1.shape:
        shapes = f"{list(q_tm1.shape)}, {list(a_tm1.shape)} and {list(g_tm1.shape)}"
        raise ValueError(f"q_tm1, a_tm1 and g_tm1 must be [..., A], [...] and [...], not {shapes}.")
    if isinstance(a_tm1, np.ndarray) and not ((a_tm1 >= 0) & (a_tm1 < q_tm1.shape[-1])).all():
        raise ValueError(f"a_tm1 must be from 0 to {q_tm1.shape[-1] - 1}: there are {q_tm1.shape[-1]} action-values.")


def _numpy_for(*arrays: Array) -> Any:
    # jax only where the caller brought it: numpy users and the command line need not wait for its import.
    jax = sys.modules.get("jax")
    return jax.numpy if jax and any(isinstance(array, jax.Array) for array in arrays) else np


def _taken(q: Array, a: Array) -> Array:
    return _numpy_for(q).take_along_axis(q, a[..., None], axis=-1)[..., 0]


def _best(q: Array) -> Array:
    return q.max(axis=-1)


def _log_policy(q: Array, tau: float) -> Array:
    return (q - soft_value(q, tau)[..., None]) / tau


def _negative(clip: float | None) -> float | None:
    return None if clip is None else -clip


def _clip(x: Array, low: float | None, high: float | None) -> Array:
    xp = _numpy_for(x)
    x = x if low is None else xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)
