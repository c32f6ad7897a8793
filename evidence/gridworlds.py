"""A study of compiled-in environments summed up: a row for each agent, setting and evaluation phase, over all seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from evidence import tables
from evidence.runs import provenance, run_folders
from sail.analysis.statistics import wilson
from sail.jsonl import read_lines
from sail.studies.folder import StudyFolder
from sail.training.run_folder import RunFolder

MEANS = (
    *("train_success", "known_share", "stale_share", "active_share", "action_gap", "max_q"),
    *("advantage_part", "imitation_part"),
)
UNCHANGED, AGAIN = "exploration.decay_steps=250000", "optimiser.learning_rate=0.0003"
"""Settings of evidence/when-stale that are the defaults, so both are the same runs."""
SPREAD = ("q_key", "max_q_key", "q_treasure")  # of places, where an environment has them: also the 10th and 90th of 100


def changes(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The settings of evidence/when-stale, the unchanged one first and once."""
    found = dict.fromkeys(row["settings"] for row in rows if row["settings"] != AGAIN)
    return sorted(found, key=lambda setting: setting != UNCHANGED)


def by_size(rows: Sequence[dict[str, Any]]) -> dict[str, dict[int, dict[str, Any]]]:
    """{agent: {size: the last row}} of evidence/deep-sea, sizes in their order."""
    last = [row for row in rows if row["step"] == max(one["step"] for one in rows)]
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for size, row in sorted(((int(row["settings"].removeprefix("env.size=")), row) for row in last), key=itemgetter(0)):
        found.setdefault(row["agent"], {})[size] = row
    return found


def collect(study: Path, to: Path, command: str | None = None) -> str:
    """Writes the CSV of a study's finished cells; says how many are not. `command` made them if no study did."""
    cells = study / "cells"
    paths = run_folders(cells)
    groups: dict[tuple[str, str], list[RunFolder]] = defaultdict(list)
    for path in paths:
        if (path / "DONE").is_file():
            run = RunFolder(path)
            groups[run.config.env.name, path.relative_to(cells).parts[-2]].append(run)
    runs = [run for group in groups.values() for run in group]
    if not runs:
        raise SystemExit(f"No cell of {study} is done.")
    sources = [provenance(run.path) for run in runs]
    about = {
        "study": yaml.safe_load((study / "study.yaml").read_text()).get("title", study.name),
        "command": command or f"sail study run {StudyFolder(study).name}; a cell of it: {sources[0]['command']}",
        "hardware": _same([_hardware(source) for source in sources]),
        "versions": _same([source["versions"] for source in sources]),
        "seconds": "of training up to this step, all seeds together",
        "solved": "seeds whose greedy policy reaches the aim in every evaluation episode; 95 % Wilson interval",
        "reached": "seeds that have reached the aim in training by this step; first_NN: the step by which NN % had",
        "kept": "of the seeds that had reached the aim in training by this step, those that solve it now",
        "made": "made_NN: of the seeds that reached the aim in the first half of training, steps from there to the"
        " first phase at whose end NN % had solved it once; so it counts in whole phases",
        "others": "means over seeds; NAME_10 and NAME_90: the 10th and 90th percentile over seeds",
    }
    rows = [row for (_, name), group in groups.items() for row in _rows(name, group)]
    tables.write(to, about, rows)
    return f"{to}: {len(runs)} of {len(paths)} cells that have begun are done."


def _rows(name: str, runs: Sequence[RunFolder]) -> Iterator[dict[str, Any]]:
    """Of all runs of an agent with the same settings: there are several where seeds were added later."""
    agent, *settings = name.split(",")
    of_run = [run.metrics() for run in runs]
    metrics = [row for rows in of_run for row in rows]
    commit = _same([provenance(run.path)["commit"] for run in runs])
    perfect = [row for row in metrics if row.get("eval_success") == 1.0]
    reached, solved = _first_steps(runs, [row for run in runs for row in _successes(run)]), _first_steps(runs, perfect)
    first = np.array(list(reached.values()))
    steps = sorted({row["step"] for row in metrics})
    made = steps_made(first, np.array(list(solved.values())), steps[-1])
    for step in steps:
        here = [row for row in metrics if row["step"] == step]
        evaluated = [row for row in here if row.get("eval_success") is not None]
        good = [row["seed"] for row in perfect if row["step"] == step]
        share = wilson(len(good), len(evaluated)) if evaluated else None
        row: dict[str, Any] = {
            "env": runs[0].config.env.name,
            "agent": agent,
            "settings": " ".join(settings),
            "seeds": len(here),
            "step": step,
            "solved": len(good) if evaluated else None,
            "share": share and float(share.value),
            "low": share and float(share.low),
            "high": share and float(share.high),
            "reached": int((first <= step).sum()),
            "kept": sum(reached[seed] <= step for seed in good) if evaluated else None,
            **{f"first_{q}": _quantile(first, q) for q in (10, 50, 90)},
            **{f"made_{q}": _quantile(made, q) for q in (10, 50, 90)},
            **{name: _mean(here, name) for name in MEANS},
        }
        for name in SPREAD:
            values = [one[name] for one in here if one.get(name) is not None]
            row[name] = float(np.mean(values)) if values else None
            for q in (10, 90):
                row[f"{name}_{q}"] = float(np.percentile(values, q)) if values else None
        preferred = [one["q_key"] >= one["max_q_key"] for one in here if one.get("q_key") is not None]
        row["key_preferred"] = float(np.mean(preferred)) if preferred else None
        seconds = [next((one["seconds"] for one in rows if one["step"] == step), 0.0) for rows in of_run]
        yield row | {"seconds": sum(seconds), "commit": commit}


def steps_made(first: Any, solved: Any, last: int) -> Any:
    """Steps from each seed's first success in training to the phase by which it has solved it; infinite if it has not.

    Of the seeds that succeed in the first half alone: the others have little time left to make something of it. Zero
    for those that have solved it before, as may be where exploration is large.
    """
    early = first <= last / 2
    return np.maximum(solved[early] - first[early], 0.0)


def _successes(run: RunFolder) -> Iterable[dict[str, Any]]:
    """The training episodes that reached the aim."""
    return (row for row in read_lines(run.path / "episodes.jsonl") if row.get("success"))


def _first_steps(runs: Sequence[RunFolder], rows: Iterable[dict[str, Any]]) -> dict[int, float]:
    """{seed: step of the first of these rows that it has, infinite where it has none}, for every seed of the runs."""
    first = {run.config.seed + i: np.inf for run in runs for i in range(run.config.seeds)}
    for row in rows:
        first[row["seed"]] = min(first[row["seed"]], row["step"])
    return first


def _quantile(steps: Any, percent: int) -> int | None:
    """The steps by which so many percent of the seeds had succeeded, if they have."""
    if not len(steps):
        return None
    found = np.sort(steps)[int(np.ceil(len(steps) * percent / 100)) - 1]
    return int(found) if np.isfinite(found) else None


def _mean(rows: list[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(np.mean(values)) if values else None


def _hardware(source: dict[str, Any]) -> str:
    hardware = source["hardware"]
    return f"{hardware['cpu']}, {hardware['cores']} cores, {', '.join(hardware['devices'])}"


def _same(values: list[Any]) -> str:
    """The one value, or all that occur."""
    return "; ".join(dict.fromkeys(str(value) for value in values))
