"""What a handful of runs can say: aggregates over tasks, and how far to trust them.

The statistics of "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (Agarwal et al., 2021,
https://arxiv.org/abs/2108.13264), as their library rliable computes them. A table of scores is [runs, tasks],
normalised so that tasks compare; NaN marks a run that a task does not have. Leading axes are carried along, so
[B, runs, tasks] gives [B]: that is how the bootstrap evaluates thousands of resamples at once.

With missing runs every task keeps the same weight, whatever its number of runs. The interquartile mean is the
exception: it pools all runs, so a task with more of them counts for more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from sail.errors import BadInputError

Array = Any  # a numpy array, or a numpy float where no axis is left
Statistic = Callable[..., Array]
"""A function of one or more tables [..., runs, tasks], giving [...], or [..., n] for n numbers at once."""

CHUNK = 2**18  # scores resampled at a time: a few megabytes, which is faster than all at once


class Interval(NamedTuple):
    """An estimate and its interval: three floats, or three arrays for a statistic of several numbers."""

    value: Array
    low: Array
    high: Array


# Aggregates


def mean(scores: Array) -> Array:
    """The mean over tasks of each task's mean. One task with huge scores can make it."""
    return _task_means(_checked(scores)).mean(axis=-1)


def median(scores: Array) -> Array:
    """The median over tasks of each task's mean. Nearly half of the tasks can score 0 without moving it."""
    return np.median(_task_means(_checked(scores)), axis=-1)


def iqm(scores: Array) -> Array:
    """The interquartile mean: the mean of the middle half of all runs of all tasks, pooled.

    As scipy.stats.trim_mean(scores, 0.25, axis=None): a quarter of the runs, rounded down, goes at either end.
    """
    scores = _checked(scores)
    pooled = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # [..., runs * tasks], NaN last
    present = np.count_nonzero(~np.isnan(pooled), axis=-1, keepdims=True)
    trimmed = present // 4
    rank = np.arange(pooled.shape[-1])
    middle = (rank >= trimmed) & (rank < present - trimmed)
    return np.sum(pooled, axis=-1, where=middle) / (present - 2 * trimmed)[..., 0]


def optimality_gap(scores: Array, gamma: float = 1.0) -> Array:
    """How far the runs stay below `gamma` on average, where more than `gamma` is not rewarded. Lower is better."""
    return gamma - _task_means(np.minimum(_checked(scores), gamma)).mean(axis=-1)


AGGREGATES: dict[str, Statistic] = {
    "mean": mean,
    "median": median,
    "iqm": iqm,
    "optimality_gap": optimality_gap,
}


def probability_of_improvement(x: Array, y: Array) -> Array:
    """How likely a run of X beats a run of Y on a task drawn at random; a draw counts as half a win.

    The share of won pairs is taken task by task, then averaged. The two may differ in runs, not in tasks.
    """
    x, y = _checked(x), _checked(y)
    if x.shape[-1] != y.shape[-1]:
        raise BadInputError(f"Both agents must have the same tasks, not {x.shape[-1]} and {y.shape[-1]}.")
    ours, theirs = x[..., :, None, :], y[..., None, :, :]  # every pair of runs: [..., runs of X, runs of Y, tasks]
    # A win counts in both terms, a draw in the second only, and a pair with a missing run in neither.
    won = np.count_nonzero(ours > theirs, axis=(-3, -2)) + np.count_nonzero(ours >= theirs, axis=(-3, -2))
    return (won / (2 * runs_per_task(x) * runs_per_task(y))).mean(axis=-1)


def performance_profile(scores: Array, thresholds: Sequence[float] | Array) -> Array:
    """The share of runs that score above each threshold, [..., thresholds]: a curve that shows the whole distribution.

    Equal weight per task: of a complete table that is the share of all runs, as rliable has it.
    """
    scores, runs = _checked(scores), runs_per_task(scores)
    # One threshold at a time: all at once would need memory for every run and threshold of every resample.
    shares = [(np.count_nonzero(scores > threshold, axis=-2) / runs).mean(axis=-1) for threshold in thresholds]
    return np.stack(shares, axis=-1)


# Intervals


