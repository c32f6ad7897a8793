"""One episode of a trained agent, recorded for a video: screens, values, and the bonus that its rule would give."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np

from sail import rules
from sail.analysis.film import Recording
from sail.config import Config
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings
from sail.envs.base import JaxEnv
from sail.envs.host import Rows
from sail.envs.maps import env_map
from sail.errors import BadInputError
from sail.replay import UNKNOWN_RETURN
from sail.training.api import Player
from sail.training.host_evaluation import Watched, value_function
from sail.training.on_device import OnDeviceProgram
from sail.training.routes import cell_of


class Moment(NamedTuple):
    """What the agent saw, did and got in one step, and what a person would have seen before it."""

    screen: Any
    observation: Any
    action: int
    reward: float
    last: bool


def record(player: Player, epsilon: float | None = None, max_steps: int | None = None) -> Recording:
    """Plays one episode. The bonus needs its return, so it is computed once the episode is over.

    An episode that is not recorded to its end has no returns, as one that still runs has none in the replay ring.
    """
    config = player.config
    epsilon = config.evaluation.epsilon if epsilon is None else epsilon
    moments = _play_on_device if config.on_device else _play_on_host
    steps = list(islice(moments(player, epsilon), max_steps))
    observations = np.stack([step.observation for step in steps])
    actions, rewards = np.array([step.action for step in steps]), np.array([step.reward for step in steps])
    clips = not config.on_device and config.host_env.clip_rewards
    seen = np.clip(rewards, -1, 1) if clips else rewards
    returns = np.zeros(len(steps))
    running = 0.0 if steps[-1].last else UNKNOWN_RETURN
    for t in reversed(range(len(steps))):
        returns[t] = running = seen[t] + config.agent.discount * running
    values, targets = (_in_parts(player, params, observations) for params in (player.params, player.target_params))
    rule = config.rule
    bonuses = rules.bonus(rule.name, targets, actions, returns, rule.alpha, rule.clip, rule.tau)
    return Recording(
        screens=[step.screen for step in steps],
        values=values.max(axis=-1),
        bonuses=np.broadcast_to(np.asarray(bonuses, float), len(steps)),
        rewards=rewards,
        title=f"{config.agent_name} on {config.env.name}, step {player.step:,}",
        frames_per_second=_frames_per_second(config),
    )


def _in_parts(player: Player, params: Any, observations: Any) -> Any:
    """Action-values of a network for all observations of an episode."""
    values = value_function(player.program.agent)
    parts = [np.asarray(values(params, part)) for part in _padded_parts(observations)]
    return np.concatenate(parts)[: len(observations)]


def _padded_parts(observations: Any, size: int = 64) -> Iterator[Any]:
    """Parts of one size, so that one program serves them all."""
    for first in range(0, len(observations), size):
        part = observations[first : first + size]
        yield np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])


def _play_on_device(player: Player, epsilon: float) -> Iterator[Moment]:
    from sail.analysis.video import draw_grid_frame

    assert isinstance(player.program, OnDeviceProgram)
    env: JaxEnv[Any] = player.program.env
    grid = env_map(player.config.env)
    if grid is None:
        raise BadInputError(f"{player.config.env.name} has no map, so there is nothing to show.")
    step, observe = jax.jit(env.step), jax.jit(env.observe)
    rng = np.random.default_rng(player.seed)
    keys = iter(jax.random.split(jax.random.key(player.seed), env.max_episode_steps + 1))
    state, over = env.reset(next(keys)), False
    while not over:
        observation = np.asarray(observe(state))
        random = rng.random() < epsilon
        action = int(rng.integers(env.num_actions)) if random else player.act(observation)
        screen = draw_grid_frame(grid, cell_of(env, state))
        state, outcome = step(state, action, next(keys))
        over = bool(outcome.terminated | outcome.truncated)
        yield Moment(screen, observation, action, float(outcome.reward), over)


def _play_on_host(player: Player, epsilon: float) -> Iterator[Moment]:
    env = _filmed(player)
    rng = np.random.default_rng(player.seed)
    env.reset(player.seed)
    rows: Rows = env.recv()
    watched = Watched(env)
    try:
        while True:
            observation, screen = watched.see(rows)[0], env.render()
            random = rng.random() < epsilon
            action = int(rng.integers(env.num_actions)) if random else player.act(observation)
            env.send(np.array([action]))
            rows = env.recv()
            over = bool(rows.terminated[0] | rows.truncated[0])
            yield Moment(screen, observation, action, float(rows.reward[0]), over)
            if over:
                return
    finally:
        env.close()


def _filmed(player: Player) -> Any:
    """One environment that shows its screen."""
    settings = player.config.host_env
    if isinstance(settings, AtariSettings):
        from sail.envs.atari_screen import AtariScreen

        return AtariScreen(settings)
    from sail.envs.gym import GymEnv

    return GymEnv(settings, 1, render_mode="rgb_array")


def _frames_per_second(config: Config) -> float:
    """Atari as fast as it was made for; a gridworld so that a person can follow."""
    return 5.0 if config.on_device else 60 / FRAME_SKIP if isinstance(config.env, AtariSettings) else 30.0
