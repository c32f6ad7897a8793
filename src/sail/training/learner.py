"""The learner: one for every agent, every rule and both loops. The bonus is computed here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from sail import replay, rules
from sail.agents.base import Agent, Params
from sail.settings import ReplaySettings, RuleSettings


class LearnerState(NamedTuple):
    """What learning changes."""

    params: Params
    target: Params
    optimiser: Any


class Diagnostics(NamedTuple):
    """Means over a round of updates: the loss over all of it, the others over its first minibatch."""

    loss: Array
    bonus: Array
    advantage_part: Array  # of the bonus: what it would be without returns
    imitation_part: Array  # of the bonus: what the returns add
    active_share: Array  # of the batch: G > Qt(s, a), self-imitation is at work
    known_share: Array  # of the batch: the return is known
    stale_share: Array  # of the batch: a known return below the current value max_b Qt(s, b)
    action_gap: Array  # best minus second best
    max_q: Array


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
    in_parts: bool = False
    """Whether the target network is evaluated minibatch by minibatch instead of on a whole round at once."""
    unroll: int = 1
    """Updates written out one after the other in the compiled loop: on a GPU, fewer and longer graphs."""

    def init(self, key: Array) -> LearnerState:
        """Fresh parameters; the target network starts as a copy."""
        params = self.agent.init(key)
        return LearnerState(params, jax.tree.map(jnp.copy, params), self.optimiser.init(params))

    def update(
        self, state: LearnerState, ring: replay.Ring, key: Array, num_updates: int
    ) -> tuple[LearnerState, Diagnostics]:
        """A round of updates between two copies of the target network.

        The target network is constant in a round, so all its transitions are drawn, gathered and given their targets at
        once; the loop that remains holds nothing but forward, backward and optimiser. (Nothing is learned from a ring
        with nothing to draw: then the state comes back as it was.)
        """
        any_drawn, places, batch = self.draw(ring, key, num_updates)
        states = replay.gather_frames(ring.observation, places, self.stack)
        return self.learn(state, any_drawn, batch._replace(states=states), num_updates)

    def draw(self, ring: replay.Ring, key: Array, num_updates: int) -> tuple[Array, replay.Places, replay.Batch]:
        """The transitions of a round without their states: whether there were any, where the states are, the rest."""
        sampling = self.sampling
        slots = replay.sample(
            ring,
            key,
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
        return slots.any, places, batch

    def learn(
        self, state: LearnerState, any_drawn: Array, batch: replay.Batch, num_updates: int
    ) -> tuple[LearnerState, Diagnostics]:
        """The updates of a round, from its transitions."""
        batch = batch._replace(states=self.agent.prepare(batch.states))
        outputs, targets = self._targets(state.target, batch)
        minibatches = jax.tree.map(
            lambda x: x.reshape(num_updates, self.batch_size, *x.shape[1:]), (batch.observation, batch.action, targets)
        )
        (params, optimiser), losses = lax.scan(
            self._step, (state.params, state.optimiser), minibatches, unroll=self.unroll
        )
        learned = state._replace(params=params, optimiser=optimiser)
        learned = jax.tree.map(partial(jnp.where, any_drawn), learned, state)
        return learned, self._diagnose(outputs, batch, losses)

    def _targets(self, target: Params, batch: replay.Batch) -> tuple[Any, Any]:
        """The target network's outputs at s, and what each transition is regressed to.

        That is its reward, plus the rule's bonus, plus the bootstrap. A rule that needs no values needs no outputs at
        s: then there are those of one minibatch, for the diagnostics.
        """
        if rules.RULES[self.rule.name].needs_values:
            both = self._evaluate(target, batch.states)  # s and s' in one go, which is cheaper than one after the other
            outputs, next_outputs = jax.tree.map(lambda x: x[0], both), jax.tree.map(lambda x: x[1], both)
            reward = batch.reward + rules.bonus(*self._rule_inputs(outputs, batch.action, batch.returns))
        else:
            outputs = self.agent.evaluate(target, batch.observation[: self.batch_size])
            next_outputs = jax.tree.map(lambda x: x[0], self._evaluate(target, batch.states[1:]))
            reward = batch.reward
        return outputs, self.agent.targets(next_outputs, reward, batch.discount)

    def _evaluate(self, params: Params, states: Array) -> Any:
        """The outputs at states [k, N, ...]; minibatch by minibatch where that is better for the cache."""
        if not self.in_parts:
            return self.agent.evaluate(params, states)
        parts = states.reshape(-1, self.batch_size, *states.shape[2:])
        outputs = lax.map(lambda part: self.agent.evaluate(params, part), parts)
        return jax.tree.map(lambda x: x.reshape(*states.shape[:2], *x.shape[2:]), outputs)

    def _rule_inputs(self, outputs: Any, action: Array, returns: Array) -> tuple[Any, ...]:
        rule = self.rule
        return rule.name, self.agent.q_values(outputs), action, returns, rule.alpha, rule.clip, rule.tau

    def _step(self, carry: tuple[Params, Any], minibatch: tuple[Array, Array, Any]) -> tuple[tuple[Params, Any], Array]:
        (params, optimiser), (observation, action, targets) = carry, minibatch

        def mean_loss(params: Params) -> Array:
            return self.agent.loss(self.agent.evaluate(params, observation), action, targets).mean()

        loss, gradient = jax.value_and_grad(mean_loss)(params)
        change, optimiser = self.optimiser.update(gradient, optimiser, params)
        return (optax.apply_updates(params, change), optimiser), loss

    def _diagnose(self, outputs: Any, batch: replay.Batch, losses: Array) -> Diagnostics:
        first = jax.tree.map(lambda x: x[: self.batch_size], (outputs, batch.action, batch.returns))
        outputs, action, returns = first
        q_tm1 = self.agent.q_values(outputs)
        taken = jnp.take_along_axis(q_tm1, action[:, None], axis=-1)[:, 0]
        advantage, imitation = rules.parts(*self._rule_inputs(outputs, action, returns))
        best = jnp.sort(q_tm1, axis=-1)
        known = returns > replay.UNKNOWN_RETURN
        return Diagnostics(
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
