"""DQN (Mnih et al., 2015): regress Q(s, a) to r + discount * max_b Qt(s', b)."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sail import losses, rules
from sail.agents.base import Params
from sail.networks import QNetwork


@dataclass(frozen=True)
class DQN:
    """A Q-network with one hidden torso; the bootstrap is the rule's (greedy, or soft for Munchausen)."""

    num_inputs: int
    num_actions: int
    hidden: tuple[int, ...] = (64, 64)
    loss_name: str = "huber"
    rule: str = "bellman"
    tau: float = 0.03

    def init(self, key: Array) -> Params:
        """A fresh Q-network."""
        return QNetwork(self.num_inputs, self.hidden, self.num_actions, key)

    def prepare(self, observation: Array) -> Array:
        """Vectors are small: as floats they are converted once instead of once for each evaluation."""
        return observation.astype(jnp.float32)

    def evaluate(self, params: Params, observation: Array) -> Array:
        """Action-values [..., A]."""
        return params(observation)

    def q_values(self, outputs: Array) -> Array:
        """The outputs are the action-values."""
        return outputs

    def targets(self, next_outputs: Array, reward: Array, discount: Array) -> Array:
        """[...]: reward + discount * value of the next state."""
        return reward + discount * rules.bootstrap(self.rule, next_outputs, self.tau)

    def loss(self, outputs: Array, action: Array, targets: Array) -> Array:
        """[...]."""
        error = losses.td_error(outputs, action, targets)
        return losses.huber(error) if self.loss_name == "huber" else losses.squared(error)
