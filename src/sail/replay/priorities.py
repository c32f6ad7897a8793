"""Prioritised replay (Schaul et al., 2016): drawing in proportion, weights that undo the bias, and new priorities.

There is no tree. A round of updates is drawn at once, and looking at all priorities once for a round (a million of them
are 4 MB) costs less than walking a tree for every draw and every change of a priority: a tree's steps depend on each
other, and a GPU waits for each of them. Which slots may be drawn is asked anew for every round, so priorities follow
the ring wherever it is overwritten.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from sail.replay.ring import Ring

WIDTH = 128  # priorities summed together: first one of these sums is found, then a place in it
LEAST = 1e-10  # added to a loss, so that no transition is lost for good (Dopamine's number)


def draw_in_proportion(weights: Array, key: Array, num: int) -> tuple[Array, Array, Array]:
    """`num` places in `weights` [M], each independently and with probability in proportion; never one of weight 0.

    Gives the places, their weights, and whether there was any weight at all (if not, the places mean nothing).
    """
    width = min(WIDTH, weights.size)
    rows = jnp.pad(weights, (0, -weights.size % width)).reshape(-1, width)
    sums = rows.sum(axis=1)
    up_to = jnp.cumsum(sums)
    coin_key, fine_key = jax.random.split(key)
    # Two random numbers, one for the row and one for the place in it, since each has only 23 bits. Running sums are
    # added up in parallel, so rounding can move them across places without weight: what is found is moved to one with.
    threshold = jax.random.uniform(coin_key, (num,)) * up_to[-1]
    # A binary search is a loop, which costs a GPU more than comparing with everything at once.
    method = "scan" if jax.default_backend() == "cpu" else "compare_all"
    row = jnp.searchsorted(up_to, threshold, side="right", method=method)
    row = _with_weight(sums)[jnp.minimum(row, len(sums) - 1)]
    within, some = jnp.cumsum(rows[row], axis=1), rows[row] > 0
    above = some & (within > jax.random.uniform(fine_key, (num, 1)) * within[:, -1:])
    last = width - 1 - jnp.argmax(some[:, ::-1], axis=1)
    place = row * width + jnp.where(above.any(axis=1), jnp.argmax(above, axis=1), last)
    place = jnp.minimum(place, weights.size - 1)
    return place, weights[place], up_to[-1] > 0


def _with_weight(sums: Array) -> Array:
    """For each place the first one from there on that has a weight, or the last of all where there is none."""
    here = jnp.arange(len(sums))
    last = jnp.where(sums > 0, here, 0).max()
    return jnp.minimum(lax.cummin(jnp.where(sums > 0, here, len(sums)), reverse=True), last)


def importance(priority: Array, exponent: float) -> Array:
    """[..., B] (N P(i))^-exponent for each of a minibatch, over the largest of them: what its loss is multiplied with.

    N and the sum of all priorities are the same for all, so they cancel.
    """
    lowest = jnp.maximum(priority.min(axis=-1, keepdims=True), jnp.finfo(jnp.float32).tiny)
    return (lowest / jnp.maximum(priority, lowest)) ** exponent


def reprioritise(ring: Ring, row: Array, slot: Array, loss: Array, exponent: float) -> Ring:
    """The ring with new priorities at these places [N]. Where a place comes twice, the later one counts."""
    assert ring.priority is not None and ring.top is not None
    priority = (jnp.maximum(loss, 0) + LEAST) ** exponent
    order = jnp.arange(1, row.size + 1)
    last = jnp.zeros(ring.priority.shape, jnp.int32).at[row, slot].max(order)
    row = jnp.where(last[row, slot] == order, row, ring.priority.shape[0])  # outside the ring: dropped
    return ring._replace(
        priority=ring.priority.at[row, slot].set(lax.stop_gradient(priority), mode="drop"),
        top=jnp.maximum(ring.top, priority.max()),
    )
