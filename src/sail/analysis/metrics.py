"""The paper's metrics: final and average score, relative improvement, and the human-normalised median.

"Self-Imitation Advantage Learning" (Ferret, Pietquin and Geist, AAMAS 2021), section 5. A curve is one score per
iteration of training (a million frames in the paper): [iterations] of one run or averaged over seeds, or
[seeds, iterations]. NaN marks an iteration without a score, because no episode ended in it or the run stopped before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sail.errors import BadInputError

Array = Any  # a numpy array, or a numpy float where no axis is left


def final_score(curve: Array, last: int = 1) -> Array:
    """The mean of the last `last` iterations: [iterations] gives a float, [seeds, iterations] one number per seed.

    The paper's tables of final scores do not say over how many iterations; the default is the last one alone. NaN
    where none of them has a score, so that a run that stopped early counts as missing and not as finished.
    """
    curve = _checked(curve)
    if not 1 <= last <= curve.shape[-1]:
        raise BadInputError(f"The last {last} of {curve.shape[-1]} iterations do not exist.")
    return _mean_of_known(curve[..., -last:], axis=-1)


def average_score(curve: Array) -> Array:
    """The mean over all iterations that have a score, the area under the curve: [seeds, iterations] gives [seeds]."""
    return _mean_of_known(_checked(curve), axis=-1)


def over_seeds(curve: Array) -> Array:
    """The curve averaged over the seeds that have a score in an iteration: [iterations], which it may be already."""
    curve = _checked(curve)
    return curve if curve.ndim == 1 else _mean_of_known(curve.reshape(-1, curve.shape[-1]), axis=0)


class Improvement(NamedTuple):
    """A relative improvement on one game (0.5 is +50 %), and the number of iterations that it compares."""

    value: float
    iterations: int


def relative_improvement(x: Array, base: Array, eps: float = 1e-6) -> Improvement:
    """How much better X is than its base on one game: mean_t(x - base) / (|mean_t base| + eps).

    Positive is better, also where scores are negative. Curves are averaged over seeds first. Only iterations in which
    both have a score count, so of curves of different lengths it is the common beginning, for the base's mean too.

    The paper does not give its epsilon. Where the base scores 0 it decides the size of the result, and through it the
    average over games: read the median then.
    """
    x, base = over_seeds(x), over_seeds(base)
    length = min(len(x), len(base))
    x, base = x[:length], base[:length]
    known = ~np.isnan(x) & ~np.isnan(base)
    if not known.any():
        raise BadInputError("There is no iteration in which both curves have a score.")
    gain, level = np.mean(x[known] - base[known]), np.mean(base[known])
    return Improvement(float(gain / (abs(level) + eps)), int(known.sum()))


class ImprovementOverGames(NamedTuple):
    """The average and the median over games, each game's own improvement, and the games that only one agent played."""

    average: float
    median: float
    games: dict[str, Improvement]
    left_out: list[str]


def relative_improvement_over_games(
    x: Mapping[str, Array], base: Mapping[str, Array], eps: float = 1e-6
) -> ImprovementOverGames:
    """`relative_improvement` on every game that both agents have a curve of, with its average and median."""
    games = {game: relative_improvement(x[game], base[game], eps) for game in x if game in base}
    if not games:
        raise BadInputError("There is no game that both agents played.")
    values = [improvement.value for improvement in games.values()]
    return ImprovementOverGames(float(np.mean(values)), float(np.median(values)), games, sorted(x.keys() ^ base.keys()))


def human_normalised(score: Array, random: float, human: float) -> Array:
    """(score - random) / |human - random|: 0 plays like chance, 1 as far above it as a human is.

    Because of the absolute value more is always better, even on a game that the human plays worse than chance.
    """
    if random == human:
        raise BadInputError(f"A game on which human and chance both score {human} cannot be normalised.")
    return (np.asarray(score, dtype=float) - random) / abs(human - random)


class HumanMedian(NamedTuple):
    """The median over `games` at each iteration, [iterations], and the games without a reference score."""

    median: Array
    games: list[str]
    left_out: list[str]


def human_normalised_median(
    curves: Mapping[str, Array], random: Mapping[str, float], human: Mapping[str, float]
) -> HumanMedian:
    """The median over games of the human-normalised score, at each iteration up to the end of the shortest curve.

    Each game is averaged over seeds and normalised by its own references, then comes the median. (The paper's formula
    has it the other way round, which no single pair of references could do.) A game without both reference scores, NaN
    included, is left out. At an iteration without a score in some games, the median is that of the others.
    """
    games = [game for game in curves if not np.isnan([random.get(game, np.nan), human.get(game, np.nan)]).any()]
    if not games:
        raise BadInputError("There is no game with both a random and a human score.")
    table = [human_normalised(over_seeds(curves[game]), random[game], human[game]) for game in games]
    length = min(len(curve) for curve in table)
    by_iteration = np.stack([curve[:length] for curve in table], axis=1)  # [iterations, games]
    known = ~np.isnan(by_iteration)
    median = np.full(length, np.nan)
    median[known.any(axis=1)] = np.nanmedian(by_iteration[known.any(axis=1)], axis=1)
    return HumanMedian(median, games, sorted(set(curves) - set(games)))


def _mean_of_known(scores: Array, axis: int) -> Array:
    """The mean without NaN; NaN, and no warning, where there is nothing else."""
    known = np.count_nonzero(~np.isnan(scores), axis=axis)
    return np.where(known, np.nansum(scores, axis=axis) / np.maximum(known, 1), np.nan)[()]


def _checked(curve: Array) -> Array:
    curve = np.asarray(curve, dtype=float)
    if curve.ndim not in (1, 2) or 0 in curve.shape:
        raise BadInputError(f"A curve must be [iterations] or [seeds, iterations], not {list(curve.shape)}.")
    return curve
