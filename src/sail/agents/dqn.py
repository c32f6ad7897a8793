"""DQN (Mnih et al., 2015): regress Q(s, a) to r + discount * max_b Qt(s', b)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax import Array

from sail import losses, rules
from sail.agents.base import Params
from sail.agents.torso import Torso
from sail.networks import QNetwork


@dataclass(frozen=True)
class DQN:
    """A Q-network; the bootstrap is the rule's (greedy, or soft for Munchausen)."""

    torso: Torso
    num_actions: int
    loss_name: str = "huber"
    rule: str = "bellman"
    tau: float = 0.03

    def init(self, key: Array) -> Params:
        """A fresh Q-network."""
        torso_key, head_key = jax.random.split(key)
        return QNetwork(self.torso.init(torso_key), self.torso.num_features, self.num_actions, head_key)

    def prepare(self, observation: Array) -> Array:
        """As the torso wants them."""
        return self.torso.prepare(observation)

    def evaluate(self, params: Params, prepared: Array) -> Array:
        """Action-values [..., A]."""
        return params(prepared)

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
