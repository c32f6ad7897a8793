"""Words of sentences that depend on numbers."""

from __future__ import annotations


def counted(number: int, one: str) -> str:
    """A number of things: 1 run, 2 runs, 1,000 runs."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"
