"""Key-Door-Treasure in numpy, for those who cannot use jax; and the proof that it is the same environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sail.envs.maps import KEY_DOOR_TREASURE
from sail.envs.settings import KeyDoorTreasureSettings

_FLOOR = [(r, c) for r, row in enumerate(KEY_DOOR_TREASURE) for c, sign in enumerate(row) if sign != "#"]


class NumpyKeyDoorTreasure:
    """`sail.envs.kdt` for one environment, without jax: tables made once, and a step is a few look-ups."""

    num_actions = 4

    def __init__(self, settings: KeyDoorTreasureSettings) -> None:
        if settings.name != "kdt" or settings.timed or settings.slip or settings.random_start_moves:
            raise ValueError(
                "Only plain Key-Door-Treasure is written in numpy: no apples, clock, slips or moved starts."
            )
        self.settings = settings
        number = {cell: i for i, cell in enumerate(_FLOOR)}
        signs = [KEY_DOOR_TREASURE[r][c] for r, c in _FLOOR]
        self._start, self._key, self._door, self._treasure = (signs.index(sign) for sign in "SKDT")
        moves = ((-1, 0), (1, 0), (0, -1), (0, 1))
        self._ahead = [[number.get((r + dr, c + dc), i) for dr, dc in moves] for i, (r, c) in enumerate(_FLOOR)]
        self.observation_size = len(_FLOOR) + 2
        seen = np.zeros((len(_FLOOR), 2, 2, self.observation_size), np.uint8)
        seen[..., :-2] = np.eye(len(_FLOOR))[:, None, None]
        seen[:, 1, :, -2] = 1
        seen[:, :, 1, -1] = 1
        # [cell][has key][door open]
        self._seen: list[list[list[NDArray[np.uint8]]]] = [[list(doors) for doors in keys] for keys in seen]
        self.reset()

    def reset(self) -> NDArray[np.uint8]:
        """Back to the start; the first observation."""
        self.set_state(self._start, has_key=False, door_open=False, time=0)
        return self.observe()

    def set_state(self, cell: int, *, has_key: bool, door_open: bool, time: int) -> None:
        """Puts the agent anywhere; the cells that are no wall are numbered row by row."""
        self.cell, self.has_key, self.door_open, self.time = cell, has_key, door_open, time

    def observe(self) -> NDArray[np.uint8]:
        """The cell (one-hot), key held, door open. Not a copy: do not write into it."""
        return self._seen[self.cell][self.has_key][self.door_open]

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool]:
        """Observation, reward, terminated, truncated."""
        cell, reward = self._ahead[self.cell][action], 0.0
        if cell == self._door and not self.door_open:
            if self.has_key:
                self.door_open = True
                reward += self.settings.door_reward
            else:
                cell = self.cell
        elif cell == self._key and not self.has_key:
            self.has_key = True
            reward += self.settings.key_reward
        self.cell = cell
        self.time += 1
        terminated = cell == self._treasure
        if terminated:
            reward += self.settings.treasure_reward
        truncated = self.time >= self.settings.time_limit and not terminated
        return self.observe(), reward, terminated, truncated


def check_same_rules(ours: NumpyKeyDoorTreasure, num_steps: int = 5000, seed: int = 0) -> int:
    """Compares the numpy environment with the jax one: the steps compared, or an error at the first difference.

    First step by step along random episodes. They never come to the treasure, so then every action in every state that
    can be reached, at the beginning of an episode and on its last step.
    """
    import jax
    import jax.numpy as jnp

    from sail.envs.kdt import KeyDoorTreasure

    env, key = KeyDoorTreasure(ours.settings), jax.random.key(0)
    start = env.reset(key)
    if not np.array_equal(ours.reset(), env.observe(start)):
        raise RuntimeError("The numpy environment starts with another observation than sail's.")

    def walk(state: Any, action: Any) -> Any:
        after, outcome = env.step(state, action, key)
        ended = outcome.terminated | outcome.truncated
        return jax.tree.map(lambda new, old: jnp.where(ended, new, old), start, after), outcome

    actions = np.random.default_rng(seed).integers(0, ours.num_actions, num_steps)
    theirs = jax.device_get(jax.jit(lambda: jax.lax.scan(walk, start, jnp.asarray(actions))[1])())
    for i, action in enumerate(actions):
        outcome = ours.step(int(action))
        _compare(outcome, theirs, i, f"step {i} of the random walk")
        if outcome[2] or outcome[3]:
            ours.reset()

    door = [KEY_DOOR_TREASURE[r][c] for r, c in _FLOOR].index("D")
    cases = [
        (cell, has_key, door_open, time, action)
        for cell in range(len(_FLOOR))
        for has_key, door_open in ((False, False), (True, False), (True, True))
        for time in (0, ours.settings.time_limit - 1)
        for action in range(ours.num_actions)
        if has_key or cell != door
    ]
    cells, keys, doors, times, actions = (np.array(column) for column in zip(*cases, strict=True))
    states = jax.tree.map(lambda x: jnp.tile(x, (len(cases),) + (1,) * x.ndim), start)
    states = states._replace(cell=jnp.asarray(_FLOOR)[cells], has_key=keys, door_open=doors, time=times)
    theirs = jax.device_get(jax.jit(jax.vmap(lambda s, a: env.step(s, a, key)[1]))(states, actions))
    for i, (cell, has_key, door_open, time, action) in enumerate(cases):
        ours.set_state(cell, has_key=has_key, door_open=door_open, time=time)
        _compare(ours.step(action), theirs, i, f"case {cases[i]} (cell, has key, door open, time, action)")
    ours.reset()
    return num_steps + len(cases)


def _compare(outcome: tuple[Any, float, bool, bool], theirs: Any, i: int, where: str) -> None:
    expected = (theirs.observation[i], theirs.reward[i], theirs.terminated[i], theirs.truncated[i])
    names = ("observation", "reward", "terminated", "truncated")
    for name, a, b in zip(names, outcome, expected, strict=True):
        if not np.array_equal(np.asarray(a, b.dtype), b):
            raise RuntimeError(f"The numpy environment differs from sail's at {where}: {name} is {a}, not {b}.")


def gymnasium_env(settings: KeyDoorTreasureSettings) -> Any:
    """The numpy environment as Gymnasium wants it."""
    import gymnasium

    base: Any = gymnasium.Env

    class GymnasiumKeyDoorTreasure(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.inner = NumpyKeyDoorTreasure(settings)
            self.observation_space = gymnasium.spaces.Box(0, 1, (self.inner.observation_size,), np.uint8)
            self.action_space = gymnasium.spaces.Discrete(self.inner.num_actions)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            super().reset(seed=seed)
            return self.inner.reset(), {}

        def step(self, action: Any) -> Any:
            return *self.inner.step(int(action)), {}

    return GymnasiumKeyDoorTreasure()
