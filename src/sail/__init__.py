"""SAIL: Self-Imitation Advantage Learning for off-policy agents.

    import sail

    run = sail.train("kdt", agent="sail-dqn", seed=0)   # trains, and returns the run folder
    player = sail.load(run)                             # the trained agent
    action = player.act(observation)

`sail.rules` (the paper's equations) and `sail.replay` (the ring with returns) stand on their own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sail import envs, replay, rules, tabular
    from sail.agents.names import Base
    from sail.agents.names import register as register_agent
    from sail.config import Config, make_config
    from sail.errors import BadInputError, SailError, TrainingError
    from sail.rules import Rule
    from sail.rules import register as register_rule
    from sail.training.api import Player, load, resume, train, train_config
    from sail.training.run_folder import RunFolder

__version__ = "0.1.0"
__all__ = [
    "BadInputError",
    "Base",
    "Config",
    "Player",
    "Rule",
    "RunFolder",
    "SailError",
    "TrainingError",
    "envs",
    "load",
    "make_config",
    "register_agent",
    "register_rule",
    "replay",
    "resume",
    "rules",
    "tabular",
    "train",
    "train_config",
]

_HOMES = {
    **dict.fromkeys(("Player", "load", "resume", "train", "train_config"), "sail.training.api"),
    **dict.fromkeys(("BadInputError", "SailError", "TrainingError"), "sail.errors"),
    **dict.fromkeys(("Config", "make_config"), "sail.config"),
    "RunFolder": "sail.training.run_folder",
    "Base": "sail.agents.names",
    "Rule": "sail.rules",
}
_RENAMED = {"register_agent": ("sail.agents.names", "register"), "register_rule": ("sail.rules", "register")}


def __getattr__(name: str) -> Any:
    # Looked up when first used: `sail --help` and numpy users should not wait for jax to be imported.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _RENAMED:
        home, there = _RENAMED[name]
        return getattr(import_module(home), there)
    if name in ("cli", "config", "envs", "replay", "rules", "tabular"):
        return import_module(f"sail.{name}")
    raise AttributeError(f"module 'sail' has no attribute '{name}'")