def bootstrap(
    statistic: Statistic,
    *agents: Array,
    reps: int = 50_000,
    seed: int | np.random.Generator = 0,
    coverage: float = 0.95,
) -> Interval:
    """The percentile interval of a statistic under a stratified bootstrap.

    Runs are drawn with replacement within each task, independently for each task and for each agent, as often as the
    task has runs; tasks are not resampled. It works for whatever the statistic takes and gives:

        bootstrap(iqm, scores)
        bootstrap(probability_of_improvement, scores_of_x, scores_of_y)
        bootstrap(lambda scores: performance_profile(scores, thresholds), scores)  # a band, point by point
        bootstrap(lambda x, y: iqm(x) - iqm(y), scores_of_x, scores_of_y)

    With one run per task there is nothing to draw from: low = high = value, and `can_resample` says so. That is the
    absence of an interval, not a narrow one. The same holds, task by task, in a table where only some have one run.
    """
    if not agents or reps < 1 or not 0 < coverage < 1:
        raise BadInputError("A bootstrap needs scores, at least one resample and a coverage between 0 and 1.")
    tables = [_checked(scores) for scores in agents]
    if any(scores.ndim != 2 for scores in tables):
        raise BadInputError("A bootstrap takes one table [runs, tasks] per agent.")
    value = statistic(*tables)
    if not can_resample(*tables):
        return Interval(value, value, value)
    values = np.concatenate([statistic(*resamples) for resamples in _resamples(tables, reps, seed)])
    low, high = np.quantile(values, [(1 - coverage) / 2, (1 + coverage) / 2], axis=0)
    return Interval(value, low, high)


def can_resample(*agents: Array) -> bool:
    """Whether some task of some agent has two runs or more, so that a bootstrap interval means something."""
    return any(bool((runs_per_task(scores) > 1).any()) for scores in agents)


def runs_per_task(scores: Array) -> Array:
    """How many runs each task has, [..., tasks]."""
    return np.count_nonzero(~np.isnan(scores), axis=-2)


def wilson(solved: int, tried: int, coverage: float = 0.95) -> Interval:
    """The Wilson score interval of a share, `solved` of `tried`.

    Unlike the textbook p +- z * sqrt(p * (1 - p) / n), it neither vanishes at 0 and 1 nor leaves the range between.
    """
    if not 0 <= solved <= tried or tried < 1:
        raise BadInputError(f"There is no share of {solved} solved out of {tried}.")
    share, z = solved / tried, NormalDist().inv_cdf((1 + coverage) / 2)
    shrink = 1 / (1 + z**2 / tried)
    centre = (share + z**2 / (2 * tried)) * shrink
    reach = z * math.sqrt(share * (1 - share) / tried + (z / (2 * tried)) ** 2) * shrink
    # At the ends the formula gives 0 and 1 up to rounding.
    return Interval(share, 0.0 if solved == 0 else centre - reach, 1.0 if solved == tried else centre + reach)


def _resamples(tables: Sequence[Array], reps: int, seed: int | np.random.Generator) -> Iterator[list[Array]]:
    """Chunks of resamples: for each table one [chunk, runs, tasks], `reps` of them in all."""
    random = np.random.default_rng(seed)
    # A statistic of two agents may look at every pair of their runs.
    most = math.prod(scores.shape[0] for scores in tables) * max(scores.shape[1] for scores in tables)
    chunk = max(1, CHUNK // most)
    for done in range(0, reps, chunk):
        yield [_resample(scores, min(chunk, reps - done), random) for scores in tables]


def _resample(scores: Array, count: int, random: np.random.Generator) -> Array:
    """`count` tables [count, runs, tasks], each drawn from the runs that a task has, as many as it has."""
    runs, (rows, tasks) = runs_per_task(scores), scores.shape
    present_first = np.take_along_axis(scores, np.argsort(np.isnan(scores), axis=0, kind="stable"), axis=0)
    drawn = present_first[random.integers(runs, size=(count, rows, tasks)), np.arange(tasks)]
    drawn[:, np.arange(rows)[:, None] >= runs] = np.nan
    return drawn


def _task_means(scores: Array) -> Array:
    return np.nansum(scores, axis=-2) / runs_per_task(scores)  # [..., tasks]


def _checked(scores: Array) -> Array:
    scores = np.asarray(scores, dtype=float)
    if scores.ndim < 2 or 0 in scores.shape:
        raise BadInputError(f"Scores must be a table [runs, tasks] that is not empty, not {list(scores.shape)}.")
    if np.isinf(scores).any():
        raise BadInputError("Scores must be finite, or NaN where a run is missing.")
    if not runs_per_task(scores).all():
        without = sorted({int(task) for task in np.nonzero(runs_per_task(scores) == 0)[-1]})
        raise BadInputError(f"Tasks without a single run must be left out; here those in columns {without}.")
    return scores
