"""What a base agent is to the learner.

A round of updates goes like this. The target network looks at the states s and s' of all its transitions: at s for the
rule (`q_values`), at s' for the bootstrap (`outlook`). The rule's bonus goes into the reward. Then the loop: `targets`,
`loss`, gradient, optimiser. A new base agent is a class with these methods in a file of its own: docs/extending.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax import Array

from sail.agents.torso import Torso
from sail.networks import Head, Network

Params = Any  # a pytree of arrays
Outlook = Any  # a pytree of arrays: what a network says about a next state
Targets = Any  # a pytree of arrays: what each transition is regressed to


@dataclass(frozen=True)
class Agent:
    """A head on a torso. Observations come with any leading axes, written [...] here, and are prepared once.

    Where a network draws samples or noise, a key decides; without one it says the same every time.
    """

    torso: Torso
    num_actions: int
    rule: str = "bellman"
    tau: float = 0.03
    """Temperature of a soft bootstrap (munchausen)."""
    double: bool = False
    """Choose the next action with the online network, and value it with the target network."""
    dueling: bool = False
    noisy: bool = False
    noise: float = 0.5
    """What the noise's standard deviation begins with, times 1 / sqrt(inputs)."""

    @property
    def is_random(self) -> bool:
        """Whether the network draws anything."""
        return self.noisy

    @property
    def is_wide(self) -> bool:
        """Whether a state takes so much memory on its way through the network that few should be there at once."""
        return False

    def init(self, key: Array) -> Params:
        """Fresh parameters."""
        raise NotImplementedError

    def prepare(self, observation: Array) -> Array:
        """Observations as the network reads them: whatever can be done once for a whole round of updates."""
        return self.torso.prepare(observation)

    def q_values(self, params: Params, prepared: Array, key: Array | None = None) -> Array:
        """[..., A]: what the agent acts on, and what rules are fed with."""
        raise NotImplementedError

    def q_values_of_each(self, params: Params, prepared: Array, key: Array | None) -> Array:
        """[W, A]: `q_values` for the actions of W environments, with noise for each by itself.

        With the same noise they would all explore alike: full Rainbow solved Key-Door-Treasure with 2 of 5 seeds then,
        and does with 9 of 10 now.
        """
        if not self.noisy or key is None:
            return self.q_values(params, prepared, key)
        keys = jax.random.split(key, len(prepared))
        return jax.vmap(self.q_values, (None, 0, 0))(params, prepared, keys)

    def outlook(self, params: Params, prepared: Array, key: Array | None = None) -> Outlook:
        """What the target network says about next states."""
        raise NotImplementedError

    def both(self, params: Params, states: Array, key: Array | None = None) -> tuple[Array, Outlook]:
        """`q_values` at states[0] and `outlook` at states[1]: an agent may know how to do them in one go."""
        first, second = (None, None) if key is None else jax.random.split(key)
        return self.q_values(params, states[0], first), self.outlook(params, states[1], second)

    def targets(self, outlook: Outlook, reward: Array, discount: Array, chosen: Array | None = None) -> Targets:
        """What to regress to. The rule's bonus is already in the reward.

        `chosen` [...] are the next actions where another network has chosen them (`double`).
        """
        raise NotImplementedError

    def loss(self, params: Params, prepared: Array, action: Array, targets: Targets, key: Array | None = None) -> Array:
        """[...]: the loss of each transition."""
        raise NotImplementedError

    def network(self, key: Array, *, numbers: int = 1, initialiser: str = "fan_in") -> Network:
        """A fresh torso with a head of some numbers for each action."""
        torso_key, head_key = jax.random.split(key)
        return Network(self.torso.init(torso_key, initialiser), self.head(head_key, numbers, initialiser))

    def head(self, key: Array, numbers: int, initialiser: str) -> Head:
        """A fresh head of some numbers for each action."""
        return Head(
            self.torso.num_features,
            self.torso.hidden[-1],
            self.num_actions,
            key,
            numbers=numbers,
            dueling=self.dueling,
            noise=self.noise if self.noisy else None,
            initialiser=initialiser,
        )
