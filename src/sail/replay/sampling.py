"""Which slots are transitions, drawing them, and reading them as a batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sail.replay.priorities import draw_in_proportion
from sail.replay.ring import CLOSING, GOES_ON, TERMINATED, TRUNCATED, UNKNOWN_RETURN, Ring


class Slots(NamedTuple):
    """Places in the ring, and whether there was anything to draw from at all."""

    row: Array  # [N] environment
    slot: Array  # [N] time
    any: Array  # scalar bool; False means the places are meaningless
    priority: Array | None = None  # [N] where they were drawn in proportion to it


class Places(NamedTuple):
    """Where the newest frames of s and s' are, and how many older frames of their episodes there are to stack."""

    row: Array  # [N]
    slot: Array  # [2, N]
    age: Array  # [2, N]


class Batch(NamedTuple):
    """N transitions, n-step where asked for."""

    states: Array  # [2, N, ...] s and s': gathered together, so that one evaluation of a network can take both
    action: Array  # [N]
    reward: Array  # [N] discounted sum of up to n rewards
    discount: Array  # [N] what the value of next_observation is multiplied with; 0 where there is no future
    returns: Array  # [N] full discounted return of the episode from here on, or UNKNOWN_RETURN

    @property
    def observation(self) -> Array:
        """[N, ...]: s."""
        return self.states[0]

    @property
    def next_observation(self) -> Array:
        """[N, ...]: s', n steps on or at the end of the episode."""
        return self.states[1]


def eligible(ring: Ring, *, n_step: int = 1, finished_only: bool = False, stack: int = 1) -> Array:
    """[E, T]: the slots that hold a transition whose n steps, and the state to bootstrap from, are in the ring.

    With a stack of frames, so must be the older frames of its first state.
    """
    position = jnp.arange(ring.length)
    newer = (ring.head[:, None] - 1 - position) % ring.length  # [E, T] how many slots were written after this one
    oldest = newer if stack == 1 else newer + jnp.minimum(ring.age, stack - 1)
    in_use = oldest < ring.size[:, None]
    # With n slots behind it, a transition has all its steps; with fewer it has them only if its episode ended in those.
    complete = newer >= n_step
    for ahead in range(n_step):
        end_ahead = jnp.roll(ring.end, -ahead, axis=1)
        complete |= (newer >= ahead) & (end_ahead != GOES_ON) & (end_ahead != CLOSING)
    usable = in_use & complete & (ring.end != CLOSING)
    return usable & (ring.returns > UNKNOWN_RETURN) if finished_only else usable


