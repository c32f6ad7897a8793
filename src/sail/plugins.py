"""Rules and agents that other packages bring along, by entry points."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sail.errors import BadInputError


@cache
def _points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def entries(group: str) -> Iterator[tuple[str, Any]]:
    """The names and objects of a group. One that cannot be imported is named, with the reason."""
    for point in _points(group):
        try:
            yield point.name, point.load()
        except Exception as error:
            package = point.dist.name if point.dist else point.value
            raise BadInputError(
                f"{package} offers '{point.name}' to sail, which cannot be imported: {error}."
            ) from None
