"""What can be set for an environment from Gymnasium. No gymnasium here, so that a wrong setting is answered at once."""

from __future__ import annotations

from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, Field

from sail.envs.settings import Float, Int, StepLimit, settings


def _has_id(name: str) -> str:
    if not name.removeprefix("gym:") or not name.startswith("gym:"):
        raise ValueError("must be 'gym:' and the ID of an environment")
    return name


def _read_strings(kwargs: Any) -> Any:
    if not isinstance(kwargs, dict):
        return kwargs
    try:
        return {key: yaml.safe_load(value) if isinstance(value, str) else value for key, value in kwargs.items()}
    except yaml.YAMLError:
        raise ValueError("must be values that YAML can read") from None


@settings
class GymSettings:
    """Any environment from Gymnasium with discrete actions."""

    name: Annotated[str, AfterValidator(_has_id)] = "gym:CartPole-v1"
    """'gym:' and an ID, with a module to import before it where needed: gym:module:ID or gym:module:factory."""
    kwargs: Annotated[dict[str, Any], BeforeValidator(_read_strings)] = Field(default_factory=dict)
    """Keyword arguments for the environment's constructor."""
    stack: Annotated[Int, Field(ge=1, le=16)] = 1
    """Frames that make up an observation."""
    time_limit: StepLimit | None = None
    """Steps after which an episode is cut off; none leaves the environment's own limit."""
    processes: bool = False
    """Run every environment in a process of its own instead of all in this one."""
    solved_at: Annotated[Float, Field(allow_inf_nan=False)] | None = None
    """Mean evaluation return at which it counts as solved; none for what the environment says about it."""
    clip_rewards: bool = False
    """Clip the rewards that the learner sees to [-1, 1]."""
