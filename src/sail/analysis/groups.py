"""Runs that belong together: the seeds of one agent, with one set of settings, in one environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sail.analysis.runs import LeftOut, Run, SeedCurve

NOT_TOLD_APART = {"seed", "seeds", "steps", "env.name", "env.give_way", "env.threads", "learning.num_pools"}
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

    @property
    def frames_a_step(self) -> int:
        """Emulator frames of one agent step."""
        return self.runs[0].frames_a_step

    @property
    def steps(self) -> np.ndarray:
        """[phases]: every step at which some seed has logged."""
        return np.unique(np.concatenate([curve.steps for curve in self.curves]))

    def table(self, column: str | None = None) -> np.ndarray:
        """[seeds, phases]: scores, or another column; NaN where a seed has logged nothing (yet)."""
        steps = self.steps
        table = np.full((len(self.curves), len(steps)), np.nan)
        for i, curve in enumerate(self.curves):
            table[i, np.searchsorted(steps, curve.steps)] = curve.scores if column is None else curve.column(column)
        return table


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
    return [_group(env, variant, found) for (env, variant), found in members.items()], left_out


def _group(env: str, variant: str, found: dict[int, tuple[SeedCurve, Run]]) -> Group:
    seeds = tuple(sorted(found))
    runs = tuple(dict((id(run), run) for _, run in (found[seed] for seed in seeds)).values())
    curves, done = tuple(found[seed][0] for seed in seeds), tuple(found[seed][1].done for seed in seeds)
    return Group(env, runs[0].agent, variant, seeds, curves, done, runs)


def _differences(runs: Sequence[Run]) -> dict[str, list[str]]:
    """For each agent, the settings that are not the same in all its runs of some environment."""
    values: dict[tuple[str, str], dict[str, Any]] = {}
    differing: dict[str, dict[str, None]] = {run.agent: {} for run in runs}
    for run in runs:
        flat = flatten(run.settings)
        first = values.setdefault((run.agent, run.env), flat)
        for key in {**first, **flat}:
            if _tells_apart(key) and first.get(key) != flat.get(key):
                differing[run.agent][key] = None
    return {agent: list(keys) for agent, keys in differing.items()}


def _tells_apart(key: str) -> bool:
    return key not in NOT_TOLD_APART and not key.startswith(NOT_TOLD_APART_SECTIONS)


def _variant(run: Run, keys: list[str]) -> str:
    flat = flatten(run.settings)
    return " ".join([run.agent, *(f"{key}={flat[key]}" for key in keys if key in flat)])


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by dotted name."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = tuple(value) if isinstance(value, list) else value
    return flat
