"""Every base agent on the one learner: against an independent numpy implementation, bit for bit, and on probes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

from sail import envs, replay
from sail.config import Config, make_config
from sail.training.host import HostProgram
from sail.training.learner import LEARNING, Learner, LearnerState
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


# One update, in numpy and float64 -------------------------------------------------------------------------------------


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def numpy_head(head: Any, x: np.ndarray) -> np.ndarray:
    def stream(layers: Any) -> np.ndarray:
        return dense(layers.out, np.maximum(dense(layers.hidden, x), 0))

    advantage = stream(head.advantage).reshape(*x.shape[:-1], ACTIONS, -1)
    if head.value is None:
        return advantage
    return stream(head.value)[..., None, :] + advantage - advantage.mean(-2, keepdims=True)


def softmax(x: np.ndarray) -> np.ndarray:
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def distributions(params: Any, agent: Any, x: np.ndarray, taus: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a network says, for every base alike: values [B, A, S] and their probabilities."""
    for layer in params.torso.layers:
        x = np.maximum(dense(layer, x), 0)
    if hasattr(agent, "cosines"):
        cosines = np.cos(np.pi * np.arange(1, agent.cosines + 1) * np.asarray(taus, np.float64)[..., None])
        embedded = np.maximum(dense(params.embedding, cosines), 0)
        values = numpy_head(params.head, x[:, None] * embedded)[..., 0].swapaxes(1, 2)
        return values, np.full(values.shape, 1 / values.shape[-1])
    numbers = numpy_head(params.head, x)
    if hasattr(agent, "atoms"):
        return np.broadcast_to(np.linspace(agent.vmin, agent.vmax, agent.atoms), numbers.shape), softmax(numbers)
    return numbers, np.ones(numbers.shape)


def projected(atoms: np.ndarray, probabilities: np.ndarray, agent: Any) -> np.ndarray:
    """Atom by atom: to the neighbour below and the neighbour above (Alg. 1 of Bellemare et al., 2017)."""
    result = np.zeros(agent.atoms)
    for atom, probability in zip(atoms, probabilities, strict=True):
        place = (np.clip(atom, agent.vmin, agent.vmax) - agent.vmin) / (agent.vmax - agent.vmin) * (agent.atoms - 1)
        below = int(np.floor(place))
        result[below] += probability * (below + 1 - place)
        if place > below:
            result[below + 1] += probability * (place - below)
    return result


def fractions(agent: Any, key: Any) -> dict[str, np.ndarray]:
    """The fractions that an update of IQN draws from this key: nothing here but the order of its splits."""

    def uniform(key: Any, number: int) -> np.ndarray:
        return np.asarray(jax.random.uniform(jax.random.split(key)[0], (BATCH, number)))

    look_key, loss_key = jax.random.split(jax.random.fold_in(key, LEARNING))
    here, after = jax.random.split(jax.random.split(look_key)[0])
    loss_key, choice_key = jax.random.split(jax.random.split(loss_key, 1)[0])
    return {
        "here": uniform(here, agent.action_quantiles),
        "after": uniform(after, agent.target_quantiles + agent.action_quantiles),
        "loss": uniform(loss_key, agent.quantiles),
        "choice": uniform(choice_key, agent.action_quantiles),
    }


def transition(ring: Any, row: int, slot: int, n_step: int) -> tuple[float, float, np.ndarray]:
    """Reward, discount and next observation of one transition, step by step along the ring."""
    reward = 0.0
    for step in range(n_step):
        reward += DISCOUNT**step * float(ring.reward[row, slot + step])
        end = ring.end[row, slot + step]
        if end != replay.GOES_ON:
            break
    left = 0.0 if end == replay.TERMINATED else DISCOUNT ** (step + 1)
    return reward, left, ring.observation[row, slot + step + 1].astype(np.float64)


