"""What a base agent is to the learner."""

from __future__ import annotations

from typing import Any, Protocol

from jax import Array

from sail.agents.torso import Torso

Params = Any  # a pytree of arrays
Outputs = Any  # a pytree of arrays: what the network says about each observation
Targets = Any  # a pytree of arrays: what each transition is regressed to


class Agent(Protocol):
    """A head on a network. Observations come with any leading axes, written [...] here.

    An observation is prepared once and evaluated any number of times.
    """

    @property
    def torso(self) -> Torso:
        """What its network begins with."""
        ...

    def init(self, key: Array) -> Params:
        """Fresh parameters."""
        ...

    def prepare(self, observation: Array) -> Array:
        """Observations as `evaluate` reads them: whatever can be done once for a whole round of updates."""
        ...

    def evaluate(self, params: Params, prepared: Array) -> Outputs:
        """What the network says about prepared observations."""
        ...

    def q_values(self, outputs: Outputs) -> Array:
        """[..., A]: what the agent acts on, and what rules are fed with."""
        ...

    def targets(self, next_outputs: Outputs, reward: Array, discount: Array) -> Targets:
        """What to regress to, from the target network's outputs at s'. The rule's bonus is already in the reward."""
        ...

    def loss(self, outputs: Outputs, action: Array, targets: Targets) -> Array:
        """[...]: the loss of each transition, from the online network's outputs at s."""
        ...
