"""A DQN as plain as can be, to compare with: one game, a ring in numpy, one update at a time, in PyTorch.

    python evidence/reference.py alien --frames 1000000 --to results/atari/reference/Alien_dqn_seed0.csv

Written from the protocol (docs/atari.md) and sharing nothing with sail but the emulator: preprocessing, ring, network,
optimiser and loop are its own. It needs ale-py, numpy and torch, and takes some minutes for a million frames on a GPU.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # products of small matrices, one for each step

import numpy as np
import torch
from ale_py import ALEInterface, LoggerMode, roms
from torch import nn

STARTS, DECAY, TARGET_PERIOD, TIME_LIMIT, BATCH, PERIOD = 20_000, 250_000, 8_000, 27_000, 32, 4
SIZE, STACK = 84, 4
EVERY = 250_000  # frames: a row each


class Game:
    """Sticky actions, four frames a step, the maximum of the last two, in grey and 84 x 84."""

    def __init__(self, name: str, seed: int) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setInt("random_seed", seed + 1)
        self.ale.setFloat("repeat_action_probability", 0.25)
        self.ale.setInt("frame_skip", 1)
        path = roms.get_rom_path(name)
        assert path is not None, name
        self.ale.loadROM(path)
        self.actions = self.ale.getMinimalActionSet()
        height, width = self.ale.getScreenDims()
        self.rows, self.columns = _areas(height), _areas(width).T.copy()

    def reset(self) -> Any:
        """The first frame of a new game."""
        self.ale.reset_game()
        return self._shrunk(self.ale.getScreenGrayscale())

    def step(self, action: int) -> tuple[Any, float, bool]:
        """A frame, the score that was made, and whether the game is over."""
        reward, screens = 0.0, []
        for frame in range(4):
            reward += self.ale.act(self.actions[action])
            if frame >= 2:
                screens.append(self.ale.getScreenGrayscale())
            if self.ale.game_over():
                break
        screens = screens or [self.ale.getScreenGrayscale()]
        return self._shrunk(np.max(screens, axis=0)), reward, self.ale.game_over()

    def _shrunk(self, screen: Any) -> Any:
        grey = screen.reshape(len(self.rows[0]), len(self.columns)).astype(np.float32)
        return np.rint(self.rows @ grey @ self.columns).astype(np.uint8)


def _areas(size: int) -> Any:
    """[84, size] how much each pixel counts for each of the smaller picture, which is the mean of what it covers."""
    edges, pixel = np.arange(SIZE + 1) * size / SIZE, np.arange(size)
    covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return (np.clip(covered, 0, None) * SIZE / size).astype(np.float32)


class Network(nn.Module):  # type: ignore[misc, unused-ignore]
    """The three convolutions with TensorFlow's padding SAME (84 to 21 to 11 to 11), and two dense layers."""

    def __init__(self, num_actions: int) -> None:
        super().__init__()
        layers = [nn.Conv2d(STACK, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)]
        layers += [nn.Linear(7744, 512), nn.Linear(512, num_actions)]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        pads = [nn.ZeroPad2d(2), nn.ZeroPad2d((1, 2, 1, 2)), nn.ZeroPad2d(1), nn.Flatten()]
        hidden = [part for pad, layer in zip(pads, layers, strict=False) for part in (pad, layer, nn.ReLU())]
        self.layers = nn.Sequential(*hidden, layers[-1])

    def forward(self, frames: Any) -> Any:
        """Values of bytes [..., 4, 84, 84]."""
        return self.layers(frames.float() / 255.0)


