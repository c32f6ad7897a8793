"""Two ways into an Atari game for peers: ale-py's own emulators for Stable-Baselines3, and a CleanRL-style loop."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
from timing import CORES, Timing

from sail.config import Config
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings, rom


def vector_games(settings: AtariSettings, num_envs: int) -> Any:
    """ale-py's own vector environment under sail's protocol: the emulators that sail uses, frames stacked."""
    from ale_py import ALEInterface, LoggerMode, vector_env
    from gymnasium.vector import AutoresetMode

    ALEInterface.setLoggerMode(LoggerMode.Error)
    return vector_env.AtariVectorEnv(
        rom(settings.name),
        num_envs=num_envs,
        stack_num=settings.stack,
        frameskip=FRAME_SKIP,
        repeat_action_probability=settings.sticky,
        max_num_frames_per_episode=settings.time_limit * FRAME_SKIP,
        full_action_space=settings.actions == "full",
        noop_max=settings.noop_max,
        use_fire_reset=False,
        reward_clipping=True,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )


def sb3_games(settings: AtariSettings, num_envs: int) -> Any:
    """The same as Stable-Baselines3 wants its environments."""
    from stable_baselines3.common.vec_env import VecEnv

    games = vector_games(settings, num_envs)

    class Games(VecEnv):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__(num_envs, games.single_observation_space, games.single_action_space)

        def reset(self) -> Any:
            return games.reset(seed=0)[0]

        def step_async(self, actions: Any) -> None:
            games.send(np.asarray(actions, np.int64))

        def step_wait(self) -> Any:
            observation, reward, terminated, truncated, info = games.recv()
            done = terminated | truncated
            infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]
            for i in np.flatnonzero(done):
                infos[i] = {"terminal_observation": info["final_obs"][i], "TimeLimit.truncated": bool(truncated[i])}
            return observation, reward.astype(np.float32), done, infos

        def close(self) -> None:
            pass

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * num_envs

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            pass

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return [None] * num_envs

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * num_envs

    return Games()


def time_loop(config: Config, seconds: float, device: str) -> tuple[Timing, float]:
    """The CleanRL-style loop past the start of learning with a full buffer, and the milliseconds of an update alone."""
    began = time.perf_counter()
    loop = AtariLoop(config, device)
    loop.run(64)
    first = time.perf_counter() - began
    loop.wait()
    made, started = 0, time.perf_counter()
    while made < 2 or time.perf_counter() - started < seconds / 4:
        loop.update()
        made += 1
    loop.wait()
    update_ms = 1000 * (time.perf_counter() - started) / made
    steps, updates = loop.steps, loop.updates
    started, cpu_started = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        loop.run(64)
    loop.wait()
    elapsed, cpu_elapsed = time.perf_counter() - started, time.process_time() - cpu_started
    return Timing(loop.steps - steps, loop.updates - updates, elapsed, cpu_elapsed, first), update_ms


class AtariLoop:
    """DQN as CleanRL writes it: one game, a buffer of stacked frames in numpy, one eager update at a time."""

    def __init__(self, config: Config, device: str) -> None:
        import torch

        assert isinstance(config.env, AtariSettings) and config.optimiser.name == "adam"
        self.torch, self.config, self.device = torch, config, device
        self.games = vector_games(config.env, 1)
        self.num_actions = int(self.games.single_action_space.n)
        torch.manual_seed(config.seed)
        torch.set_flush_denormal(True)  # as XLA does
        torch.set_num_threads(min(2, CORES))
        self.random, self.rng = random.Random(config.seed), np.random.default_rng(config.seed)
        self.network, self.target = self._network(), self._network()
        self.target.load_state_dict(self.network.state_dict())
        adam = config.optimiser
        self.optimiser = torch.optim.Adam(self.network.parameters(), adam.learning_rate, eps=adam.eps, fused=True)
        capacity = config.replay.capacity
        # Each observation once: the next one is the next slot's, but at an end, where it does not count.
        self.observations = np.empty((capacity, config.env.stack, 84, 84), np.uint8)
        self.observations[:] = self.rng.integers(0, 256, self.observations.shape[1:], np.uint8)
        self.actions = np.zeros((capacity, 1), np.int64)
        self.rewards, self.discounts = np.zeros(capacity, np.float32), np.zeros(capacity, np.float32)
        self.observation = self.games.reset(seed=config.seed)[0][0]
        self.steps = self.updates = 0

    def _network(self) -> Any:
        nn = self.torch.nn
        layers = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1)]
        layers += [nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, self.num_actions)]
        return nn.Sequential(*layers).to(self.device)

    def wait(self) -> None:
        """Until the GPU has done what it was told."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def run(self, num_steps: int) -> None:
        """So many steps, with their updates and target copies; the buffer counts as full from the beginning."""
        learning = self.config.learning
        for _ in range(num_steps):
            self._step()
            self.steps += 1
            if self.steps % learning.update_period == 0:
                self.update()
            if self.steps % learning.target_period == 0:
                self.target.load_state_dict(self.network.state_dict())

    def _step(self) -> None:
        torch, slot = self.torch, self.steps % self.config.replay.capacity
        if self.random.random() < self.config.exploration.end:
            action = self.random.randrange(self.num_actions)
        else:
            with torch.inference_mode():
                seen = torch.from_numpy(self.observation[None]).to(self.device).float() / 255
                action = int(self.network(seen).argmax())
        following, reward, terminated, truncated, _ = self.games.step(np.array([action], np.int64))
        self.observations[slot], self.actions[slot], self.rewards[slot] = self.observation, action, reward[0]
        self.discounts[slot] = 0.0 if terminated[0] or truncated[0] else self.config.agent.discount
        self.observation = following[0]

    def update(self) -> None:
        """One update on a random minibatch."""
        torch, capacity = self.torch, self.config.replay.capacity
        batch = self.rng.integers(0, capacity, self.config.learning.batch_size)
        fields = (self.actions[batch], self.rewards[batch], self.discounts[batch])
        action, reward, discount = (torch.from_numpy(field).to(self.device) for field in fields)
        states = (self.observations[batch], self.observations[(batch + 1) % capacity])
        observation, following = (torch.from_numpy(x).to(self.device).float() / 255 for x in states)
        with torch.no_grad():
            targets = reward + discount * self.target(following).amax(1)
        values = self.network(observation).gather(1, action)[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(values, targets)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.updates += 1
