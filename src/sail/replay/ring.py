"""The (environment, time) ring: what is stored, how it grows, and how returns reach it.

Each environment has a row of its own, written round and round. A slot holds an observation and what followed it:
action, reward, and whether the episode ended there. The last observation of an episode, after which nothing follows,
has a slot too (`CLOSING`), so an episode of L steps takes L + 1 slots, and the state to bootstrap from is always the
next slot.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

UNKNOWN_RETURN = -math.inf
"""The return of a transition whose episode still runs (the placeholder of Alg. 1)."""

GOES_ON, TERMINATED, TRUNCATED, CLOSING, INTERRUPTED = range(5)
"""What a slot's `end` says: the episode goes on, ended, was cut off, this is its last observation, or the run was
interrupted here: the episode would have gone on, so nobody knows its return, and it is always bootstrapped from."""


class Ring(NamedTuple):
    """E environments, T slots each."""

    observation: Array  # [E, T, ...]
    action: Array  # [E, T]
    reward: Array  # [E, T] as the learner sees it
    end: Array  # [E, T] GOES_ON, TERMINATED, TRUNCATED, CLOSING or INTERRUPTED
    age: Array  # [E, T] steps since the episode began: how far back its frames go
    returns: Array  # [E, T] discounted return from here to the end of the episode, or UNKNOWN_RETURN
    head: Array  # [E] where the next observation goes
    size: Array  # [E] slots in use
    intrinsic: Array | None = None  # [E, T] a reward beside the environment's, where there is one
    priority: Array | None = None  # [E, T] what a slot is drawn in proportion to; None: all are drawn alike
    top: Array | None = None  # scalar: the highest priority there has been, which new slots get

    @property
    def length(self) -> int:
        """T, the slots of one environment."""
        return int(self.action.shape[1])


class Steps(NamedTuple):
    """A block of K steps of each of E environments, oldest first."""

    observation: Array  # [K, E, ...] before the step
    action: Array  # [K, E]
    reward: Array  # [K, E]
    terminated: Array  # [K, E]
    truncated: Array  # [K, E]
    next_observation: Array  # [K, E, ...] after the step; kept only where the episode ended
    age: Array  # [K, E] steps since the episode began, before the step
    intrinsic: Array | None = None  # [K, E] where the ring keeps it


def init(
    observation_shape: tuple[int, ...],
    observation_dtype: Any,
    num_envs: int,
    length: int,
    *,
    intrinsic: bool = False,
    prioritised: bool = False,
) -> Ring:
    """An empty ring with `length` slots for each environment."""
    shape = (num_envs, length)
    return Ring(
        observation=jnp.zeros(shape + observation_shape, observation_dtype),
        action=jnp.zeros(shape, jnp.int32),
        reward=jnp.zeros(shape, jnp.float32),
        end=jnp.zeros(shape, jnp.int8),
        age=jnp.zeros(shape, jnp.int32),
        returns=jnp.full(shape, UNKNOWN_RETURN, jnp.float32),
        head=jnp.zeros(num_envs, jnp.int32),
        size=jnp.zeros(num_envs, jnp.int32),
        intrinsic=jnp.zeros(shape, jnp.float32) if intrinsic else None,
        priority=jnp.zeros(shape, jnp.float32) if prioritised else None,
        top=jnp.ones((), jnp.float32) if prioritised else None,
    )


def extend(ring: Ring, steps: Steps, rows: Array | None = None, taken: Array | None = None) -> Ring:
    """The ring with a block of K steps written behind its heads; a row must have room for 2K slots.

    The steps are those of all environments in order, or of the environments `rows` [W], each named once. Where `taken`
    [K, W] is false there was no step, and nothing is written. (A row number outside the ring is nobody's.)
    """
    num_steps, num_rows = steps.action.shape
    if 2 * num_steps > ring.length:
        raise ValueError(f"{num_steps} steps at once need a ring of at least {2 * num_steps} slots, not {ring.length}.")
    done = steps.terminated | steps.truncated
    if taken is not None:
        done &= taken
    row = jnp.arange(num_rows) if rows is None else rows
    head = ring.head if rows is None else ring.head[rows]
    steps_taken = jnp.ones(done.shape, jnp.int32) if taken is None else taken.astype(jnp.int32)
    slots = steps_taken + done  # an end takes one more
    offset = jnp.cumsum(slots, axis=0) - slots
    slot = (head + offset) % ring.length
    # An index outside the ring is dropped: that is how steps that end nothing write no closing slot.
    closing_slot = jnp.where(done, (head + offset + 1) % ring.length, ring.length)
    if taken is not None:
        slot = jnp.where(taken, slot, ring.length)
    row = jnp.broadcast_to(row, offset.shape)
    end = jnp.where(steps.terminated, TERMINATED, jnp.where(steps.truncated, TRUNCATED, GOES_ON)).astype(jnp.int8)

    def write(column: Array, value: Any, closing_value: Any) -> Array:
        column = column.at[row, slot].set(value, mode="drop", unique_indices=True)
        return column.at[row, closing_slot].set(closing_value, mode="drop", unique_indices=True)

    written = slots.sum(axis=0)
    size = ring.size if rows is None else ring.size[rows]
    new_head, new_size = (head + written) % ring.length, jnp.minimum(size + written, ring.length)
    if rows is not None:
        new_head = ring.head.at[rows].set(new_head, mode="drop")
        new_size = ring.size.at[rows].set(new_size, mode="drop")
    return Ring(
        observation=write(ring.observation, steps.observation, steps.next_observation),
        action=write(ring.action, steps.action, 0),
        reward=write(ring.reward, steps.reward, 0.0),
        end=write(ring.end, end, CLOSING),
        age=write(ring.age, steps.age, steps.age + 1),
        returns=write(ring.returns, UNKNOWN_RETURN, UNKNOWN_RETURN),
        head=new_head,
        size=new_size,
        intrinsic=None if ring.intrinsic is None else write(ring.intrinsic, steps.intrinsic, 0.0),
        priority=None if ring.priority is None else write(ring.priority, ring.top, 0.0),
        top=ring.top,
    )


def cut_off(ring: Ring) -> Ring:
    """The ring after an interruption: every running episode ends, `INTERRUPTED`, at its newest stored observation.

    What followed that observation was lost with the environments, so its slot becomes the episode's closing one.
    """
    row = jnp.arange(ring.head.shape[0])
    newest, before = (ring.head - 1) % ring.length, (ring.head - 2) % ring.length
    runs = (ring.size > 0) & (ring.end[row, newest] == GOES_ON)
    has_before = runs & (ring.size > 1) & (ring.age[row, newest] > 0)
    end = ring.end.at[row, newest].set(jnp.where(runs, CLOSING, ring.end[row, newest]).astype(jnp.int8))
    end = end.at[row, before].set(jnp.where(has_before, INTERRUPTED, end[row, before]).astype(jnp.int8))
    return ring._replace(end=end)


def fill_returns(
    ring: Ring, discount: float, window: int | None = None, rows: Array | None = None, *, total: bool = False
) -> Ring:
    """The ring with the returns of every episode that has ended; running and interrupted ones keep the placeholder.

    `window` bounds how many of the newest slots are looked at. It must cover all that was written since the last call
    and the whole of every episode that ended in it; by default it is the whole ring. `rows` are the environments to
    look at, by default all; naming one twice does no harm. Intrinsic rewards are in a return only if it is `total`.
    """
    window = ring.length if window is None else min(window, ring.length)
    row = (jnp.arange(ring.head.shape[0]) if rows is None else rows)[:, None]
    head, size = ring.head[row], ring.size[row]
    slot = (head - window + jnp.arange(window)) % ring.length  # [E, window] oldest to newest
    end, old = ring.end[row, slot], ring.returns[row, slot]
    goes_on, ended = end == GOES_ON, (end == TERMINATED) | (end == TRUNCATED)
    keeps = jnp.where(goes_on, discount, 0.0).astype(jnp.float32)

    def then(later: tuple[Array, ...], earlier: tuple[Array, ...]) -> tuple[Array, ...]:
        # G_t = r_t + discount * G_t+1 as a composition of affine maps, so that it can be scanned in parallel. It is
        # known where the slot's own episode has ended: a later end does not tell what an interrupted one came to.
        return (
            later[0] * earlier[0],
            earlier[1] + earlier[0] * later[1],
            later[2] & earlier[2],
            earlier[3] | (earlier[2] & later[3]),
        )

    reward = ring.reward[row, slot]
    if total and ring.intrinsic is not None:
        reward += ring.intrinsic[row, slot]
    _, value, _, known = lax.associative_scan(then, (keeps, reward, goes_on, ended), reverse=True, axis=1)
    in_use = jnp.arange(window) >= window - size
    # A return once written stays as it is: half of its episode may have been overwritten since.
    fresh = known & in_use & (end != CLOSING) & (old == UNKNOWN_RETURN)
    returns = ring.returns.at[row, slot].set(jnp.where(fresh, value, old), unique_indices=rows is None)
    return ring._replace(returns=returns)
