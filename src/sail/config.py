"""Every setting of a run, in one frozen tree. `config.yaml` is this tree, and a flag is a key of it spelt differently.

No jax here: a wrong name or value is answered at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from sail.agents import names
from sail.envs import SETTINGS as ENV_SETTINGS
from sail.envs.settings import EnvSettings, Int, settings
from sail.errors import BadInputError, invalid_settings, unknown_name
from sail.rules import RULES
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
    RuleSettings,
)


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
    """Agent steps to train for, for each seed; rounded up to whole blocks (see learning.max_block)."""
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
        whole = math.gcd(self.evaluation.period, self.learning.target_period)
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
    """Validates a nested mapping, such as a parsed config.yaml."""
    try:
        return _aligned(_CONFIG.validate_python(tree))
    except ValidationError as error:
        raise invalid_settings(error, _fields, members=(*ENV_SETTINGS, *OPTIMISERS)) from None


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
    unit = math.lcm(config.learning.num_envs, config.learning.update_period)

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
    needed = max(2 * config.block_steps // config.learning.num_envs, config.replay.n_step + 1)
    if config.ring_length < needed:
        least = needed * config.learning.num_envs
        raise BadInputError(
            f"replay.capacity must be at least {least} for these settings, not {config.replay.capacity}."
        )
    return config


def _fields(path: list[str]) -> list[str]:
    """The settings in a section. pydantic adds the chosen member of a union (kdt, adam) to the path."""
    defaults = {field.name: field.default for field in dataclasses.fields(cast(Any, Config))}
    members = {**ENV_SETTINGS, **OPTIMISERS}
    chosen = members.get(path[-1]) or type(defaults[path[-1]]) if path else Config
    return [field.name for field in dataclasses.fields(cast(Any, chosen))]
