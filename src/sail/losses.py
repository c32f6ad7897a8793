"""Temporal-difference losses: pure and unbatched."""

from __future__ import annotations

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
    return jnp.take_along_axis(q_tm1, a_tm1[..., None], axis=-1)[..., 0] - target_tm1
