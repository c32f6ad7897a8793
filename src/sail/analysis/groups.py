"""Runs that belong together: the seeds of one agent, with one set of settings, in one environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sail.analysis.runs import LeftOut, Run, SeedCurve

NOT_TOLD_APART = {
    "seed",
    "seeds",
    "steps",
    "env.name",
    "env.give_way",
    "env.processes",
    "env.resize",
    "env.threads",
    "learning.num_pools",
}
"""Settings that do not make another experiment: how long, how often, and how a machine goes about it."""
NOT_TOLD_APART_SECTIONS = ("checkpoint.", "evaluation.")


@dataclass(frozen=True)
class Group:
    """What is one curve in a figure and one cell in a table."""

    env: str
    agent: str
    variant: str
    """The agent's name, and the settings in which its runs differ from others: dqn, or sail-dqn env.slip=0.1."""
    seeds: tuple[int, ...]
    curves: tuple[SeedCurve, ...]
    done: tuple[bool, ...]
    """Whether the run of each seed has come to its end."""
    runs: tuple[Run, ...]
    score_column: str
    """What scores are in this environment: eval_return where anybody has it, else train_return."""

    @property
    def frames_a_step(self) -> int:
        """Emulator frames of one agent step."""
        return self.runs[0].frames_a_step

    @cached_property
    def steps(self) -> np.ndarray:
        """[phases]: every step at which some seed has logged."""
        return np.unique(np.concatenate([curve.steps for curve in self.curves]))

    def table(self, column: str | None = None) -> np.ndarray:
        """[seeds, phases]: scores, or another column; NaN where a seed has logged nothing (yet)."""
        steps = self.steps
        table = np.full((len(self.curves), len(steps)), np.nan)
        for i, curve in enumerate(self.curves):
            table[i, np.searchsorted(steps, curve.steps)] = curve.column(column or self.score_column)
        return table

    def final(self) -> tuple[np.ndarray, int]:
        """Scores [seeds] at the last step where at least half of the seeds have one, and that step; NaN for the rest.

        A seed that is ahead of the others, or one that stopped early, must not speak for all.
        """
        table = self.table()
        enough = np.isfinite(table).sum(axis=0) * 2 >= len(self.curves)
        if not enough.any():
            return np.full(len(self.curves), np.nan), int(self.steps[-1])
        at = int(np.flatnonzero(enough)[-1])
        return table[:, at], int(self.steps[at])


def aligned(x: Group, base: Group) -> tuple[np.ndarray, np.ndarray]:
    """The scores of both at the steps that both have: phases are compared at the same step, not by their number."""
    common = np.intersect1d(x.steps, base.steps)
    return x.table()[:, np.isin(x.steps, common)], base.table()[:, np.isin(base.steps, common)]


def group_runs(runs: Iterable[Run]) -> tuple[list[Group], list[LeftOut]]:
    """The runs, grouped; and the seeds that were there twice, of which the longer one counts."""
    runs = list(runs)
    told_apart = _differences(runs)
    members: dict[tuple[str, str], dict[int, tuple[SeedCurve, Run]]] = {}
    left_out: list[LeftOut] = []
    for run in runs:
        variant = _variant(run, told_apart[run.agent])
        seeds = members.setdefault((run.env, variant), {})
        for curve in run.seeds:
            other = seeds.get(curve.seed)
            if other is not None:
                longer = curve.steps[-1] > other[0].steps[-1]
                dropped = other[1] if longer else run
                reason = f"seed {curve.seed} of {variant} in {run.env} is in another folder too, which counts instead"
                left_out.append(LeftOut(str(dropped.path), reason))
                if not longer:
                    continue
            seeds[curve.seed] = (curve, run)
    evaluated = {run.env for run in runs for curve in run.seeds if np.isfinite(curve.column("eval_return")).any()}
    groups = []
    for (env, variant), found in members.items():
        column = "eval_return" if env in evaluated else "train_return"
        scored = {seed: one for seed, one in found.items() if np.isfinite(one[0].column(column)).any()}
        for seed in found.keys() - scored.keys():
            reason = f"seed {seed} of {variant} has no {column.replace('_', ' ')} in {env}"
            if found[seed][0].no_episode_yet:
                reason += ", where no episode of it has ended yet"
            left_out.append(LeftOut(str(found[seed][1].path), reason))
        if scored:
            groups.append(_group(env, variant, scored, column))
    return groups, left_out


def _group(env: str, variant: str, found: dict[int, tuple[SeedCurve, Run]], column: str) -> Group:
    seeds = tuple(sorted(found))
    runs = tuple(dict((id(run), run) for _, run in (found[seed] for seed in seeds)).values())
    curves, done = tuple(found[seed][0] for seed in seeds), tuple(found[seed][1].done for seed in seeds)
    return Group(env, runs[0].agent, variant, seeds, curves, done, runs, column)


def _differences(runs: Sequence[Run]) -> dict[str, list[str]]:
    """For each agent, the settings that are not the same in all its runs of some environment."""
    values: dict[tuple[str, str], dict[str, Any]] = {}
    differing: dict[str, dict[str, None]] = {run.agent: {} for run in runs}
    for run in runs:
        flat = run.flat
        first = values.setdefault((run.agent, run.env), flat)
        for key in {**first, **flat}:
            if tells_apart(key) and first.get(key) != flat.get(key):
                differing[run.agent][key] = None
    return {agent: list(keys) for agent, keys in differing.items()}


def tells_apart(key: str) -> bool:
    """Whether runs that differ in this setting are different experiments."""
    return key not in NOT_TOLD_APART and not key.startswith(NOT_TOLD_APART_SECTIONS)


def _variant(run: Run, keys: list[str]) -> str:
    return " ".join([run.agent, *(f"{key}={run.flat[key]}" for key in keys if key in run.flat)])
