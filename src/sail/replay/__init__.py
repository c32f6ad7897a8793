"""Experience replay with observed returns, as pure functions over one pytree: usable alone, inside jit and vmap.

    ring = init(observation_shape=(4,), observation_dtype=jnp.float32, num_envs=8, length=1000)
    ring = extend(ring, steps)                       # a [K, E] block of steps: what K steps of E environments gave
    ring = fill_returns(ring, discount=0.99)         # episodes that ended get the return of each of their steps
    slots = sample(ring, key, 32, n_step=1)          # uniform over the transitions that can be used
    batch = gather(ring, slots, discount=0.99)       # observation, action, n-step reward, bootstrap, return

docs/replay.md lists every trap this ring was built around.
"""

from sail.replay.priorities import draw_in_proportion, importance, reprioritise
from sail.replay.ring import (
    CLOSING,
    GOES_ON,
    INTERRUPTED,
    TERMINATED,
    TRUNCATED,
    UNKNOWN_RETURN,
    Ring,
    Steps,
    cut_off,
    extend,
    fill_returns,
    init,
)
from sail.replay.sampling import Batch, Places, Slots, eligible, gather, gather_frames, gather_scalars, sample

__all__ = [
    "CLOSING",
    "GOES_ON",
    "INTERRUPTED",
    "TERMINATED",
    "TRUNCATED",
    "UNKNOWN_RETURN",
    "Batch",
    "Places",
    "Ring",
    "Slots",
    "Steps",
    "cut_off",
    "draw_in_proportion",
    "eligible",
    "extend",
    "fill_returns",
    "gather",
    "gather_frames",
    "gather_scalars",
    "importance",
    "init",
    "reprioritise",
    "sample",
]
