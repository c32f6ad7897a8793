"""C51 (Bellemare et al., 2017): a categorical distribution over returns for each action, on fixed atoms.

The bonus is a change of the reward, so it shifts the whole next distribution before that is projected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sail import losses, rules
from sail.agents.base import Agent, Params


@dataclass(frozen=True)
class C51(Agent):
    """`atoms` evenly spaced from `vmin` to `vmax`; outputs are logits [..., A, atoms]."""

    atoms: int = 51
    vmin: float = -10.0
    vmax: float = 10.0

    @property
    def support(self) -> Array:
        """[atoms]."""
        return jnp.linspace(self.vmin, self.vmax, self.atoms)

    def init(self, key: Array) -> Params:
        """A fresh network."""
        return self.network(key, numbers=self.atoms)

    def q_values(self, params: Params, prepared: Array, key: Array | None = None) -> Array:
        """[..., A]: the distributions' means."""
        return self._means(jax.nn.softmax(params(prepared, key)))

    def outlook(self, params: Params, prepared: Array, key: Array | None = None) -> Array:
        """Probabilities [..., A, atoms]."""
        return jax.nn.softmax(params(prepared, key))

    def both(self, params: Params, states: Array, key: Array | None = None) -> tuple[Array, Array]:
        """In one go."""
        probabilities = self.outlook(params, states, key)
        return self._means(probabilities[0]), probabilities[1]

    def targets(self, outlook: Array, reward: Array, discount: Array, chosen: Array | None = None) -> Array:
        """[..., atoms]: probabilities on the support of reward + discount * what comes next."""
        support, q = self.support, self._means(outlook)
        if rules.RULES[self.rule].soft:
            # A mixture over the policy's actions, each one's distribution raised by its share of the entropy.
            policy, scaled_log = rules.soft_policy(q, self.tau)
            atoms = (support - scaled_log[..., None]).reshape(*q.shape[:-1], q.shape[-1] * self.atoms)
            probabilities = (policy[..., None] * outlook).reshape(atoms.shape)
        else:
            best = jnp.argmax(q, axis=-1) if chosen is None else chosen
            probabilities = losses.of_action(outlook, best, axis=-2)
            atoms = jnp.broadcast_to(support, probabilities.shape)
        atoms = reward[..., None] + discount[..., None] * atoms
        return jnp.vectorize(partial(losses.project, support=support), signature="(s),(s)->(m)")(atoms, probabilities)

    def loss(self, params: Params, prepared: Array, action: Array, targets: Array, key: Array | None = None) -> Array:
        """[...]."""
        logits = losses.of_action(params(prepared, key), action, axis=-2)
        return jnp.vectorize(losses.cross_entropy, signature="(m),(m)->()")(logits, targets)

    def _means(self, probabilities: Array) -> Array:
        return (probabilities * self.support).sum(axis=-1)  # a matrix product would be rounded more on a GPU


def make(settings: Any, **common: Any) -> C51:
    """From the section `agent` of a config."""
    return C51(**common, atoms=settings.atoms, vmin=settings.vmin, vmax=settings.vmax)