def sample(ring: Ring, key: Array, num: int, *, n_step: int = 1, finished_only: bool = False, stack: int = 1) -> Slots:
    """`num` transitions, independently from all that are eligible: uniformly, or in proportion to their priorities.

    Alg. 1 draws from the whole buffer; `finished_only` draws from episodes that have ended, as the authors' code does.
    """
    if ring.priority is not None:
        mask = eligible(ring, n_step=n_step, finished_only=finished_only, stack=stack)
        place, priority, any_drawn = draw_in_proportion(jnp.where(mask, ring.priority, 0.0).ravel(), key, num)
        return Slots(place // ring.length, place % ring.length, any_drawn, priority)
    words, total = _count(eligible(ring, n_step=n_step, finished_only=finished_only, stack=stack).ravel())
    # The remainder of 32 random bits: no slot is more likely than another by more than total / 2^32.
    chosen = (jax.random.bits(key, (num,), jnp.uint32) % jnp.maximum(total, 1).astype(jnp.uint32)).astype(jnp.int32)
    place = _find(words, chosen)
    place = jnp.where(total > 0, place, 0)
    return Slots(place // ring.length, place % ring.length, total > 0)


def _count(mask: Array) -> tuple[Array, Array]:
    """A mask packed into 32-bit words, and how many of it are set."""
    bits = jnp.pad(mask, (0, -mask.size % 32)).reshape(-1, 32).astype(jnp.uint32)
    words = (bits << jnp.arange(32, dtype=jnp.uint32)).sum(axis=1, dtype=jnp.uint32)
    return words, mask.sum(dtype=jnp.int32)


def _find(words: Array, chosen: Array) -> Array:
    """Where the k-th set bit is, for each k in `chosen` (from 0): first the word, then by halving within it.

    A running count of single slots would be simpler, and on a CPU it costs more than the updates it serves.
    """
    in_word = lax.population_count(words).astype(jnp.int32)
    up_to = jnp.cumsum(in_word)
    # A binary search is a loop, which costs a GPU more than comparing with everything at once.
    method = "scan" if jax.default_backend() == "cpu" else "compare_all"
    index = jnp.minimum(jnp.searchsorted(up_to, chosen, side="right", method=method), words.size - 1)
    word, left = words[index], chosen - (up_to[index] - in_word[index])
    position = jnp.zeros_like(left)
    for width in (16, 8, 4, 2, 1):
        lower_half = (word >> position.astype(jnp.uint32)) & jnp.uint32((1 << width) - 1)
        below = lax.population_count(lower_half).astype(jnp.int32)
        further = below <= left
        left = jnp.where(further, left - below, left)
        position = jnp.where(further, position + width, position)
    return index * 32 + position


def gather(
    ring: Ring, slots: Slots, *, discount: float, n_step: int = 1, time_limit_is_terminal: bool = False, stack: int = 1
) -> Batch:
    """The transitions at `slots`.

    A cut-off episode is no death: its last observation is bootstrapped from, unless `time_limit_is_terminal`. That of
    an interrupted one always is.
    """
    places, batch = gather_scalars(
        ring, slots, discount=discount, n_step=n_step, time_limit_is_terminal=time_limit_is_terminal
    )
    return batch._replace(states=gather_frames(ring.observation, places, stack))


def gather_scalars(
    ring: Ring, slots: Slots, *, discount: float, n_step: int = 1, time_limit_is_terminal: bool = False
) -> tuple[Places, Batch]:
    """The transitions without their states, and the places of those: for a ring whose frames are elsewhere."""
    row, slot = slots.row, slots.slot
    reward = jnp.zeros(slot.shape, jnp.float32)
    weight = jnp.ones(slot.shape, jnp.float32)  # discount^k
    running = jnp.ones(slot.shape, bool)
    steps = jnp.zeros(slot.shape, jnp.int32)
    terminal = jnp.zeros(slot.shape, bool)
    for ahead in range(n_step):
        here = (slot + ahead) % ring.length
        end = ring.end[row, here]
        here_reward = ring.reward[row, here]
        if ring.intrinsic is not None:
            here_reward += ring.intrinsic[row, here]
        reward += jnp.where(running, weight * here_reward, 0.0)
        weight = jnp.where(running, weight * discount, weight)
        steps += running
        dies = end == TERMINATED
        if time_limit_is_terminal:
            dies |= end == TRUNCATED
        terminal |= running & dies
        running &= end == GOES_ON
    both = jnp.stack([slot, (slot + steps) % ring.length])
    batch = Batch(
        states=jnp.zeros(()),
        action=ring.action[row, slot],
        reward=reward,
        discount=jnp.where(terminal, 0.0, weight),
        returns=ring.returns[row, slot],
    )
    return Places(row, both, ring.age[row, both]), batch


def gather_frames(frames: Any, places: Places, stack: int = 1) -> Any:
    """[2, N, ...] the observations at `places`, or [2, N, stack, ...] with their older frames, oldest first.

    Frames from before an episode's beginning are zeros. `frames` [E, T, ...] may be of numpy: then so is the result.
    """
    if stack == 1:
        return frames[places.row, places.slot]
    xp = np if isinstance(frames, np.ndarray) else jnp
    back = xp.arange(stack - 1, -1, -1)
    found = frames[places.row[:, None], (places.slot[..., None] - back) % frames.shape[1]]
    known = places.age[..., None] >= back
    return xp.where(known.reshape(known.shape + (1,) * (found.ndim - known.ndim)), found, xp.zeros((), found.dtype))
