"""Networks as pytrees of arrays. They take observations with any leading axes, so a batch needs no vmap.

Where there is noise in a network, a key draws it; without a key the network is its own mean, and always says the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from sail.products import product


def _orthogonal(key: Array, shape: Sequence[int], dtype: Any = jnp.float32) -> Array:
    """One seed after the other, even under vmap.

    A batched factorisation in jaxlib 0.10.2 waits on the thread pool that it runs in: on two cores two of them can wait
    for each other for ever.
    """
    make = jax.nn.initializers.orthogonal(math.sqrt(2))
    return jax.custom_batching.sequential_vmap(lambda key: make(key, shape, dtype))(key)


INITIALISERS: dict[str, Callable[..., Array]] = {
    "glorot": jax.nn.initializers.glorot_uniform(),  # Dopamine's DQN
    "fan_in": jax.nn.initializers.variance_scaling(1 / math.sqrt(3), "fan_in", "uniform"),  # its other agents
    "orthogonal": _orthogonal,  # random network distillation
}


class Dense(eqx.Module):
    """x @ weight + bias."""

    weight: Array  # [inputs, outputs]
    bias: Array  # [outputs]

    def __init__(self, inputs: int, outputs: int, key: Array, initialiser: str = "glorot") -> None:
        self.weight = INITIALISERS[initialiser](key, (inputs, outputs), jnp.float32)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """[..., inputs] to [..., outputs], computed in the dtype of x."""
        return _affine(x, self.weight, self.bias)


class NoisyDense(eqx.Module):
    """A dense layer with learned noise on its parameters (Fortunato et al., 2018), factorised. One draw for a call."""

    weight: Array  # [inputs, outputs]
    bias: Array  # [outputs]
    weight_deviation: Array
    bias_deviation: Array

    def __init__(self, inputs: int, outputs: int, key: Array, noise: float = 0.5) -> None:
        bound = 1 / math.sqrt(inputs)
        weight_key, bias_key = jax.random.split(key)
        self.weight = jax.random.uniform(weight_key, (inputs, outputs), minval=-bound, maxval=bound)
        self.bias = jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound)
        self.weight_deviation = jnp.full((inputs, outputs), noise * bound)
        self.bias_deviation = jnp.full(outputs, noise * bound)

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """[..., inputs] to [..., outputs], computed in the dtype of x."""
        if key is None:
            return _affine(x, self.weight, self.bias)
        inputs, outputs = self.weight.shape
        noise = jax.random.normal(key, (inputs + outputs,))
        of_inputs, of_outputs = jnp.split(jnp.sign(noise) * jnp.sqrt(jnp.abs(noise)), [inputs])
        if math.prod(x.shape[:-1]) == 1:
            # Many environments, each with a draw of its own, come here one by one in a vmap. The noise of a weight is
            # its input's times its output's, so it can be put on those, and no environment needs weights of its own.
            deviation = _affine(x * of_inputs.astype(x.dtype), self.weight_deviation, self.bias_deviation)
            return _affine(x, self.weight, self.bias) + deviation * of_outputs.astype(x.dtype)
        weight = self.weight + self.weight_deviation * jnp.outer(of_inputs, of_outputs)
        return _affine(x, weight, self.bias + self.bias_deviation * of_outputs)


def _affine(x: Array, weight: Array, bias: Array) -> Array:
    """x @ weight + bias, in the dtype of x."""
    return _times(x, weight.astype(x.dtype)) + bias.astype(x.dtype)


def _times(x: Array, weight: Array) -> Array:
    """[..., inputs] with [inputs, outputs] to [..., outputs]."""
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return product(rows, weight, 1, 0).reshape(*x.shape[:-1], weight.shape[1])


class MLP(eqx.Module):
    """A torso for vector observations: dense layers with ReLU."""

    layers: tuple[Dense, ...]

    def __init__(self, inputs: int, hidden: tuple[int, ...], key: Array, initialiser: str = "glorot") -> None:
        sizes = (inputs, *hidden)
        keys = jax.random.split(key, max(len(hidden), 1))
        self.layers = tuple(Dense(sizes[i], sizes[i + 1], keys[i], initialiser) for i in range(len(hidden)))

    def __call__(self, observation: Array) -> Array:
        """[..., inputs] of any dtype to [..., features]."""
        x = observation if observation.dtype == jnp.bfloat16 else observation.astype(jnp.float32)
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


class Stream(eqx.Module):
    """A hidden layer with ReLU and a linear one, which is always computed in float32."""

    hidden: Any
    out: Any

    def __init__(
        self, inputs: int, hidden: int, outputs: int, key: Array, noise: float | None, initialiser: str
    ) -> None:
        hidden_key, out_key = jax.random.split(key)
        if noise is not None:
            self.hidden = NoisyDense(inputs, hidden, hidden_key, noise)
            self.out = NoisyDense(hidden, outputs, out_key, noise)
        else:
            self.hidden = Dense(inputs, hidden, hidden_key, initialiser)
            self.out = Dense(hidden, outputs, out_key, initialiser)

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """[..., inputs] to [..., outputs]."""
        hidden_key, out_key = (None, None) if key is None else jax.random.split(key)
        return self.out(jax.nn.relu(self.hidden(x, hidden_key)).astype(jnp.float32), out_key)


class Head(eqx.Module):
    """From what a torso makes of an observation to some numbers for each action."""

    advantage: Stream
    value: Stream | None  # a dueling head has one: what all actions have in common
    num_actions: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        hidden: int,
        num_actions: int,
        key: Array,
        *,
        numbers: int = 1,
        dueling: bool = False,
        noise: float | None = None,
        initialiser: str = "glorot",
    ) -> None:
        key, value_key = (key, key) if not dueling else jax.random.split(key)
        self.advantage = Stream(inputs, hidden, num_actions * numbers, key, noise, initialiser)
        self.value = Stream(inputs, hidden, numbers, value_key, noise, initialiser) if dueling else None
        self.num_actions = num_actions

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """[..., inputs] to [..., A, numbers]."""
        key, value_key = (key, None) if key is None or self.value is None else jax.random.split(key)
        advantage = self.advantage(x, key)
        advantage = advantage.reshape(*advantage.shape[:-1], self.num_actions, advantage.shape[-1] // self.num_actions)
        if self.value is None:
            return advantage
        # Wang et al. (2016): without the mean, value and advantage could not be told apart.
        value = self.value(x, value_key)[..., None, :]
        return value + advantage - advantage.mean(axis=-2, keepdims=True)


class Network(eqx.Module):
    """A torso and a head."""

    torso: Any
    head: Head

    def __call__(self, prepared: Array, key: Array | None = None) -> Array:
        """What the torso reads to [..., A, numbers]."""
        return self.head(self.torso(prepared), key)
