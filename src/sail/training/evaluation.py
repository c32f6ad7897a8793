"""Evaluation phases: whole episodes with frozen parameters and an epsilon of their own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from sail.agents.base import Agent, Params
from sail.envs.base import JaxEnv, Landmark
from sail.exploration import epsilon_greedy
from sail.training.program import Scores


def play_episode(agent: Agent, env: JaxEnv[Any], params: Params, key: Array, epsilon: Array | float) -> Scores:
    """One episode from its beginning to its end."""
    reset_key, key = jax.random.split(key)

    def running(carry: Any) -> Array:
        return ~carry[1]

    def step(carry: Any) -> Any:
        state, _, scores, key = carry
        key, coin_key, action_key, env_key = jax.random.split(key, 4)
        q = agent.q_values(params, agent.prepare(env.observe(state)))
        random_action = jax.random.randint(action_key, (), 0, env.num_actions)
        action = epsilon_greedy(q, epsilon, jax.random.uniform(coin_key), random_action)
        state, outcome = env.step(state, action, env_key)
        scores = Scores(scores.returns + outcome.reward, scores.length + 1, scores.success | outcome.success)
        return state, outcome.terminated | outcome.truncated, scores, key

    nothing = Scores(jnp.array(0.0), jnp.array(0, jnp.int32), jnp.array(False))
    return lax.while_loop(running, step, (env.reset(reset_key), jnp.array(False), nothing, key))[2]


def play_episodes(
    agent: Agent, env: JaxEnv[Any], params: Params, key: Array, epsilon: Array | float, episodes: int
) -> Scores:
    """`episodes` of them, side by side."""
    keys = jax.random.split(key, episodes)
    return jax.vmap(lambda key: play_episode(agent, env, params, key, epsilon))(keys)


def landmark_values(agent: Agent, env: JaxEnv[Any], params: Params) -> dict[str, Array]:
    """The value of every action that an environment points out, and the best in the same state: is it preferred?"""
    landmarks: dict[str, Landmark] = getattr(env, "landmarks", dict)()
    values: dict[str, Array] = {}
    for name, (state, action) in landmarks.items():
        q = agent.q_values(params, agent.prepare(env.observe(state)[None]))[0]
        values |= {f"q_{name}": q[action], f"max_q_{name}": q.max()}
    return values
