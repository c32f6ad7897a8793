"""IQN (Dabney et al., 2018): quantiles of the return at fractions tau that are drawn anew each time.

The bonus is made of Qt(s, .), the mean of K target quantiles at s, and goes into every quantile that is regressed to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from sail import losses, rules
from sail.agents.base import Agent, Params
from sail.networks import Dense, Head


class QuantileNetwork(eqx.Module):
    """What the torso sees, times an embedding of the fraction, through the head."""

    torso: Any
    embedding: Dense
    head: Head

    def quantiles(self, features: Array, taus: Array, key: Array | None = None) -> Array:
        """Features [..., F] and fractions [..., N] to quantiles [..., N, A]."""
        # cos(pi i tau), i from 1 on as in Dopamine; the paper's i from 0 on has a constant among them.
        frequencies = jnp.pi * jnp.arange(1, self.embedding.weight.shape[0] + 1)
        cosines = jnp.cos(taus[..., None] * frequencies).astype(features.dtype)
        embedded = jax.nn.relu(self.embedding(cosines))
        return self.head(features[..., None, :] * embedded, key)[..., 0]


class Outlook(NamedTuple):
    """What the target network says about next states."""

    quantiles: Array  # [..., N', A]
    q: Array  # [..., A] the mean of K others: what the next action is chosen by


@dataclass(frozen=True)
class IQN(Agent):
    """N online and N' target quantiles in the loss; the mean of K to act on."""

    quantiles: int = 64
    target_quantiles: int = 64
    action_quantiles: int = 32
    cosines: int = 64
    kappa: float = 1.0

    @property
    def is_random(self) -> bool:
        """Fractions are drawn."""
        return True

    @property
    def is_wide(self) -> bool:
        """A state goes through the head once for each fraction."""
        return True

    def init(self, key: Array) -> Params:
        """A fresh network."""
        torso_key, embedding_key, head_key = jax.random.split(key, 3)
        return QuantileNetwork(
            self.torso.init(torso_key, "fan_in"),
            Dense(self.cosines, self.torso.num_features, embedding_key, "fan_in"),
            self.head(head_key, 1, "fan_in"),
        )

    def q_values(self, params: Params, prepared: Array, key: Array | None = None) -> Array:
        """[..., A]: the mean of K quantiles; without a key, of K that are evenly spaced."""
        return self._mean(params, params.torso(prepared), key)

    def outlook(self, params: Params, prepared: Array, key: Array | None = None) -> Outlook:
        """The target quantiles, and what the next action is chosen by."""
        return self._outlook(params, params.torso(prepared), key)

    def both(self, params: Params, states: Array, key: Array | None = None) -> tuple[Array, Outlook]:
        """With the torso in one go; fractions are drawn for each state by itself."""
        first, second = (None, None) if key is None else jax.random.split(key)
        features = params.torso(states)
        return self._mean(params, features[0], first), self._outlook(params, features[1], second)

    def targets(self, outlook: Outlook, reward: Array, discount: Array, chosen: Array | None = None) -> Array:
        """[..., N']."""
        if rules.RULES[self.rule].soft:
            policy, scaled_log = rules.soft_policy(outlook.q, self.tau)
            after = (policy[..., None, :] * (outlook.quantiles - scaled_log[..., None, :])).sum(axis=-1)
        else:
            best = jnp.argmax(outlook.q, axis=-1) if chosen is None else chosen
            after = losses.of_action(outlook.quantiles, best[..., None])
        return reward[..., None] + discount[..., None] * after

    def loss(self, params: Params, prepared: Array, action: Array, targets: Array, key: Array | None = None) -> Array:
        """[...]."""
        tau_key, noise_key = _split(key)
        taus = _fractions(tau_key, (*action.shape, self.quantiles))
        quantiles = params.quantiles(params.torso(prepared), taus, noise_key if self.noisy else None)
        taken = losses.of_action(quantiles, action[..., None])
        loss = jnp.vectorize(losses.quantile_huber, signature="(n),(n),(k)->()", excluded={3})
        return loss(taken, taus, targets, self.kappa)

    def _mean(self, params: Params, features: Array, key: Array | None) -> Array:
        tau_key, noise_key = _split(key)
        taus = _fractions(tau_key, (*features.shape[:-1], self.action_quantiles))
        return params.quantiles(features, taus, noise_key if self.noisy else None).mean(axis=-2)

    def _outlook(self, params: Params, features: Array, key: Array | None) -> Outlook:
        tau_key, noise_key = _split(key)
        number = self.target_quantiles + self.action_quantiles
        taus = _fractions(tau_key, (*features.shape[:-1], number))
        quantiles = params.quantiles(features, taus, noise_key if self.noisy else None)
        targets, others = jnp.split(quantiles, [self.target_quantiles], axis=-2)
        return Outlook(targets, others.mean(axis=-2))


def _split(key: Array | None) -> Any:
    return (None, None) if key is None else jax.random.split(key)


def _fractions(key: Array | None, shape: tuple[int, ...]) -> Array:
    """Uniform in [0, 1); without a key, the middles of equal parts."""
    if key is None:
        return jnp.broadcast_to((jnp.arange(shape[-1]) + 0.5) / shape[-1], shape)
    return jax.random.uniform(key, shape)


def make(settings: Any, **common: Any) -> IQN:
    """From the section `agent` of a config."""
    return IQN(
        **common,
        quantiles=settings.quantiles,
        target_quantiles=settings.target_quantiles,
        action_quantiles=settings.action_quantiles,
        cosines=settings.cosines,
        kappa=settings.kappa,
    )
