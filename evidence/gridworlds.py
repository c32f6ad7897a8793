"""A study of compiled-in environments summed up: a row for each cell and evaluation phase, over all its seeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from evidence import tables
from sail.analysis.statistics import wilson
from sail.jsonl import read_lines
from sail.training.run_folder import RunFolder

MEANS = ("train_success", "known_share", "stale_share", "active_share", "action_gap", "max_q")
SPREAD = ("q_key", "max_q_key", "q_treasure")  # of places, where an environment has them: also the 10th and 90th of 100


def collect(study: Path, to: Path) -> None:
    """Writes the CSV of a study's finished cells."""
    runs = [RunFolder(path.parent) for path in sorted((study / "cells").rglob("DONE"))]
    if not runs:
        raise SystemExit(f"No cell of {study} is done.")
    name = yaml.safe_load((study / "study.yaml").read_text()).get("title", study.name)
    sources = [yaml.safe_load((run.path / "config.yaml").read_text())["provenance"] for run in runs]
    rows = [row for run, source in zip(runs, sources, strict=True) for row in _rows(run, study, source)]
    about = {
        "study": name,
        "hardware": _same([_hardware(source) for source in sources]),
        "versions": _same([source["versions"] for source in sources]),
        "seconds": "of the whole cell, all its seeds together",
        "solved": "seeds whose greedy policy reaches the aim in every evaluation episode; 95 % Wilson interval",
        "reached": "seeds that have reached the aim in training by this step; first_NN: the step by which NN % had",
    }
    tables.write(to, about, rows)


def _rows(run: RunFolder, study: Path, source: dict[str, Any]) -> Iterator[dict[str, Any]]:
    agent, *settings = run.path.relative_to(study / "cells").parts[-2].split(",")
    metrics, num_seeds = run.metrics(), run.config.seeds
    first = _first_successes(run)
    for step in sorted({row["step"] for row in metrics}):
        here = [row for row in metrics if row["step"] == step]
        solved = sum(row["eval_success"] == 1.0 for row in here)
        share, low, high = wilson(solved, len(here))
        row = {
            "env": run.config.env.name,
            "agent": agent,
            "settings": " ".join(settings),
            "seeds": num_seeds,
            "step": step,
            "solved": solved,
            "share": share,
            "low": low,
            "high": high,
            "reached": int((first <= step).sum()),
            **{f"first_{q}": _quantile(first, q) for q in (10, 50, 90)},
            **{name: _mean(here, name) for name in MEANS},
        }
        for name in SPREAD:
            values = [one[name] for one in here if one.get(name) is not None]
            row[name] = float(np.mean(values)) if values else None
            for q in (10, 90):
                row[f"{name}_{q}"] = float(np.percentile(values, q)) if values else None
        preferred = [one["q_key"] >= one["max_q_key"] for one in here if "q_key" in one]
        row["key_preferred"] = float(np.mean(preferred)) if preferred else None
        yield row | {"seconds": here[0]["seconds"], "commit": source["commit"], "started": source["started"]}


def _first_successes(run: RunFolder) -> Any:
    """[seeds] the step of each seed's first success in training; infinite where there was none."""
    first = np.full(run.config.seeds, np.inf)
    for row in read_lines(run.path / "episodes.jsonl"):
        if row.get("success"):
            seed = row["seed"] - run.config.seed
            first[seed] = min(first[seed], row["step"])
    return first


def _quantile(first: Any, percent: int) -> int | None:
    """The step by which so many percent of the seeds had succeeded, if they have."""
    step = np.sort(first)[int(np.ceil(len(first) * percent / 100)) - 1]
    return int(step) if np.isfinite(step) else None


def _mean(rows: list[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(np.mean(values)) if values else None


def _hardware(source: dict[str, Any]) -> str:
    hardware = source["hardware"]
    return f"{hardware['cpu']}, {hardware['cores']} cores, {', '.join(hardware['devices'])}"


def _same(values: list[Any]) -> str:
    """The one value, or all that occur."""
    return "; ".join(dict.fromkeys(str(value) for value in values))