def expected_update(learner: Learner, state: LearnerState, ring: Any, drawn: Any, key: Any) -> Any:
    """The loss of each transition, its slope on what the head says [B, A, numbers], and some of the way there."""
    agent: Any = learner.agent
    ring, drawn = jax.tree.map(np.asarray, (ring, drawn))
    row, slot, action, i = drawn.slots.row, drawn.slots.slot, drawn.batch.action, np.arange(BATCH)
    n_step = learner.sampling.n_step
    steps = [transition(ring, *at, n_step) for at in zip(row, slot, strict=True)]
    reward, left, after = (np.array(column) for column in zip(*steps, strict=True))
    x, g = ring.observation[row, slot].astype(np.float64), ring.returns[row, slot].astype(np.float64)
    taus = fractions(agent, key) if hasattr(agent, "cosines") else dict.fromkeys(("here", "after", "loss", "choice"))

    def q_values(params: Any, x: np.ndarray, which: str) -> np.ndarray:
        values, probabilities = distributions(params, agent, x, taus[which])
        return (values * probabilities).sum(-1)

    # The rule's bonus.
    q = q_values(state.target, x, "here")
    best, taken = q.max(1), q[i, action]
    policy_here = softmax(q / TAU)[i, action]
    bonus = {
        "bellman": np.zeros(BATCH),
        "sail": ALPHA * np.clip(np.maximum(g, taken) - best, -1, 1),
        "munchausen": ALPHA * np.clip(TAU * np.log(policy_here), -1, 0),
    }[learner.rule.name]

    # The target: a distribution over returns, shifted by the bonus.
    values, probabilities = distributions(state.target, agent, after, taus["after"])
    q_after = (values * probabilities).sum(-1)
    if hasattr(agent, "cosines"):
        values, others = np.split(values, [agent.target_quantiles], axis=-1)
        probabilities, q_after = np.full(values.shape, 1 / agent.target_quantiles), others.mean(-1)
    choice = (q_values(state.params, after, "choice") if agent.double else q_after).argmax(1)
    if learner.rule.name == "munchausen":
        policy = softmax(q_after / TAU)[..., None]
        values = values - TAU * np.log(policy)
        if hasattr(agent, "atoms"):  # a mixture: each action's atoms by themselves
            values, probabilities = values.reshape(BATCH, -1), (policy * probabilities).reshape(BATCH, -1)
        else:
            values, probabilities = (policy * values).sum(1), probabilities[:, 0]
    else:
        values, probabilities = values[i, choice], probabilities[i, choice]
    values = (reward + bonus)[:, None] + left[:, None] * values

    # The loss, and how it changes with what the online network says about the action taken.
    said, said_probabilities = (x[i, action] for x in distributions(state.params, agent, x, taus["loss"]))
    if hasattr(agent, "atoms"):
        target = np.array([projected(*one, agent) for one in zip(values, probabilities, strict=True)])
        losses, slope = -(target * np.log(said_probabilities)).sum(1), said_probabilities - target
    else:
        error = values[:, None, :] - said[..., None]
        below = np.abs((taus["loss"][..., None] if hasattr(agent, "cosines") else 0) - (error < 0))
        weight = below if hasattr(agent, "cosines") else np.ones(error.shape)
        huber = np.where(np.abs(error) <= 1, 0.5 * error**2, np.abs(error) - 0.5)
        losses = (weight * huber).mean(2).sum(1)
        slope = -(weight * np.clip(error, -1, 1)).mean(2).sum(1)[:, None]
    slopes = np.zeros((BATCH, ACTIONS, slope.shape[1]))
    slopes[i, action] = slope
    if agent.dueling:
        slopes -= slopes.mean(1, keepdims=True)
    return losses, slopes, bonus, q_after.argmax(1) != choice


def some_ring(prioritised: bool = False) -> replay.Ring:
    """Random steps with short episodes: some that died, some cut off, some that still run."""
    random, shape = np.random.default_rng(0), (100, 4)
    end = random.random(shape)
    steps = replay.Steps(
        observation=jnp.array(random.normal(size=(*shape, WIDTH)), jnp.float32),
        action=jnp.array(random.integers(ACTIONS, size=shape), jnp.int32),
        reward=jnp.array(random.normal(size=shape) / 2, jnp.float32),
        terminated=jnp.array(end < 0.04),
        truncated=jnp.array(end > 0.96),
        next_observation=jnp.array(random.normal(size=(*shape, WIDTH)), jnp.float32),
        age=jnp.zeros(shape, jnp.int32),
    )
    ring = replay.extend(replay.init((WIDTH,), jnp.float32, 4, 200, prioritised=prioritised), steps)
    if ring.priority is not None:
        ring = ring._replace(priority=ring.priority * jnp.array(random.lognormal(size=(4, 200)), jnp.float32))
    return replay.fill_returns(ring, DISCOUNT)


