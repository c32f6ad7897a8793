"""Every base agent, and what an agent's name means: an optional rule, a base, and perhaps curiosity. No jax here.

    dqn    sail-iqn    strsil-full-rainbow    al-c51+rnd

A name implies settings; `sail agents` shows them all. Other packages can bring agents of their own: docs/extending.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

from sail import rules
from sail.errors import BadInputError, unknown_name
from sail.plugins import entries

CURIOUS = "+rnd"


@dataclass(frozen=True)
class Base:
    """A base agent: what makes it, and what its name implies beside that."""

    make: str | Callable[..., Any]
    """`make(settings, **common)` gives an Agent: `settings` is the section `agent` of a config, `common` what every
    agent takes (see sail.agents.base.Agent). As text, module:function, imported when it is needed."""
    parts: str = ""
    """What it consists of, in a few words."""
    source: str = ""
    """Where it was published."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Sections of a config, as in config.yaml."""

    def maker(self) -> Callable[..., Any]:
        """The function."""
        if callable(self.make):
            return self.make
        module, _, name = self.make.partition(":")
        try:
            found: Callable[..., Any] = getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise BadInputError(f"What makes the agent, '{self.make}', cannot be imported: {error}.") from None
        return found


_REDUCED = {"replay": {"n_step": 3, "prioritised": True}}
_FULL = {
    **_REDUCED,
    "agent": {"double": True, "dueling": True, "noisy": True},
    "exploration": {"start": 0.0, "end": 0.0},  # the noise explores
}
BASES: dict[str, Base] = {
    "dqn": Base("sail.agents.dqn:make", "Q-network", "Mnih et al., 2015"),
    "c51": Base("sail.agents.c51:make", "categorical", "Bellemare et al., 2017"),
    "iqn": Base("sail.agents.iqn:make", "implicit quantiles", "Dabney et al., 2018"),
    "rainbow": Base(
        "sail.agents.c51:make",
        "categorical, 3-step, prioritised",
        "Castro et al., 2018 (Dopamine's, which the paper compares with)",
        _REDUCED,
    ),
    "full-rainbow": Base(
        "sail.agents.c51:make",
        "categorical, 3-step, prioritised, double, dueling, noisy",
        "Hessel et al., 2018",
        _FULL,
    ),
}


class Name(NamedTuple):
    """What a name says."""

    rule: str
    base: str
    curious: bool


def bases() -> dict[str, Base]:
    """Every base agent, those of other packages included."""
    for name, base in entries("sail.agents"):
        if name not in BASES:
            register(name, base)
    return BASES


def register(name: str, base: Base) -> None:
    """Makes a base agent known by a name, with every rule."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise BadInputError(f"A base agent's name is made of small letters, digits and hyphens, unlike '{name}'.")
    if name in BASES:
        raise BadInputError(f"There is a base agent '{name}' already.")
    if not isinstance(base, Base):
        raise BadInputError(f"The agent '{name}' must be a sail.Base, not a {type(base).__name__}.")
    if not isinstance(base.settings, Mapping):
        raise BadInputError(f"The settings of the agent '{name}' must be a mapping of sections.")
    if any(name.startswith(f"{rule}-") for rule in rules.known()):
        raise BadInputError(f"'{name}' would be taken for a rule and a base: name the agent otherwise.")
    BASES[name] = base


def parse(name: str) -> Name:
    """`sail-dqn` to its rule and its base; a base alone is the Bellman rule."""
    plain = str(name).removesuffix(CURIOUS)
    # Other packages are asked only for what is not here, so that a broken one stops nobody else's run.
    for known_bases, known_rules in ((lambda: BASES, lambda: rules.RULES), (bases, rules.known)):
        if plain in known_bases():
            return Name("bellman", plain, plain != name)
        for rule in known_rules():
            rest = plain.removeprefix(f"{rule}-")
            if rule != "bellman" and rest != plain and rest in known_bases():
                return Name(rule, rest, plain != name)
    raise unknown_name("agent", name, all_names())


def join(rule: str, base: str, curious: bool = False) -> str:
    """The name of a base agent under a rule: the inverse of `parse`."""
    return (base if rule == "bellman" else f"{rule}-{base}") + (CURIOUS if curious else "")


def all_names() -> list[str]:
    """Every agent there is, but for curiosity."""
    return [join(rule, base) for base in bases() for rule in rules.known()]
