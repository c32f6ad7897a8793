"""What an environment inside the compiled program looks like."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

from jax import Array

State = TypeVar("State", bound=tuple[Any, ...])


class Step(NamedTuple):
    """What one step of one environment gives back. `terminated` and `truncated` are never both true."""

    observation: Array
    """The observation after the step: at an end, the last one of the episode."""
    reward: Array
    terminated: Array
    """The episode ended for good: there is no future to value."""
    truncated: Array
    """The episode was cut off by a time limit: its last observation still has a value."""
    success: Array
    """The aim was reached at this step. For summaries only: no learner sees it."""


class Landmark(NamedTuple):
    """A state and an action in it that people will want to know the value of."""

    state: Any
    action: int


class JaxEnv(Protocol[State]):
    """An environment as pure functions over one state; batching is the caller's `jax.vmap`.

    `step` does not reset by itself: who steps on after an end decides what comes next. An environment may also have
    `landmarks()`, a mapping from names to `Landmark`s, whose values are then logged.
    """

    num_actions: int
    observation_shape: tuple[int, ...]
    observation_dtype: Any
    max_episode_steps: int
    """No episode is longer than this."""

    def reset(self, key: Array) -> State:
        """A state in which an episode begins."""
        ...

    def observe(self, state: State) -> Array:
        """What the agent sees of a state."""
        ...

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Step]:
        """The state and the outcome after one action."""
        ...
