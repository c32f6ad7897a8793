"""The settings tree: names, defaults, round trips, alignment, and one sentence for everything that is wrong."""

import math
import subprocess
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sail import cli, envs
from sail.agents import names
from sail.config import Config, config_from_tree, config_to_tree, make_config
from sail.envs import SETTINGS as ENV_SETTINGS
from sail.errors import BadInputError
from sail.presets import PRESETS

BASES = ("dqn", "c51", "iqn", "rainbow", "full-rainbow")
RULES = ("bellman", "al", "sail", "strsil", "munchausen")
AGENTS = tuple(base if rule == "bellman" else f"{rule}-{base}" for base in BASES for rule in RULES)


def refusal(*args, preset: str | None = None, **overrides) -> str:
    """The one sentence with which a config is refused."""
    with pytest.raises(BadInputError) as caught:
        make_config(*(args or ("kdt",)), overrides=overrides, preset=preset)
    return one_sentence(caught.value)


def one_sentence(error: BadInputError) -> str:
    message = str(error)
    assert "\n" not in message and message[-1] in ".?" and message.count(". ") == 0, message
    assert error.exit_code == 2
    return message


# Defaults and round trips


@pytest.mark.parametrize("agent", [name + curious for name in AGENTS for curious in ("", "+rnd")])
@pytest.mark.parametrize("preset", [None, "paper", "dopamine", "small"])
def test_defaults_survive_a_round_trip(preset: str | None, agent: str) -> None:
    for env in (*ENV_SETTINGS, "atari:Pong", "gym:CartPole-v1"):
        config = make_config(env, agent, preset=preset)
        tree = config_to_tree(config)
        assert config_from_tree(tree) == config
        assert config_from_tree(yaml.safe_load(yaml.safe_dump(tree))) == config
        assert config.env.name == env and config.agent_name == agent


def test_unusual_settings_survive_a_round_trip() -> None:
    overrides = {
        "env": {"time_limit": 41, "timed": True, "slip": 0.125, "apple_reward": -1.5},
        "agent": {"hidden": [3, 5, 7], "loss": "squared", "discount": 0.0},
        "rule": {"alpha": 0.25, "clip": None},
        "optimiser": {"name": "rmsprop", "centered": False, "eps": 1e-12},
        "replay": {"n_step": 3, "finished_only": True, "time_limit_is_terminal": True},
        "seed": 2**31 - 1,
        "steps": 1001,
        "learning": {"num_envs": 8, "update_period": 4},
    }
    config = make_config("apple-kdt", "strsil-dqn", overrides)
    tree = config_to_tree(config)
    assert config_from_tree(yaml.safe_load(yaml.safe_dump(tree))) == config
    # What was asked for is what there is.
    for section, asked in overrides.items():
        for name, value in asked.items() if isinstance(asked, dict) else ():
            assert tree[section][name] == value, (section, name)
    assert tree["seed"] == 2**31 - 1
    assert tree["steps"] == 1200  # six blocks of 200
    assert config.agent.hidden == (3, 5, 7) and config.optimiser.name == "rmsprop"


def test_defaults_are_the_papers() -> None:
    config = make_config("kdt")
    assert config.agent_name == "sail-dqn"
    assert (config.rule.alpha, config.rule.clip, config.agent.discount, config.replay.n_step) == (0.9, 1.0, 0.99, 1)
    assert (
        not config.replay.finished_only and not config.replay.time_limit_is_terminal
    )  # Alg. 1; no death by time limit
    rmsprop = config_to_tree(make_config("kdt", overrides={"optimiser": {"name": "rmsprop"}}))["optimiser"]
    numbers = {"learning_rate": 2.5e-4, "decay": 0.95, "eps": 1e-5, "centered": True, "initial_scale": 1.0}
    assert rmsprop == {"name": "rmsprop", **numbers}


def test_a_config_cannot_be_changed() -> None:
    config = make_config("kdt")
    with pytest.raises(AttributeError):
        config.seed = 1  # type: ignore[misc]
    with pytest.raises(AttributeError):
        config.rule.alpha = 0.5  # type: ignore[misc]


