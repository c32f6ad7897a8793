"""Probe environments: each isolates one thing a learner must get right, and has known action-values.

| name              | isolates                              | optimal action-values                                 |
|-------------------|---------------------------------------|-------------------------------------------------------|
| probe-constant    | can it fit a reward at all?           | 1                                                     |
| probe-discount    | does it bootstrap and discount?       | gamma at the first state, 1 at the second             |
| probe-observation | do values depend on the observation?  | the observation (-1 or 1)                             |
| probe-action      | do values depend on the action?       | 1 if the action matches the observation's sign, or -1 |
| probe-chain       | does a late reward travel back?       | right, at i of N: gamma^(N-1-i)                       |
| probe-time-limit  | is a time limit no death?             | 1 / (1 - gamma): the reward of 1 never stops          |
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sail.envs.base import Step
from sail.envs.settings import ProbeSettings


class ProbeState(NamedTuple):
    """A place on a line, a sign that was drawn, and the number of steps taken."""

    place: Array
    sign: Array
    time: Array


class Probe:
    """The six probes of the table above, as one family on a line."""

    num_actions = 2
    observation_dtype = jnp.float32

    def __init__(self, settings: ProbeSettings | None = None) -> None:
        self.settings = settings = settings or ProbeSettings()
        self._kind = settings.name.removeprefix("probe-")
        lengths = {"discount": 2, "chain": settings.length}
        self._length = lengths.get(self._kind, 1)
        self.observation_shape: tuple[int, ...] = (1 + self._length,)
        self.max_episode_steps = {"chain": 20 * settings.length, "time-limit": settings.length}.get(
            self._kind, self._length
        )

    def reset(self, key: Array) -> ProbeState:
        """The beginning of the line, with a fresh sign where the probe has one."""
        zero = jnp.array(0, jnp.int32)
        random_sign = self._kind in ("observation", "action")
        sign = jax.random.rademacher(key, (), jnp.int32) if random_sign else jnp.array(1, jnp.int32)
        return ProbeState(zero, sign, zero)

    def observe(self, state: ProbeState) -> Array:
        """The sign, then the place as one-hot."""
        place = state.place == jnp.arange(self._length)
        return jnp.concatenate([state.sign[None], place]).astype(self.observation_dtype)

    def step(self, state: ProbeState, action: Array, key: Array) -> tuple[ProbeState, Step]:
        """On the chain, action 1 goes right and 0 left; elsewhere every action goes on."""
        if self._kind == "chain":
            place = jnp.maximum(state.place + jnp.where(action == 1, 1, -1), 0)
        elif self._kind == "time-limit":
            place = state.place
        else:
            place = state.place + 1
        after = ProbeState(place, state.sign, state.time + 1)
        arrived = place >= self._length
        match self._kind:
            case "observation":
                reward = state.sign
            case "action":
                reward = jnp.where((action == 1) == (state.sign == 1), 1, -1)
            case "time-limit":
                reward = jnp.array(1)
            case _:
                reward = arrived
        truncated = ~arrived & (after.time >= self.max_episode_steps)
        ended = arrived | truncated
        return after, Step(
            observation=self.observe(after),
            reward=jnp.asarray(reward, jnp.float32),
            terminated=arrived,
            truncated=truncated,
            # Where there is no goal to reach, whoever has lived to the end has done all there was to do.
            success=(reward > 0) & arrived if self._kind in ("action", "chain", "discount", "constant") else ended,
        )

    def optimal_values(self, discount: float) -> list[tuple[list[float], list[float]]]:
        """Pairs of an observation and its two action-values, for all observations in which a choice is made."""
        one_hot = np.eye(self._length).tolist()
        match self._kind:
            case "constant":
                return [([1.0, 1.0], [1.0, 1.0])]
            case "discount":
                return [([1.0, *one_hot[0]], [discount] * 2), ([1.0, *one_hot[1]], [1.0] * 2)]
            case "observation":
                return [([sign, 1.0], [sign] * 2) for sign in (-1.0, 1.0)]
            case "action":
                return [([sign, 1.0], [-sign, sign]) for sign in (-1.0, 1.0)]
            case "time-limit":
                return [([1.0, 1.0], [1 / (1 - discount)] * 2)]
            case _:
                value = [discount ** (self._length - 1 - i) for i in range(self._length)]
                return [([1.0, *one_hot[i]], [discount * value[max(i - 1, 0)], value[i]]) for i in range(self._length)]
