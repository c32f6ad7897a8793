"""Key-Door-Treasure and its Apple variant, in pure JAX."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sail.envs.base import Landmark, Step
from sail.envs.maps import KEY_DOOR_TREASURE
from sail.envs.settings import AppleKeyDoorTreasureSettings, KeyDoorTreasureSettings

MOVES = ("up", "down", "left", "right")


def _cells(sign: str) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(
        [(r, c) for r, row in enumerate(KEY_DOOR_TREASURE) for c, cell in enumerate(row) if cell == sign], np.int32
    )


_WALLS = np.array([[cell == "#" for cell in row] for row in KEY_DOOR_TREASURE])
_FLOOR = np.where(_WALLS, -1, np.cumsum(~_WALLS).reshape(_WALLS.shape) - 1)  # a number for each cell that is no wall
_START, _KEY, _DOOR, _TREASURE = (_cells(sign)[0] for sign in "SKDT")
_APPLES = _cells("a")
_MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)], np.int32)


class KdtState(NamedTuple):
    """Where the agent is and what it has done."""

    cell: Array  # [2] row and column
    has_key: Array
    door_open: Array
    apples_left: Array  # [2]; all False without apples
    time: Array  # steps taken


class KeyDoorTreasure:
    """Fetch the key, open the door, take the treasure: 26 steps at the least."""

    num_actions = len(MOVES)

    def __init__(self, settings: KeyDoorTreasureSettings | None = None) -> None:
        self.settings = settings = settings or KeyDoorTreasureSettings()
        self._has_apples = isinstance(settings, AppleKeyDoorTreasureSettings)
        self._apple_reward = settings.apple_reward if isinstance(settings, AppleKeyDoorTreasureSettings) else 0.0
        flags = 2 + len(_APPLES) * self._has_apples + settings.timed
        self.observation_shape: tuple[int, ...] = (int(_FLOOR.max()) + 1 + flags,)
        # Everything seen is a yes or a no, and fits in a byte, except for the time left.
        self.observation_dtype = jnp.float32 if settings.timed else jnp.uint8
        self.max_episode_steps = settings.time_limit

    def landmarks(self) -> dict[str, Landmark]:
        """The steps that take the key and the treasure, on the shortest route: it leaves the apples alone."""
        apples, no, yes = jnp.full(len(_APPLES), self._has_apples), jnp.array(False), jnp.array(True)
        above_key, beside_treasure = jnp.asarray(_KEY - [1, 0]), jnp.asarray(_TREASURE - [0, -1])
        # 12 + 5 + 9 steps; the time tells only in a timed task.
        before_key = KdtState(above_key, no, no, apples, jnp.array(11, jnp.int32))
        before_treasure = KdtState(beside_treasure, yes, yes, apples, jnp.array(25, jnp.int32))
        return {
            "key": Landmark(before_key, MOVES.index("down")),
            "treasure": Landmark(before_treasure, MOVES.index("left")),
        }

    def reset(self, key: Array) -> KdtState:
        """The agent at the start, or some random moves away from it."""
        cell = jnp.asarray(_START)
        if self.settings.random_start_moves:
            moves = jax.random.randint(key, (self.settings.random_start_moves,), 0, self.num_actions)
            cell, _ = jax.lax.scan(lambda cell, move: (_move(cell, move, has_key=False), None), cell, moves)
        apples = jnp.full(len(_APPLES), self._has_apples)
        return KdtState(cell, jnp.array(False), jnp.array(False), apples, jnp.array(0, jnp.int32))

    def observe(self, state: KdtState) -> Array:
        """The cell (one-hot over the floor), key held, door open, apples left, and in a timed task the time left."""
        position = jnp.asarray(_FLOOR)[state.cell[0], state.cell[1]] == jnp.arange(_FLOOR.max() + 1)
        parts = [position, state.has_key[None], state.door_open[None]]
        if self._has_apples:
            parts.append(state.apples_left)
        if self.settings.timed:
            parts.append((1 - state.time / self.settings.time_limit)[None])
        return jnp.concatenate([part.astype(self.observation_dtype) for part in parts])

    def step(self, state: KdtState, action: Array, key: Array) -> tuple[KdtState, Step]:
        """Moves one cell, unless a wall or the closed door is in the way, and takes whatever lies there."""
        s = self.settings
        if s.slip:
            slip_key, move_key = jax.random.split(key)
            slips = jax.random.bernoulli(slip_key, s.slip)
            action = jnp.where(slips, jax.random.randint(move_key, (), 0, self.num_actions), action)
        cell = _move(state.cell, action, state.has_key)
        takes_key = _at(cell, _KEY) & ~state.has_key
        opens_door = _at(cell, _DOOR) & ~state.door_open
        takes_treasure = _at(cell, _TREASURE)
        takes_apple = jnp.stack([_at(cell, apple) for apple in _APPLES]) & state.apples_left
        after = KdtState(
            cell,
            state.has_key | takes_key,
            state.door_open | opens_door,
            state.apples_left & ~takes_apple,
            state.time + 1,
        )
        out_of_time = (after.time >= s.time_limit) & ~takes_treasure
        reward = (
            s.key_reward * takes_key
            + s.door_reward * opens_door
            + self._apple_reward * takes_apple.sum()
            + s.treasure_reward * takes_treasure
        )
        return after, Step(
            observation=self.observe(after),
            reward=jnp.asarray(reward, jnp.float32),
            terminated=takes_treasure | (out_of_time & s.timed),
            truncated=out_of_time & (not s.timed),
            success=takes_treasure,
        )


def _at(cell: Array, place: Any) -> Array:
    return (cell == place).all()


def _move(cell: Array, action: Array, has_key: Array | bool) -> Array:
    ahead = cell + jnp.asarray(_MOVES)[action]
    # The border is all wall, so a cell ahead is always on the map.
    blocked = jnp.asarray(_WALLS)[ahead[0], ahead[1]] | (_at(ahead, _DOOR) & ~jnp.asarray(has_key))
    return jnp.where(blocked, cell, ahead)