def learner_of(name: str, num_actions: int, width: int, **sections: Any) -> tuple[Learner, Config]:
    agent, changes = {**SIZES, **sections.pop("agent", {})}, {"learning": {"batch_size": BATCH}, **sections}
    config = make_config("kdt", name, {"rule": {"alpha": ALPHA, "tau": TAU}, "agent": agent, **changes})
    return make_learner(config, make_agent(config, (width,), jnp.float32, num_actions)), config


def before_an_update(name: str, **sections: Any) -> tuple[Learner, LearnerState]:
    """A learner whose online and target networks are strangers, and whose steps are its gradients."""
    learner, _ = learner_of(name, ACTIONS, WIDTH, **sections)
    learner = dataclasses.replace(learner, optimiser=optax.sgd(RATE))
    state = learner.init(jax.random.key(1))
    return learner, state._replace(target=learner.init(jax.random.key(2)).params)


def drawn_from(ring: replay.Ring, learner: Learner, key: Any) -> tuple[Any, Any]:
    """The transitions of one update, and their states."""
    drawn = learner.draw(ring, key, 1)
    return drawn, replay.gather_frames(ring.observation, drawn.places)


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
    drawn, states = drawn_from(ring, learner, key)
    after, losses, diagnostics = jax.jit(learner.learn, static_argnums=4)(state, drawn, states, key, 1)
    expected, slopes, bonus, disagree = expected_update(learner, state, ring, drawn, key)
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(diagnostics.bonus, bonus.mean(), rtol=1e-4, atol=1e-6)
    # The gradient on the biases of the head is that of what it says.
    old, new = (np.asarray(params.head.advantage.out.bias, np.float64) for params in (state.params, after.params))
    np.testing.assert_allclose(new - old, -RATE * slopes.mean(0).ravel(), rtol=1e-3, atol=1e-6)
    # The case must not be trivial: bonuses on both sides of the clip, ends of all kinds, choices that matter.
    assert np.abs(slopes.mean(0)).max() > 1e-3 and expected.std() > 1e-3
    assert ("-" in name) == bool(np.abs(bonus).max() > 0.05)
    left = np.asarray(drawn.batch.discount)
    assert (left == 0).any() and np.isclose(left, DISCOUNT**n_step).any()
    assert disagree.mean() > 0.2 if parts.get("double") else not disagree.any()


