"""The others: Stable-Baselines3's DQN, and a CleanRL-style loop in PyTorch.

Every setting comes from the same `sail.config.Config` that sail itself is timed with. torch, stable_baselines3 and
gymnasium are imported only by the functions that need them.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy_kdt import NumpyKeyDoorTreasure, gymnasium_env
from timing import Timing

from sail.config import Config
from sail.envs.settings import KeyDoorTreasureSettings


def kdt_settings(config: Config) -> KeyDoorTreasureSettings:
    """The settings of the one environment that the peers know."""
    assert isinstance(config.env, KeyDoorTreasureSettings)
    return config.env


@dataclass(frozen=True)
class SB3Variant:
    """A way of using Stable-Baselines3's DQN; all make one update per `update_period` steps."""

    label: str
    num_envs: int
    steps_per_round: int
    """Steps, over all environments, between two rounds of updates."""
    fused_adam: bool = False


def sb3_variants(config: Config) -> list[SB3Variant]:
    """As it comes; with as many environments as sail; and with all that sail does: its blocks, and a fast optimiser."""
    envs, period = config.learning.num_envs, config.learning.update_period
    return [
        SB3Variant("as it comes: 1 env", 1, period),
        SB3Variant(f"{envs} envs", envs, max(envs, period)),
        SB3Variant(
            f"{envs} envs, {config.block_steps}-step blocks, fused Adam", envs, config.block_steps, fused_adam=True
        ),
    ]