class RmsProp:
    """Centred, epsilon inside the root, the mean square beginning at one: TensorFlow's of that time."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self.mean = [torch.zeros_like(one) for one in parameters]
        self.square = [torch.ones_like(one) for one in parameters]

    @torch.no_grad()  # type: ignore[untyped-decorator, unused-ignore]
    def step(self, gradients: Any) -> None:
        """Moves the parameters."""
        for parameter, mean, square, gradient in zip(self.parameters, self.mean, self.square, gradients, strict=True):
            mean.mul_(0.95).add_(gradient, alpha=0.05)
            square.mul_(0.95).addcmul_(gradient, gradient, value=0.05)
            parameter.addcdiv_(gradient, (square - mean * mean + 1e-5).sqrt(), value=-2.5e-4)


class Dqn:
    """The agent and all that it has seen."""

    def __init__(self, num_actions: int, steps: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.random = np.random.default_rng(seed)
        self.num_actions = num_actions
        self.network, self.target = Network(num_actions).to(self.device), Network(num_actions).to(self.device)
        self.target.load_state_dict(self.network.state_dict())
        self.parameters = list(self.network.parameters())
        self.optimiser = RmsProp(self.parameters)
        self.frames = np.zeros((steps, SIZE, SIZE), np.uint8)
        self.actions, self.rewards = np.zeros(steps, np.int64), np.zeros(steps, np.float32)
        self.over, self.began = np.zeros(steps, np.float32), np.zeros(steps, np.int64)

    def act(self, step: int) -> int:
        """By epsilon and the network."""
        epsilon = 1.0 - 0.99 * min(max(step - STARTS, 0) / DECAY, 1.0)
        if self.random.random() < epsilon:
            return int(self.random.integers(self.num_actions))
        with torch.no_grad():
            return int(self.network(self._states(np.array([step]))).argmax())

    def update(self, step: int) -> None:
        """From a batch of all steps but the two newest: the last one's next frame is not there yet."""
        chosen = self.random.integers(0, step - 1, BATCH)
        states, following = self._states(chosen), self._states(chosen + 1)  # after an end it counts for nothing
        action, reward, over = (
            torch.from_numpy(column[chosen]).to(self.device) for column in (self.actions, self.rewards, self.over)
        )
        with torch.no_grad():
            wanted = reward + 0.99 * (1 - over) * self.target(following).max(1).values
        value = self.network(states).gather(1, action[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(value, wanted)
        self.optimiser.step(torch.autograd.grad(loss, self.parameters))

    def _states(self, steps: Any) -> Any:
        """The newest four frames of each, with zeros before the episode began."""
        places = steps[:, None] - np.arange(STACK)[::-1]
        there = places >= self.began[steps][:, None]
        frames = self.frames[np.where(there, places, 0)] * there[..., None, None].astype(np.uint8)
        return torch.from_numpy(frames).to(self.device)


def train(name: str, frames: int, seed: int) -> Iterator[tuple[int, float, int]]:
    """After every episode: the step at which it ended, its score and its length."""
    steps = frames // 4
    assert steps <= 1_000_000, "its ring does not wrap around"
    game = Game(name, seed)
    agent = Dqn(len(game.actions), steps, seed)
    frame, score, began = game.reset(), 0.0, 0
    for step in range(steps):
        agent.frames[step], agent.began[step] = frame, began
        agent.actions[step] = action = agent.act(step)
        frame, reward, over = game.step(action)
        score += reward
        agent.rewards[step] = np.clip(reward, -1, 1)
        if over or step + 1 - began >= TIME_LIMIT:
            agent.over[step] = 1
            yield step + 1, score, step + 1 - began
            frame, score, began = game.reset(), 0.0, step + 1
        if step >= STARTS and step % PERIOD == 0:
            agent.update(step)
        if step % TARGET_PERIOD == 0:
            agent.target.load_state_dict(agent.network.state_dict())


def main() -> None:
    """Trains, and writes the mean score of every quarter of a million frames."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("game", help="as ale-py names it, such as alien")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--to", type=Path, required=True, help="the CSV file to write")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    began, rows = time.time(), dict[int, list[float]]()
    for end, score, _ in train(options.game, options.frames, options.seed):
        rows.setdefault(-(-4 * end // EVERY) * EVERY, []).append(score)
        if len(rows[max(rows)]) == 1:
            print(f"{4 * end:,} frames after {time.time() - began:.0f} s", flush=True)
    options.to.parent.mkdir(parents=True, exist_ok=True)
    with options.to.open("w") as file:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
        command = f"python evidence/reference.py {options.game} --frames {options.frames} --seed {options.seed}"
        file.write(f"# command: {command}\n")
        file.write(f"# hardware: {device}\n# torch: {torch.__version__}\n# seconds: {time.time() - began:.0f}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["frames", "mean_return", "episodes"])
        writer.writerows([frames, f"{np.mean(scores):.5g}", len(scores)] for frames, scores in sorted(rows.items()))


if __name__ == "__main__":
    main()
