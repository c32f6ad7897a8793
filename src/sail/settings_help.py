"""The settings as text: every dotted name with its default and the sentence under its field."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from typing import Any

from sail.config import make_config


def settings_help(env: str = "kdt", agent: str = "sail-dqn", preset: str | None = None) -> str:
    """One line for each setting, with the value it has for this environment and agent."""
    lines: list[str] = []
    _describe(make_config(env, agent, preset=preset), "", lines)
    return "\n".join(lines)


def _describe(node: Any, prefix: str, lines: list[str]) -> None:
    documentation = _field_docs(type(node))
    for field in dataclasses.fields(node):
        value, dotted = getattr(node, field.name), (prefix + field.name).replace("_", "-")
        if dataclasses.is_dataclass(value):
            lines.append(f"\n  {dotted}: {_one_line(type(value).__doc__)}")
            _describe(value, f"{prefix}{field.name}.", lines)
            continue
        shown = "none" if value is None else ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        shown = shown.lower() if isinstance(value, bool) else shown
        text = documentation.get(field.name, "")
        lines.append(f"    --{dotted} {shown}".ljust(42) + (" " + _one_line(text) if text else ""))


def _field_docs(cls: type[Any]) -> dict[str, str]:
    """The string under each field, of the class and the classes it extends."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        if not dataclasses.is_dataclass(base):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                docs[field.target.id] = ast.literal_eval(text.value)
    return docs


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())
