"""The device's part of the host loop: written for one seed, compiled for all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sail import replay
from sail.agents.base import Agent, Params
from sail.config import Config
from sail.envs.atari_colours import palette, screens_as_they_are
from sail.envs.atari_settings import AtariSettings
from sail.envs.host import HostEnv, Rows
from sail.envs.shrinking import pooled, shrink
from sail.errors import BadInputError
from sail.exploration import Curiosity, epsilon_greedy
from sail.training.compiling import update_options
from sail.training.learner import Drawn, LearnerState
from sail.training.parcels import Parcel, put_together, unpack
from sail.training.program import empty_ring, make_learner
from sail.training.seeds import over_seeds

ACTING, LEARNING = 0, 1  # what a seed's key is split for
DEVICE_SHARE = 0.8  # of the device's memory that the ring's observations may take


class Walkers(NamedTuple):
    """What the device knows of one seed's environments in mid-episode."""

    frames: Array  # [E, stack, ...] the newest frames, oldest first; zeros before the episode began
    action: Array  # [E] what was chosen last
    age: Array  # [E] steps since the episode began


class News(NamedTuple):
    """What rows tell the ring of one seed."""

    rows: Rows
    frame: Array  # [W, ...] the newest before the step
    action: Array  # [W] what was chosen there
    age: Array  # [W] steps since the episode began


class HostState(NamedTuple):
    """Everything on the device, with a leading axis of seeds."""

    learner: LearnerState
    ring: replay.Ring
    walkers: Walkers
    key: Array
    acting: Params  # the networks that choose actions: the learner's of a block ago, or older (learning.hold)


class Saved(NamedTuple):
    """What a checkpoint holds of it."""

    learner: LearnerState
    key: Array


