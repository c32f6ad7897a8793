"""Temporal-difference losses: pure and unbatched."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def huber(error: Array, delta: float = 1.0) -> Array:
    """Quadratic up to `delta`, linear beyond it: DQN's loss in the paper (delta = 1)."""
    size = jnp.abs(error)
    quadratic = jnp.minimum(size, delta)
    return 0.5 * quadratic**2 + delta * (size - quadratic)


def squared(error: Array) -> Array:
    """Half the squared error: what the paper's Eq. (1) writes, and what goes with Adam in Dopamine (up to the half)."""
    return 0.5 * error**2


def td_error(q_tm1: Array, a_tm1: Array, target_tm1: Array) -> Array:
    """How far Q(s, a) is above its target; q_tm1 is [..., A], the others are [...]."""
    return of_action(q_tm1, a_tm1) - target_tm1


def of_action(values: Array, action: Array, axis: int = -1) -> Array:
    """The values of one action: [..., A] and [...] to [...]; `axis`, counted from the end, is where actions are.

    By comparing instead of looking up: the gradient of a lookup is a scatter, three small programs more on a GPU.
    """
    index = jnp.expand_dims(action, tuple(range(action.ndim, values.ndim)))
    actions = jnp.expand_dims(jnp.arange(values.shape[axis]), tuple(range(1, -axis)))
    return jnp.where(actions == index, values, jnp.zeros((), values.dtype)).sum(axis)


def project(atoms: Array, probabilities: Array, support: Array) -> Array:
    """A distribution on any atoms [S], as one on the evenly spaced `support` [M] (Bellemare et al., 2017).

    Each atom's probability goes to its two neighbours in the support, the nearer the more; beyond an end, to that end.
    """
    spacing = support[1] - support[0]
    atoms = jnp.clip(atoms, support[0], support[-1])
    shares = jnp.clip(1 - jnp.abs(atoms[:, None] - support) / spacing, 0, 1)  # [S, M]
    return (probabilities[:, None] * shares).sum(axis=0)  # a matrix product would be rounded more on a GPU


def cross_entropy(logits: Array, probabilities: Array) -> Array:
    """Of a categorical distribution given by logits [M], against target probabilities [M]."""
    return -(probabilities * jax.nn.log_softmax(logits)).sum()


def quantile_huber(quantiles: Array, taus: Array, targets: Array, kappa: float = 1.0) -> Array:
    """Quantile regression (Dabney et al., 2018): quantiles [N] at the fractions `taus` [N], against targets [N'].

    Summed over the former and averaged over the latter, as in Dopamine.
    """
    error = targets[None, :] - quantiles[:, None]  # [N, N']
    asymmetry = jnp.abs(taus[:, None] - (error < 0))
    return (asymmetry * huber(error, kappa) / kappa).mean(axis=1).sum()
