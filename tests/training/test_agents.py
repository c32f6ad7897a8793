"""Every base agent on the one learner: against an independent numpy implementation, bit for bit, and on probes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from agents_reference import expected_update
from jax import lax

from sail import envs, replay
from sail.agents import names
from sail.config import Config, make_config
from sail.training.host import HostProgram
from sail.training.learner import Learner, LearnerState
from sail.training.on_device import OnDeviceProgram
from sail.training.program import make_agent, make_learner

DISCOUNT, ALPHA, TAU, RATE = 0.9, 0.6, 0.3, 0.5
BATCH, ACTIONS, WIDTH = 32, 3, 5
SIZES: dict[str, Any] = {
    "hidden": (8, 6),
    "discount": DISCOUNT,
    "atoms": 21,
    "vmin": -2,
    "vmax": 2,
    "quantiles": 8,
    "target_quantiles": 6,
    "action_quantiles": 4,
    "cosines": 8,
}


@pytest.fixture(autouse=True)
def _quick_to_compile() -> Iterator[None]:
    """These programs run for less than a second each, and would be optimised for many."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


# One update, against numpy in float64 ---------------------------------------------------------------------------------


@partial(jax.jit, static_argnames=("num_envs", "width", "prioritised"))
def filled(steps: replay.Steps, num_envs: int, width: int, prioritised: bool) -> replay.Ring:
    """A ring with these steps, and their returns."""
    ring = replay.init((width,), jnp.float32, num_envs, 2 * len(steps.action), prioritised=prioritised)
    return replay.fill_returns(replay.extend(ring, steps), DISCOUNT)


@cache
def some_ring(prioritised: bool = False) -> replay.Ring:
    """Random steps with short episodes: some that died, some cut off, some that still run."""
    random, shape = np.random.default_rng(0), (100, 4)
    end = random.random(shape)
    steps = replay.Steps(
        observation=random.normal(size=(*shape, WIDTH)).astype(np.float32),
        action=random.integers(ACTIONS, size=shape, dtype=np.int32),
        reward=random.normal(size=shape).astype(np.float32) / 2,
        terminated=end < 0.04,
        truncated=end > 0.96,
        next_observation=random.normal(size=(*shape, WIDTH)).astype(np.float32),
        age=np.zeros(shape, np.int32),
    )
    ring = filled(steps, 4, WIDTH, prioritised)
    if ring.priority is not None:
        ring = ring._replace(priority=ring.priority * random.lognormal(size=(4, 200)).astype(np.float32))
    return ring


def learner_of(name: str, num_actions: int, width: int, **sections: Any) -> tuple[Learner, Config]:
    agent, changes = {**SIZES, **sections.pop("agent", {})}, {"learning": {"batch_size": BATCH}, **sections}
    config = make_config("kdt", name, {"rule": {"alpha": ALPHA, "tau": TAU}, "agent": agent, **changes})
    return make_learner(config, make_agent(config, (width,), jnp.float32, num_actions)), config


def before_an_update(name: str, **sections: Any) -> tuple[Learner, LearnerState]:
    """A learner whose online and target networks are strangers, and whose steps are its gradients."""
    learner, _ = learner_of(name, ACTIONS, WIDTH, **sections)
    learner = dataclasses.replace(learner, optimiser=optax.sgd(RATE))
    init = Compiled(learner).init
    return learner, init(jax.random.key(1))._replace(target=init(jax.random.key(2)).params)


class Compiled:
    """A round of updates in pieces, as the host loop has it. What agents have in common is compiled once for all."""

    def __init__(self, learner: Learner, num_updates: int = 1) -> None:
        def draw(ring: replay.Ring, key: Any) -> Any:
            drawn = learner.draw(ring, key, num_updates)
            return drawn, replay.gather_frames(ring.observation, drawn.places)

        self.init, self.draw = jax.jit(learner.init), jax.jit(draw)
        self.learn = jax.jit(lambda state, drawn, states, key: learner.learn(state, drawn, states, key, num_updates))
        self.reprioritise, self.q_values = jax.jit(learner.reprioritise), jax.jit(learner.agent.q_values)


def change(before: LearnerState, after: LearnerState) -> np.ndarray:
    """Of the biases of the head."""
    old, new = (np.asarray(state.params.head.advantage.out.bias, np.float64) for state in (before, after))
    return new - old