def test_overrides_are_not_changed() -> None:
    overrides = {"rule": {"alpha": 0.5}}
    make_config("kdt", overrides=overrides)
    assert overrides == {"rule": {"alpha": 0.5}}


# Agents' names


def test_agent_names() -> None:
    assert sorted(names.all_names()) == sorted(AGENTS)
    assert tuple(names.bases()) == BASES
    assert names.parse("dqn") == ("bellman", "dqn", False)
    assert names.parse("sail-iqn") == ("sail", "iqn", False)
    assert names.parse("al-c51+rnd") == ("al", "c51", True)
    assert names.parse("strsil-full-rainbow") == ("strsil", "full-rainbow", False)
    parsed = [names.parse(name) for name in AGENTS]
    assert [(name.rule, name.base) for name in parsed] == [(rule, base) for base in BASES for rule in RULES]
    for name in (*AGENTS, *(f"{name}+rnd" for name in AGENTS)):
        assert names.join(*names.parse(name)) == name
        assert names.parse(name).curious == name.endswith("+rnd")


@pytest.mark.parametrize(
    "name",
    [
        "bellman-dqn",
        "sail",
        "sail-",
        "-dqn",
        "",
        "SAIL-DQN",
        "sail-sail-dqn",
        "+rnd",
        "dqn+rnd+rnd",
        "dqn+rndd",
        "sail-full",
    ],
)
def test_what_is_no_agents_name(name: str) -> None:
    with pytest.raises(BadInputError) as caught:
        names.parse(name)
    assert f"'{name}'" in one_sentence(caught.value)


def test_names_that_are_no_text_are_refused() -> None:
    assert refusal(None, "dqn") == "The environment must be a name such as kdt, not None."
    assert refusal("kdt", 3) == "The agent must be a name such as sail-dqn, not 3."


# What a name implies, and whose numbers come with it

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
    ("iqn", "dopamine", {**ADAM, "learning_rate": 6.25e-5, "eps": 1.5e-4}, None, 3),
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


