"""DeepSea (Osband et al., Behaviour Suite for Reinforcement Learning), in pure JAX."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sail.envs.base import Step
from sail.envs.settings import DeepSeaSettings

_MOVE_COST = 0.01  # of a whole dive to the right; each of its N steps costs 1/N of this


class DeepSeaState(NamedTuple):
    """The diver's cell."""

    row: Array
    column: Array


class DeepSea:
    """An N x N sea: each step goes one row down, left or right; only N times right finds the treasure (0.99)."""

    num_actions = 2
    observation_dtype = jnp.uint8

    def __init__(self, settings: DeepSeaSettings | None = None) -> None:
        self.settings = settings = settings or DeepSeaSettings()
        self.observation_shape: tuple[int, ...] = (settings.size**2,)
        self.max_episode_steps = settings.size
        rng = np.random.RandomState(settings.mapping_seed)  # bsuite's generator, so that its seeds mean the same here
        self.right_action = rng.binomial(1, 0.5, (settings.size, settings.size)).astype(np.int32)

    def reset(self, key: Array) -> DeepSeaState:
        """The top left corner."""
        return DeepSeaState(jnp.array(0, jnp.int32), jnp.array(0, jnp.int32))

    def observe(self, state: DeepSeaState) -> Array:
        """The cell as one-hot; nothing at all once the sea floor is reached."""
        size = self.settings.size
        here = state.row * size + state.column == jnp.arange(size**2)  # row N lies outside, so it matches no cell
        return here.astype(self.observation_dtype)

    def step(self, state: DeepSeaState, action: Array, key: Array) -> tuple[DeepSeaState, Step]:
        """One row down, and one column left or right."""
        size, stochastic = self.settings.size, self.settings.stochastic
        current_key, noise_key = jax.random.split(key)
        right = action == jnp.asarray(self.right_action)[state.row, state.column]
        last_row = state.row == size - 1
        treasure = right & last_row & (state.column == size - 1)
        reward = treasure - right * _MOVE_COST / size
        drift = jnp.where(right, 1, -1)
        if stochastic:
            in_corner = last_row & ((state.column == 0) | (state.column == size - 1))
            reward = reward + in_corner * jax.random.normal(noise_key)
            fails = right & (jax.random.uniform(current_key) < 1 / size)
            drift = jnp.where(fails, 0, drift)
        column = jnp.clip(state.column + drift, 0, size - 1)
        after = DeepSeaState(state.row + 1, column)
        return after, Step(
            observation=self.observe(after),
            reward=jnp.asarray(reward, jnp.float32),
            terminated=last_row,
            truncated=jnp.array(False),
            success=treasure,
        )
