"""The ring's observations in this machine's own memory, for a device that is too small for them.

The other columns of the ring are small and stay on the device. This keeps the same heads as `ring.extend` does, so a
place in the ring is a place in here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Frames = np.ndarray[Any, np.dtype[Any]]


class HostFrames:
    """[E, T, ...] frames as numpy arrays."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, num_envs: int, length: int) -> None:
        self.frames: Frames = np.zeros((num_envs, length, *shape), dtype)
        self._head = np.zeros(num_envs, np.int64)
        self._newest: Frames = np.zeros((num_envs, *shape), dtype)

    def extend(self, env: Any, observation: Frames, closing: Frames | None, taken: Any, ended: Any) -> None:
        """Rows as an environment sends them: each writes the observation its step was taken from, and a last one.

        `closing` has the last ones where they are not the observations themselves.
        """
        closing = observation if closing is None else closing
        length = self.frames.shape[1]
        stepped, last = env[taken], env[ended]
        self.frames[stepped, self._head[stepped]] = self._newest[stepped]
        self._head[stepped] = (self._head[stepped] + 1) % length
        self.frames[last, self._head[last]] = closing[ended]
        self._head[last] = (self._head[last] + 1) % length
        self._newest[env] = observation
