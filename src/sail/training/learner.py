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
        slots = replay.sample(
            ring,
            key,
            num_updates * self.batch_size,
            n_step=self.sampling.n_step,
            finished_only=self.sampling.finished_only,
        )
        batch = replay.gather(
            ring,
            slots,
            discount=self.discount,
            n_step=self.sampling.n_step,
            time_limit_is_terminal=self.sampling.time_limit_is_terminal,
        )
        batch = batch._replace(states=self.agent.prepare(batch.states))
        outputs, targets = self._targets(state.target, batch)
        minibatches = jax.tree.map(
            lambda x: x.reshape(num_updates, self.batch_size, *x.shape[1:]), (batch.observation, batch.action, targets)
        )
        (params, optimiser), losses = lax.scan(self._step, (state.params, state.optimiser), minibatches)
        learned = state._replace(params=params, optimiser=optimiser)
        learned = jax.tree.map(partial(jnp.where, slots.any), learned, state)
        return learned, self._diagnose(outputs, batch, losses)

    def _targets(self, target: Params, batch: replay.Batch) -> tuple[Any, Any]:
        """The target network's outputs at s, and what each transition is regressed to.

        That is its reward, plus the rule's bonus, plus the bootstrap. A rule that needs no values needs no outputs at
        s: then there are those of one minibatch, for the diagnostics.
        """
        if rules.RULES[self.rule.name].needs_values:
            both = self.agent.evaluate(target, batch.states)  # in one go, which is cheaper than one after the other
            outputs, next_outputs = jax.tree.map(lambda x: x[0], both), jax.tree.map(lambda x: x[1], both)
            reward = batch.reward + rules.bonus(*self._rule_inputs(outputs, batch.action, batch.returns))
        else:
            outputs = self.agent.evaluate(target, batch.observation[: self.batch_size])
            next_outputs = self.agent.evaluate(target, batch.next_observation)
            reward = batch.reward
        return outputs, self.agent.targets(next_outputs, reward, batch.discount)

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
