"""Every setting of a run, in one frozen tree. `config.yaml` is this tree, and a flag is a key of it spelt differently.

No jax here: a wrong name or value is answered at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from sail import rules
from sail.agents import names
from sail.envs import KINDS, EnvSettings, HostEnvSettings, kind_of, settings_class
from sail.envs import SETTINGS as ENV_SETTINGS
from sail.envs.atari_settings import AtariSettings
from sail.envs.settings import Int, JaxEnvSettings, settings
from sail.errors import BadInputError, invalid_settings, unknown_name
from sail.presets import HOLD, HOLD_TOGETHER, PRESETS, implied
from sail.settings import (
    OPTIMISERS,
    AdamSettings,
    AgentSettings,
    CheckpointSettings,
    Count,
    EvaluationSettings,
    ExplorationSettings,
    LearningSettings,
    OptimiserSettings,
    ReplaySettings,
    RNDSettings,
    RuleSettings,
)


@settings
class Config:
    """Everything that decides what a run computes."""

    env: EnvSettings
    agent: AgentSettings = AgentSettings()
    rule: RuleSettings = RuleSettings()
    replay: ReplaySettings = ReplaySettings()
    rnd: RNDSettings = RNDSettings()
    optimiser: OptimiserSettings = Field(default=AdamSettings(), discriminator="name")
    exploration: ExplorationSettings = ExplorationSettings()
    learning: LearningSettings = LearningSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    steps: Count = 300_000
    """Agent steps to train for, for each seed; rounded up to whole blocks (see learning.max_block)."""
    seed: Annotated[Int, Field(ge=0, lt=2**31)] = 0
    """The (first) seed."""
    seeds: Annotated[Int, Field(ge=1, le=100_000)] = 1
    """How many seeds to train together: seed, seed + 1, ..."""

    @property
    def agent_name(self) -> str:
        """The paper's name for the agent, such as sail-dqn."""
        return names.join(self.rule.name, self.agent.base, self.rnd.enabled)

    @property
    def on_device(self) -> bool:
        """Whether the environment runs inside the compiled program."""
        return not isinstance(self.env, tuple(KINDS.values()))

    @property
    def jax_env(self) -> JaxEnvSettings:
        """The environment's settings, where it runs inside the compiled program."""
        return cast(JaxEnvSettings, self.env)

    @property
    def host_env(self) -> HostEnvSettings:
        """The environment's settings, where it does not."""
        return cast(HostEnvSettings, self.env)

    @property
    def stack(self) -> int:
        """Frames that make up what the agent sees."""
        return getattr(self.env, "stack", 1)

    @property
    def step_unit(self) -> int:
        """What every period is a multiple of: whole updates, and whole rounds of the environments that run in step."""
        period = self.learning.update_period
        return math.lcm(self.learning.num_envs, period) if self.on_device else period

    @property
    def num_pools(self) -> int:
        """Pools of outside environments that take turns."""
        if self.learning.num_pools or not isinstance(self.env, AtariSettings):
            return self.learning.num_pools or 1
        return next(number for number in (3, 4, 2, 1) if self.learning.num_envs % number == 0)

    @property
    def block_steps(self) -> int:
        """Agent steps (of one seed) taken between two rounds of updates.

        The largest number up to `learning.max_block` that divides every period, so that nothing happens in mid-block.
        """
        unit = self.step_unit
        whole = math.gcd(self.evaluation.period, self.learning.target_period)
        fitting = [d for d in range(unit, min(self.learning.max_block, whole) + 1, unit) if whole % d == 0]
        return fitting[-1] if fitting else unit

    @property
    def hold(self) -> int:
        """Steps that each outside environment takes with the same network, at the least."""
        return self.learning.hold or max(min(HOLD, HOLD_TOGETHER // self.learning.num_envs), 1)

    def renews_at(self, boundary: int) -> bool:
        """Whether environments get a new network to act with after the block that ends at this step."""
        period = self.hold * self.learning.num_envs
        return boundary % period < self.block_steps

    @property
    def phase_steps(self) -> int:
        """Agent steps between two evaluation phases."""
        return min(self.evaluation.period, self.steps)

    @property
    def ring_length(self) -> int:
        """Slots of the replay ring for each environment."""
        return self.replay.capacity // self.learning.num_envs


_CONFIG: TypeAdapter[Config] = TypeAdapter(Config)


def make_config(
    env: str, agent: str = "sail-dqn", overrides: Mapping[str, Any] | None = None, preset: str | None = None
) -> Config:
    """The settings of a run: the defaults, what the names imply, and then the overrides (a nested mapping)."""
    for what, name, example in (("environment", env, "kdt"), ("agent", agent, "sail-dqn")):
        if not isinstance(name, str):
            raise BadInputError(f"The {what} must be a name such as {example}, not {name!r}.")
    settings_class(env)
    overrides = overrides or {}
    rule, base, curious = names.parse(agent)
    # A base or a rule that is set by itself counts as if it had been in the name, with all that it implies.
    base = _named(overrides, "agent", "base", names.BASES) or base
    rule = _named(overrides, "rule", "name", rules.RULES) or rule
    if preset is not None and preset not in PRESETS:
        raise unknown_name("preset", str(preset), PRESETS)
    tree: dict[str, Any] = {
        "env": {"name": env},
        "agent": {"base": base},
        "rule": {"name": rule, "clip": rules.RULES[rule].default_clip},
        "rnd": {"enabled": curious},
        "optimiser": {"name": "adam"},
    }
    # A rule that averages over next actions has no use for a better choice of one.
    without = {"agent": {"double": False}} if rules.RULES[rule].soft else {}
    kind_and_base = implied(kind_of(env), base, overrides.get("seeds", 1), preset)
    for layer in (*reversed(kind_and_base), names.BASES[base].settings, without, overrides):
        optimiser = layer.get("optimiser")
        if isinstance(optimiser, Mapping) and optimiser.get("name"):
            tree["optimiser"] = {}  # numbers belong to the optimiser they were meant for
        tree = _merge(tree, layer)
    return config_from_tree(tree)


def _named(overrides: Mapping[str, Any], section: str, key: str, known: Mapping[str, Any]) -> str | None:
    """A name that is set in a section, if it is one that is known."""
    values = overrides.get(section)
    name = values.get(key) if isinstance(values, Mapping) else None
    return name if isinstance(name, str) and name in known else None


def config_from_tree(tree: Mapping[str, Any]) -> Config:
    """Validates a nested mapping, such as a parsed config.yaml."""
    sections = _sections(tree if isinstance(tree, Mapping) else {})
    try:
        return _aligned(_CONFIG.validate_python(tree))
    except ValidationError as error:
        members = (*ENV_SETTINGS, "probe", *KINDS, *OPTIMISERS)
        raise invalid_settings(error, partial(_fields, sections), members) from None


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


Node = TypeVar("Node")


def _changed(node: Node, **changes: Any) -> Node:
    return cast(Node, dataclasses.replace(cast(Any, node), **changes))


def _aligned(config: Config) -> Config:
    """Periods rounded up to whole updates of all environments, steps to whole blocks; ring and seeds checked."""
    unit = config.step_unit

    def up(steps: int) -> int:
        return -(-steps // unit) * unit

    config = _changed(
        config,
        learning=_changed(config.learning, target_period=up(config.learning.target_period)),
        evaluation=_changed(config.evaluation, period=up(config.evaluation.period)),
    )
    config = _changed(config, steps=-(-config.steps // config.block_steps) * config.block_steps)
    if config.seed + config.seeds > 2**31:
        raise BadInputError(
            f"seed and seeds must stay below {2**31:,} together, not reach {config.seed + config.seeds:,}."
        )
    _check_parts(config)
    written_at_once = 2 * config.block_steps // config.learning.num_envs if config.on_device else 2
    needed = max(written_at_once, config.stack + config.replay.n_step)
    if config.ring_length < needed:
        least = needed * config.learning.num_envs
        raise BadInputError(
            f"replay.capacity must be at least {least} for these settings ({needed} observations for each of "
            f"{config.learning.num_envs} environments), not {config.replay.capacity}."
        )
    if config.on_device and config.evaluation.steps is not None:
        raise BadInputError(
            f"evaluation.steps is for outside environments: {config.env.name} is evaluated by episodes."
        )
    if config.learning.num_envs % config.num_pools:
        raise BadInputError(
            f"learning.num_pools must divide learning.num_envs ({config.learning.num_envs}), not be {config.num_pools}."
        )
    if config.on_device and config.learning.num_pools is not None:
        raise BadInputError(f"learning.num_pools is for outside environments: {config.env.name} needs none.")
    if config.on_device and config.learning.hold != 1:
        raise BadInputError(
            f"learning.hold is for outside environments: {config.env.name} acts with the same network for a block of "
            "steps (learning.max_block)."
        )
    return config


def _check_parts(config: Config) -> None:
    """Refuses parts that do not go together."""
    agent, exploration = config.agent, config.exploration
    if agent.base not in names.BASES and agent.base not in names.bases():
        raise unknown_name("base agent", agent.base, names.bases())
    if agent.noisy and (exploration.start > 0 or exploration.end > 0):
        raise BadInputError(
            "agent.noisy explores by itself: set exploration.start and exploration.end to 0 with it, not to "
            f"{exploration.start:g} and {exploration.end:g}."
        )
    explores = exploration.start > 0 or exploration.end > 0 or agent.noisy
    if not explores and names.BASES[agent.base].settings.get("agent", {}).get("noisy"):
        raise BadInputError(
            f"Without agent.noisy {agent.base} does not explore: set exploration.start and exploration.end as well."
        )
    if agent.double and rules.RULES[config.rule.name].soft:
        raise BadInputError(
            f"agent.double chooses a next action, and the {config.rule.name} rule averages over all of them: use one."
        )


def _sections(tree: Mapping[str, Any]) -> dict[str, type[Any]]:
    """The settings of every section. Of environments and optimisers there are several kinds: that which is named."""
    sections = {field.name: type(field.default) for field in dataclasses.fields(cast(Any, Config))}
    sections["optimiser"] = OPTIMISERS[_named(tree, "optimiser", "name", OPTIMISERS) or "adam"]
    env = tree.get("env")
    if isinstance(env, Mapping) and isinstance(env.get("name"), str):
        sections["env"] = settings_class(env["name"])
    return sections


def _fields(sections: Mapping[str, type[Any]], path: list[str]) -> list[str]:
    """The settings in a section, or at the root. pydantic adds the chosen kind of a section (kdt, adam) to the path."""
    chosen: Any = sections[path[0]] if path else Config
    return [field.name for field in dataclasses.fields(chosen)] if dataclasses.is_dataclass(chosen) else []
