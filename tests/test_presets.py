"""What names and presets imply: the numbers that the agents were published with, and which of them yield to a user."""

import pytest

from sail.agents import names
from sail.config import config_to_tree, make_config

BASES = ("dqn", "c51", "iqn", "rainbow", "full-rainbow")
RULES = ("bellman", "al", "sail", "strsil", "munchausen")
ADAM = {"name": "adam", "b1": 0.9, "b2": 0.999}
RMSPROP = {"name": "rmsprop", "learning_rate": 2.5e-4, "decay": 0.95, "eps": 1e-5, "centered": True}
# Base, preset, optimiser, loss, n. Dopamine's gin files, and the appendices of the papers that used them.
PUBLISHED = [
    ("dqn", "paper", {**RMSPROP, "initial_scale": 1.0}, "huber", 1),
    ("c51", "paper", {**ADAM, "learning_rate": 2.5e-4, "eps": 3.125e-4}, None, 1),
    ("iqn", "paper", {**ADAM, "learning_rate": 5e-5, "eps": 3.125e-4}, None, 1),
    ("rainbow", "paper", {**ADAM, "learning_rate": 6.25e-5, "eps": 1.5e-4}, None, 3),
    ("full-rainbow", "paper", {**ADAM, "learning_rate": 6.25e-5, "eps": 1.5e-4}, None, 3),
    ("dqn", "dopamine", {**ADAM, "learning_rate": 6.25e-5, "eps": 1.5e-4}, "squared", 1),
    ("c51", "dopamine", {**ADAM, "learning_rate": 2.5e-4, "eps": 3.125e-4}, None, 1),
    ("iqn", "dopamine", {**ADAM, "learning_rate": 5e-5, "eps": 3.125e-4}, None, 3),
    ("rainbow", "dopamine", {**ADAM, "learning_rate": 6.25e-5, "eps": 1.5e-4}, None, 3),
    ("full-rainbow", "dopamine", {**ADAM, "learning_rate": 6.25e-5, "eps": 1.5e-4}, None, 3),
]


@pytest.mark.parametrize(("base", "preset", "optimiser", "loss", "n_step"), PUBLISHED)
@pytest.mark.parametrize("rule", RULES)
def test_atari_has_the_published_numbers(base: str, preset: str, optimiser, loss, n_step: int, rule: str) -> None:
    config = make_config("atari:Pong", names.join(rule, base), preset=preset)
    assert config_to_tree(config)["optimiser"] == optimiser
    assert loss in (None, config.agent.loss)
    # What all of them share; 50M steps of 4 frames are the 200M frames of the papers.
    learning, replay, exploration = config.learning, config.replay, config.exploration
    assert (config.agent.discount, replay.capacity, learning.batch_size) == (0.99, 1_000_000, 32)
    assert (learning.starts, learning.update_period, learning.target_period) == (20_000, 4, 8_000)
    assert (config.agent.network, config.agent.hidden) == ("dopamine", (512,))
    assert (config.steps, config.evaluation.epsilon) == (50_000_000, 0.001)
    assert (config.rule.name, config.rule.alpha) == (rule, 0.9)
    # What makes a base agent what it is.
    assert replay.n_step == n_step
    assert replay.prioritised == (base in ("rainbow", "full-rainbow"))
    assert (replay.priority_exponent, replay.importance_exponent) == (0.5, 0.5)
    full = base == "full-rainbow"
    assert (exploration.start, exploration.end) == ((0.0, 0.0) if full else (1.0, 0.01))
    assert exploration.decay_steps == 250_000
    assert (config.agent.dueling, config.agent.noisy) == (full, full)
    assert config.agent.double == (full and rule != "munchausen")  # which averages over next actions instead
    assert (config.agent.atoms, config.agent.vmin, config.agent.vmax) == (51, -10, 10)
    quantiles = (config.agent.quantiles, config.agent.target_quantiles, config.agent.action_quantiles)
    assert (*quantiles, config.agent.cosines, config.agent.kappa) == (64, 64, 32, 64, 1.0)


def test_presets_by_default() -> None:
    for base in BASES:
        assert make_config("atari:Pong", base) == make_config("atari:Pong", base, preset="paper")
        for env in ("kdt", "gym:CartPole-v1"):
            assert make_config(env, base) == make_config(env, base, preset="small")
        small = config_to_tree(make_config("kdt", base))["optimiser"]
        assert small == {**ADAM, "learning_rate": 3e-4, "eps": 1e-8}
    assert make_config("kdt", "iqn", preset="paper").optimiser.learning_rate == 5e-5
    assert not make_config("kdt", "dqn").rnd.enabled and make_config("kdt", "dqn+rnd").rnd.enabled


def test_the_numbers_of_an_optimiser_go_with_its_name() -> None:
    def optimiser(**chosen) -> dict:
        return config_to_tree(make_config("atari:Pong", "iqn", {"optimiser": chosen}))["optimiser"]

    assert optimiser(name="adam") == {**ADAM, "learning_rate": 3e-4, "eps": 1e-8}
    assert optimiser(name="rmsprop") == {**RMSPROP, "initial_scale": 1.0}
    assert optimiser(name="adam", eps=1e-3) == {**ADAM, "learning_rate": 3e-4, "eps": 1e-3}
    assert optimiser(eps=1e-3) == {**ADAM, "learning_rate": 5e-5, "eps": 1e-3}  # no name: IQN's are kept
