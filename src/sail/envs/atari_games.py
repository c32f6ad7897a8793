"""Atari games that whoever asks plays himself, one after the other, in colours: for a process with one thread.

The same games as those of `atari`, bit for bit, once their two last frames are made grey and pooled, and small. The
emulator's vector environment hands every step to a thread and back and copies every screen three times; here they are
copied once, to where they are wanted, and Python's share of a step is a hundredth. Random no-ops are left out, since
their numbers are the emulator's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sail.envs.atari_colours import palette
from sail.envs.atari_roms import rom_path
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings


class AtariGames:
    """Some games, whose rows are the columns of a table: actions are read there, and what comes of them written.

    A row's screens [2, H, W] are the last two frames.
    """

    def __init__(self, settings: AtariSettings, table: dict[str, Any]) -> None:
        """As many games as the table has rows; their palette must be known."""
        from ale_py import ALEInterface, LoggerMode

        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._rom, self._palette, self._table = rom_path(settings), palette(settings), table
        self._all_actions, self._life_loss_ends = settings.actions == "full", settings.life_loss_ends
        self._most_frames = settings.time_limit * FRAME_SKIP
        self._games = [ALEInterface() for _ in table["action"]]
        for game in self._games:
            game.setFloat("repeat_action_probability", settings.sticky)
        self._actions: list[Any] = []
        self._frames = [0] * len(self._games)  # since the episode began
        self._lives = [0] * len(self._games)
        self._over = [True] * len(self._games)
        self._before = np.zeros(table["observation"].shape[2:], np.uint8)  # the frame before the last one

    def reset(self) -> None:
        """Begins an episode everywhere, with the seeds of the table."""
        for i, (game, seed) in enumerate(zip(self._games, self._table["seed"].tolist(), strict=True)):
            game.setInt("random_seed", seed)
            game.loadROM(self._rom)
            self._begin(i)
        game = self._games[0]
        self._actions = game.getLegalActionSet() if self._all_actions else game.getMinimalActionSet()

    def step(self) -> None:
        """A step everywhere with the actions of the table, or a new episode where the last one is over."""
        for i, action in enumerate(self._table["action"].tolist()):
            if self._over[i]:
                self._begin(i)
            else:
                self._play(i, self._actions[action])

    def _begin(self, i: int) -> None:
        game, table = self._games[i], self._table
        game.reset_game()
        game.getScreen(table["observation"][i, 1])
        table["observation"][i, 0] = table["observation"][i, 1]
        self._frames[i], self._lives[i], self._over[i] = 0, game.lives(), False
        table["reward"][i] = 0.0
        table["terminated"][i] = table["truncated"][i] = table["stepped"][i] = False
        table["begins"][i] = True

    def _play(self, i: int, action: Any) -> None:
        """Four frames, of which the last two are shown.

        As in the emulator's vector environment, an episode's last step is shown as it stands when the episode ends: if
        that is on the fourth frame, the third one pooled with the screen of the step before; if it is earlier, that
        screen alone.
        """
        game, table, (first, last) = self._games[i], self._table, self._table["observation"][i]
        reward, terminated, truncated = 0, False, False
        for frame in range(1, FRAME_SKIP + 1):
            reward += game.act(action)
            self._frames[i] += 1
            terminated = game.game_over() or (self._life_loss_ends and 0 < game.lives() < self._lives[i])
            truncated = self._frames[i] >= self._most_frames
            if terminated or truncated:
                if frame == FRAME_SKIP:  # three frames to pool: the lighter ones of the step before go into one
                    lighter = self._palette[first] > self._palette[last]
                    np.copyto(last, first, where=lighter)
                    first[:] = self._before
                break
            if frame == FRAME_SKIP - 1:
                game.getScreen(self._before)
            elif frame == FRAME_SKIP:
                first[:] = self._before
                game.getScreen(last)
        self._lives[i], self._over[i] = game.lives(), terminated or truncated
        table["reward"][i], table["stepped"][i], table["begins"][i] = reward, True, False
        table["terminated"][i], table["truncated"][i] = terminated, truncated and not terminated
