"""Epsilon-greedy exploration."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array


def epsilon_at(step: Any, *, start: float, end: float, begins: int, decay_steps: int) -> Any:
    """`start` until step `begins`, then linearly down to `end` within `decay_steps` more.

    The steps of jax arrays are counted on the device, those of numpy or plain numbers without waking it.
    """
    clip = jnp.clip if isinstance(step, Array) else np.clip
    progress = clip((step - begins) / decay_steps, 0.0, 1.0)
    return start + (end - start) * progress


def epsilon_greedy(q: Array, epsilon: Array | float, coin: Array, random_action: Array) -> Array:
    """The best action, or the random one where the coin, uniform in [0, 1), falls below epsilon.

    The randomness is drawn by the caller, for a whole block of steps at once: inside a compiled loop a generator costs
    more than a small network.
    """
    return jnp.where(coin < epsilon, random_action, jnp.argmax(q, axis=-1).astype(random_action.dtype))
