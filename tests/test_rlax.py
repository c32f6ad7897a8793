"""Losses, projections, targets and returns beside rlax's, on random inputs.

rlax asks for distrax, which asks for packages that do not go with every jax. All that is needed of it here is a
cross-entropy, which has tests by hand elsewhere.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sail import losses, replay
from sail.agents.base import Agent
from sail.agents.c51 import C51
from sail.agents.dqn import DQN
from sail.agents.iqn import IQN, Outlook
from sail.agents.torso import Torso


class Categorical:
    """What rlax asks of distrax's."""

    def __init__(self, logits: Any = None, probs: Any = None) -> None:
        self.logits = jnp.log(probs) if logits is None else logits
        self.probs = jax.nn.softmax(logits) if probs is None else probs

    def cross_entropy(self, other: Categorical) -> Any:
        return -(self.probs * jax.nn.log_softmax(other.logits)).sum(-1)


with mock.patch.dict(sys.modules, {"distrax": mock.MagicMock(Categorical=Categorical)}):
    rlax = pytest.importorskip("rlax")

ACTIONS, DRAWS = 4, 50
RNG = np.random.default_rng(0)


def normal(*shape: int, scale: float = 2.0) -> Any:
    return jnp.array(RNG.normal(0, scale, (DRAWS, *shape)), jnp.float32)


ACTION = jnp.array(RNG.integers(ACTIONS, size=DRAWS), jnp.int32)
REWARD, DISCOUNT = normal(), jnp.array(RNG.choice([0.0, 0.97, 0.99], size=DRAWS), jnp.float32)


def agent(kind: type[Agent], **settings: Any) -> Any:
    return kind(torso=Torso((3,)), num_actions=ACTIONS, **settings)


def assert_alike(ours: Any, theirs: Any) -> None:
    assert np.shape(ours) == np.shape(theirs) and np.isfinite(ours).all()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("delta", [0.5, 1.0, 3.0])
def test_losses(delta: float) -> None:
    error = normal()
    assert_alike(losses.huber(error, delta), rlax.huber_loss(error, delta))
    assert_alike(losses.squared(error), rlax.l2_loss(error))


@pytest.mark.parametrize("double", [False, True])
def test_td_errors(double: bool) -> None:
    q_tm1, q_t, online = normal(ACTIONS), normal(ACTIONS), normal(ACTIONS)
    chosen = jnp.argmax(online, -1) if double else None
    ours = losses.td_error(q_tm1, ACTION, agent(DQN).targets(q_t, REWARD, DISCOUNT, chosen))
    learning = rlax.double_q_learning if double else rlax.q_learning
    others = (q_t, online) if double else (q_t,)
    assert_alike(-ours, jax.vmap(learning)(q_tm1, ACTION, REWARD, DISCOUNT, *others))


def test_projections() -> None:
    support = jnp.linspace(-10, 10, 51)
    atoms = jnp.array(RNG.uniform(-13, 13, 30), jnp.float32)
    probabilities = jnp.array(RNG.dirichlet(np.ones(30)), jnp.float32)
    assert_alike(
        losses.project(atoms, probabilities, support), rlax.categorical_l2_project(atoms, probabilities, support)
    )


@pytest.mark.parametrize("double", [False, True])
def test_categorical_losses(double: bool) -> None:
    c51 = agent(C51, atoms=21, vmin=-4.0, vmax=5.0)
    logits_tm1, logits_t, online = normal(ACTIONS, 21), normal(ACTIONS, 21), normal(ACTIONS)
    chosen = jnp.argmax(online, -1) if double else None
    targets = c51.targets(jax.nn.softmax(logits_t), REWARD, DISCOUNT, chosen)
    taken = losses.of_action(logits_tm1, ACTION, axis=-2)
    ours = jax.vmap(losses.cross_entropy)(taken, targets)
    learning = rlax.categorical_double_q_learning if double else rlax.categorical_q_learning
    atoms = jnp.broadcast_to(c51.support, (DRAWS, 21))
    others = (online,) if double else ()
    theirs = jax.vmap(learning)(atoms, logits_tm1, ACTION, REWARD, DISCOUNT, atoms, logits_t, *others)
    assert_alike(ours, theirs)


@pytest.mark.parametrize("kappa", [0.5, 1.0, 2.0])
def test_quantile_losses(kappa: float) -> None:
    """The same sum and mean there, but Huber's loss is not divided by kappa."""
    iqn = agent(IQN)
    quantiles, target, others = normal(7, ACTIONS), normal(5, ACTIONS), normal(6, ACTIONS)
    taus = jnp.array(RNG.uniform(size=(DRAWS, 7)), jnp.float32)
    targets = iqn.targets(Outlook(target, others.mean(1)), REWARD, DISCOUNT)
    taken = losses.of_action(quantiles, ACTION[:, None])
    ours = jax.vmap(lambda *x: losses.quantile_huber(*x, kappa))(taken, taus, targets)
    theirs = jax.vmap(lambda *x: rlax.quantile_q_learning(*x, huber_param=kappa))
    assert_alike(ours, theirs(quantiles, taus, ACTION, REWARD, DISCOUNT, others, target) / kappa)
    assert_alike(ours, jax.vmap(lambda *x: rlax.quantile_regression_loss(*x, kappa))(taken, taus, targets) / kappa)


@pytest.mark.parametrize("n_step", [1, 3, 7])
def test_returns_and_n_step_targets(n_step: int) -> None:
    """An episode of 30 steps that ends with a death, in a ring."""
    length, discount = 30, 0.9
    rewards, values = RNG.normal(size=length).astype(np.float32), RNG.normal(size=length).astype(np.float32)
    dies = np.arange(length) == length - 1
    places = np.arange(length + 1, dtype=np.float32)[:, None, None]
    steps = replay.Steps(
        observation=jnp.array(places[:-1]),
        action=jnp.zeros((length, 1), jnp.int32),
        reward=jnp.array(rewards[:, None]),
        terminated=jnp.array(dies[:, None]),
        truncated=jnp.zeros((length, 1), bool),
        next_observation=jnp.array(places[1:]),
        age=jnp.arange(length, dtype=jnp.int32)[:, None],
    )
    ring = replay.fill_returns(replay.extend(replay.init((1,), jnp.float32, 1, 2 * length), steps), discount)
    discounts = jnp.where(dies, 0.0, discount)
    slots = replay.Slots(jnp.zeros(length, jnp.int32), jnp.arange(length), jnp.array(True))
    batch = replay.gather(ring, slots, discount=discount, n_step=n_step)
    assert_alike(batch.returns, rlax.discounted_returns(rewards, discounts, jnp.zeros(length)))
    # The value of where each transition leads: values[i] is that of the state after step i.
    after = values[np.asarray(batch.next_observation[:, 0], int) - 1]
    ours = batch.reward + batch.discount * after
    assert_alike(ours, rlax.n_step_bootstrapped_returns(jnp.array(rewards), discounts, jnp.array(values), n_step))