@pytest.mark.parametrize(
    ("cores", "seeds", "emulators", "pool", "block"),
    [
        (16, 1, 240, 80, 80),
        (16, 2, 180, 60, 40),
        (16, 3, 120, 40, 40),
        (8, 5, 72, 24, 40),
        (16, 100, 12, 4, 40),
        (2, 1, 16, 4, 80),
        (7, 3, 4, 1, 80),
    ],
)
def test_emulators_of_a_machine(
    cores: int, seeds: int, emulators: int, pool: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many cores a seed has 240 of them, and several share out 360; three seeds have blocks of a pool each."""
    monkeypatch.setattr("sail.presets.cores", lambda: cores)
    config = make_config("atari:Pong", "sail-dqn", {"seeds": seeds})
    assert config.learning.num_envs == emulators
    assert config.learning.num_envs // config.num_pools == pool
    assert config.block_steps == block
    own = make_config("atari:Pong", "sail-dqn", {"seeds": seeds, "learning": {"num_envs": 24, "max_block": 20}})
    assert (own.learning.num_envs, own.block_steps) == (24, 20)


def test_emulators_keep_their_networks_and_nothing_else_does() -> None:
    for preset in PRESETS:
        assert make_config("atari:Pong", "iqn", preset=preset).learning.hold is None
        for env in ("kdt", "gym:CartPole-v1"):
            assert make_config(env, "iqn", preset=preset).learning.hold == 1
    assert make_config("atari:Pong", overrides={"learning": {"hold": 1}}).hold == 1
    assert make_config("gym:CartPole-v1", overrides={"learning": {"hold": 5}}).hold == 5
    held = {
        num_envs: make_config("atari:Pong", overrides={"learning": {"num_envs": num_envs}}).hold
        for num_envs in (1, 16, 120, 121, 240, 9_000)
    }
    assert held == {1: 64, 16: 64, 120: 64, 121: 63, 240: 32, 9_000: 1}
    for other in (None, 5):
        assert refusal(learning={"hold": other}) == (
            "learning.hold is for outside environments: kdt acts with the same network for a block of steps "
            "(learning.max_block)."
        )
    for wrong in (0, -1, 2.5, "never"):
        said = refusal("atari:Pong", learning={"hold": wrong})
        assert said.startswith("learning.hold must be ") and said.endswith(f"not {wrong!r}.") and "\n" not in said


@pytest.mark.parametrize(
    ("hold", "renewed"),
    [
        (1, [20, 40, 60, 80, 100, 120]),  # 8 steps: every block of 20 has seen them
        (5, [40, 80, 120]),  # 40 steps, two blocks
        (6, [60, 100]),  # 48 and 96 are in the blocks up to 60 and 100
        (15, [120]),
        (16, []),
    ],
)
def test_when_networks_are_renewed(hold: int, renewed: list[int]) -> None:
    learning = {"num_envs": 8, "max_block": 20, "target_period": 20, "hold": hold}
    config = make_config("gym:CartPole-v1", overrides={"learning": learning, "evaluation": {"period": 120}})
    assert config.block_steps == 20
    assert [step for step in range(20, 121, 20) if config.renews_at(step)] == renewed


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


# The rule's clip follows the rule, however it is chosen


@pytest.mark.parametrize(
    ("agent", "rule", "clip"),
    [
        ("dqn", {}, None),
        ("al-dqn", {}, None),
        ("sail-dqn", {}, 1.0),
        ("strsil-dqn", {}, 1.0),
        ("munchausen-dqn", {}, 1.0),
        ("sail-dqn", {"name": "al"}, None),
        ("al-dqn", {"name": "sail"}, 1.0),
        ("al-dqn", {"alpha": 0.5}, None),
        ("al-dqn", {"clip": 0.5}, 0.5),
        ("sail-dqn", {"clip": None}, None),
        ("sail-dqn", {"name": "al", "clip": 2}, 2.0),
        ("dqn", {"name": "strsil", "clip": None}, None),
        ("sail-dqn", {"clip": 0}, 0.0),
    ],
)
def test_default_clips(agent: str, rule: dict, clip: float | None) -> None:
    config = make_config("kdt", agent, {"rule": rule})
    assert config.rule.clip == clip
    assert config.rule.name == rule.get("name", names.parse(agent)[0])
    assert config.agent_name == names.join(config.rule.name, "dqn")


# Names that do not exist, with the nearest that does


@pytest.mark.parametrize(
    ("args", "overrides", "kind", "wrong", "nearest"),
    [
        (("ktd",), {}, "environment", "ktd", "kdt"),
        (("deepsea",), {}, "environment", "deepsea", "deep-sea"),
        (("probe-chian",), {}, "environment", "probe-chian", "probe-chain"),
        (("kdt", "sial-dqn"), {}, "agent", "sial-dqn", "sail-dqn"),
        (("kdt", "dqm"), {}, "agent", "dqm", "dqn"),
        (("kdt", "c15"), {}, "agent", "c15", "c51"),
        (("kdt", "sail-rainbwo"), {}, "agent", "sail-rainbwo", "sail-rainbow"),
        (("kdt", "sial-iqn+rnd"), {}, "agent", "sial-iqn+rnd", "sail-iqn"),
        (("kdt",), {"agent": {"base": "ranbow"}}, "base agent", "ranbow", "rainbow"),
        (("kdt",), {"preset": "papr"}, "preset", "papr", "paper"),
        (("atari:Pong",), {"preset": "Dopamin"}, "preset", "Dopamin", "dopamine"),
        (("kdt",), {"rule": {"name": "sial"}}, "rule", "sial", "sail"),
        (("kdt",), {"rule": {"name": "strsl"}}, "rule", "strsl", "strsil"),
        (("kdt",), {"rule": {"alhpa": 0.5}}, "setting", "rule.alhpa", "rule.alpha"),
        (("kdt",), {"env": {"slp": 0.5}}, "setting", "env.slp", "env.slip"),
        (("kdt",), {"env": {"apple_reward": 1}}, "setting", "env.apple_reward", "env.key_reward"),  # no apples here
        (("deep-sea",), {"env": {"sise": 5}}, "setting", "env.sise", "env.size"),
        (("kdt",), {"step": 5}, "setting", "step", "steps"),
        (("kdt",), {"lerning": {}}, "setting", "lerning", "learning"),
        (("kdt",), {"learning": {"num_env": 4}}, "setting", "learning.num_env", "learning.num_envs"),
        (("kdt",), {"optimiser": {"bb1": 1}}, "setting", "optimiser.bb1", "optimiser.b1"),
        (("kdt",), {"optimiser": {"name": "rmsprop", "decy": 1}}, "setting", "optimiser.decy", "optimiser.decay"),
        (("kdt",), {"optimiser": {"name": "adma"}}, "optimiser", "adma", "adam"),
        (("kdt",), {"slip": 0.1}, "setting", "slip", "env.slip"),
        (("deep-sea",), {"size": 10}, "setting", "size", "env.size"),
        (("probe-chain",), {"length": 3}, "setting", "length", "env.length"),
        (("atari:Pong",), {"sticky": 0}, "setting", "sticky", "env.sticky"),
        (("gym:CartPole-v1",), {"kwargs": {}}, "setting", "kwargs", "env.kwargs"),
        (("kdt",), {"b1": 0.5}, "setting", "b1", "optimiser.b1"),
        (("kdt",), {"optimiser": {"name": "rmsprop"}, "centered": 0}, "setting", "centered", "optimiser.centered"),
    ],
)
def test_unknown_names(args, overrides, kind: str, wrong: str, nearest: str) -> None:
    assert refusal(*args, **overrides) == f"There is no {kind} '{wrong}': did you mean '{nearest}'?"


def test_a_setting_of_another_optimiser_is_unknown() -> None:
    assert "'optimiser.b1'" in refusal(optimiser={"name": "rmsprop", "b1": 0.9})
    assert "'optimiser.centered'" in refusal(optimiser={"centered": True})


def test_a_setting_that_only_others_have_is_not_suggested() -> None:
    for env, overrides in (
        ("atari:Pong", {"slip": 0.1}),
        ("kdt", {"sticky": 0}),
        ("kdt", {"centered": True}),
        ("kdt", {"optimiser": {"name": "rmsprop"}, "b2": 0.1}),
    ):
        (name,) = overrides.keys() - {"optimiser"}
        said = refusal(env, **overrides)
        assert said.startswith(f"There is no setting '{name}': ") and f".{name}" not in said


def test_where_nothing_is_near_the_names_are_listed() -> None:
    assert refusal("zzz").startswith("There is no environment 'zzz': choose one of kdt, apple-kdt, deep-sea, ")
    assert refusal(optimiser={"name": "sgd"}) == "There is no optimiser 'sgd': choose one of adam, rmsprop."
    assert refusal(rule={"name": "x"}) == ("There is no rule 'x': choose one of al, bellman, munchausen, sail, strsil.")


def test_unknown_environments_outside_a_config() -> None:
    with pytest.raises(BadInputError) as caught:
        envs.make("ktd")
    assert one_sentence(caught.value) == "There is no environment 'ktd': did you mean 'kdt'?"


# Values that cannot be


@pytest.mark.parametrize(
    ("overrides", "begins", "shown"),
    [
        ({"rule": {"alpha": 1}}, "rule.alpha must be less than 1", "not 1."),
        ({"rule": {"alpha": -0.1}}, "rule.alpha must be greater than or equal to 0", "not -0.1."),
        ({"rule": {"alpha": math.nan}}, "rule.alpha must be", "not nan."),
        ({"rule": {"clip": -1}}, "rule.clip must be greater than or equal to 0", "not -1."),
        ({"rule": {"clip": math.nan}}, "rule.clip must be", "not nan."),
        ({"rule": {"clip": "x"}}, "rule.clip must be a valid number", "not 'x'."),
        ({"rule": {"tau": 0}}, "rule.tau must be greater than 0", "not 0."),
        ({"rule": {"tau": math.inf}}, "rule.tau must be a finite number", "not inf."),
        ({"rule": {"name": None}}, "rule.name must be a valid string", "not none."),
        ({"steps": 0}, "steps must be greater than or equal to 1", "not 0."),
        ({"steps": -5}, "steps must be greater than or equal to 1", "not -5."),
        ({"steps": 2**31}, "steps must be less than or equal to 2147483647", "not 2147483648."),
        ({"seed": "x"}, "seed must be a valid integer", "not 'x'."),
        ({"seed": 1.5}, "seed must be a valid integer", "not 1.5."),
        ({"seed": True}, "seed must be a number", "not True."),
        ({"seed": -1}, "seed must be greater than or equal to 0", "not -1."),
        ({"seed": 2**31}, "seed must be less than 2147483648", "not 2147483648."),
        ({"seeds": 0}, "seeds must be greater than or equal to 1", "not 0."),
        ({"learning": {"num_envs": True}}, "learning.num_envs must be a number", "not True."),
        ({"learning": {"batch_size": 0}}, "learning.batch_size must be greater than or equal to 1", "not 0."),
        ({"learning": None}, "learning must be a section of settings", "not none."),
        ({"rule": "al"}, "rule must be a section of settings", "not 'al'."),
        ({"rule": {"name": ["al"]}}, "rule.name must be a valid string", "not ['al']."),
        ({"agent": {"hidden": [64, 0]}}, "agent.hidden.1 must be greater than or equal to 1", "not 0."),
        ({"agent": {"hidden": []}}, "agent.hidden must be a list of at least one", "not []."),
        ({"agent": {"loss": "hubr"}}, "agent.loss must be 'huber' or 'squared'", "not 'hubr'."),
        ({"replay": {"frames": "gpu"}}, "replay.frames must be 'auto', 'device' or 'host'", "not 'gpu'."),
        ({"agent": {"discount": 1}}, "agent.discount must be less than 1", "not 1."),
        ({"exploration": {"end": 1.5}}, "exploration.end must be less than or equal to 1", "not 1.5."),
        ({"env": {"slip": 2}}, "env.slip must be less than or equal to 1", "not 2."),
        ({"env": {"time_limit": 0}}, "env.time_limit must be greater than or equal to 1", "not 0."),
        ({"env": {"key_reward": math.inf}}, "env.key_reward must be a finite number", "not inf."),
        ({"optimiser": {"learning_rate": 0}}, "optimiser.learning_rate must be greater than 0", "not 0."),
        ({"optimiser": {"name": "rmsprop", "decay": 1}}, "optimiser.decay must be less than 1", "not 1."),
        ({"replay": {"finished_only": "maybe"}}, "replay.finished_only must be a valid boolean", "not 'maybe'."),
        ({"replay": {"n_step": 0}}, "replay.n_step must be greater than or equal to 1", "not 0."),
        (
            {"replay": {"priority_exponent": 1.5}},
            "replay.priority_exponent must be less than or equal to 1",
            "not 1.5.",
        ),
        ({"replay": {"priority_exponent": -0.1}}, "replay.priority_exponent must be greater than or", "not -0.1."),
        (
            {"replay": {"importance_exponent": 2}},
            "replay.importance_exponent must be less than or equal to 1",
            "not 2.",
        ),
        ({"agent": {"atoms": 1}}, "agent.atoms must be greater than or equal to 2", "not 1."),
        ({"agent": {"vmin": 1, "vmax": 1}}, "agent.vmin must be below agent.vmax", "not 1 and 1."),
        ({"agent": {"vmin": 20}}, "agent.vmin must be below agent.vmax", "not 20 and 10."),
        ({"agent": {"vmax": math.nan}}, "agent.vmax must be a finite number", "not nan."),
        ({"agent": {"quantiles": 0}}, "agent.quantiles must be greater than or equal to 1", "not 0."),
        ({"agent": {"noisy": True}}, "agent.noisy explores by itself: set exploration.start", "not to 1 and 0.1."),
        ({"rnd": {"scale": -0.5}}, "rnd.scale must be greater than or equal to 0", "not -0.5."),
        ({"rnd": {"returns": "all"}}, "rnd.returns must be 'extrinsic' or 'total'", "not 'all'."),
        ({"checkpoint": {"seconds": -1}}, "checkpoint.seconds must be greater than or equal to 0", "not -1."),
    ],
)
def test_wrong_values(overrides, begins: str, shown: str) -> None:
    message = refusal(**overrides)
    assert message.startswith(begins) and message.endswith(shown)


def test_parts_that_do_not_go_together() -> None:
    said = refusal("kdt", "munchausen-dqn", agent={"double": True})
    assert said.startswith("agent.double chooses a next action, and the munchausen rule averages over all of them")
    assert refusal("kdt", "full-rainbow", agent={"noisy": False}).startswith(
        "Without agent.noisy full-rainbow does not"
    )
    assert refusal("kdt", "full-rainbow", exploration={"end": 0.1}).endswith("not to 0 and 0.1.")


def test_a_base_or_a_rule_set_by_itself_is_as_if_it_were_in_the_name() -> None:
    for agent, base, rule in [("sail-dqn", "full-rainbow", "munchausen"), ("munchausen-full-rainbow", "iqn", "al")]:
        changed = make_config("kdt", agent, {"agent": {"base": base}, "rule": {"name": rule}})
        assert changed == make_config("kdt", f"{rule}-{base}")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--agent", "full-rainbow", "--exploration.end", "0.1"], "agent.noisy explores by itself"),
        (["--agent", "rainbow", "--replay.priority-exponent", "1.5"], "replay.priority_exponent must be less than"),
        (["--agent", "c51", "--agent.vmin", "10"], "agent.vmin must be below agent.vmax"),
        (["--preset", "papr"], "did you mean 'paper'?"),
    ],
)
@pytest.mark.parametrize("command", ["train", "bench"])
def test_the_command_says_it_in_the_same_sentence(command: str, flags: list[str], said: str, capsys) -> None:
    assert cli.main([command, "kdt", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("sail: ") and err.count("\n") == 1 and said in err


@pytest.mark.parametrize(
    "tree", [{}, {"env": {}}, {"env": None}, {"env": "kdt"}, None, [], "kdt", {"env": {"name": 3}}]
)
def test_trees_that_are_no_config(tree) -> None:
    with pytest.raises(BadInputError) as caught:
        config_from_tree(tree)
    one_sentence(caught.value)


EIGHT = {"num_envs": 8, "update_period": 4, "target_period": 2_000, "max_block": 256}


@pytest.mark.parametrize(
    ("learning", "n_step", "least"),
    [
        # The block is the largest multiple of 8 up to 256 that divides 500,000, 25,000 and 2,000: 200. Two must fit.
        (EIGHT, 1, 400),
        # 100 rewards and the observation after them, in each of 8 environments.
        (EIGHT, 100, 808),
        # One environment, an update at every step, and blocks of one: two slots.
        ({"num_envs": 1, "update_period": 1, "max_block": 1}, 1, 2),
    ],
)
def test_the_least_capacity(learning, n_step: int, least: int) -> None:
    def with_capacity(capacity: int) -> dict:
        steps = {"steps": 500_000, "evaluation": {"period": 25_000}}
        return {**steps, "learning": learning, "replay": {"n_step": n_step, "capacity": capacity}}

    assert make_config("kdt", overrides=with_capacity(least)).replay.capacity == least
    said = refusal(**with_capacity(least - 1))
    assert said.startswith(f"replay.capacity must be at least {least} for these settings (")
    assert said.endswith(f", not {least - 1}.")


# Steps and periods in whole updates, and blocks that fit into all of them


def test_rounding_by_hand() -> None:
    # 5 environments and an update every 3 steps: whole updates of all come every 15 steps.
    config = make_config(
        "kdt",
        overrides={
            "steps": 1001,
            "learning": {"num_envs": 5, "update_period": 3, "target_period": 100, "starts": 7},
            "evaluation": {"period": 301},
        },
    )
    assert (config.steps, config.learning.target_period, config.evaluation.period) == (1050, 105, 315)
    assert config.learning.starts == 7
    assert config.phase_steps == 315
    assert config.block_steps == 105  # gcd(315, 105) = 105 = 7 * 15, and 1001 steps are ten blocks at the least
    short = make_config("kdt", overrides={"steps": 1, "learning": EIGHT, "replay": {"capacity": 4_001}})
    assert short.ring_length == 500  # 8 * 500 = 4,000
    assert (short.steps, short.phase_steps, short.block_steps) == (200, 200, 200)


@st.composite
def schedules(draw) -> dict:
    def number(high: int) -> int:
        # Round numbers, as users write them, and any others.
        return draw(st.one_of(st.integers(1, high), st.integers(1, max(high // 100, 1)).map(lambda n: 100 * n)))

    return {
        "steps": number(100_000),
        "learning": {
            "num_envs": draw(st.integers(1, 64)),
            "update_period": draw(st.integers(1, 32)),
            "target_period": number(20_000),
            "max_block": number(2_000),
        },
        "evaluation": {"period": number(30_000)},
        "replay": {"capacity": 10_000_000},
    }


@settings(deadline=None, derandomize=True, max_examples=300)
@given(schedules())
def test_blocks_fit_into_everything(schedule) -> None:
    config = make_config("kdt", overrides=schedule)
    learning, block = config.learning, config.block_steps
    unit = math.lcm(learning.num_envs, learning.update_period)
    # Rounded up, and by less than one unit.
    for asked, given_ in [
        (schedule["learning"]["target_period"], learning.target_period),
        (schedule["evaluation"]["period"], config.evaluation.period),
    ]:
        assert given_ % unit == 0 and 0 <= given_ - asked < unit
    # Steps become whole blocks.
    assert config.steps % block == 0 and 0 <= config.steps - schedule["steps"] < block
    assert config.phase_steps == min(config.evaluation.period, config.steps)
    assert config.phase_steps % block == 0

    def fits(block: int) -> bool:
        whole = (config.evaluation.period, learning.target_period)
        return block % unit == 0 and all(steps % block == 0 for steps in whole)

    assert fits(block)
    assert block % learning.num_envs == 0 and block % learning.update_period == 0
    assert block <= max(learning.max_block, unit)
    assert not any(fits(larger) for larger in range(block + 1, learning.max_block + 1))
    # Aligned once is aligned.
    assert config_from_tree(config_to_tree(config)) == config


def test_a_config_says_what_it_is() -> None:
    config = make_config("deep-sea", "munchausen-dqn", {"rule": {"name": "al"}})
    assert isinstance(config, Config) and config.agent_name == "al-dqn"


# What config.py does not do yet, and should


def _too_many_steps() -> None:
    make_config("kdt", overrides={"steps": 2**31 - 1})  # valid, but not once it is rounded up to whole updates


def _an_environment_with_a_yes_for_a_number() -> None:
    make_config("kdt", overrides={"env": {"time_limit": True}})


def _an_unknown_setting_outside_a_config() -> None:
    envs.make("kdt", slp=0.1)


@pytest.mark.parametrize(
    "call",
    [
        _too_many_steps,
        _an_environment_with_a_yes_for_a_number,
        _an_unknown_setting_outside_a_config,
    ],
)
def test_also_refused_in_one_sentence(call) -> None:
    with pytest.raises(BadInputError) as caught:
        call()
    one_sentence(caught.value)


def test_config_does_not_import_jax() -> None:
    code = (
        "import sys; from sail.config import make_config, config_to_tree; config_to_tree(make_config('kdt'));"
        "import sail.envs; assert 'jax' not in sys.modules, 'jax was imported'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_how_often_the_predictor_learns() -> None:
    assert [make_config(env, "iqn+rnd").rnd.period for env in ("atari:Pong", "kdt")] == [4, 1]
    with pytest.raises(BadInputError, match=r"rnd\.period"):
        make_config("kdt", "iqn+rnd", {"rnd": {"period": 0}})