@pytest.mark.parametrize("name", ["dqn", "c51", "iqn", "rainbow", "full-rainbow", "munchausen-iqn", "sail-iqn+rnd"])
@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_an_update_is_compiled_once(name: str, optimiser: str) -> None:
    """What comes out of it has the types that went in, weak ones included."""
    learner, config = learner_of(name, ACTIONS, WIDTH, optimiser={"name": optimiser})
    before = jax.eval_shape(learner.init, jax.random.key(0))
    ring = some_ring(config.replay.prioritised)
    after, _, _ = jax.eval_shape(lambda state: learner.update(state, ring, jax.random.key(1), 2), before)
    types = [
        [(jax.tree_util.keystr(path), x.shape, x.dtype, x.weak_type) for path, x in jax.tree.leaves_with_path(state)]
        for state in (before, after)
    ]
    assert types[0] == types[1] and not any(weak for *_, weak in types[0])


@pytest.mark.parametrize(
    ("name", "n_step", "parts"),
    [
        ("sail-c51", 1, {}),
        ("c51", 3, {}),
        ("sail-c51", 3, {"double": True, "dueling": True}),
        ("munchausen-c51", 3, {}),
        ("sail-iqn", 1, {}),
        ("iqn", 3, {"dueling": True}),
        ("sail-iqn", 3, {"double": True}),
        ("munchausen-iqn", 1, {}),
        ("sail-dqn", 3, {"double": True}),
        ("munchausen-dqn", 3, {}),
    ],
)
def test_one_update_is_what_numpy_says(name: str, n_step: int, parts: dict[str, bool]) -> None:
    learner, state = before_an_update(name, agent=parts, replay={"n_step": n_step})
    ring, key = some_ring(), jax.random.key(7)
    compiled = Compiled(learner)
    drawn, states = compiled.draw(ring, key)
    after, losses, diagnostics = compiled.learn(state, drawn, states, key)
    expected = expected_update(learner, state, ring, drawn, key)
    np.testing.assert_allclose(losses, expected.losses, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(diagnostics.bonus, expected.bonus.mean(), rtol=1e-4, atol=1e-6)
    # The gradient on the biases of the head is that on what it says.
    gradient = expected.slopes.mean(0).ravel()
    np.testing.assert_allclose(change(state, after), -RATE * gradient, rtol=1e-3, atol=1e-6)
    # The case must not be trivial: bonuses that matter, ends and none, and choices that are another network's.
    assert np.abs(gradient).max() > 1e-3 and expected.losses.std() > 1e-3
    assert ("-" in name) == bool(np.abs(expected.bonus).max() > 0.05)
    left = np.asarray(drawn.batch.discount)
    assert (left == 0).any() and np.isclose(left, DISCOUNT**n_step).any()
    assert expected.disagree.mean() > 0.2 if parts.get("double") else not expected.disagree.any()


# Prioritised replay ---------------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_importance_weighted_mean_loss() -> None:
    learner, state = before_an_update("sail-rainbow")
    ring, key = some_ring(prioritised=True), jax.random.key(3)
    drawn, _ = Compiled(learner).draw(ring, key)
    after, _, diagnostics = jax.jit(learner.update, static_argnums=3)(state, ring, key, 1)
    expected = expected_update(learner, state, ring, drawn, key)

    # (N P(i))^-0.5 over its maximum, with N and P from the whole ring.
    may = np.asarray(replay.eligible(ring, n_step=3))
    priority = np.asarray(ring.priority, np.float64)
    chance = priority[np.asarray(drawn.slots.row), np.asarray(drawn.slots.slot)] / priority[may].sum()
    weight = (may.sum() * chance) ** -0.5
    weight /= weight.max()
    assert weight.min() < 0.5, "the weights must matter"
    gradient = (weight[:, None, None] * expected.slopes).mean(0).ravel()
    np.testing.assert_allclose(change(state, after), -RATE * gradient, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(diagnostics.loss, expected.losses.mean(), rtol=1e-4)


def test_after_a_round_priorities_are_the_roots_of_its_losses() -> None:
    learner, state = before_an_update("sail-rainbow")
    ring, key, num_updates = some_ring(prioritised=True), jax.random.key(4), 6
    compiled = Compiled(learner, num_updates)
    drawn, states = compiled.draw(ring, key)
    slots, (_, losses, _) = drawn.slots, compiled.learn(state, drawn, states, key)
    _, changed, _ = jax.jit(learner.update, static_argnums=3)(state, ring, key, num_updates)
    expected = np.array(ring.priority, np.float64)
    for row, slot, loss in zip(*map(np.asarray, (slots.row, slots.slot, losses)), strict=True):
        expected[row, slot] = (float(loss) + 1e-10) ** 0.5  # what was drawn twice has its later loss
    np.testing.assert_allclose(changed.priority, expected, rtol=1e-5)
    np.testing.assert_allclose(changed.top, max(1.0, float(losses.max()) ** 0.5), rtol=1e-5)
    places = np.asarray(slots.row) * ring.length + np.asarray(slots.slot)
    assert 10 < len(np.unique(places)) < len(places), "some must come twice"
    for name, column in ring._asdict().items():
        if name not in ("priority", "top") and column is not None:
            np.testing.assert_array_equal(column, getattr(changed, name))


def test_seeds_in_a_vmap_do_not_see_each_others_priorities() -> None:
    learner, _ = before_an_update("sail-rainbow")
    ring = some_ring(prioritised=True)
    rings = [ring, ring._replace(priority=jnp.flip(ring.priority))]
    keys = [jax.random.key(1), jax.random.key(2)]
    states = [learner.init(key) for key in keys]

    def update(state: LearnerState, ring: Any, key: Any) -> Any:
        return learner.update(state, ring, key, 3)[:2]

    def stacked(trees: list[Any]) -> Any:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)

    together = jax.jit(jax.vmap(update))(stacked(states), stacked(rings), stacked(keys))
    alone = [jax.jit(update)(*one) for one in zip(states, rings, keys, strict=True)]
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(stacked(alone)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


# Bit for bit ----------------------------------------------------------------------------------------------------------


def trained(name: str, rule: dict[str, Any] | None = None, **changes: Any) -> Any:
    """The state after some training on a chain, where returns and values differ from step to step."""
    config = make_config(
        "probe-chain",
        name,
        {
            "steps": 800,
            "agent": {"hidden": (16,), "quantiles": 8, "target_quantiles": 8, "action_quantiles": 8, "atoms": 11},
            "rule": rule or {},
            "replay": {"capacity": 1600},
            "learning": {"num_envs": 4, "starts": 100, "target_period": 200, "max_block": 40},
            "exploration": {"decay_steps": 400},
            **changes,
        },
    )
    program = OnDeviceProgram(config)
    return program.advance(program.init(), 0, 800).state


def assert_same_bits(a: Any, b: Any) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@cache
def plain(base: str) -> Any:
    return trained(base, seed=5)


@pytest.mark.parametrize("rule", ["al", "sail", "strsil"])
@pytest.mark.parametrize("base", ["c51", "iqn", "rainbow"])  # DQN: test_learner.py
def test_alpha_zero_is_the_base_agent_bit_for_bit(base: str, rule: str) -> None:
    without = trained(f"{rule}-{base}", {"alpha": 0.0}, seed=5)
    assert_same_bits(plain(base).learner, without.learner)
    assert_same_bits(plain(base).ring, without.ring)
    learned = np.abs(np.asarray(without.learner.params.head.advantage.out.bias)).max()
    assert learned > 1e-3, "biases start at 0: something must have been learned"


@pytest.mark.parametrize("base", ["dqn", "iqn"])
def test_curiosity_of_scale_zero_changes_no_bit(base: str) -> None:
    curious = trained(f"{base}+rnd", rnd={"scale": 0.0}, seed=5)
    assert_same_bits(plain(base).learner, curious.learner._replace(curiosity=None))
    assert_same_bits(plain(base).ring, curious.ring._replace(intrinsic=None))
    assert np.asarray(curious.learner.curiosity.errors.number)[0] == 800  # it did look, and learned to predict
    assert (np.asarray(curious.learner.curiosity.predictor.layers[-1].bias) != 0).any()


def test_curiosity_of_scale_zero_changes_no_bit_of_the_host_loop() -> None:
    def played(name: str, **rnd: Any) -> Any:
        learning = {"num_envs": 4, "starts": 100, "target_period": 100, "batch_size": 16, "max_block": 20}
        overrides = {"steps": 600, "agent": {"hidden": (16,)}, "replay": {"capacity": 2000}, "learning": learning}
        program = HostProgram(make_config("gym:CartPole-v1", name, {**overrides, "rnd": rnd}))
        try:
            return program.advance(program.init(), 0, 600).state
        finally:
            program.close()

    without, curious = played("sail-dqn"), played("sail-dqn+rnd", scale=0.0)
    assert_same_bits(without.learner, curious.learner._replace(curiosity=None))
    assert_same_bits(without.ring, curious.ring._replace(intrinsic=None))
    ring = jax.tree.map(lambda x: np.asarray(x[0]), curious.ring)
    steps = sum((end[:size] != replay.CLOSING).sum() for end, size in zip(ring.end, ring.size, strict=True))
    assert np.asarray(curious.learner.curiosity.errors.number)[0] == steps >= 600  # each was looked at once


def test_a_prioritised_seed_does_not_depend_on_its_neighbours() -> None:
    together = trained("rainbow", seed=5, seeds=2)
    for i, alone in enumerate((plain("rainbow"), trained("rainbow", seed=6))):
        own = jax.tree.map(lambda x, i=i: x[i : i + 1], together)
        assert_same_bits(own.ring.action, alone.ring.action)  # the same choices all the way
        for a, b in zip(jax.tree.leaves(own.learner.params), jax.tree.leaves(alone.learner.params), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(own.ring.priority, alone.ring.priority, rtol=1e-4, atol=1e-6)
    assert not np.array_equal(together.ring.priority[0], together.ring.priority[1])


# Probes with known values ---------------------------------------------------------------------------------------------

PROBES = ("probe-constant", "probe-discount", "probe-observation", "probe-action", "probe-chain")
WIDEST, ENVS, STEPS = 6, 4, 200
RATES = {"dqn": 2e-3, "c51": 5e-3, "iqn": 1e-2, "rainbow": 5e-3, "full-rainbow": 5e-3}


@cache
def ring_of(probe: str, prioritised: bool) -> replay.Ring:
    """Random steps. All probes' observations are padded to one width, so that one compiled learner takes them all."""
    env: Any = envs.make(probe)

    def wide(observation: Any) -> Any:
        return jnp.pad(observation, ((0, 0), (0, WIDEST - observation.shape[1])))

    def one_step(states: Any, inputs: Any) -> Any:
        action, keys = inputs
        after, outcome = jax.vmap(env.step)(states, action, keys)
        ended = outcome.terminated | outcome.truncated
        observations = wide(jax.vmap(env.observe)(states)), wide(outcome.observation)
        ends = (outcome.terminated, outcome.truncated)
        steps = replay.Steps(observations[0], action, outcome.reward, *ends, observations[1], jnp.zeros_like(action))
        return jax.tree.map(lambda a, b: jnp.where(ended, a, b), jax.vmap(env.reset)(keys), after), steps

    keys = jax.random.split(jax.random.key(2), (STEPS, ENVS))
    actions = np.random.default_rng(3).integers(2, size=(STEPS, ENVS), dtype=np.int32)
    steps = jax.jit(lambda keys: lax.scan(one_step, jax.vmap(env.reset)(keys[0]), (actions, keys))[1])(keys)
    return filled(steps, ENVS, WIDEST, prioritised)


def learned_values(rule: str, base: str, **sections: Any) -> Callable[[str, int], Any]:
    """A function from a probe and a number of rounds to what an agent has learned: q_values of its observations."""
    sections["agent"] = {"hidden": (32,), "loss": "squared", "target_quantiles": 8, "action_quantiles": 8}
    # With its usual eps Adam's steps stay as long as ever when gradients vanish, and a network that is right wanders.
    sections["optimiser"] = {"learning_rate": RATES[base], "eps": 1e-3}
    sections["rule"] = {"alpha": 0.25, "tau": TAU}
    learner, config = learner_of(names.join(rule, base), 2, WIDEST, **sections)
    compiled = Compiled(learner, num_updates=8)

    def values(probe: str, num_rounds: int) -> Any:
        ring = ring_of(probe, config.replay.prioritised)
        state = compiled.init(jax.random.key(4))
        for key in jax.random.split(jax.random.key(5), num_rounds):
            drawn, states = compiled.draw(ring, key)
            state, losses, _ = compiled.learn(state, drawn, states, key)
            state, ring = state._replace(target=state.params), compiled.reprioritise(ring, drawn.slots, losses)
        seen = [observation for observation, _ in envs.make(probe).optimal_values(DISCOUNT)]  # type: ignore[attr-defined]
        wide = np.zeros((WIDEST, WIDEST), np.float32)
        for i, observation in enumerate(seen):
            wide[i, : len(observation)] = observation
        return np.asarray(compiled.q_values(state.params, wide))[: len(seen)]

    return values


@pytest.mark.parametrize("base", RATES)
def test_every_base_learns_the_known_values(base: str) -> None:
    # More steps would mix in the values of the policy that acted, which was random. Three are in the test below.
    values = learned_values("bellman", base, replay={"n_step": 1})
    for probe in PROBES:
        known = [q for _, q in envs.make(probe).optimal_values(DISCOUNT)]  # type: ignore[attr-defined]
        learned = values(probe, 150 if probe == "probe-chain" else 60)
        np.testing.assert_allclose(learned, known, atol=0.05, err_msg=probe)


@pytest.mark.parametrize("rule", ["al", "sail", "strsil", "munchausen"])
@pytest.mark.parametrize("base", RATES)
def test_every_base_learns_the_known_values_of_every_rule(base: str, rule: str) -> None:
    """With alpha = 1/4 the bonus of the wrong action, worth -1 beside 1, has a fixed point that is easily found."""
    values = learned_values(rule, base)
    wrong = {
        "al": -5 / 3,  # q = -1 + (q - 1) / 4
        "sail": -1.25,  # G = -1 and V = 1, and their difference is clipped at -1
        "strsil": -1.0,  # G never beats V
        "munchausen": -1.25,  # tau log pi is near q - 1, and clipped at -1
    }[rule]
    np.testing.assert_allclose(values("probe-action", 60), [[1, wrong], [wrong, 1]], atol=0.05)
    # Two equal actions: tau log pi is -tau log 2. Its bonus counts here, and the policy's entropy in the bootstrap,
    # unless three steps reach beyond the end.
    entropy = TAU * np.log(2) if rule == "munchausen" else 0.0
    last = 1 - entropy / 4
    first = DISCOUNT * (1 if "rainbow" in base else last + entropy) - entropy / 4
    np.testing.assert_allclose(values("probe-discount", 60), [[first] * 2, [last] * 2], atol=0.05)
    # One step for all: three would mix in the values of the policy that acted.
    values = learned_values(rule, base, replay={"n_step": 1}) if "rainbow" in base else values
    for probe in ("probe-constant", "probe-observation", "probe-chain"):
        learned = values(probe, 150 if probe == "probe-chain" else 60)
        if rule == "munchausen":
            np.testing.assert_allclose(learned, soft_values(probe), atol=0.05, err_msg=probe)
            continue
        # These rules widen gaps: the best action keeps its value, and the others are worth less, or as much.
        known = np.array([q for _, q in envs.make(probe).optimal_values(DISCOUNT)])  # type: ignore[attr-defined]
        np.testing.assert_allclose(learned.max(-1), known.max(-1), atol=0.05, err_msg=probe)
        assert (learned <= known + 0.05).all()
        if probe == "probe-chain":
            assert learned.argmax(-1).tolist() == known.argmax(-1).tolist()


def soft_values(probe: str) -> Any:
    """Munchausen's fixed point: q(s, a) = r + clip(tau log pi(s, a), -1, 0) / 4 + discount * soft value of s'."""
    known = [q for _, q in envs.make(probe).optimal_values(DISCOUNT)]  # type: ignore[attr-defined]
    number = len(known)
    q = np.zeros((number, 2))
    for _ in range(200):
        log_pi = q / TAU - np.logaddexp(*(q / TAU).T)[:, None]
        bonus = np.clip(TAU * log_pi, -1, 0) / 4
        soft = (np.exp(log_pi) * (q - TAU * log_pi)).sum(-1)
        if probe == "probe-chain":
            left = DISCOUNT * soft[np.maximum(np.arange(number) - 1, 0)]
            q = np.stack([left, np.append(DISCOUNT * soft[1:], 1.0)], -1) + bonus
        else:
            q = np.array(known) + bonus  # an episode of one step
    return q
