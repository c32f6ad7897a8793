"""Rows on their way to the device, packed into few arrays, since each costs a transfer of its own; and actions back."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sail.envs.host import Rows
from sail.errors import TrainingError

_FLAGS = ("terminated", "truncated", "stepped", "begins")


class Parcel(NamedTuple):
    """Rows of all seeds [seeds, ...], and what acting on them needs."""

    observation: Any  # [seeds, W, ...], or a tuple of as many [W, ...]
    closing: Any  # [seeds, W, ...], or None
    numbers: Any  # [seeds, 5, W] int32: environment, reward, flags; the round's number and epsilon


def pack(rows: Rows, rounds: Any, epsilon: Any) -> Parcel:
    """Rows [seeds, W, ...] with the number of the round and the epsilon of each seed."""
    numbers = np.empty((len(rows.env), 5, rows.env.shape[1]), np.int32)
    numbers[:, 0] = rows.env
    numbers[:, 1] = rows.reward.astype(np.float32, copy=False).view(np.int32)
    numbers[:, 2] = 0
    for bit, name in enumerate(_FLAGS):
        numbers[:, 2] |= getattr(rows, name).astype(np.int32) << bit
    numbers[:, 3] = rounds[:, None]
    numbers[:, 4] = epsilon.astype(np.float32, copy=False).view(np.int32)[:, None]
    return Parcel(rows.observation, rows.closing, numbers)


def put_together(parcel: Parcel) -> Parcel:
    """The screens of all seeds as one array, inside the compiled program."""
    screens = parcel.observation
    return parcel._replace(observation=jnp.stack(screens) if isinstance(screens, tuple) else screens)


def unpack(parcel: Parcel) -> tuple[Rows, Array, Array]:
    """One seed's rows, number of the round and epsilon, inside the compiled program."""
    env, reward, flags, rounds, epsilon = parcel.numbers
    named = {name: (flags >> bit) & 1 == 1 for bit, name in enumerate(_FLAGS)}
    rows = Rows(
        env=env,
        observation=parcel.observation,
        reward=lax.bitcast_convert_type(reward, jnp.float32),
        closing=parcel.closing,
        **named,
    )
    return rows, rounds[0], lax.bitcast_convert_type(epsilon, jnp.float32)[0]


class Chosen:
    """A seed's actions, which the device may have yet to choose."""

    def __init__(self, actions: Any, seed: int) -> None:
        self._actions, self._seed = actions, seed

    def ready(self) -> bool:
        """Whether the device has chosen them. One that has failed says so when they are asked for."""
        return bool(self._actions.is_ready())

    def __call__(self) -> Any:
        """Waits for the device."""
        try:
            return np.asarray(self._actions)[self._seed]
        except jax.errors.JaxRuntimeError as error:
            raise TrainingError(f"The device failed: {error}") from error
