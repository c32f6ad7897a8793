"""Every setting of a run, in one frozen tree. `config.yaml` is this tree, and a flag is a key of it spelt differently.

No jax here: a wrong name or value is answered at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from sail.agents import names
from sail.envs import SETTINGS as ENV_SETTINGS
from sail.envs.settings import EnvSettings, Probability, settings
from sail.errors import BadInputError, unknown_name
from sail.rules import RULES


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


Int = Annotated[int, BeforeValidator(_no_bool)]
Count = Annotated[Int, Field(ge=1, le=2**31 - 1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DecayRate = Annotated[float, Field(ge=0, lt=1)]


@settings
class AgentSettings:
    """The base agent."""

    base: Literal["dqn"] = "dqn"
    """The base agent; with the rule's name it makes the agent's, as in sail-dqn."""
    hidden: Annotated[tuple[Count, ...], Field(min_length=1)] = (64, 64)
    """Widths of the hidden layers."""
    loss: Literal["huber", "squared"] = "huber"
    """Loss of the temporal-difference error."""
    discount: DecayRate = 0.99
    """gamma, for bootstrapping and for observed returns alike."""


@settings
class RuleSettings:
    """What is added to the reward: see sail/rules.py."""

    name: str = "sail"
    """bellman, al, sail, strsil or munchausen."""
    alpha: DecayRate = 0.9
    """Weight of the bonus."""
    clip: Annotated[float | None, Field(ge=0)] = 1.0
    """Bound of the bonus before alpha; none for no bound. Advantage Learning's default is none."""
    tau: Positive = 0.03
    """Temperature of the munchausen rule; the others do not use it."""

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise unknown_name("rule", self.name, RULES)


@settings
class ReplaySettings:
    """The replay ring."""

    capacity: Count = 40_000
    """Observations kept, over all environments of one seed."""
    n_step: Annotated[Int, Field(ge=1, le=100)] = 1
    """Rewards summed before bootstrapping; the bonus belongs to the first."""
    finished_only: bool = False
    """Sample only episodes that have ended, as the authors' code does; Alg. 1 samples them all."""
    time_limit_is_terminal: bool = False
    """Treat a cut-off episode as a death, as Dopamine does, instead of bootstrapping from its last observation."""


@settings
class AdamSettings:
    """Adam; Dopamine's numbers for Atari are learning_rate 6.25e-5 and eps 1.5e-4."""

    name: Literal["adam"] = "adam"
    learning_rate: Positive = 3e-4
    b1: DecayRate = 0.9
    b2: DecayRate = 0.999
    eps: Positive = 1e-8


@settings
class RMSPropSettings:
    """RMSProp in TensorFlow's form, with the paper's numbers."""

    name: Literal["rmsprop"] = "rmsprop"
    learning_rate: Positive = 2.5e-4
    decay: DecayRate = 0.95
    eps: Positive = 1e-5
    """Added inside the square root."""
    centered: bool = True
    """Divide by the standard deviation of the gradient instead of its root mean square."""
    initial_scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Where the second moment starts."""


OptimiserSettings = AdamSettings | RMSPropSettings
_OPTIMISERS: dict[str, Any] = {"adam": AdamSettings, "rmsprop": RMSPropSettings}


@settings
class ExplorationSettings:
    """Epsilon-greedy exploration."""

    start: Probability = 1.0
    """Epsilon until learning starts."""
    end: Probability = 0.1
    """Epsilon at the end of the decay, and from then on."""
    decay_steps: Count = 250_000
    """Steps from start to end, linearly."""


@settings
class LearningSettings:
    """How often and on what the network is updated. All periods are in agent steps."""

    num_envs: Annotated[Int, Field(ge=1, le=65_536)] = 8
    """Environments stepped together, for each seed."""
    batch_size: Annotated[Int, Field(ge=1, le=65_536)] = 32
    """Transitions in one update."""
    update_period: Annotated[Int, Field(ge=1, le=65_536)] = 4
    """Steps for each update."""
    target_period: Count = 400
    """Steps between two copies of the network to the target network."""
    starts: Count = 2_000
    """Steps before the first update."""
    max_block: Count = 256
    """Most steps taken at once between updates; fewer where the periods do not divide by it."""


@settings
class EvaluationSettings:
    """Evaluation phases: greedy but for an epsilon of their own, and nothing is learned from them."""

    period: Count = 25_000
    """Steps between two phases; each also writes a line of metrics."""
    episodes: Annotated[Int, Field(ge=1, le=100_000)] = 8
    """Episodes in a phase."""
    epsilon: Probability = 0.0
    """Epsilon while evaluating; the paper's for Atari is 0.001."""


