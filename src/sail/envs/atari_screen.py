"""One Atari game that also shows its screen in colour, for videos. Frames and rewards are those of `AtariEnv`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sail.envs.atari import SCREEN
from sail.envs.atari_roms import rom_of
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings, rom
from sail.envs.host import Rows, Rows1D, checked_actions
from sail.errors import BadInputError


class AtariScreen:
    """The same protocol on Gymnasium's single environment, whose screen can be looked at."""

    num_envs = 1
    observation_shape: tuple[int, ...] = (SCREEN, SCREEN)
    observation_dtype: Any = np.uint8
    resets_within_step = False
    reward_threshold: float | None = None

    def __init__(self, settings: AtariSettings) -> None:
        try:
            import ale_py
            import gymnasium
            from gymnasium.wrappers import AtariPreprocessing
        except ImportError:
            raise BadInputError("Atari games need ale-py: pip install 'sail-rl[atari]'.") from None
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        gymnasium.register_envs(ale_py)
        self._settings = settings
        self.name, self.stack = settings.name, settings.stack
        self.max_episode_steps: int | None = settings.time_limit
        with rom_of(settings):
            game: Any = ale_py.env.AtariEnv(
                game=rom(settings.name),
                frameskip=1,
                repeat_action_probability=settings.sticky,
                full_action_space=settings.actions == "full",
                max_num_frames_per_episode=settings.time_limit * FRAME_SKIP,
                render_mode="rgb_array",
            )
        try:
            self._env: Any = AtariPreprocessing(
                game,
                noop_max=settings.noop_max,
                frame_skip=FRAME_SKIP,
                screen_size=SCREEN,
                terminal_on_life_loss=settings.life_loss_ends,
            )
        except gymnasium.error.DependencyNotInstalled:
            raise BadInputError("Videos of Atari games need OpenCV: pip install 'sail-rl[video]'.") from None
        self.num_actions = int(game.action_space.n)
        self._rows: Rows | None = None

    def reset(self, seed: int) -> None:
        """Begins an episode."""
        with rom_of(self._settings):  # for a seed the game is loaded again
            frame, _ = self._env.reset(seed=seed)
        self._rows = self._row(frame, 0.0, False, False, begins=True)

    def recv(self) -> Rows:
        """The one row."""
        assert self._rows is not None
        return self._rows

    def send(self, actions: Rows1D) -> None:
        """Takes the step."""
        frame, reward, terminated, truncated, _ = self._env.step(int(checked_actions(self, actions)[0]))
        self._rows = self._row(frame, reward, terminated, truncated and not terminated, begins=False)

    def render(self) -> Any:
        """[height, 160, 3] what a person would see."""
        return self._env.render()

    def close(self) -> None:
        """Lets go of the game."""
        self._env.close()

    def _row(self, frame: Any, reward: float, terminated: bool, truncated: bool, begins: bool) -> Rows:
        one = [np.array([flag]) for flag in (terminated, truncated, not begins, begins)]
        return Rows(np.zeros(1, np.int32), frame[None], np.array([reward], np.float32), *one)
