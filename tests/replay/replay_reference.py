"""A replay buffer in plain Python: slow and obviously right. What the ring must do, written from its documentation.

Each environment has a bounded queue of slots. A step takes one slot, the observation an episode ends with one more. A
slot knows which episode it belongs to, so nothing has to be found out again from its neighbours.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

UNKNOWN = float("-inf")


@dataclass
class Slot:
    observation: int
    episode: int
    age: int  # steps since the episode began
    action: int = 0
    reward: float = 0.0
    closing: bool = False  # the last observation of an episode: no step was taken from here
    terminated: bool = False
    truncated: bool = False
    interrupted: bool = False  # with the run: the episode ends here, and nobody knows what it would have come to
    returns: float = UNKNOWN

    @property
    def ends(self) -> bool:
        return self.terminated or self.truncated


class Transition(NamedTuple):
    env: int
    observation: int
    action: int
    reward: float
    discount: float
    next_observation: int
    returns: float


class ReferenceBuffer:
    def __init__(self, num_envs: int, length: int, discount: float) -> None:
        self.discount = discount
        self.length = length
        self.rows: list[deque[Slot]] = [deque(maxlen=length) for _ in range(num_envs)]
        self.running: list[list[Slot]] = [[] for _ in range(num_envs)]  # the unfinished episode, overwritten or not
        self.written = [0] * num_envs
        self.episodes = [0] * num_envs
        self.needed = [0] * num_envs  # newest slots that hold all that is new: see `smallest_window`

    def add(
        self,
        env: int,
        observation: int,
        action: int,
        reward: float,
        terminated: bool,
        truncated: bool,
        next_observation: int,
    ) -> None:
        episode = self.running[env]
        age, number = len(episode), self.episodes[env]
        step = Slot(observation, number, age, action, reward, terminated=terminated, truncated=truncated)
        episode.append(step)
        self._write(env, step)
        if step.ends:
            self._write(env, Slot(next_observation, number, age + 1, closing=True))
            self._set_returns(episode)
            self.needed[env] = max(self.needed[env], len(episode) + 1)
            self.running[env] = []
            self.episodes[env] += 1

    def interrupt(self) -> None:
        """The newest slot of each running episode closes it, and the step before is its last. It has no returns."""
        for env, episode in enumerate(self.running):
            if episode:
                episode.pop().closing = True
                if episode:
                    episode[-1].interrupted = True
                self.running[env] = []
                self.episodes[env] += 1

    def _write(self, env: int, slot: Slot) -> None:
        self.rows[env].append(slot)  # a full queue forgets its oldest slot
        self.written[env] += 1
        self.needed[env] += 1

    def _set_returns(self, episode: list[Slot]) -> None:
        """G_t = sum over k of discount^k r_t+k, up to the last step of the episode."""
        for t, slot in enumerate(episode):
            slot.returns = sum(self.discount**k * later.reward for k, later in enumerate(episode[t:]))

    def smallest_window(self) -> int:
        """How many of the newest slots hold all that was written, and every episode that ended, since the last call."""
        smallest = min(max(self.needed), self.length)
        self.needed = [0] * len(self.rows)
        return smallest

    def transitions(
        self, n_step: int = 1, finished_only: bool = False, time_limit_is_terminal: bool = False
    ) -> list[Transition]:
        """All transitions that can be used: by environment, oldest first."""
        found = []
        for env, row in enumerate(self.rows):
            slots = list(row)
            for index, first in enumerate(slots):
                if first.closing or (finished_only and first.returns == UNKNOWN):
                    continue
                # The n slots of these steps and the one to bootstrap from; fewer if the episode ends on the way.
                ahead = [slot for slot in slots[index : index + n_step + 1] if slot.episode == first.episode]
                steps = [slot for slot in ahead[:n_step] if not slot.closing]
                if len(ahead) == len(steps):
                    continue  # the state to bootstrap from is still to come
                last, bootstrap = steps[-1], ahead[len(steps)]
                dead = last.terminated or (time_limit_is_terminal and last.truncated)
                reward = sum(self.discount**k * step.reward for k, step in enumerate(steps))
                discount = 0.0 if dead else self.discount ** len(steps)
                found.append(
                    Transition(
                        env, first.observation, first.action, reward, discount, bootstrap.observation, first.returns
                    )
                )
        return found
