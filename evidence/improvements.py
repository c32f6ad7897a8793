"""Claims about the relative improvement of an agent over another on many games."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidence import atari
from evidence.verdicts import NOT_ALL, UNTESTED, Measure, Ours, leaning, span, verdict_of
from sail.analysis.metrics import over_seeds

RESAMPLES = 2_000
FEWEST_GAMES = 6
"""With fewer games nothing holds: if chance alone decided, five would all point the same way once in sixteen times."""


def improvement(agent: str, base: str, games: Sequence[str], millions: int) -> Measure:
    """The relative improvement of an agent over its base, over the first `millions` of frames of runs that got so far.

    There is no verdict before all games are there: the first to be done are no fair sample of them.
    """

    def ours(results: Path) -> Ours:
        curves = atari.compared(results, millions, (agent, base))
        x, y = curves.get(agent, {}), curves.get(base, {})
        both = [game for game in games if game in x and game in y]
        pairs = {game: (x[game], y[game]) for game in both if not np.isnan(ratio(x[game], y[game]))}
        if not pairs:
            return Ours()
        found = over_games(list(pairs.values()))
        complete = len(pairs) == len(games)
        seeds = {len(curve) for pair in pairs.values() for curve in pair}
        return Ours(
            f"{found.text}; {len(pairs)} of {len(games)} games",
            f"{millions}M",
            span(seeds),
            found.verdict if complete else NOT_ALL,
        )

    return ours


class OverGames(NamedTuple):
    """An improvement over several games."""

    text: str
    verdict: str


def over_games(pairs: list[tuple[Any, Any]]) -> OverGames:
    """The average and median of the relative improvement x over y, of pairs of curves [seeds, millions].

    Intervals are 95 % of resamples of the games, and of the seeds of each; one run each of one game has none. A base
    that scores 0 gives no finite ratio: such a game counts in the median, as better, worse or the same, and is left out
    of the average, which says so.
    """
    random = np.random.default_rng(0)
    values = np.array([ratio(x, y) for x, y in pairs])
    if len(pairs) == 1 and len(pairs[0][0]) * len(pairs[0][1]) == 1:
        return OverGames(f"{_percent(values[0])}, no interval", UNTESTED)
    resampled = np.empty((RESAMPLES, len(pairs)))
    for column, (x, y) in enumerate(pairs):
        alone = len(x) * len(y) == 1
        for row in range(RESAMPLES):
            resampled[row, column] = values[column] if alone else ratio(_drawn(x, random), _drawn(y, random))
    chosen = random.integers(len(pairs), size=resampled.shape)
    resampled = np.take_along_axis(resampled, chosen, axis=1)
    medians = np.array([_median(row) for row in resampled])
    median = _median(values)
    low, high = (float(x) for x in np.nanpercentile(medians, [2.5, 97.5], method="nearest"))
    finite = np.isfinite(values)
    text = f"median {_percent(median)} [{_percent(low)}, {_percent(high)}]"
    if finite.any():
        sums = np.where(np.isfinite(resampled), resampled, np.nan)
        averages = np.nanmean(sums[np.isfinite(resampled).any(axis=1)], axis=1)
        ends = np.percentile(averages, [2.5, 97.5])
        of = "" if finite.all() else f" of the {finite.sum()} games with a base above or below 0"
        average = float(np.mean(values[finite]))
        text = f"average{of} {_percent(average)} [{_percent(ends[0])}, {_percent(ends[1])}], {text}"
    few = len(pairs) < FEWEST_GAMES
    return OverGames(text, leaning(median) if few else verdict_of(median, low, high))


def ratio(x: Any, y: Any) -> float:
    """mean_t(x - y) / |mean_t y| over the millions of frames that both have; infinite where y is 0 and x is not.

    It is the paper's without its epsilon, which it does not give. NaN where there is nothing that both have.
    """
    x, y = over_seeds(x), over_seeds(y)
    known = ~np.isnan(x) & ~np.isnan(y)
    if not known.any():
        return np.nan
    gain, level = float(np.mean((x - y)[known])), float(abs(np.mean(y[known])))
    return gain / level if level else float(np.sign(gain)) * np.inf if gain else 0.0


def _drawn(curves: Any, random: np.random.Generator) -> Any:
    return curves[random.integers(len(curves), size=len(curves))]


def _median(values: Any) -> float:
    """The median, also of infinities, between two of which there is nothing: then the lower."""
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return np.nan
    low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
    return float((low + high) / 2) if np.isfinite([low, high]).all() else float(low)


def _percent(value: float) -> str:
    return f"{100 * value:+.0f} %" if np.isfinite(value) else ("unbounded" if value > 0 else "-unbounded")
