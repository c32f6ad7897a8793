"""Atari games on the emulator's own vector environment: many games in C++ threads.

A pool is always waited for as a whole. The emulator can also give its first answers before the others are there, but
then its queue of actions can be overwritten under a thread that has been off its core for long: that thread plays a
game that another is playing, and two games are broken from then on (seen with ale-py 0.12.1 on 16 busy cores: "Illegal
Instruction!", and episodes that never end). Pools that take turns do not need it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sail.envs.atari_roms import rom_of, rom_path
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings, rom
from sail.envs.host import Rows, Rows1D, checked_actions
from sail.errors import BadInputError, TrainingError
from sail.machine import in_idle_class

SCREEN = 84


def whole_screen(settings: AtariSettings) -> tuple[int, int]:
    """Height and width of a game's own screen."""
    from ale_py import ALEInterface, LoggerMode

    ALEInterface.setLoggerMode(LoggerMode.Error)
    game = ALEInterface()
    game.loadROM(rom_path(settings))
    height, width = game.getScreenDims()
    return int(height), int(width)


class AtariEnv:
    """A pool of one game: 4 frames a step, the last two of them pooled, 84 x 84 in grey, one frame a row."""

    stack: int
    observation_shape: tuple[int, ...] = (SCREEN, SCREEN)
    """As the agent sees it; rows may have whole screens (`screen`)."""
    observation_dtype: Any = np.uint8
    resets_within_step = False
    reward_threshold: float | None = None

    def __init__(self, settings: AtariSettings, num_envs: int, screen: tuple[int, int] = (SCREEN, SCREEN)) -> None:
        """Rows have screens of the size `screen`: small ones, or whole ones, for whoever makes them small himself."""
        try:
            from ale_py import ALEInterface, LoggerMode, vector_env
        except ImportError:
            raise BadInputError("Atari games need ale-py: pip install 'sail-rl[atari]'.") from None
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.name = settings.name
        self.settings = settings
        self.stack = settings.stack
        self.num_envs = num_envs
        self.max_episode_steps: int | None = settings.time_limit
        # Frames are stacked by whoever reads them from the ring, so the emulators send each of them once.
        start = partial(
            vector_env.AtariVectorEnv,
            rom(settings.name),
            num_envs=num_envs,
            num_threads=settings.threads,
            stack_num=1,
            frameskip=FRAME_SKIP,
            img_height=screen[0],
            img_width=screen[1],
            repeat_action_probability=settings.sticky,
            max_num_frames_per_episode=settings.time_limit * FRAME_SKIP,
            full_action_space=settings.actions == "full",
            episodic_life=settings.life_loss_ends,
            noop_max=settings.noop_max,
            use_fire_reset=False,
            reward_clipping=False,
        )
        with rom_of(settings):
            self._env: Any = in_idle_class(start) if settings.give_way else start()
        actions: Any = self._env.ale.get_action_set()
        self.num_actions = len(actions)
        self.action_names: list[str] = [action.name for action in actions]
        self._begins = np.ones(num_envs, bool)
        self._order = np.arange(num_envs, dtype=np.int32)
        self._first: Any = None
        self._at_work = False

    def reset(self, seed: int) -> None:
        """Begins an episode everywhere."""
        self.reset_each(seeds_of_games(seed, self.num_envs))

    def reset_each(self, seeds: Rows1D) -> None:
        """Begins an episode everywhere, with a seed for each game."""
        if self._at_work:
            raise RuntimeError(f"{self.name} cannot be reset while its emulators are at work.")
        self._begins[:] = True
        self._first = self._env.reset(seed=seeds)

    def recv(self) -> Rows:
        """Waits until every game has answered."""
        if self._first is not None:
            observation, info = self._first
            none = np.zeros(self.num_envs, bool)
            reward, terminated, truncated, self._first = np.zeros(self.num_envs), none, none, None
        else:
            observation, reward, terminated, truncated, info = self._env.recv()
            self._at_work = False
        if not np.array_equal(info["env_id"], self._order):
            raise TrainingError(f"{self.name}: the emulators have answered out of order, so the run stops.")
        begins = self._begins
        # A row after an end is a reset: no step led to it, and its flags mean nothing.
        stepped = ~begins
        terminated = terminated & stepped
        truncated = truncated & stepped & ~terminated
        self._begins = terminated | truncated
        return Rows(self._order, observation[:, 0], reward.astype(np.float32), terminated, truncated, stepped, begins)

    def send(self, actions: Rows1D) -> None:
        """The actions for the rows of the last `recv`. Checked: one outside the set would make `recv` wait for ever."""
        self._env.send(checked_actions(self, actions).astype(np.int64))
        self._at_work = True

    def close(self) -> None:
        """Ends the emulators' threads, once they have done what they were told to."""
        if self._env is not None and self._at_work:
            self._env.recv()
        self._env, self._first, self._at_work = None, None, False


def seeds_of_games(seed: int, num_envs: int) -> Rows1D:
    """A seed for each game of a pool, far from those of other pools and runs."""
    return (np.random.SeedSequence(seed).generate_state(num_envs) % 2**31).astype(np.int64)
