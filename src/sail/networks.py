"""Networks as pytrees of arrays. They take observations with any leading axes, so a batch needs no vmap."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


class Dense(eqx.Module):
    """x @ weight + bias."""

    weight: Array  # [inputs, outputs]
    bias: Array  # [outputs]

    def __init__(self, inputs: int, outputs: int, key: Array) -> None:
        # Glorot's uniform initialisation, as Dopamine's DQN has it.
        self.weight = jax.nn.initializers.glorot_uniform()(key, (inputs, outputs), jnp.float32)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Array) -> Array:
        """[..., inputs] to [..., outputs]."""
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """A torso for vector observations: dense layers with ReLU."""

    layers: tuple[Dense, ...]

    def __init__(self, inputs: int, hidden: tuple[int, ...], key: Array) -> None:
        sizes = (inputs, *hidden)
        keys = jax.random.split(key, len(hidden))
        self.layers = tuple(Dense(sizes[i], sizes[i + 1], keys[i]) for i in range(len(hidden)))

    def __call__(self, observation: Array) -> Array:
        """[..., inputs] of any dtype to [..., features]."""
        x = observation.astype(jnp.float32)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x


class Then(eqx.Module):
    """One module after another."""

    first: eqx.Module
    second: eqx.Module

    def __call__(self, x: Array) -> Array:
        """What the second makes of what the first makes of it."""
        return self.second(self.first(x))  # type: ignore[operator]


class QNetwork(eqx.Module):
    """A torso and one linear output per action: DQN's head."""

    torso: eqx.Module
    head: Dense

    def __init__(self, torso: eqx.Module, num_features: int, num_actions: int, key: Array) -> None:
        self.torso = torso
        self.head = Dense(num_features, num_actions, key)

    def __call__(self, prepared: Array) -> Array:
        """What the torso reads to action-values [..., A]."""
        return self.head(self.torso(prepared))  # type: ignore[operator]