def time_sb3(config: Config, variant: SB3Variant, threads: int, seconds: float) -> Timing:
    """Stable-Baselines3's own DQN, without a monitor and without logging, which cost it time."""
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.vec_env import DummyVecEnv

    _prepare_torch(threads)
    learning = config.learning
    model = DQN(
        "MlpPolicy",
        DummyVecEnv([lambda: gymnasium_env(kdt_settings(config))] * variant.num_envs),
        learning_rate=config.optimiser.learning_rate,
        buffer_size=config.replay.capacity,
        learning_starts=learning.starts,
        batch_size=learning.batch_size,
        gamma=config.agent.discount,
        train_freq=(variant.steps_per_round // variant.num_envs, "step"),
        gradient_steps=variant.steps_per_round // learning.update_period,
        target_update_interval=learning.target_period,
        exploration_initial_eps=config.exploration.end,
        exploration_final_eps=config.exploration.end,
        policy_kwargs={
            "net_arch": list(config.agent.hidden),
            "activation_fn": torch.nn.ReLU,
            "optimizer_kwargs": {"fused": True} if variant.fused_adam else {},
        },
        device="cpu",
        seed=config.seed,
    )

    def advance(num_steps: int) -> None:
        model.learn(num_steps, log_interval=2**31, reset_num_timesteps=False)

    advance(learning.starts + config.block_steps)
    return _time(advance, lambda: (model.num_timesteps, model._n_updates), config, seconds)


def time_torch_loop(config: Config, threads: int, seconds: float) -> Timing:
    """The CleanRL-style loop, with SAIL's bonus if the config says so."""
    _prepare_torch(threads)
    loop = TorchLoop(config)
    loop.run(config.learning.starts + config.block_steps)
    return _time(loop.run, lambda: (loop.steps, loop.updates), config, seconds)


def _prepare_torch(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)  # as XLA does: Adam's moments of rarely seen inputs decay into slow numbers


def _time(
    advance: Callable[[int], None], counts: Callable[[], tuple[int, int]], config: Config, seconds: float
) -> Timing:
    (steps, updates), started, cpu_started = counts(), time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        advance(config.block_steps)
    elapsed, cpu_elapsed = time.perf_counter() - started, time.process_time() - cpu_started
    steps, updates = counts()[0] - steps, counts()[1] - updates
    if updates != steps // config.learning.update_period:
        raise RuntimeError(f"{updates} updates in {steps} steps is not one per {config.learning.update_period} steps.")
    return Timing(steps, updates, elapsed, cpu_elapsed)


class TorchLoop:
    """DQN as CleanRL writes it: one environment, a ring in numpy, one eager update at a time; as fast as that goes."""

    def __init__(self, config: Config) -> None:
        import torch

        if config.rule.name not in ("bellman", "sail"):
            raise ValueError(f"The loop in PyTorch knows no rule '{config.rule.name}'.")
        self.torch, self.config = torch, config
        self.env = NumpyKeyDoorTreasure(kdt_settings(config))
        torch.manual_seed(config.seed)
        self.random, self.rng = random.Random(config.seed), np.random.default_rng(config.seed)
        self.network, self.target = self._network(), self._network()
        self.target.load_state_dict(self.network.state_dict())
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=config.optimiser.learning_rate, fused=True)
        capacity, size = config.replay.capacity, self.env.observation_size
        self.observations, self.next_observations = (np.zeros((capacity, size), np.uint8) for _ in range(2))
        self.actions = np.zeros((capacity, 1), np.int64)
        self.rewards, self.discounts = np.zeros(capacity, np.float32), np.zeros(capacity, np.float32)
        self.returns = np.zeros(capacity, np.float32)
        self.observation = self.env.reset()
        self.steps = self.updates = self.episode_began = 0

    def _network(self) -> Any:
        nn, sizes = self.torch.nn, [self.env.observation_size, *self.config.agent.hidden]
        hidden = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(sizes[-1], self.env.num_actions))

    def run(self, num_steps: int) -> None:
        """So many steps, with their updates and target copies."""
        learning = self.config.learning
        for _ in range(num_steps):
            self._step()
            self.steps += 1
            if self.steps > learning.starts and self.steps % learning.update_period == 0:
                self._update()
            if self.steps % learning.target_period == 0:
                self.target.load_state_dict(self.network.state_dict())

    def _step(self) -> None:
        torch, slot = self.torch, self.steps % self.config.replay.capacity
        epsilon = self.config.exploration.end if self.steps >= self.config.learning.starts else 1.0
        if self.random.random() < epsilon:
            action = self.random.randrange(self.env.num_actions)
        else:
            with torch.inference_mode():
                action = int(self.network(torch.from_numpy(self.observation).float()).argmax())
        observation, reward, terminated, truncated = self.env.step(action)
        self.observations[slot], self.next_observations[slot] = self.observation, observation
        self.actions[slot], self.rewards[slot] = action, reward
        self.discounts[slot] = 0.0 if terminated else self.config.agent.discount
        self.returns[slot] = -np.inf  # unknown until the episode ends
        self.observation = observation
        if terminated or truncated:
            self._fill_returns()
            self.observation, self.episode_began = self.env.reset(), self.steps + 1

    def _fill_returns(self) -> None:
        if self.config.rule.name != "sail":
            return
        slots = np.arange(self.episode_began, self.steps + 1) % self.config.replay.capacity
        g, returns = 0.0, []
        for reward in self.rewards[slots][::-1].tolist():
            g = reward + self.config.agent.discount * g
            returns.append(g)
        self.returns[slots] = returns[::-1]

    def _update(self) -> None:
        torch, rule = self.torch, self.config.rule
        batch = self.rng.integers(0, min(self.steps, self.config.replay.capacity), self.config.learning.batch_size)
        fields = (self.observations, self.next_observations, self.actions, self.rewards, self.discounts)
        observation, following, action, reward, discount = (torch.from_numpy(field[batch]) for field in fields)
        observation = observation.float()
        with torch.no_grad():
            if rule.name == "sail":
                q, q_next = self.target(torch.stack((observation, following.float())))
                g = torch.from_numpy(self.returns[batch])
                bonus = torch.maximum(g, q.gather(1, action)[:, 0]) - q.amax(1)
                reward = reward + rule.alpha * (bonus if rule.clip is None else bonus.clamp(-rule.clip, rule.clip))
            else:
                q_next = self.target(following.float())
            targets = reward + discount * q_next.amax(1)
        values = self.network(observation).gather(1, action)[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(values, targets)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.updates += 1
