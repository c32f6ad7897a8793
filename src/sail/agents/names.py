"""An agent's name is the paper's: an optional rule and a base, as in `sail-dqn`. No jax here."""

from __future__ import annotations

from sail.errors import unknown_name
from sail.rules import RULES

BASES = ("dqn",)


def parse(name: str) -> tuple[str, str]:
    """`sail-dqn` to its rule and its base: ("sail", "dqn"); a base alone is the Bellman rule."""
    if name not in all_names():
        raise unknown_name("agent", name, all_names())
    rule, _, base = name.rpartition("-")
    return rule or "bellman", base


def join(rule: str, base: str) -> str:
    """The name of a base agent under a rule: the inverse of `parse`."""
    return base if rule == "bellman" else f"{rule}-{base}"


def all_names() -> list[str]:
    """Every agent there is."""
    return [join(rule, base) for base in BASES for rule in RULES]
