"""How a claim is judged: what we have to say on it, and the words for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sail.analysis.statistics import Interval, wilson

HOLDS, LEANS, NO_DIFFERENCE, AGAINST, DOES_NOT = (
    "holds",
    "leans so",
    "no difference seen",
    "leans against",
    "does not hold",
)
UNTESTED, NOT_ALL = "not tested", "not all games yet"


class Ours(NamedTuple):
    """What we have to say on a claim."""

    number: str = ""
    frames: str = ""
    seeds: str = ""
    verdict: str = UNTESTED


Measure = Callable[[Path], Ours]
"""From the folder of results."""


def no_rise(ours: Measure) -> Measure:
    """The claim that something does not rise, by the measure of the claim that it does."""
    said = {HOLDS: DOES_NOT, DOES_NOT: HOLDS} | dict.fromkeys((LEANS, AGAINST, NO_DIFFERENCE), "no rise seen")

    def opposite(results: Path) -> Ours:
        found = ours(results)
        return found._replace(verdict=said.get(found.verdict, found.verdict))

    return opposite


def leaning(value: float) -> str:
    """To which side of a claim that a number is above 0 it is, whatever its interval."""
    return UNTESTED if np.isnan(value) else LEANS if value > 0 else AGAINST if value < 0 else NO_DIFFERENCE


def verdict_of(value: float, low: float, high: float) -> str:
    """On the claim that a number is above 0."""
    if np.isnan([value, low, high]).any():
        return UNTESTED
    if low > 0:
        return HOLDS
    if high < 0:
        return DOES_NOT
    return leaning(value)


def difference(first: tuple[int, int], second: tuple[int, int]) -> Interval:
    """The first share less the second, each so many of so many, with its 95 % interval.

    Newcombe's, which puts two Wilson intervals together (Statistics in Medicine 17, 1998, his method 10).
    """
    a, b = wilson(*first), wilson(*second)
    value = a.value - b.value
    low, high = np.hypot(a.value - a.low, b.high - b.value), np.hypot(a.high - a.value, b.value - b.low)
    return Interval(value, value - low, value + high)


def span(numbers: set[int]) -> str:
    """Such as numbers of seeds: the one there is, or from the least to the most."""
    return str(min(numbers)) if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)}"
