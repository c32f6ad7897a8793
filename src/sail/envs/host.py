"""What an environment outside the compiled program looks like: many at once, answering in rows."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from sail.errors import BadInputError

Rows1D = Any  # a numpy array; a jax array once it is on the device


class Rows(NamedTuple):
    """What W environments answered, one row each.

    An environment that resets itself on its next step sends a row that no step led to (`stepped` false, `begins` true).
    One that resets itself within the step sends one row for both: `closing` ends the old episode and `observation`
    begins the new one (`stepped` and `begins` both true).
    """

    env: Rows1D
    """[W] which environment, counted from 0."""
    observation: Any
    """[W, ...] what to act on next: the newest frame only, never a stack."""
    reward: Rows1D
    """[W] float32, of the step that led here, as the environment gives it (never clipped)."""
    terminated: Rows1D
    """[W] bool: that step ended the episode for good."""
    truncated: Rows1D
    """[W] bool: that step was the last before a time limit. Never together with `terminated`."""
    stepped: Rows1D
    """[W] bool: a step led here. Where it is false the row is an observation only and the reward means nothing."""
    begins: Rows1D
    """[W] bool: `observation` is the first of an episode."""
    closing: Any = None
    """[W, ...] the last observation of the episode where one ended; None where that is `observation` itself."""


class HostEnv(Protocol):
    """A pool of environments of one kind. `reset` and every `send` are answered by one `recv`: a row of each."""

    name: str
    """As on the command line, for messages."""
    num_actions: int
    observation_shape: tuple[int, ...]
    """Of one frame."""
    observation_dtype: Any
    stack: int
    """Frames that make up what the agent sees."""
    num_envs: int
    resets_within_step: bool
    """Whether rows carry `closing`."""
    max_episode_steps: int | None
    reward_threshold: float | None
    """The mean return at which the environment counts as solved, where it says so."""

    def reset(self, seed: int) -> None:
        """Begins an episode everywhere."""
        ...

    def recv(self) -> Rows:
        """Waits for the next rows."""
        ...

    def send(self, actions: Rows1D) -> None:
        """The actions for the rows of the last `recv`, in their order; where an episode has ended they are ignored."""
        ...

    def close(self) -> None:
        """Ends every thread and process behind it."""
        ...


def checked_actions(env: HostEnv, actions: Any) -> Rows1D:
    """The actions, if there is one for each row and all are in the action set."""
    actions = np.asarray(actions)
    if actions.shape != (env.num_envs,) or actions.dtype.kind not in "iu":
        raise BadInputError(
            f"{env.name} takes {env.num_envs} whole numbers as actions, not {actions.dtype}{list(actions.shape)}."
        )
    outside = (actions < 0) | (actions >= env.num_actions)
    if outside.any():
        raise BadInputError(f"{env.name} has actions 0 to {env.num_actions - 1}, not {actions[outside][0]}.")
    return actions