class DeviceSide:
    """Compiled functions over the state of all seeds."""

    def __init__(self, config: Config, env: HostEnv, agent: Agent) -> None:
        self.config, self.env, self.agent = config, env, agent
        self.learner = make_learner(config, agent)
        self.frames_on_host = _frames_on_host(config, env)
        self.shrinks = _shrinks(config, self.frames_on_host)
        self._palette = _palette(config) if self.shrinks else None
        self.num_updates = config.block_steps // config.learning.update_period
        seeds = config.seeds
        walk = over_seeds(self._walk, seeds, 4)
        self.walk = jax.jit(
            lambda params, walkers, key, parcel: walk(params, walkers, key, put_together(parcel)), donate_argnums=1
        )
        self.write = jax.jit(over_seeds(self._write, seeds, 3), donate_argnums=0)
        self.write_past = jax.jit(over_seeds(self._write_past, seeds, 5), donate_argnums=(0, 1))
        self.fill = jax.jit(over_seeds(self._fill, seeds, 2), donate_argnums=0)
        self.cut_off = jax.jit(over_seeds(self._cut_off, seeds, 1), donate_argnums=0)
        draw, gather = over_seeds(self._draw, seeds, 2), over_seeds(self._gather, seeds, 2)
        learn = over_seeds(self._learn, seeds, 4, one_by_one=True)
        reprioritise = over_seeds(self._reprioritise, seeds, 3)

        # What is given away comes back first and in the same order, the networks before the rest: jax pairs buffers by
        # their shapes, and those of the optimiser look like networks.
        def finish(
            params: Params,
            target: Params,
            rest: Any,
            ring: replay.Ring,
            key: Array,
            step: Array,
            drawn: Any,
            states: Any,
        ) -> Any:
            learner, losses, diagnostics = learn(LearnerState(params, target, *rest), drawn, states, key, step)
            return learner.params, learner[2:], reprioritise(ring, drawn.slots, losses), diagnostics

        def update(params: Params, target: Params, rest: Any, ring: replay.Ring, key: Array, step: Array) -> Any:
            drawn = draw(ring, key, step)
            return finish(params, target, rest, ring, key, step, drawn, gather(ring.observation, drawn.places))

        options = update_options()
        self._update = jax.jit(update, donate_argnums=(0, 2), compiler_options=options)
        self.draw = jax.jit(draw)
        self._finish = jax.jit(finish, donate_argnums=(0, 2), compiler_options=options)
        self.copy = jax.jit(lambda params: jax.tree.map(jnp.copy, params))
        self._empty = jax.jit(over_seeds(self._empty_ring, seeds, 1))
        self._fresh = jax.jit(over_seeds(self._fresh_learner, seeds, 1))

    def update(self, learner: LearnerState, ring: replay.Ring, key: Array, step: Any) -> Any:
        """A block's updates: the learner, the ring's new priorities, diagnostics. The old learner is used up."""
        params, rest, *others = self._update(learner.params, learner.target, learner[2:], ring, key, step)
        return LearnerState(params, learner.target, *rest), *others

    def learn(self, learner: LearnerState, ring: replay.Ring, key: Array, step: Any, drawn: Drawn, states: Any) -> Any:
        """The same from transitions that were drawn and states that were gathered elsewhere."""
        params, rest, *others = self._finish(
            learner.params, learner.target, learner[2:], ring, key, step, drawn, states
        )
        return LearnerState(params, learner.target, *rest), *others

    def init(self) -> Saved:
        """Fresh learners. A seed's random numbers come from that seed alone, not from how many run beside it."""
        return self._fresh(jnp.arange(self.config.seed, self.config.seed + self.config.seeds))

    def saved_like(self) -> Saved:
        """Shapes and types of that."""
        return jax.eval_shape(self.init)

    def with_empty_ring(self, saved: Saved) -> HostState:
        """A state with nothing in its ring."""
        ring, walkers = self._empty(saved.key)
        return HostState(saved.learner, ring, walkers, saved.key, self.copy(saved.learner.params))

    def to_act_after(self, params: Params, step: int) -> Params | None:
        """A copy of the networks at the end of a block, if actions are chosen with them after the next one.

        The learner's own are used up by its next updates.
        """
        return self.copy(params) if self.config.renews_at(step + self.config.block_steps) else None

    def _fresh_learner(self, seed: Array) -> Saved:
        key, learner_key = jax.random.split(jax.random.key(seed))
        return Saved(self.learner.init(learner_key), key)

    def _empty_ring(self, key: Array) -> tuple[replay.Ring, Walkers]:
        env, num_envs = self.env, self.config.learning.num_envs
        kept_shape = (0,) if self.frames_on_host else env.observation_shape
        ring = empty_ring(self.config, kept_shape, env.observation_dtype)
        frames = jnp.zeros((num_envs, env.stack, *env.observation_shape), env.observation_dtype)
        return ring, Walkers(frames, jnp.zeros(num_envs, jnp.int32), jnp.zeros(num_envs, jnp.int32))

    def _walk(self, params: Params, walkers: Walkers, key: Array, parcel: Parcel) -> tuple[Walkers, News, Array]:
        """What rows say moves the walkers; what to do next comes out, and what the ring should know."""
        rows, count, epsilon = unpack(parcel)
        if self.shrinks:
            screens, (height, width) = rows.observation, self.env.observation_shape
            if self._palette is not None:
                screens = pooled(screens, jnp.asarray(self._palette))
            rows = rows._replace(observation=shrink(screens, height, width, zero=jnp.minimum(count, 0)))
        walkers, news = self._moved(walkers, rows)
        frames = walkers.frames[rows.env]
        observation = self.agent.prepare(frames if self.env.stack > 1 else frames[:, 0])
        act_key = jax.random.fold_in(jax.random.fold_in(key, ACTING), count)
        coin_key, action_key, agent_key = jax.random.split(act_key, 3)
        q = self.agent.q_values_of_each(params, observation, agent_key if self.agent.is_random else None)
        random_action = (jax.random.bits(action_key, rows.env.shape) % self.env.num_actions).astype(jnp.int32)
        action = epsilon_greedy(q, epsilon, jax.random.uniform(coin_key, rows.env.shape), random_action)
        return walkers._replace(action=walkers.action.at[rows.env].set(action)), news, action

    def _moved(self, walkers: Walkers, rows: Rows) -> tuple[Walkers, News]:
        env = rows.env
        before, age = walkers.frames[env], walkers.age[env]
        begins = rows.begins.reshape(-1, *[1] * (before.ndim - 1))
        older = jnp.where(begins, jnp.zeros((), before.dtype), before[:, 1:])
        frames = jnp.concatenate([older, rows.observation[:, None]], axis=1)
        moved = walkers._replace(
            frames=walkers.frames.at[env].set(frames),
            age=walkers.age.at[env].set(jnp.where(rows.begins, 0, age + 1)),
        )
        return moved, News(rows, before[:, -1], walkers.action[env], age)

    def _write(self, ring: replay.Ring, curiosity: Curiosity | None, news: News) -> tuple[replay.Ring, Any]:
        """The ring with the news, and the moments of what was seen, if anyone is curious."""
        counts = news.rows.stepped & (news.rows.env < self.config.learning.num_envs)
        return self._extended(ring, curiosity, news, counts)

    def _write_past(
        self, ring: replay.Ring, walkers: Walkers, curiosity: Curiosity | None, rows: Rows, action: Array
    ) -> tuple[replay.Ring, Walkers]:
        """The same for rows of long ago, whose actions are known, and whose frames have been counted."""
        walkers, news = self._moved(walkers, rows)
        ring, _ = self._extended(ring, curiosity, news, jnp.zeros_like(rows.stepped))
        return ring, walkers._replace(action=walkers.action.at[rows.env].set(action))

    def _extended(
        self, ring: replay.Ring, curiosity: Curiosity | None, news: News, counts: Array
    ) -> tuple[replay.Ring, Any]:
        rows = news.rows
        moments, intrinsic = None, None
        if self.learner.curiosity is not None and curiosity is not None:
            curiosity, bonus = self.learner.curiosity.look(curiosity, news.frame, counts)
            moments, intrinsic = (curiosity.frames, curiosity.errors), bonus[None]
        closing = rows.observation if rows.closing is None else rows.closing
        nothing = jnp.zeros((1, *rows.env.shape, 0), ring.observation.dtype)
        steps = replay.Steps(
            observation=nothing if self.frames_on_host else news.frame[None],
            action=news.action[None],
            reward=(jnp.clip(rows.reward, -1, 1) if self.config.host_env.clip_rewards else rows.reward)[None],
            terminated=rows.terminated[None],
            truncated=rows.truncated[None],
            next_observation=nothing if self.frames_on_host else closing[None],
            age=news.age[None],
            intrinsic=intrinsic,
        )
        return replay.extend(ring, steps, rows=rows.env, taken=rows.stepped[None]), moments

    def _fill(self, ring: replay.Ring, rows: Array) -> replay.Ring:
        return replay.fill_returns(ring, self.config.agent.discount, rows=rows, total=self._total)

    def _cut_off(self, ring: replay.Ring) -> replay.Ring:
        return replay.fill_returns(replay.cut_off(ring), self.config.agent.discount, total=self._total)

    @property
    def _total(self) -> bool:
        return self.config.rnd.returns == "total"

    def _draw(self, ring: replay.Ring, key: Array, step: Array) -> Drawn:
        return self.learner.draw(ring, _learn_key(key, step), self.num_updates)

    def _gather(self, frames: Array, places: replay.Places) -> Array:
        return replay.gather_frames(frames, places, self.env.stack)

    def _learn(
        self, learner: LearnerState, drawn: Drawn, states: Array, key: Array, step: Array
    ) -> tuple[LearnerState, Array, Array]:
        learner, losses, diagnostics = self.learner.learn(
            learner, drawn, states, _learn_key(key, step), self.num_updates
        )
        return learner, losses, jnp.stack(diagnostics)

    def _reprioritise(self, ring: replay.Ring, slots: replay.Slots, losses: Array) -> tuple[Any, Any]:
        changed = self.learner.reprioritise(ring, slots, losses)
        return changed.priority, changed.top


