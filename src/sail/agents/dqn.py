"""DQN (Mnih et al., 2015): regress Q(s, a) to r + discount * max_b Qt(s', b)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jax import Array

from sail import losses, rules
from sail.agents.base import Agent, Params


@dataclass(frozen=True)
class DQN(Agent):
    """A Q-network; the bootstrap is the rule's (greedy, or soft for Munchausen)."""

    loss_name: str = "huber"

    def init(self, key: Array) -> Params:
        """A fresh Q-network."""
        return self.network(key, initialiser="glorot")

    def q_values(self, params: Params, prepared: Array, key: Array | None = None) -> Array:
        """[..., A]."""
        return params(prepared, key)[..., 0]

    def outlook(self, params: Params, prepared: Array, key: Array | None = None) -> Array:
        """Action-values."""
        return self.q_values(params, prepared, key)

    def both(self, params: Params, states: Array, key: Array | None = None) -> tuple[Array, Array]:
        """In one go, which is cheaper than one after the other."""
        q = self.q_values(params, states, key)
        return q[0], q[1]

    def targets(self, outlook: Array, reward: Array, discount: Array, chosen: Array | None = None) -> Array:
        """[...]: reward + discount * value of the next state."""
        value = rules.bootstrap(self.rule, outlook, self.tau) if chosen is None else losses.of_action(outlook, chosen)
        return reward + discount * value

    def loss(self, params: Params, prepared: Array, action: Array, targets: Array, key: Array | None = None) -> Array:
        """[...]."""
        error = losses.td_error(self.q_values(params, prepared, key), action, targets)
        return losses.huber(error) if self.loss_name == "huber" else losses.squared(error)


def make(settings: Any, **common: Any) -> DQN:
    """From the section `agent` of a config."""
    return DQN(**common, loss_name=settings.loss)
