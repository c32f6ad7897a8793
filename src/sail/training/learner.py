"""The learner: one for every agent, every rule and both loops. The bonus is computed here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from sail import replay, rules
from sail.agents.base import Agent, Params
from sail.exploration import RND, Curiosity
from sail.settings import ReplaySettings, RuleSettings

CURIOSITY, DRAWING, LEARNING = 0xC0, 0xD1, 0x1E  # what a key is folded with for each of its uses


class LearnerState(NamedTuple):
    """What learning changes."""

    params: Params
    target: Params
    optimiser: Any
    curiosity: Curiosity | None = None


class Drawn(NamedTuple):
    """The transitions of a round of updates, before their states are gathered."""

    slots: replay.Slots
    places: replay.Places
    batch: replay.Batch


class Diagnostics(NamedTuple):
    """Means over a round of updates: the loss over all of it, the others over its first minibatch.

    All of them are NaN where nothing was learned.
    """

    loss: Array
    bonus: Array
    advantage_part: Array  # of the bonus: what it would be without returns
    imitation_part: Array  # of the bonus: what the returns add
    active_share: Array  # of the batch: G > Qt(s, a), self-imitation is at work
    known_share: Array  # of the batch: the return is known
    stale_share: Array  # of the batch: a known return below the current value max_b Qt(s, b)
    action_gap: Array  # best minus second best
    max_q: Array


class Minibatch(NamedTuple):
    """What one update learns from; in the loop, with a leading axis of updates."""

    observation: Array
    action: Array
    targets: Any
    weight: Array | None  # of each transition's loss


@dataclass(frozen=True)
class Learner:
    """An agent, a rule, an optimiser, and how they draw on the ring."""

    agent: Agent
    rule: RuleSettings
    sampling: ReplaySettings
    optimiser: optax.GradientTransformation
    discount: float
    batch_size: int
    stack: int = 1
    """Frames that make up a state."""
    curiosity: RND | None = None
    at_once: int | None = None
    """States that the target network looks at at once; none for all of a round."""
    unroll: int = 1
    """Updates written out one after the other in the compiled loop."""
    undo_each: bool = False
    """With nothing to draw nothing is learned: whether each update is undone, or all of a round behind the loop. The
    first needs no copies of what there was, dozens of programs on a GPU; a CPU is 4 % slower by it."""

    def init(self, key: Array) -> LearnerState:
        """Fresh parameters; the target network starts as a copy."""
        params = self.agent.init(key)
        curious = None if self.curiosity is None else self.curiosity.init(jax.random.fold_in(key, CURIOSITY))
        state = LearnerState(params, jax.tree.map(jnp.copy, params), self.optimiser.init(params), curious)
        # As after an update: a weak type (jax's, of Python's numbers) would have everything compiled once more.
        return jax.tree.map(lambda x: lax.convert_element_type(x, x.dtype), state)

    def update(
        self, state: LearnerState, ring: replay.Ring, key: Array, num_updates: int
    ) -> tuple[LearnerState, replay.Ring, Diagnostics]:
        """A round of updates between two copies of the target network.

        The target network is constant in a round, so all its transitions are drawn, gathered and given their targets at
        once; the loop that remains holds nothing but forward, backward and optimiser. (Nothing is learned from a ring
        with nothing to draw: then the state comes back as it was.)
        """
        drawn = self.draw(ring, key, num_updates)
        states = replay.gather_frames(ring.observation, drawn.places, self.stack)
        state, losses, diagnostics = self.learn(state, drawn, states, key, num_updates)
        return state, self.reprioritise(ring, drawn.slots, losses), diagnostics

    def draw(self, ring: replay.Ring, key: Array, num_updates: int) -> Drawn:
        """The transitions of a round without their states."""
        sampling = self.sampling
        slots = replay.sample(
            ring,
            jax.random.fold_in(key, DRAWING),
            num_updates * self.batch_size,
            n_step=sampling.n_step,
            finished_only=sampling.finished_only,
            stack=self.stack,
        )
        places, batch = replay.gather_scalars(
            ring,
            slots,
            discount=self.discount,
            n_step=sampling.n_step,
            time_limit_is_terminal=sampling.time_limit_is_terminal,
        )
        return Drawn(slots, places, batch)

    def reprioritise(self, ring: replay.Ring, slots: replay.Slots, losses: Array) -> replay.Ring:
        """The ring after a round: what was learned from gets its new priority, where there are any."""
        if ring.priority is None or ring.top is None:
            return ring
        changed = replay.reprioritise(ring, slots.row, slots.slot, losses, self.sampling.priority_exponent)
        priority, top = jax.tree.map(
            partial(jnp.where, slots.any), (changed.priority, changed.top), (ring.priority, ring.top)
        )
        return ring._replace(priority=priority, top=top)

    def learn(
        self, state: LearnerState, drawn: Drawn, states: Array, key: Array, num_updates: int
    ) -> tuple[LearnerState, Array, Diagnostics]:
        """The updates of a round, from its transitions and their states; also the loss [N] of each transition."""
        batch = drawn.batch._replace(states=self.agent.prepare(states))
        look_key, loss_key = jax.random.split(jax.random.fold_in(key, LEARNING))
        q_tm1, outlook = self._look(state.target, batch, look_key)
        reward = batch.reward
        if self._has_bonus:
            reward += rules.bonus(*self._rule_inputs(q_tm1, batch.action, batch.returns))
        ahead = (outlook, reward, batch.discount)
        minibatches = Minibatch(
            observation=batch.observation,
            action=batch.action,
            # The targets of Double Q-learning depend on the online network, so they are made in the loop.
            targets=(*ahead, batch.next_observation) if self.agent.double else self.agent.targets(*ahead),
            weight=None if drawn.slots.priority is None else self._importance(drawn.slots.priority),
        )
        minibatches = jax.tree.map(lambda x: x.reshape(num_updates, self.batch_size, *x.shape[1:]), minibatches)
        keys = jax.random.split(loss_key, num_updates) if self.agent.is_random else None
        before, inputs = (state.params, state.optimiser), (minibatches, keys)
        (params, optimiser), losses = self._loop(self._step, before, inputs, drawn.slots.any)
        curiosity = self._taught(state.curiosity, states, look_key, num_updates, drawn.slots.any)
        learned = LearnerState(params, state.target, optimiser, curiosity)
        return learned, losses.ravel(), self._diagnose(q_tm1, batch, losses, drawn.slots.any)

    @property
    def _has_bonus(self) -> bool:
        return self.rule.alpha > 0 and rules.RULES[self.rule.name].needs_values

    def _look(self, target: Params, batch: replay.Batch, key: Array) -> tuple[Array, Any]:
        """The target network's action-values at s, and its outlook at s'.

        A rule that needs no values needs none at s: then there are those of one minibatch, for the diagnostics.
        """
        key, first_key = jax.random.split(key)
        if self._has_bonus:
            return self._in_parts(lambda states, key: self.agent.both(target, states, key), batch.states, key)
        q_tm1 = self.agent.q_values(target, batch.observation[: self.batch_size], first_key)

        def outlook(states: Array, key: Array) -> Any:
            return self.agent.outlook(target, states[0], jax.random.split(key)[1])

        return q_tm1, self._in_parts(outlook, batch.states[1:], key)

    def _loop(self, step: Any, carry: Any, inputs: Any, any_drawn: Array) -> tuple[Any, Any]:
        """A step for each of the inputs. If nothing was drawn, what is carried comes back as it was."""
        if_drawn = partial(jax.tree.map, partial(jnp.where, any_drawn))

        def body(before: Any, one: Any) -> tuple[Any, Any]:
            after, output = step(before, one)
            return if_drawn(after, before) if self.undo_each else after, output

        number = len(jax.tree.leaves(inputs)[0])
        after, outputs = lax.scan(body, carry, inputs, unroll=min(self.unroll, number))
        return after if self.undo_each else if_drawn(after, carry), outputs

    def _taught(self, curiosity: Any, states: Array, key: Array, num_updates: int, any_drawn: Array) -> Any:
        """Curiosity after a round: its predictor learns from the newest frames of the states s of some minibatches."""
        rnd = self.curiosity
        if rnd is None:
            return None
        frames = states[0] if self.stack == 1 else states[0, :, -1]
        frames = frames.reshape(num_updates, self.batch_size, *frames.shape[1:])[:: rnd.period]
        number = len(frames)
        frames = frames.reshape(1, -1, *frames.shape[2:])
        lessons = self._in_parts(lambda part, key: rnd.lesson(curiosity, part[0]), frames, key)
        lessons = jax.tree.map(lambda x: x.reshape(number, self.batch_size, *x.shape[1:]), lessons)
        return self._loop(lambda before, lesson: (rnd.learn(before, lesson), None), curiosity, lessons, any_drawn)[0]

    def _in_parts(self, look: Callable[[Array, Array], Any], states: Array, key: Array) -> Any:
        """`look` at states [k, N, ...], at no more than `at_once` of them at a time."""
        if self.at_once is None:
            return look(states, key)
        most, number = max(self.at_once // states.shape[0], 1), states.shape[1]
        size = next(size for size in range(min(most, number), 0, -1) if number % size == 0)
        parts = states.reshape(states.shape[0], -1, size, *states.shape[2:]).swapaxes(0, 1)
        keys = jax.random.split(key, len(parts))
        outputs = lax.map(lambda part: look(*part), (parts, keys))
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), outputs)

    def _rule_inputs(self, q_tm1: Array, action: Array, returns: Array) -> tuple[Any, ...]:
        rule = self.rule
        return rule.name, q_tm1, action, returns, rule.alpha, rule.clip, rule.tau

    def _importance(self, priority: Array) -> Array:
        weight = replay.importance(priority.reshape(-1, self.batch_size), self.sampling.importance_exponent)
        return weight.ravel()

    def _step(self, carry: Any, inputs: Any) -> tuple[Any, Array]:
        (params, optimiser), (minibatch, key) = carry, inputs
        key, choice_key = (None, None) if key is None else jax.random.split(key)
        targets = minibatch.targets
        if self.agent.double:
            outlook, reward, discount, next_observation = targets
            chosen = jnp.argmax(self.agent.q_values(params, next_observation, choice_key), axis=-1)
            targets = self.agent.targets(outlook, reward, discount, chosen)

        def mean_loss(params: Params) -> tuple[Array, Array]:
            losses = self.agent.loss(params, minibatch.observation, minibatch.action, targets, key)
            return (losses if minibatch.weight is None else losses * minibatch.weight).mean(), losses

        gradient, losses = jax.grad(mean_loss, has_aux=True)(params)
        change, optimiser = self.optimiser.update(gradient, optimiser, params)
        return (optax.apply_updates(params, change), optimiser), losses

    def _diagnose(self, q_tm1: Array, batch: replay.Batch, losses: Array, any_drawn: Array) -> Diagnostics:
        q_tm1, action, returns = (x[: self.batch_size] for x in (q_tm1, batch.action, batch.returns))
        taken = jnp.take_along_axis(q_tm1, action[:, None], axis=-1)[:, 0]
        advantage, imitation = rules.parts(*self._rule_inputs(q_tm1, action, returns))
        best = jnp.sort(q_tm1, axis=-1)
        known = returns > replay.UNKNOWN_RETURN
        found = Diagnostics(
            loss=losses.mean(),
            bonus=(advantage + imitation).mean(),
            advantage_part=advantage.mean(),
            imitation_part=imitation.mean(),
            active_share=(returns > taken).mean(),
            known_share=known.mean(),
            stale_share=(known & (returns < best[:, -1])).mean(),
            action_gap=(best[:, -1] - best[:, -2]).mean(),
            max_q=best[:, -1].mean(),
        )
        return Diagnostics(*[jnp.where(any_drawn, mean, jnp.nan) for mean in found])