def _learn_key(key: Array, step: Array) -> Array:
    return jax.random.fold_in(jax.random.fold_in(key, LEARNING), step)


def _palette(config: Config) -> Any:
    """The grey of each colour, if screens come in colours."""
    env = config.env
    return palette(env) if isinstance(env, AtariSettings) and len(screens_as_they_are(env)) == 3 else None


def _frames_on_host(config: Config, env: HostEnv) -> bool:
    """Whether the ring's observations stay in this machine's memory; `auto` asks the device how much it has."""
    if config.replay.frames != "auto":
        return config.replay.frames == "host"
    one = jax.ShapeDtypeStruct(env.observation_shape, env.observation_dtype)
    needed = one.size * one.dtype.itemsize * config.replay.capacity * config.seeds
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    return limit is not None and needed > DEVICE_SHARE * limit


def _shrinks(config: Config, frames_on_host: bool) -> bool:
    """Whether screens come whole and are made small here. What else reads rows on the host wants them small."""
    env = config.host_env
    if not isinstance(env, AtariSettings) or env.resize == "emulator":
        return False
    possible = not frames_on_host and not config.checkpoint.replay
    if env.resize == "device" and not possible:
        raise BadInputError(
            "env.resize device is for a replay ring that is on the device (replay.frames) and that no checkpoint keeps "
            "(checkpoint.replay): leave it at auto."
        )
    return possible and (env.resize == "device" or jax.default_backend() != "cpu")
