"""What can be set in each pure-JAX environment. No jax here, so that a wrong setting is answered at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

settings = dataclass(frozen=True, kw_only=True, config={"extra": "forbid"})


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


Int = Annotated[int, BeforeValidator(_no_bool)]
Float = Annotated[float, BeforeValidator(_no_bool)]
Probability = Annotated[Float, Field(ge=0, le=1)]
Reward = Annotated[Float, Field(allow_inf_nan=False)]
StepLimit = Annotated[Int, Field(ge=1, le=1_000_000)]


@settings
class KeyDoorTreasureSettings:
    """Key-Door-Treasure (Oh et al., 2018). Its rewards and limits were never published: these defaults are ours."""

    name: Literal["kdt"] = "kdt"
    key_reward: Reward = 0.0
    """Reward for taking the key. Nothing, so that a failed episode leaves a return of 0 on the key."""
    door_reward: Reward = 0.0
    """Reward for opening the door."""
    treasure_reward: Reward = 1.0
    """Reward for the treasure, which ends the episode."""
    time_limit: StepLimit = 100
    """Steps after which the episode is cut off."""
    timed: bool = False
    """Make the limit part of the task: running out of time is then a real end, and the time left is observed."""
    slip: Probability = 0.0
    """Probability that a step goes in a uniformly random direction instead of the chosen one."""
    random_start_moves: Annotated[Int, Field(ge=0, le=1000)] = 0
    """Random moves made before the episode begins."""


@settings
class AppleKeyDoorTreasureSettings(KeyDoorTreasureSettings):
    """Key-Door-Treasure with two apples near the start that lead away from the treasure."""

    name: Literal["apple-kdt"] = "apple-kdt"  # type: ignore[assignment]
    apple_reward: Reward = 0.1
    """Reward for each of the two apples."""


@settings
class DeepSeaSettings:
    """DeepSea (Osband et al., bsuite): N right turns out of N, or nothing."""

    name: Literal["deep-sea"] = "deep-sea"
    size: Annotated[Int, Field(ge=2, le=200)] = 10
    """N: rows, columns, and steps of an episode."""
    mapping_seed: Annotated[Int, Field(ge=0, lt=2**32)] = 42
    """Seed of the table that says, cell by cell, which of the two actions goes right."""
    stochastic: bool = False
    """Right fails with probability 1/N, and the last row's two corners pay unit Gaussian noise on top."""


@settings
class ProbeSettings:
    """Tiny environments with known action-values, for testing a learner."""

    name: Literal[
        "probe-constant", "probe-discount", "probe-observation", "probe-action", "probe-chain", "probe-time-limit"
    ] = "probe-constant"
    length: Annotated[Int, Field(ge=1, le=1000)] = 5
    """Length of the chain, or the time limit of probe-time-limit."""


JaxEnvSettings = KeyDoorTreasureSettings | AppleKeyDoorTreasureSettings | DeepSeaSettings | ProbeSettings
