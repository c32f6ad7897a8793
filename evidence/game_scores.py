"""Claims about scores: who is ahead on which games, and by how much humans are matched."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from evidence import atari
from evidence.dopamine import NEAR
from evidence.verdicts import AGAINST, DOES_NOT, HOLDS, LEANS, NO_DIFFERENCE, NOT_ALL, UNTESTED, Measure, Ours, span
from sail.analysis.metrics import average_score, final_score, human_normalised
from sail.analysis.published import human_scores, paper_scores
from sail.analysis.statistics import Interval, bootstrap, median, runs_per_task

RESAMPLES = 2_000
FEWEST_SEEDS = 3
"""With fewer runs of a game they say nothing of each other's spread."""


def ahead(agents: Sequence[str], games: Sequence[str], millions: int) -> Measure:
    """The final and the average score of each agent on each of a few games: is each agent ahead of the next one?

    That holds if the worst seed of each, three at least, ends above the best one of the next, on every game; it does
    not if on some game the best one ends below the worst.
    """

    def ours(results: Path) -> Ours:
        curves = atari.compared(results, millions, agents)
        if any(game not in curves.get(agent, {}) for agent in agents for game in games):
            return Ours()
        texts, seeds, steps = [], set(), []
        for game in games:
            runs = [curves[agent][game] for agent in agents]
            finals = [final_score(run) for run in runs]
            means = [float(np.mean(final)) for final in finals]
            averages = [float(np.mean(average_score(run))) for run in runs]
            scores = zip(agents, means, averages, strict=True)
            texts.append(
                ", ".join(f"{agent} {mean:,.0f} (on average {average:,.0f})" for agent, mean, average in scores)
            )
            seeds |= {len(run) for run in runs}
            steps += [Interval(a.mean() - b.mean(), a.min() - b.max(), a.max() - b.min()) for a, b in pairwise(finals)]
        verdict = _of_all(steps, min(seeds) >= FEWEST_SEEDS)
        number = "; ".join(f"{game}: {text}" for game, text in zip(games, texts, strict=True))
        return Ours(number, f"{millions}M", span(seeds), verdict)

    return ours


def reaches(agent: str, game: str, score: float, millions: int) -> Measure:
    """Whether an agent's final score on a game is so large: every seed of at least three, or their mean."""

    def ours(results: Path) -> Ours:
        runs = atari.compared(results, millions, (agent,)).get(agent, {}).get(game)
        if runs is None or np.isnan(runs[:, -1]).any():
            return Ours()
        final = runs[:, -1]
        verdict = LEANS if final.mean() >= score else AGAINST
        if len(final) >= FEWEST_SEEDS:
            verdict = HOLDS if final.min() >= score else DOES_NOT if final.max() < score else verdict
        return Ours(f"{final.mean():,.0f}", f"{millions}M", str(len(final)), verdict)

    return ours


def as_in_the_paper(agents: Sequence[str], games: Sequence[str], millions: int) -> Measure:
    """How many of the paper's final scores ours are near. It holds if three in four are."""

    def ours(results: Path) -> Ours:
        curves = atari.compared(results, millions, agents)
        theirs = paper_scores()["scores"]
        pairs = [
            (curves[agent][game][:, -1], theirs[agent][game])
            for agent in agents
            for game in games
            if game in curves.get(agent, {})
        ]
        if not pairs:
            return Ours()
        wanted = len(agents) * len(games)
        near = sum(abs(final.mean() - score) <= NEAR * abs(score) for final, score in pairs)
        number = f"{near} of {len(pairs)} scores within 20 %; {len(pairs)} of {wanted} are there"
        verdict = NOT_ALL if len(pairs) < wanted else HOLDS if near >= 0.75 * wanted else DOES_NOT
        return Ours(number, f"{millions}M", span({len(final) for final, _ in pairs}), verdict)

    return ours


def normalised(chain: Sequence[str], games: Sequence[str], millions: int) -> Measure:
    """The median over games of human-normalised final scores: does it fall from each agent to the next?

    Intervals of the differences are of resamples of the seeds, where there are several.
    """
    scale = human_scores()
    known = [game for game in games if game in scale]

    def ours(results: Path) -> Ours:
        curves = atari.compared(results, millions, chain)
        if any(game not in curves.get(agent, {}) for agent in chain for game in known):
            return Ours()
        of_agents = [
            _table([human_normalised(final_score(curves[agent][game]), *scale[game]) for game in known])
            for agent in chain
        ]
        seeds = {int(count) for table in of_agents for count in runs_per_task(table)}
        if 0 in seeds:  # no episode ended
            return Ours()
        medians = [float(median(table)) for table in of_agents]
        steps = [bootstrap(_less, *pair, reps=RESAMPLES) for pair in pairwise(of_agents)]
        verdict = _of_all(steps, min(seeds) > 1)
        number = ", ".join(f"{agent} {value:.2f}" for agent, value in zip(chain, medians, strict=True))
        return Ours(f"{number}; {len(known)} games", f"{millions}M", span(seeds), verdict)

    return ours


def _of_all(steps: Sequence[Interval], enough: bool) -> str:
    """Whether every step is above zero. With too few seeds for their intervals, to which side it leans."""
    if np.isnan([step.value for step in steps]).any():  # no episode ended
        return UNTESTED
    if enough and all(step.low > 0 for step in steps):
        return HOLDS
    if enough and any(step.high < 0 for step in steps):
        return DOES_NOT
    if all(step.value == 0 for step in steps):
        return NO_DIFFERENCE
    return LEANS if all(step.value > 0 for step in steps) else AGAINST


def _less(x: Any, y: Any) -> Any:
    return median(x) - median(y)


def _table(games: Sequence[Any]) -> Any:
    """[seeds, games] from the seeds of each game, with NaN where a game has fewer than another."""
    most = max(map(len, games))
    return np.stack([np.pad(seeds, (0, most - len(seeds)), constant_values=np.nan) for seeds in games], axis=1)
