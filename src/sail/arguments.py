"""Kinds of command-line arguments; an error says what would be right."""

from __future__ import annotations

from argparse import ArgumentTypeError


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number of at least 1, not '{text}'")
    return int(text)


def counts(text: str) -> list[int]:
    """Several of them, as in 1,8."""
    return [count(part) for part in text.split(",")]


def port(text: str) -> int:
    """A port of this machine; 0 for any."""
    if not text.isdecimal() or int(text) > 65_535:
        raise ArgumentTypeError(f"must be a whole number from 0 to 65535, not '{text}'")
    return int(text)


def probability(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"must be a number from 0 to 1, not '{text}'")
    return value
