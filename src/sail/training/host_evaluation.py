"""Evaluation outside the compiled program: whole episodes with frozen parameters, in environments of their own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import jax
import numpy as np

from sail import envs
from sail.agents.base import Agent, Params
from sail.config import Config
from sail.envs.host import HostEnv, Rows
from sail.training.emulators import Emulators
from sail.training.program import Numbers, Scores

MOST_ENVS = 16


class Watched:
    """The newest frames of each environment, stacked as the agent sees them."""

    def __init__(self, env: HostEnv) -> None:
        self._frames = np.zeros((env.num_envs, env.stack, *env.observation_shape), env.observation_dtype)

    def see(self, rows: Rows) -> Numbers:
        """The observations of these rows."""
        frames = self._frames[rows.env]
        frames[rows.begins] = 0
        frames = np.concatenate([frames[:, 1:], rows.observation[:, None]], axis=1)
        self._frames[rows.env] = frames
        return frames if frames.shape[1] > 1 else frames[:, 0]


@lru_cache(maxsize=8)
def value_function(agent: Any) -> Any:
    """The action-values of raw observations, compiled once for each agent."""
    return jax.jit(lambda params, observation: agent.q_values(params, agent.prepare(observation)))


def evaluate_seed(
    config: Config, agent: Agent, params: Params, seed: int, epsilon: float, episodes: int | None, steps: int | None
) -> Scores:
    """Plays `episodes`, or whole episodes until `steps` steps: each environment its share, one episode after another.

    An environment that has played its share is not listened to any more, so long episodes count as much as short ones.
    """
    wanted = episodes if episodes is not None else max((steps or 0) // 1000, 1)
    num_envs = min(wanted, MOST_ENVS)
    env = envs.make_host(config.host_env, num_envs)
    share = np.full(num_envs, -(-(steps or 0) // num_envs))
    quota = np.array([wanted // num_envs + (i < wanted % num_envs) for i in range(num_envs)])
    played, taken, over = np.zeros(num_envs, int), np.zeros(num_envs, int), np.zeros(num_envs, bool)
    score, length = np.zeros(num_envs), np.zeros(num_envs, int)
    finished: list[tuple[float, int]] = []
    rng = np.random.default_rng(seed)
    values: Any = value_function(cast(Any, agent))
    watched = Watched(env)
    emulators = Emulators(env, seed)
    try:
        while True:
            rows = emulators.rows()
            score[rows.env] += np.where(rows.stepped, rows.reward, 0.0)
            length[rows.env] += rows.stepped
            taken[rows.env] += rows.stepped
            for one in rows.env[rows.terminated | rows.truncated]:
                if not over[one]:
                    finished.append((float(score[one]), int(length[one])))
                played[one] += 1
                score[one], length[one] = 0.0, 0
            over |= played >= quota if episodes is not None else (taken >= share) & (length == 0)
            if over.all():
                break
            best = np.asarray(values(params, watched.see(rows))).argmax(axis=-1)
            explores = rng.random(len(best)) < epsilon
            emulators.act(np.where(explores, rng.integers(env.num_actions, size=len(best)), best))
    finally:
        emulators.close()
    returns = np.array([score for score, _ in finished])
    lengths = np.array([length for _, length in finished])
    return Scores(returns, lengths, _success(returns, env.reward_threshold))


def _success(returns: Numbers, threshold: float | None) -> Numbers | None:
    """Gymnasium's notion: the mean return has reached the environment's threshold."""
    return None if threshold is None else np.full(len(returns), returns.mean() >= threshold)
