"""The learner against an independent numpy implementation, and on probes with known answers."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sail
from sail import replay
from sail.config import make_config
from sail.rules import RULES
from sail.settings import RuleSettings
from sail.training.learner import DRAWING, Learner
from sail.training.on_device import OnDeviceProgram

DISCOUNT = 0.9


def numpy_q(params: Any, x: np.ndarray) -> np.ndarray:
    """Hidden layers with ReLU, the last of which belongs to the head, and a linear output for each action."""
    *hidden, out = (*params.torso.layers, params.head.advantage.hidden, params.head.advantage.out)
    for layer in hidden:
        x = np.maximum(x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64), 0)
    return x @ np.asarray(out.weight, np.float64) + np.asarray(out.bias, np.float64)


def numpy_bonus(rule: str, q: np.ndarray, a: np.ndarray, g: np.ndarray, alpha: float, tau: float) -> np.ndarray:
    q_a, v = q[np.arange(len(a)), a], q.max(1)
    if rule == "bellman":
        return np.zeros(len(a))
    if rule == "al":
        return alpha * (q_a - v)
    if rule == "sail":
        return alpha * np.clip(np.maximum(g, q_a) - v, -1, 1)
    if rule == "strsil":
        return alpha * np.clip(g - v, 0, 1)
    log_policy = q / tau - np.log(np.exp((q - v[:, None]) / tau).sum(1, keepdims=True)) - v[:, None] / tau
    return alpha * np.clip(tau * log_policy[np.arange(len(a)), a], -1, 0)


def trained(env: str, overrides: dict[str, Any], agent: str = "dqn") -> tuple[OnDeviceProgram, Any, Any]:
    """One seed after some training, so that online and target networks differ and returns are mixed."""
    program = OnDeviceProgram(make_config(env, agent, overrides))
    state, _, _ = program.advance_arrays(program.init(), 0, program.config.steps)
    return program, jax.tree.map(lambda x: x[0], state.learner), jax.tree.map(lambda x: x[0], state.ring)


@pytest.fixture(scope="module")
def experience() -> tuple[OnDeviceProgram, Any, Any]:
    # Apples near the start make returns, values and bonuses differ from zero.
    overrides = {
        "steps": 800,
        "agent": {"hidden": (8,), "discount": DISCOUNT},
        "replay": {"capacity": 800, "n_step": 2},
        "learning": {"num_envs": 4, "starts": 100, "target_period": 600, "batch_size": 64},
        "env": {"apple_reward": 1.0, "time_limit": 60, "random_start_moves": 60},
    }
    return trained("apple-kdt", overrides)


@pytest.mark.parametrize("loss", ["huber", "squared"])
@pytest.mark.parametrize("rule", ["bellman", "al", "sail", "strsil", "munchausen"])
def test_one_update_is_what_numpy_says(experience: tuple[OnDeviceProgram, Any, Any], rule: str, loss: str) -> None:
    """Draws the learner's own minibatch, then recomputes targets, loss and the SGD step in float64."""
    tau, rate, n_step = 0.3, 0.5, 2
    program, learner_state, ring = experience
    # Plain gradient descent makes the step itself visible: change = -rate * gradient.
    learner = dataclasses.replace(
        program.learner,
        agent=dataclasses.replace(program.agent, rule=rule, tau=tau, loss_name=loss),  # type: ignore[type-var]
        rule=RuleSettings(name=rule, tau=tau, clip=RULES[rule].default_clip),
        optimiser=optax.sgd(rate),
    )
    learner_state = learner_state._replace(optimiser=learner.optimiser.init(learner_state.params))
    key = jax.random.key(7)
    after, same_ring, diagnostics = jax.jit(learner.update, static_argnums=3)(learner_state, ring, key, 1)
    for a, b in zip(jax.tree.leaves(ring), jax.tree.leaves(same_ring), strict=True):
        np.testing.assert_array_equal(a, b)  # without priorities, learning leaves the ring alone

    slots = replay.sample(ring, jax.random.fold_in(key, DRAWING), 64, n_step=n_step)
    batch = jax.tree.map(np.asarray, replay.gather(ring, slots, discount=DISCOUNT, n_step=n_step))
    q = numpy_q(learner_state.params, batch.observation.astype(np.float64))
    qt = numpy_q(learner_state.target, batch.observation.astype(np.float64))
    qt_next = numpy_q(learner_state.target, batch.next_observation.astype(np.float64))
    bonus = numpy_bonus(rule, qt, batch.action, batch.returns.astype(np.float64), 0.9, tau)
    best = qt_next.max(1)
    soft = best + tau * np.log(np.exp((qt_next - best[:, None]) / tau).sum(1))
    target = batch.reward + bonus + batch.discount * (soft if rule == "munchausen" else best)
    error = q[np.arange(64), batch.action] - target
    small = np.abs(error) <= 1
    huber = np.where(small, 0.5 * error**2, np.abs(error) - 0.5)
    expected_loss = (huber if loss == "huber" else 0.5 * error**2).mean()
    np.testing.assert_allclose(float(diagnostics.loss), expected_loss, rtol=1e-4)

    # The gradient of the head's bias is the mean of the errors' derivatives, action by action.
    slope = np.clip(error, -1, 1) if loss == "huber" else error
    bias_gradient = np.array([slope[batch.action == b].sum() / 64 for b in range(4)])
    old, new = (np.asarray(params.head.advantage.out.bias) for params in (learner_state.params, after.params))
    change = new - old
    np.testing.assert_allclose(change, -rate * bias_gradient, rtol=1e-3, atol=1e-6)
    assert np.abs(bias_gradient).max() > 1e-4, "the case must not be trivial"
    if rule != "bellman":
        assert np.abs(bonus).max() > 1e-3

    # Diagnostics, from their definitions.
    known = np.isfinite(batch.returns)
    q_a, v, second = qt[np.arange(64), batch.action], qt.max(1), np.sort(qt, 1)[:, -2]
    np.testing.assert_allclose(float(diagnostics.bonus), bonus.mean(), rtol=1e-3, atol=1e-6)
    no_return = numpy_bonus(rule, qt, batch.action, np.full(64, -np.inf), 0.9, tau)
    np.testing.assert_allclose(float(diagnostics.advantage_part), no_return.mean(), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(float(diagnostics.imitation_part), (bonus - no_return).mean(), rtol=1e-3, atol=1e-6)
    assert float(diagnostics.active_share) == pytest.approx((batch.returns > q_a).mean(), abs=1e-6)
    assert float(diagnostics.known_share) == pytest.approx(known.mean(), abs=1e-6)
    assert float(diagnostics.stale_share) == pytest.approx((known & (batch.returns < v)).mean(), abs=1e-6)
    assert float(diagnostics.action_gap) == pytest.approx((v - second).mean(), rel=1e-3)
    assert float(diagnostics.max_q) == pytest.approx(v.mean(), rel=1e-3)
    assert 0 < known.mean() < 1, "finished and running episodes must both be there"


def test_a_round_of_updates_is_the_updates_one_by_one(experience: tuple[OnDeviceProgram, Any, Any]) -> None:
    """Chunking changes no number: the same minibatches, one optimiser step each, in order."""
    program, learner_state, ring = experience
    key, num = jax.random.key(1), 5
    learner = dataclasses.replace(program.learner, rule=RuleSettings(name="sail"))
    chunked, _, _ = jax.jit(learner.update, static_argnums=3)(learner_state, ring, key, num)

    @jax.jit
    def one_more(state: Any, slots: replay.Slots) -> Any:
        batch = replay.gather(ring, slots, discount=DISCOUNT, n_step=2)
        q_tm1, q_t = (state.target(x)[..., 0] for x in (batch.observation, batch.next_observation))
        bonus = sail.rules.bonus("sail", q_tm1, batch.action, batch.returns)
        target = batch.reward + bonus + batch.discount * q_t.max(-1)

        def loss(params: Any) -> Any:
            q = params(batch.observation)[..., 0]
            error = jnp.take_along_axis(q, batch.action[:, None], 1)[:, 0] - target
            return jnp.where(jnp.abs(error) <= 1, 0.5 * error**2, jnp.abs(error) - 0.5).mean()

        change, optimiser = learner.optimiser.update(jax.grad(loss)(state.params), state.optimiser)
        params = jax.tree.map(lambda p, c: p + c, state.params, change)
        return state._replace(params=params, optimiser=optimiser)

    slots = replay.sample(ring, jax.random.fold_in(key, DRAWING), num * 64, n_step=2)
    one_by_one = learner_state
    for i in range(num):
        part = slice(i * 64, (i + 1) * 64)
        one_by_one = one_more(one_by_one, replay.Slots(slots.row[part], slots.slot[part], slots.any))
    for a, b in zip(jax.tree.leaves(chunked.params), jax.tree.leaves(one_by_one.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def curious() -> tuple[Learner, Any, Any]:
    """A learner with a bonus and with curiosity, and what it has learned. None of its episodes has ended."""
    overrides = {
        "steps": 400,
        "agent": {"hidden": (8,)},
        "learning": {"starts": 100, "batch_size": 12},
        "rnd": {"features": 32},
    }
    program, state, ring = trained("kdt", overrides, "sail-dqn+rnd")
    return program.learner, state, ring


@pytest.mark.parametrize("name", ["dqn", "sail-dqn+rnd"])
def test_how_many_states_are_looked_at_at_once_changes_no_number(curious: tuple[Learner, Any, Any], name: str) -> None:
    """Of 60 transitions in minibatches of 12: parts within a minibatch, and parts that reach over several."""
    learner, learner_state, ring = curious
    if name == "dqn":  # it looks at the states after alone, the other at both, and at frames
        learner = dataclasses.replace(learner, rule=RuleSettings(name="bellman"), curiosity=None)
        learner_state = learner_state._replace(curiosity=None)
    learned = {}
    for at_once in (None, 1, 24, 48, 1000):
        update = jax.jit(dataclasses.replace(learner, at_once=at_once).update, static_argnums=3)
        learned[at_once] = update(learner_state, ring, jax.random.key(1), 5)
        for a, b in zip(jax.tree.leaves(learned[None]), jax.tree.leaves(learned[at_once]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("period", "minibatches"), [(1, (0, 1, 2, 3, 4)), (2, (0, 2, 4)), (9, (0,))])
def test_the_predictor_learns_from_some_minibatches(
    curious: tuple[Learner, Any, Any], period: int, minibatches: tuple[int, ...]
) -> None:
    learner, before, ring = curious
    rnd = dataclasses.replace(learner.curiosity, period=period)  # type: ignore[type-var]
    learner, key = dataclasses.replace(learner, curiosity=rnd), jax.random.key(1)
    after = jax.jit(learner.update, static_argnums=3)(before, ring, key, 5)[0]
    slots = replay.sample(ring, jax.random.fold_in(key, DRAWING), 60)
    frames = replay.gather(ring, slots, discount=DISCOUNT).observation.reshape(5, 12, -1)
    learn = jax.jit(lambda curiosity, frames: rnd.learn(curiosity, rnd.lesson(before.curiosity, frames)))
    expected = before.curiosity
    for number in minibatches:
        expected = learn(expected, frames[number])
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(after.curiosity), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert int(after.curiosity.optimiser[0].count - before.curiosity.optimiser[0].count) == len(minibatches)


def test_the_settings_say_how_often_the_predictor_learns() -> None:
    assert OnDeviceProgram(make_config("kdt", "dqn+rnd", {"rnd": {"period": 9}})).learner.curiosity.period == 9


@pytest.mark.parametrize("undo_each", [False, True])
def test_nothing_is_learned_from_nothing(curious: tuple[Learner, Any, Any], undo_each: bool) -> None:
    """Finished episodes only, and none has finished: parameters, optimiser and predictor stay as they are."""
    learner, before, ring = curious
    assert set(np.unique(ring.end)) == {replay.GOES_ON}  # 50 steps each, and the limit is 100
    sampling = dataclasses.replace(learner.sampling, finished_only=True)  # type: ignore[type-var]
    learner = dataclasses.replace(learner, sampling=sampling, undo_each=undo_each)
    update = jax.jit(learner.update, static_argnums=3)
    after, _, diagnostics = update(before, ring, jax.random.key(0), 3)
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.isnan(diagnostics).all()
    ended = ring._replace(end=ring.end.at[:, 20].set(replay.TERMINATED))
    after, _, diagnostics = update(before, replay.fill_returns(ended, DISCOUNT), jax.random.key(0), 3)
    assert np.isfinite(diagnostics).all()
    assert not np.array_equal(before.params.head.advantage.out.bias, after.params.head.advantage.out.bias)
    assert not np.array_equal(before.curiosity.predictor.layers[-1].bias, after.curiosity.predictor.layers[-1].bias)


def test_alpha_zero_is_the_base_agent_bit_for_bit() -> None:
    finals = []
    for agent, rule in (
        ("dqn", {}),
        ("sail-dqn", {"alpha": 0.0}),
        ("al-dqn", {"alpha": 0.0}),
        ("strsil-dqn", {"alpha": 0.0}),
    ):
        overrides = {
            "steps": 2000,
            "seed": 5,
            "agent": {"hidden": (16, 16)},
            "learning": {"starts": 200, "target_period": 400},
            "env": {"key_reward": 1.0},
        }
        program = OnDeviceProgram(make_config("kdt", agent, {**overrides, "rule": rule}))
        state, _, _ = program.advance_arrays(program.init(), 0, 2000)
        finals.append([np.asarray(leaf) for leaf in jax.tree.leaves(state.learner.params)])
    for other in finals[1:]:
        for a, b in zip(finals[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


PROBES = ["probe-constant", "probe-discount", "probe-observation", "probe-action", "probe-chain", "probe-time-limit"]


def probe_program(probe: str, agent: str, **replay_settings: Any) -> OnDeviceProgram:
    overrides = {
        "steps": 8000,
        "agent": {"hidden": (32,), "discount": DISCOUNT, "loss": "squared"},
        "replay": {"capacity": 2000, **replay_settings},
        "learning": {"num_envs": 4, "starts": 200, "target_period": 80, "update_period": 1, "max_block": 80},
        "exploration": {"end": 1.0},
        "optimiser": {"learning_rate": 2e-3},
    }
    return OnDeviceProgram(make_config(probe, agent, overrides))


@pytest.mark.parametrize("probe", PROBES)
def test_dqn_learns_the_known_values(probe: str) -> None:
    program = probe_program(probe, "dqn")
    state, _, _ = program.advance_arrays(program.init(), 0, program.config.steps)
    params = jax.tree.map(lambda x: x[0], state.learner.params)
    for observation, values in program.env.optimal_values(DISCOUNT):  # type: ignore[attr-defined]
        q = program.agent.q_values(params, jnp.array(observation))
        np.testing.assert_allclose(q, values, atol=0.1 if probe == "probe-time-limit" else 0.05)


@pytest.mark.parametrize("rule", ["al", "sail", "strsil"])
def test_rules_learn_the_known_greedy_values(rule: str) -> None:
    """With deterministic rewards no return beats V*, so max_b Q is V* and the best action is the right one."""
    for probe in ("probe-action", "probe-chain"):
        program = probe_program(probe, f"{rule}-dqn")
        state, _, _ = program.advance_arrays(program.init(), 0, program.config.steps)
        params = jax.tree.map(lambda x: x[0], state.learner.params)
        for observation, values in program.env.optimal_values(DISCOUNT):  # type: ignore[attr-defined]
            q = np.asarray(program.agent.q_values(params, jnp.array(observation)))
            assert q.argmax() == np.argmax(values)
            assert q.max() == pytest.approx(max(values), abs=0.12)
            gap, optimal_gap = q.max() - q.min(), max(values) - min(values)
            if rule == "al":  # AL's fixed point: gap / (1 - alpha), far wider
                assert gap > 2 * optimal_gap


def test_a_time_limit_treated_as_death_has_the_value_of_a_death() -> None:
    """probe-time-limit pays 1 a step for 5 steps: with death at the limit, no state is worth 1/(1-gamma) = 10."""
    program = probe_program("probe-time-limit", "dqn", time_limit_is_terminal=True)
    state, _, _ = program.advance_arrays(program.init(), 0, program.config.steps)
    params = jax.tree.map(lambda x: x[0], state.learner.params)
    q = program.agent.q_values(params, jnp.array([1.0, 1.0]))
    # Time is not observed, so one value serves all five ages: Q = 1 + 0.9 * 4/5 * Q, which gives 1 / 0.28 = 3.57.
    np.testing.assert_allclose(q, [1 / 0.28] * 2, atol=0.5)
