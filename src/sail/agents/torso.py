"""From observations to features: the part of the network that every base agent shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sail import convolution
from sail.errors import BadInputError
from sail.networks import MLP, Then


@dataclass(frozen=True)
class Torso:
    """What the torso is like; `init` makes one, a module from prepared observations to features."""

    observation_shape: tuple[int, ...]
    """With the stack of frames in front, where there is one."""
    kind: str = "mlp"
    hidden: tuple[int, ...] = (64, 64)
    precision: str = "float32"
    alone: bool = True
    """Whether there is one network, or those of several seeds side by side."""

    def __post_init__(self) -> None:
        if self.kind == "mlp":
            return
        if len(self.observation_shape) < 2:
            raise BadInputError(f"The {self.kind} network is for images, not for vectors of {self.observation_shape}.")
        if self.kind == "nature" and min(self.observation_shape[-2:]) < convolution.SMALLEST:
            height, width = self.observation_shape[-2:]
            raise BadInputError(
                f"The nature network needs images of at least {convolution.SMALLEST} x {convolution.SMALLEST}, not "
                f"{height} x {width}: use agent.network dopamine or mlp."
            )

    @property
    def num_features(self) -> int:
        """What comes out; the last of the hidden layers belongs to the head."""
        if len(self.hidden) > 1:
            return self.hidden[-2]
        return math.prod(self.observation_shape) if self.kind == "mlp" else self._num_seen

    @property
    def _image_shape(self) -> tuple[int, int, int]:
        *channels, height, width = self.observation_shape
        return math.prod(channels), height, width

    @property
    def _num_seen(self) -> int:
        return convolution.num_features(self._image_shape, self.kind)

    def init(self, key: Array, initialiser: str = "glorot") -> Any:
        """A fresh torso."""
        before_last = self.hidden[:-1]
        if self.kind == "mlp":
            return MLP(math.prod(self.observation_shape), before_last, key, initialiser)
        conv_key, dense_key = jax.random.split(key)
        seen = convolution.ConvTorso(
            self._image_shape, self.kind, conv_key, self.precision, initialiser, alone=self.alone
        )
        return Then(seen, MLP(self._num_seen, before_last, dense_key, initialiser)) if before_last else seen

    def prepare(self, observation: Array) -> Array:
        """Observations [..., *observation_shape] as the torso reads them."""
        leading = observation.shape[: observation.ndim - len(self.observation_shape)]
        if self.kind == "mlp":
            return observation.reshape(*leading, math.prod(self.observation_shape)).astype(jnp.float32)
        return convolution.prepare(observation.reshape(*leading, *self._image_shape), self.kind)


def torso_kind(network: str, observation_shape: tuple[int, ...], dtype: Any) -> str:
    """What `auto` means for these observations: convolutions for images they fit."""
    if network not in ("auto", "mlp") and len(observation_shape) >= 2 and dtype != jnp.uint8:
        raise BadInputError(  # it would divide by 255 what may be between 0 and 1
            f"The {network} network is for images of bytes (uint8), and these are {jnp.dtype(dtype).name}: use "
            f"agent.network mlp, or a wrapper that gives bytes."
        )
    if network != "auto":
        return network
    is_image = (
        len(observation_shape) >= 2 and dtype == jnp.uint8 and min(observation_shape[-2:]) >= convolution.SMALLEST
    )
    return "nature" if is_image else "mlp"
