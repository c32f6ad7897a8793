"""Small environments from Gymnasium, for the host loop: what they observe tells where, when and what."""

from __future__ import annotations

import time

import gymnasium
import numpy as np
from gymnasium import spaces

HEALTHY = {"now": True}
"""Whether `Failing` and `Hanging` do as they should: tests repair them."""


class Counter(gymnasium.Env):
    """Observes (lane, episode, time); lane is its first seed (mod 1000). Episodes have their lengths in turn.

    Even episodes terminate and odd ones are truncated. A step pays 3 for action 1 and -0.5 for action 0.
    """

    observation_space = spaces.Box(0, 2.0**32, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, lengths=(3, 5), per_lane=True):
        self.lengths, self.per_lane, self.lane, self.episode, self.time = lengths, per_lane, 0, -1, 0

    def seen(self):
        return np.array([self.lane % 1000, self.episode, self.time], np.float32)

    def length(self) -> int:
        return self.lengths[(self.lane * self.per_lane + self.episode) % len(self.lengths)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.lane, self.episode = seed, -1
        self.episode, self.time = self.episode + 1, 0
        return self.seen(), {}

    def step(self, action):
        self.time += 1
        ends, odd = self.time == self.length(), self.episode % 2 == 1
        return self.seen(), 3.0 if action else -0.5, ends and not odd, ends and odd, {}


class Ragged(Counter):
    """Episodes of random lengths, 5 to 60, different in each lane."""

    def length(self) -> int:
        return 5 + int(np.random.default_rng([self.lane, self.episode]).integers(56))


class Failing(Counter):
    """Raises at its 300th step, over all episodes, while it is ill."""

    taken = 0

    def step(self, action):
        self.taken += 1
        if self.taken == 300 and not HEALTHY["now"]:
            raise ValueError("the emulator is on fire")
        return super().step(action)


class Hanging(Counter):
    """Sleeps for four seconds at its 300th step, while it is ill: longer than anyone waits who is asked not to."""

    taken = 0

    def step(self, action):
        self.taken += 1
        if self.taken == 300 and not HEALTHY["now"]:
            HEALTHY["now"] = True  # one of them is enough
            time.sleep(4)
        return super().step(action)


class Slow(Counter):
    """Takes its time, so that a signal finds it in mid-phase."""

    def step(self, action):
        time.sleep(0.002)
        return super().step(action)


class Chain(gymnasium.Env):
    """Two states in turn; action 1 pays 1 in the first and nothing in the second. It goes on for ever."""

    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def seen(self):
        return np.eye(2, dtype=np.float32)[self.state]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return self.seen(), {}

    def step(self, action):
        reward = float(self.state == 0 and action == 1)
        self.state = 1 - self.state
        return self.seen(), reward, False, False, {}


class Moving(gymnasium.Env):
    """A light that was left or right, and is then in the middle: only the frame before tells which action pays.

    Frames are one-hot: left, right, middle. From the middle, action 0 pays 1 if the light came from the left, action 1
    if it came from the right; then the episode is over.
    """

    observation_space = spaces.Box(0, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side, self.in_middle = int(self.np_random.integers(2)), False
        return np.eye(3, dtype=np.float32)[self.side], {}

    def step(self, action):
        if not self.in_middle:
            self.in_middle = True
            return np.eye(3, dtype=np.float32)[2], 0.0, False, False, {}
        return np.eye(3, dtype=np.float32)[2], float(action == self.side), True, False, {}