@settings
class CheckpointSettings:
    """Checkpoints hold everything: a run killed and resumed ends in the same bits."""

    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds between two checkpoints, at the least; 0 for one after every evaluation phase."""
    keep: Annotated[Int, Field(ge=1, le=1000)] = 2
    """Newest checkpoints kept."""


@settings
class Config:
    """Everything that decides what a run computes."""

    env: EnvSettings = Field(discriminator="name")
    agent: AgentSettings = AgentSettings()
    rule: RuleSettings = RuleSettings()
    replay: ReplaySettings = ReplaySettings()
    optimiser: OptimiserSettings = Field(default=AdamSettings(), discriminator="name")
    exploration: ExplorationSettings = ExplorationSettings()
    learning: LearningSettings = LearningSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    steps: Count = 300_000
    """Agent steps to train for, for each seed."""
    seed: Annotated[Int, Field(ge=0, lt=2**31)] = 0
    """The (first) seed."""
    seeds: Annotated[Int, Field(ge=1, le=100_000)] = 1
    """How many seeds to train together: seed, seed + 1, ..."""

    @property
    def agent_name(self) -> str:
        """The paper's name for the agent, such as sail-dqn."""
        return names.join(self.rule.name, self.agent.base)

    @property
    def block_steps(self) -> int:
        """Agent steps (of one seed) taken between two rounds of updates.

        The largest number up to `learning.max_block` that divides every period, so that nothing happens in mid-block.
        """
        unit = math.lcm(self.learning.num_envs, self.learning.update_period)
        whole = math.gcd(self.steps, self.phase_steps, self.learning.target_period)
        fitting = [d for d in range(unit, min(self.learning.max_block, whole) + 1, unit) if whole % d == 0]
        return fitting[-1] if fitting else unit

    @property
    def phase_steps(self) -> int:
        """Agent steps between two evaluation phases."""
        return min(self.evaluation.period, self.steps)

    @property
    def ring_length(self) -> int:
        """Slots of the replay ring for each environment."""
        return self.replay.capacity // self.learning.num_envs


_CONFIG: TypeAdapter[Config] = TypeAdapter(Config)


def make_config(env: str, agent: str = "sail-dqn", overrides: Mapping[str, Any] | None = None) -> Config:
    """The settings of a run: the defaults, what the names imply, and then the overrides (a nested mapping)."""
    if env not in ENV_SETTINGS:
        raise unknown_name("environment", env, ENV_SETTINGS)
    rule, base = names.parse(agent)
    names_imply = {"env": {"name": env}, "agent": {"base": base}, "rule": {"name": rule}, "optimiser": {"name": "adam"}}
    tree = _merge(names_imply, overrides or {})
    if isinstance(tree["rule"], Mapping) and tree["rule"]["name"] in list(RULES):
        tree["rule"] = {"clip": RULES[tree["rule"]["name"]].default_clip, **tree["rule"]}
    return config_from_tree(tree)


def config_from_tree(tree: Mapping[str, Any]) -> Config:
    """Validates a nested mapping, such as a parsed config.yaml; one sentence says what is wrong with it."""
    try:
        config = _CONFIG.validate_python(tree)
    except ValidationError as error:
        raise BadInputError(_sentence(error)) from None
    return _aligned(config)


def config_to_tree(config: Config) -> dict[str, Any]:
    """The nested mapping of a config: what config.yaml holds."""
    tree: dict[str, Any] = _CONFIG.dump_python(config, mode="json")
    return tree


def _merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _aligned(config: Config) -> Config:
    """Steps and periods rounded up to whole updates of all environments, and the ring checked for its size."""
    unit = math.lcm(config.learning.num_envs, config.learning.update_period)

    def up(steps: int) -> int:
        return -(-steps // unit) * unit

    config = dataclasses.replace(
        config,
        steps=up(config.steps),
        learning=dataclasses.replace(config.learning, target_period=up(config.learning.target_period)),
        evaluation=dataclasses.replace(config.evaluation, period=up(config.evaluation.period)),
    )
    needed = max(2 * config.block_steps // config.learning.num_envs, config.replay.n_step + 1)
    if config.ring_length < needed:
        least = needed * config.learning.num_envs
        raise BadInputError(
            f"replay.capacity must be at least {least} for these settings, not {config.replay.capacity}."
        )
    return config


def _sentence(error: ValidationError) -> str:
    """The first problem of a validation error as one sentence, with the nearest valid name where one is wrong."""
    problem = error.errors()[0]
    loc = [str(part) for part in problem["loc"]]
    # pydantic adds the chosen member of a union to the path; it is no key of ours.
    member = loc.pop(1) if len(loc) > 1 and loc[1] in (*ENV_SETTINGS, *_OPTIMISERS) else None
    dotted = ".".join(loc)
    if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return str(unknown_name("setting", dotted, [".".join([*loc[:-1], name]) for name in _fields(loc[:-1], member)]))
    if problem["type"] == "union_tag_invalid":
        tags = problem["ctx"]["expected_tags"].replace("'", "").split(", ")
        return str(unknown_name(loc[0], str(problem["ctx"]["tag"]), tags))
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ").removeprefix("must be ")
    if "There is no" in message:
        return message
    if problem["type"] in ("dataclass_type", "model_attributes_type"):
        message = "a section of settings"
    if problem["type"] == "too_short":
        message = "a list of at least one"
    message = message.split(",")[0].rstrip(".")
    shown = "none" if problem["input"] is None else repr(problem["input"])
    return f"{dotted} must be {message}, not {shown}."


def _fields(section: list[str], member: str | None) -> list[str]:
    """The settings in a section: the environment's and the optimiser's depend on which was chosen."""
    defaults = {field.name: field.default for field in dataclasses.fields(Config)}
    chosen = {**ENV_SETTINGS, **_OPTIMISERS}.get(member or "") or type(defaults[section[0]]) if section else Config
    return [field.name for field in dataclasses.fields(chosen)]
