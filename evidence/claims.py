"""What our runs say on a claim of the paper: a number with its interval, frames and seeds, and a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidence import atari, tables
from sail.analysis.metrics import over_seeds

RESAMPLES = 2_000
HOLDS, LEANS, NO_DIFFERENCE, AGAINST, DOES_NOT = (
    "holds",
    "leans so",
    "no difference seen",
    "leans against",
    "does not hold",
)
UNTESTED = "not tested"


class Ours(NamedTuple):
    """What we have to say on a claim."""

    number: str = ""
    frames: str = ""
    seeds: str = ""
    verdict: str = UNTESTED


Measure = Callable[[Path], Ours]
"""From the folder of results."""


def untested(_: Path) -> Ours:
    """There are no runs, and no code that would read them."""
    return Ours()


def improvement(agent: str, base: str, games: Sequence[str], millions: int) -> Measure:
    """The relative improvement of an agent over its base, over the first `millions` of frames of runs that got so far.

    There is no verdict before all games are there: the first to be done are no fair sample of them.
    """

    def ours(results: Path) -> Ours:
        curves = atari.by_agent(atari.read_all(results / "atari"), millions)
        x, y = curves.get(agent, {}), curves.get(base, {})
        both = [game for game in games if game in x and game in y]
        pairs = {game: (x[game], y[game]) for game in both if not np.isnan(ratio(x[game], y[game]))}
        if not pairs:
            return Ours()
        found = over_games(list(pairs.values()))
        complete = len(pairs) == len(games)
        seeds = [len(curve) for pair in pairs.values() for curve in pair]
        return Ours(
            f"{found.text}; {len(pairs)} of {len(games)} games",
            f"{millions}M",
            str(min(seeds)) if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}",
            found.verdict if complete else "not all games yet",
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
    return OverGames(text, verdict_of(median, low, high))


def verdict_of(value: float, low: float, high: float) -> str:
    """On the claim that a number is above 0."""
    if np.isnan([value, low, high]).any():
        return UNTESTED
    if low > 0:
        return HOLDS
    if high < 0:
        return DOES_NOT
    return LEANS if value > 0 else AGAINST if value < 0 else NO_DIFFERENCE


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


def solved(file: str, env: str, agents: tuple[str, str], setting: str, step: int) -> Measure:
    """The share of seeds of two agents that solve a gridworld at a step: is the first one's larger?"""

    def ours(results: Path) -> Ours:
        here = _rows(results / file, env, setting, step)
        if not set(agents) <= here.keys():
            return Ours()
        a, b = (here[agent] for agent in agents)
        number = "; ".join(f"{r['agent']} {r['share']:.2f} [{r['low']:.2f}, {r['high']:.2f}]" for r in (a, b))
        verdict = verdict_of_shares((a["low"], a["high"]), (b["low"], b["high"]))
        return Ours(number, f"{step:,} steps", f"{a['seeds']} and {b['seeds']}", verdict)

    return ours


def verdict_of_shares(first: tuple[float, float], second: tuple[float, float]) -> str:
    """On the claim that the first share is larger, by intervals that do not overlap."""
    return HOLDS if first[0] > second[1] else DOES_NOT if first[1] < second[0] else NO_DIFFERENCE


def undervalued(file: str, env: str, agents: tuple[str, str], setting: str, step: int, optimum: float) -> Measure:
    """Whether the first agent's value of taking the key is below the optimum's; the second one's stands beside it."""

    def ours(results: Path) -> Ours:
        here = _rows(results / file, env, setting, step)
        if not set(agents) <= here.keys():
            return Ours()
        a, b = (here[agent] for agent in agents)
        values = [f"{r['agent']} {r['q_key']:.2f} ({r['q_key_10']:.2f} to {r['q_key_90']:.2f})" for r in (a, b)]
        number = f"{'; '.join(values)}, 8 of 10 seeds in brackets; the optimum is {optimum:.2f}"
        verdict = HOLDS if a["q_key_90"] < optimum else DOES_NOT if a["q_key_10"] > optimum else NO_DIFFERENCE
        return Ours(number, f"{step:,} steps", f"{a['seeds']} and {b['seeds']}", verdict)

    return ours


def update_rates(file: str, agents: Sequence[str], times: float) -> Measure:
    """Frames per second by the updates of agents alone: is the second one `times` as fast as the last?"""

    def ours(results: Path) -> Ours:
        path = results.parent / "benchmarks" / "results" / file
        rows = json.loads(path.read_text())["agents"] if path.is_file() else {}
        if not set(agents) <= rows.keys():
            return Ours()
        rates = [rows[agent]["frames_per_second_at_most"] for agent in agents]
        rounds = [rows[agent]["us_of_rounds"] for agent in agents]
        number = ", ".join(f"{rate:,}" for rate in rates) + " by updates alone, the fastest rounds"
        # Every round of the one against every round of the other.
        low, high = min(rounds[-1]) / max(rounds[1]), max(rounds[-1]) / min(rounds[1])
        verdict = HOLDS if low > times else DOES_NOT if high < times else NO_DIFFERENCE
        number += f"; {rates[1] / rates[-1]:.2f} times as fast [{low:.2f}, {high:.2f}]"
        return Ours(number, "no training", f"{len(rounds[1])} rounds", verdict)

    return ours


def _rows(path: Path, env: str, setting: str, step: int) -> dict[str, dict[str, Any]]:
    """{agent: row}."""
    rows = tables.read(path) if path.is_file() else []
    return {row["agent"]: row for row in rows if (row["env"], row["settings"], row["step"]) == (env, setting, step)}


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
