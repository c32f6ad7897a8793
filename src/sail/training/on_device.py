"""The on-device loop: environments, replay and learner in one compiled program, vmapped over seeds.

A run is a sequence of blocks. A block takes some steps in every environment, writes them into the ring, and then makes
the updates that those steps have earned.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sail import envs, replay
from sail.agents.base import Params
from sail.config import Config
from sail.envs.base import JaxEnv
from sail.errors import BadInputError
from sail.exploration import epsilon_greedy
from sail.training.evaluation import landmark_values, play_episodes
from sail.training.learner import Diagnostics, LearnerState
from sail.training.program import Advance, Scores, empty_ring, epsilon_of, make_agent, make_learner
from sail.training.seeds import Shares, map_seeds


class Walkers(NamedTuple):
    """The E environments of one seed, in mid-episode."""

    state: Any
    score: Array  # [E] rewards of the running episode so far
    age: Array  # [E] its steps so far


class SeedState(NamedTuple):
    """Everything one seed carries from block to block; a checkpoint is this, and nothing else.

    In memory there may be repeats behind the seeds (`Shares`), which no checkpoint has.
    """

    learner: LearnerState
    ring: replay.Ring
    walkers: Walkers
    key: Array


class Episodes(NamedTuple):
    """What ended at each step of a block; `ended` says where anything did."""

    ended: Array
    score: Array
    length: Array
    success: Array


class OnDeviceProgram:
    """Everything compiled: `init` the seeds, then `advance` them phase by phase."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.env: JaxEnv[Any] = envs.make(config.jax_env)
        self.observation_shape = self.env.observation_shape
        self.agent = make_agent(config, self.env.observation_shape, self.env.observation_dtype, self.env.num_actions)
        self.learner = make_learner(config, self.agent)
        self.shares = Shares(config.seeds)
        self._advance: dict[int, Callable[..., Any]] = {}
        self._play = jax.jit(self._play_seeds, static_argnames="episodes")
        self._values = jax.jit(jax.vmap(partial(landmark_values, self.agent, self.env)))

    def attach(self, folder: Path) -> None:
        """Checkpoints hold everything: there is nothing else to keep."""

    def init(self) -> SeedState:
        """All seeds at step 0. A seed's random numbers come from that seed alone, not from how many run beside it."""
        seeds = self.shares.pad(jnp.arange(self.config.seed, self.config.seed + self.config.seeds))
        return jax.jit(self.shares.spread(jax.vmap(self._init_seed), num_shared=0))(seeds)

    def params(self, state: SeedState) -> Params:
        """The networks [seeds, ...]."""
        return self.shares.fetch(state.learner.params)

    def target_params(self, state: SeedState) -> Params:
        """The target networks [seeds, ...]."""
        return self.shares.fetch(state.learner.target)

    def saved(self, state: SeedState) -> SeedState:
        """All of it: a resumed run ends in the same bits. (With IQN if it has as many devices as before.)"""
        return self.shares.fetch(state)

    def saved_like(self) -> SeedState:
        """Shapes and types of a state."""
        return jax.eval_shape(lambda: self.shares.cut(self.init()))

    def restore(self, saved: SeedState, meta: dict[str, Any], note: Callable[[str], None]) -> SeedState:
        """What was saved is the state, but for this machine's repeats."""
        return self.shares.place(self.shares.pad(saved))

    def checkpoint_meta(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def advance(self, state: SeedState, step: int, num_steps: int) -> Advance:
        """Every seed `num_steps` steps further. `state` is used up."""
        state, diagnostics, episodes = self.advance_arrays(state, step, num_steps)
        columns = jax.tree.map(np.asarray, diagnostics)
        return Advance(state, num_steps, columns, self._episode_rows(jax.tree.map(np.asarray, episodes), step))

    def advance_arrays(self, state: SeedState, step: int, num_steps: int) -> tuple[SeedState, Diagnostics, Episodes]:
        """The same, with what it gave as arrays: diagnostics [seeds, blocks], episodes [seeds, blocks, K, E]."""
        num_blocks = num_steps // self.config.block_steps
        if num_blocks not in self._advance:

            def run(state: SeedState, step: Array) -> Any:
                return map_seeds(lambda one: self._blocks(one, step, num_blocks), state)

            self._advance[num_blocks] = jax.jit(self.shares.spread(run, num_shared=1), donate_argnums=0)
        state, (diagnostics, episodes) = self._advance[num_blocks](state, jnp.asarray(step, jnp.int32))
        return state, *self.shares.fetch((diagnostics, episodes))

    def evaluate(
        self,
        params: Params,
        step: int,
        *,
        epsilon: float,
        episodes: int | None = None,
        steps: int | None = None,
    ) -> list[Scores]:
        """Plays `episodes`; their randomness is its own, so training never depends on them."""
        if episodes is None:
            raise BadInputError(f"{self.config.env.name} is evaluated by episodes, not by steps.")
        scores = jax.tree.map(np.asarray, self._play(params, step, epsilon, episodes=episodes))
        return [jax.tree.map(lambda x, i=i: x[i], scores) for i in range(self.config.seeds)]

    def look(self, params: Params) -> list[dict[str, float]]:
        """Values at the environment's landmarks."""
        values = {name: np.asarray(x) for name, x in self._values(params).items()}
        return [{name: float(x[i]) for name, x in values.items()} for i in range(self.config.seeds)]

    def close(self) -> None:
        """Nothing to let go of."""

    def _play_seeds(self, params: Params, step: Any, epsilon: Any, episodes: int) -> Scores:
        def play(seed_and_params: tuple[Any, Any]) -> Scores:
            seed, params = seed_and_params
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), step), 0x5A11)
            return play_episodes(self.agent, self.env, params, key, epsilon, episodes)

        seeds = np.arange(self.config.seed, self.config.seed + self.config.seeds)
        return map_seeds(play, (jnp.asarray(seeds), params))

    def _episode_rows(self, episodes: Episodes, first_step: int) -> list[dict[str, Any]]:
        # [seeds, blocks, K, E]: sort by time, then by seed and environment, as they would have been seen in one go.
        seed, block, k, env = np.nonzero(episodes.ended)
        num_envs = self.config.learning.num_envs
        step = first_step + block * self.config.block_steps + (k + 1) * num_envs
        at = (seed, block, k, env)
        columns = (step, seed + self.config.seed, episodes.score[at], episodes.length[at], episodes.success[at])
        order = np.lexsort((env, seed, step))
        names = ("step", "seed", "return", "length", "success")
        return [
            dict(zip(names, row, strict=True))
            for row in zip(*(np.asarray(column)[order].tolist() for column in columns), strict=True)
        ]

    def _init_seed(self, seed: Array) -> SeedState:
        key, learner_key, env_key = jax.random.split(jax.random.key(seed), 3)
        num_envs = self.config.learning.num_envs
        ring = empty_ring(self.config, self.env.observation_shape, self.env.observation_dtype)
        states = jax.vmap(self.env.reset)(jax.random.split(env_key, num_envs))
        walkers = Walkers(states, jnp.zeros(num_envs), jnp.zeros(num_envs, jnp.int32))
        return SeedState(self.learner.init(learner_key), ring, walkers, key)

    def _blocks(self, state: SeedState, step: Array, num_blocks: int) -> Any:
        firsts = step + jnp.arange(num_blocks) * self.config.block_steps
        return lax.scan(self._block, state, firsts)

    def _block(self, state: SeedState, step: Array) -> tuple[SeedState, tuple[Diagnostics, Episodes]]:
        config, learning = self.config, self.config.learning
        key, act_key, learn_key = jax.random.split(state.key, 3)
        walkers, steps, episodes = self._collect(state.learner.params, state.walkers, step, act_key)
        learner, steps = self._wonder(state.learner, steps)
        ring = replay.extend(state.ring, steps)
        window = 2 * steps.action.shape[0] + self.env.max_episode_steps + 1  # all that can have been written, and more
        ring = replay.fill_returns(ring, config.agent.discount, window, total=config.rnd.returns == "total")

        step = step + config.block_steps  # from here on: steps taken
        # The number of steps is the same for all seeds, so under vmap these stay real branches.
        num_updates = config.block_steps // learning.update_period
        learner, drawn_by, diagnostics = lax.cond(
            step >= learning.starts,
            lambda learner: self._update(learner, ring, learn_key, num_updates),
            lambda learner: (learner, (ring.priority, ring.top), _nothing_learned()),
            learner,
        )
        ring = ring._replace(priority=drawn_by[0], top=drawn_by[1])
        target = lax.cond(
            step % learning.target_period == 0,
            lambda both: both[0],
            lambda both: both[1],
            (learner.params, learner.target),
        )
        return SeedState(learner._replace(target=target), ring, walkers, key), (diagnostics, episodes)

    def _update(self, learner: LearnerState, ring: replay.Ring, key: Array, num_updates: int) -> Any:
        learner, ring, diagnostics = self.learner.update(learner, ring, key, num_updates)
        return learner, (ring.priority, ring.top), diagnostics

    def _wonder(self, learner: LearnerState, steps: replay.Steps) -> tuple[LearnerState, replay.Steps]:
        """The steps with their intrinsic rewards, where there are any."""
        if self.learner.curiosity is None or learner.curiosity is None:
            return learner, steps
        shape = steps.action.shape
        frames = steps.observation.reshape(-1, *self.env.observation_shape)
        curiosity, bonus = self.learner.curiosity.look(learner.curiosity, frames, jnp.ones(len(frames)))
        return learner._replace(curiosity=curiosity), steps._replace(intrinsic=bonus.reshape(shape))

    def _collect(
        self, params: Params, walkers: Walkers, step: Array, key: Array
    ) -> tuple[Walkers, replay.Steps, Episodes]:
        """K steps of every environment with the parameters as they are."""
        config, num_envs = self.config, self.config.learning.num_envs
        shape = (config.block_steps // num_envs, num_envs)
        coin_key, action_key, env_key, agent_key = jax.random.split(key, 4)
        first_steps = step + num_envs * jnp.arange(shape[0])
        inputs = (
            epsilon_of(config, first_steps),
            jax.random.uniform(coin_key, shape),
            (jax.random.bits(action_key, shape) % self.env.num_actions).astype(jnp.int32),
            jax.random.split(env_key, (*shape, 2)),
            jax.random.split(agent_key, shape[0]) if self.agent.is_random else None,
        )

        def one_step(walkers: Walkers, inputs: Any) -> Any:
            epsilon, coin, random_action, keys, key = inputs
            observation = jax.vmap(self.env.observe)(walkers.state)
            q = self.agent.q_values_of_each(params, self.agent.prepare(observation), key)
            action = epsilon_greedy(q, epsilon, coin, random_action)
            state, outcome = jax.vmap(self.env.step)(walkers.state, action, keys[:, 0])
            ended = outcome.terminated | outcome.truncated
            score, length = walkers.score + outcome.reward, walkers.age + 1
            steps = replay.Steps(
                observation,
                action,
                outcome.reward,
                outcome.terminated,
                outcome.truncated,
                outcome.observation,
                walkers.age,
            )
            fresh = jax.vmap(self.env.reset)(keys[:, 1])
            walkers = _where(
                ended, Walkers(fresh, jnp.zeros_like(score), jnp.zeros_like(length)), Walkers(state, score, length)
            )
            return walkers, (steps, Episodes(ended, score, length, outcome.success))

        walkers, (steps, episodes) = lax.scan(one_step, walkers, inputs)
        return walkers, steps, episodes


def _nothing_learned() -> Diagnostics:
    return Diagnostics(*[jnp.array(jnp.nan)] * len(Diagnostics._fields))


def _where(condition: Array, yes: Any, no: Any) -> Any:
    """Leaf by leaf along the first axis."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, yes, no)