# Prioritised replay ---------------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_importance_weighted_mean_loss() -> None:
    learner, state = before_an_update("sail-rainbow")
    ring, key = some_ring(prioritised=True), jax.random.key(3)
    drawn, _ = drawn_from(ring, learner, key)
    after, _, diagnostics = jax.jit(learner.update, static_argnums=3)(state, ring, key, 1)
    losses, slopes, _, _ = expected_update(learner, state, ring, drawn, key)

    # (N P(i))^-0.5 over its maximum, with N and P from the whole ring.
    may = np.asarray(replay.eligible(ring, n_step=3))
    priority = np.asarray(ring.priority, np.float64)
    chance = priority[np.asarray(drawn.slots.row), np.asarray(drawn.slots.slot)] / priority[may].sum()
    weight = (may.sum() * chance) ** -0.5
    weight /= weight.max()
    assert weight.min() < 0.5, "the weights must matter"
    old, new = (np.asarray(params.head.advantage.out.bias, np.float64) for params in (state.params, after.params))
    gradient = (weight[:, None, None] * slopes).mean(0).ravel()
    np.testing.assert_allclose(new - old, -RATE * gradient, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(diagnostics.loss, losses.mean(), rtol=1e-4)


def test_after_a_round_priorities_are_the_roots_of_its_losses() -> None:
    learner, state = before_an_update("sail-rainbow")
    ring, key, num_updates = some_ring(prioritised=True), jax.random.key(4), 6

    @jax.jit
    def both(state: LearnerState, ring: Any) -> Any:
        drawn = learner.draw(ring, key, num_updates)
        states = replay.gather_frames(ring.observation, drawn.places)
        losses = learner.learn(state, drawn, states, key, num_updates)[1]
        return drawn.slots, losses, learner.update(state, ring, key, num_updates)[1]

    slots, losses, changed = both(state, ring)
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
        overrides = {"steps": 600, "agent": {"hidden": (16,)}, "replay": {"capacity": 600}, "learning": learning}
        program = HostProgram(make_config("gym:CartPole-v1", name, {**overrides, "rnd": rnd}))
        try:
            return program.advance(program.init(), 0, 600).state
        finally:
            program.close()

    without, curious = played("sail-dqn"), played("sail-dqn+rnd", scale=0.0)
    assert_same_bits(without.learner, curious.learner._replace(curiosity=None))
    assert_same_bits(without.ring, curious.ring._replace(intrinsic=None))
    assert np.asarray(curious.learner.curiosity.errors.number)[0] == 600


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


@cache
def experience(probe: str) -> replay.Steps:
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
    actions = jnp.array(np.random.default_rng(3).integers(2, size=(STEPS, ENVS)), jnp.int32)
    return jax.jit(lambda states: lax.scan(one_step, states, (actions, keys))[1])(jax.vmap(env.reset)(keys[0]))


def learned_values(name: str, rate: float, **sections: Any) -> Callable[[str, int], Any]:
    """A function from a probe and a number of rounds to what an agent has learned: q_values of its observations."""
    rule = {"alpha": 0.25, "tau": TAU}
    agent = {"hidden": (32,), "loss": "squared", "target_quantiles": 8, "action_quantiles": 8}
    optimiser = {"learning_rate": rate}
    learner, config = learner_of(name, 2, WIDEST, agent=agent, rule=rule, optimiser=optimiser, **sections)

    @jax.jit
    def learn(ring: replay.Ring, num_rounds: int) -> Any:
        def one_round(i: Any, carry: Any) -> Any:
            state, ring, _ = learner.update(*carry, jax.random.fold_in(jax.random.key(5), i), 8)
            return state._replace(target=state.params), ring

        return lax.fori_loop(0, num_rounds, one_round, (learner.init(jax.random.key(4)), ring))[0].params

    def values(probe: str, num_rounds: int) -> Any:
        ring = replay.init((WIDEST,), jnp.float32, ENVS, 2 * STEPS, prioritised=config.replay.prioritised)
        ring = replay.fill_returns(replay.extend(ring, experience(probe)), DISCOUNT)
        seen = [observation for observation, _ in envs.make(probe).optimal_values(DISCOUNT)]  # type: ignore[attr-defined]
        wide = jnp.array([observation + [0.0] * (WIDEST - len(observation)) for observation in seen])
        return np.asarray(learner.agent.q_values(learn(ring, num_rounds), wide))

    return values


@pytest.mark.parametrize("base", ["dqn", "c51", "iqn", "rainbow", "full-rainbow"])
def test_every_base_learns_the_known_values(base: str) -> None:
    # More steps would mix in the values of the policy that acted, which was random. Three are in the test below.
    values = learned_values(base, 5e-3, replay={"n_step": 1})
    for probe in PROBES:
        known = [q for _, q in envs.make(probe).optimal_values(DISCOUNT)]  # type: ignore[attr-defined]
        learned = values(probe, 200 if probe == "probe-chain" else 100)
        np.testing.assert_allclose(learned, known, atol=0.05, err_msg=probe)


@pytest.mark.parametrize("rule", ["al", "sail", "strsil", "munchausen"])
@pytest.mark.parametrize("base", ["dqn", "c51", "iqn", "rainbow", "full-rainbow"])
def test_every_base_learns_the_known_values_of_every_rule(base: str, rule: str) -> None:
    """With alpha = 1/4 the bonus of the wrong action, worth -1 beside 1, has a fixed point that is easily found."""
    values = learned_values(f"{rule}-{base}", 1e-2)
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
