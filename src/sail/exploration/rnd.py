"""Random network distillation (Burda et al., 2019): a reward for seeing what a predictor does not know yet.

A network with random parameters that never change says something about every observation; a predictor learns to say the
same. Where it fails the observation is new. As in Taiga et al. (2020), whose RND the paper used, it looks at the newest
frame alone, and its bonus, scale * (error - mean) / deviation, is added to the reward of the step taken from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from sail import convolution
from sail.networks import Dense

LEAK = 0.2  # slope of a leaky ReLU below zero: TensorFlow's default, which the public code has
FURTHEST = 5.0  # deviations from the mean at which a whitened pixel is clipped

MOST = 2.0**21
"""Rows from which on moments forget, as an exponential average does. With 2**24 a float32 cannot count on."""
LEAST = 2.0**-18
"""Share that a round has in a mean at the least, be it a single row. With less, what it adds is below the last digit of
a float32 where it differs by a few percent of the mean, and the mean stays where it is."""


class Moments(NamedTuple):
    """Of everything that came by so far, number by number.

    After `MOST` rows, of about the newest so many; or of the newest 1 / `LEAST` rounds, where those are fewer rows.
    """

    number: Array  # scalar: how many, of the past at most MOST
    mean: Array
    variance: Array

    @staticmethod
    def of_nothing(shape: tuple[int, ...] = ()) -> Moments:
        """Before anything has come by."""
        return Moments(jnp.zeros(()), jnp.zeros(shape), jnp.zeros(shape))

    def with_more(self, values: Array, counts: Array) -> Moments:
        """After values [N, ...] have come by too; those whose `counts` [N] is 0 have not (Chan et al., 1979)."""
        weight = counts.astype(jnp.float32).reshape(-1, *[1] * (values.ndim - 1))
        more = counts.sum(dtype=jnp.float32)
        some = jnp.maximum(more, 1.0)
        mean = (weight * values).sum(axis=0) / some
        variance = (weight * (values - mean) ** 2).sum(axis=0) / some
        number = jnp.minimum(self.number, MOST) + more
        share = jnp.maximum(more / jnp.maximum(number, 1.0), jnp.where(more > 0, LEAST, 0.0))  # of the new ones in all
        difference = mean - self.mean
        return Moments(
            number,
            self.mean + share * difference,
            (1 - share) * self.variance + share * variance + share * (1 - share) * difference**2,
        )

    def standardise(self, values: Array) -> Array:
        """(values - mean) / deviation."""
        return (values - self.mean) * jax.lax.rsqrt(self.variance + 1e-8)


class Embedding(eqx.Module):
    """Convolutions or a dense layer with a leaky ReLU, and dense layers after it: all but the last with a ReLU."""

    seen: Any
    layers: tuple[Dense, ...]

    def __call__(self, prepared: Array) -> Array:
        """[N, ...] to [N, features], in float32."""
        x = self.seen(prepared)
        if isinstance(self.seen, Dense):
            x = jax.nn.leaky_relu(x, LEAK)
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x.astype(jnp.float32))


class Curiosity(NamedTuple):
    """What one seed carries along."""

    target: Embedding
    predictor: Embedding
    optimiser: Any
    frames: Moments
    errors: Moments


class Lesson(NamedTuple):
    """Frames, as the networks read them, and what the predictor should say about them."""

    prepared: Array  # [N, ...]
    wanted: Array  # [N, features]


@dataclass(frozen=True)
class RND:
    """For observations (single frames) of one shape; `kind` is that of the agent's network."""

    frame_shape: tuple[int, ...]
    kind: str
    scale: float
    features: int = 512
    learning_rate: float = 1e-4
    period: int = 1
    """Updates of the agent for one of the predictor."""
    alone: bool = True
    """Whether there is one such, or those of several seeds side by side."""

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """Of the predictor."""
        return optax.adam(self.learning_rate, eps=1e-5)

    def init(self, key: Array) -> Curiosity:
        """Two random networks, and nothing seen."""
        target_key, predictor_key = jax.random.split(key)
        predictor = self._embedding(predictor_key, num_layers=3)
        return Curiosity(
            self._embedding(target_key, num_layers=1),
            predictor,
            self.optimiser.init(predictor),
            Moments.of_nothing(self.frame_shape),
            Moments.of_nothing(),
        )

    def look(self, state: Curiosity, frames: Array, counts: Array) -> tuple[Curiosity, Array]:
        """The bonus [N] of each of these frames [N, ...], and the moments with those frames that count (counts [N])."""
        state = state._replace(frames=state.frames.with_more(frames.astype(jnp.float32), counts))
        error = _errors(state.predictor, self.lesson(state, frames))
        state = state._replace(errors=state.errors.with_more(error, counts))
        return state, self.scale * state.errors.standardise(error)

    def lesson(self, state: Curiosity, frames: Array) -> Lesson:
        """What the predictor is to say about frames [N, ...]. It stays so through all updates of a round."""
        prepared = self._prepare(state, frames)
        return Lesson(prepared, state.target(prepared))

    def learn(self, state: Curiosity, lesson: Lesson) -> Curiosity:
        """One update of the predictor."""
        gradient = jax.grad(lambda predictor: _errors(predictor, lesson).mean())(state.predictor)
        change, optimiser = self.optimiser.update(gradient, state.optimiser)
        return state._replace(predictor=optax.apply_updates(state.predictor, change), optimiser=optimiser)

    def _prepare(self, state: Curiosity, frames: Array) -> Array:
        """Whitened, and as the networks read them."""
        whitened = jnp.clip(state.frames.standardise(frames.astype(jnp.float32)), -FURTHEST, FURTHEST)
        if self.kind == "mlp":
            return whitened.reshape(len(whitened), -1)
        # The torso divides by 255, since it expects pixels.
        return convolution.prepare(255 * whitened.reshape(-1, *self._image_shape), self.kind)

    @property
    def _image_shape(self) -> tuple[int, int, int]:
        *channels, height, width = self.frame_shape
        return math.prod(channels), height, width

    def _embedding(self, key: Array, num_layers: int) -> Embedding:
        seen_key, *keys = jax.random.split(key, num_layers + 1)
        if self.kind == "mlp":
            inputs = self.features
            seen: Any = Dense(math.prod(self.frame_shape), inputs, seen_key, "orthogonal")
        else:
            inputs = convolution.num_features(self._image_shape, self.kind)
            # In float32: the bonus is a small difference, and rounding must not look like news.
            seen = convolution.ConvTorso(
                self._image_shape, self.kind, seen_key, "float32", "orthogonal", leak=LEAK, alone=self.alone
            )
        sizes = (inputs, *[self.features] * num_layers)
        layers = [Dense(sizes[i], sizes[i + 1], one, "orthogonal") for i, one in enumerate(keys)]
        return Embedding(seen, tuple(layers))


def _errors(predictor: Embedding, lesson: Lesson) -> Array:
    """[N]: mean squared error over the features."""
    return ((predictor(lesson.prepared) - lesson.wanted) ** 2).mean(axis=-1)
