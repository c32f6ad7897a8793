"""Who learns Key-Door-Treasure? Success rates of the paper's rules at one fixed budget, with 95 % intervals.

    python benchmarks/kdt_learning.py --seeds 20 --seed 1000 --out benchmarks/results/kdt_learning_cpu.csv
    python benchmarks/kdt_learning.py --seeds 100 --env.slip 0.1      # any setting of sail train

Every agent trains with `sail train`'s own defaults, so each row is also `sail train ENV --agent AGENT --seeds N`.
A seed counts as solved at a step if every evaluation episode there ends with the treasure.
"""

from __future__ import annotations

import argparse
import csv
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sail
from sail.cli import split_settings
from sail.training.provenance import provenance

AGENTS = ("dqn", "al-dqn", "sail-dqn", "strsil-dqn", "munchausen-dqn")
ENVS = ("kdt", "apple-kdt")
FIELDS = ["env", "settings", "agent", "seeds", "step", "solved", "share", "low", "high", "reached", "seconds"]


def wilson(solved: int, seeds: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion, which stays sensible at none and at all."""
    share, shrink = solved / seeds, 1 + z * z / seeds
    middle = (share + z * z / (2 * seeds)) / shrink
    half = z * math.sqrt(share * (1 - share) / seeds + z * z / (4 * seeds * seeds)) / shrink
    return max(middle - half, 0.0), min(middle + half, 1.0)


def measure(env: str, agent: str, seeds: int, steps: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Trains one agent and returns a row for each evaluated step."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        config = sail.make_config(env, agent, {"seeds": seeds, "steps": steps, **settings})
        run = sail.train_config(config, out=Path(folder) / "run")
        metrics, episodes = run.metrics(), run.episodes()
    seconds = time.monotonic() - started
    first_reached = np.full(seeds, np.inf)
    for episode in episodes:
        if episode["success"]:
            index = episode["seed"] - config.seed
            first_reached[index] = min(first_reached[index], episode["step"])
    changed = " ".join(f"{name}={value}" for name, value in settings.items())
    rows = []
    for step in sorted({row["step"] for row in metrics}):
        solved = sum(row["eval_success"] == 1.0 for row in metrics if row["step"] == step)
        low, high = wilson(solved, seeds)
        rows.append(
            {
                "env": env,
                "settings": changed,
                "agent": agent,
                "seeds": seeds,
                "step": step,
                "solved": solved,
                "share": round(solved / seeds, 4),
                "low": round(low, 4),
                "high": round(high, 4),
                "reached": int((first_reached <= step).sum()),
                "seconds": round(seconds, 1),
            }
        )
    return rows


def main() -> None:
    """Measures every agent in both environments, prints a table and writes a CSV."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--agents", nargs="+", default=AGENTS)
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--out", type=Path, help="CSV to write")
    options, rest = parser.parse_known_args()
    _, settings = split_settings(rest)
    rows: list[dict[str, Any]] = []
    for env in options.envs:
        for agent in options.agents:
            rows += measure(env, agent, options.seeds, options.steps, settings)
            print(f"{env} {agent}: {rows[-1]['solved']} of {options.seeds} in {rows[-1]['seconds']} s", flush=True)
    show(rows)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        source = provenance()
        with options.out.open("w", newline="") as file:
            file.write(f"# {source['command']}; {source['started']}; commit {source['commit']}\n")
            file.write(f"# hardware: {source['hardware']}\n# versions: {source['versions']}\n")
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


def show(rows: list[dict[str, Any]]) -> None:
    """The share of seeds solved at a third, two thirds and all of the budget."""
    last = max(row["step"] for row in rows)
    steps = sorted({row["step"] for row in rows})
    shown = [steps[round(len(steps) * part / 3) - 1] for part in (1, 2, 3)]
    table = Table(title=f"Seeds whose greedy policy takes the treasure ({rows[0]['seeds']} seeds, 95 % intervals)")
    for column in ("environment", "agent", *[f"{step:,} steps" for step in shown], "ever reached it"):
        table.add_column(column)
    for env, agent in dict.fromkeys((row["env"], row["agent"]) for row in rows):
        mine = {row["step"]: row for row in rows if (row["env"], row["agent"]) == (env, agent)}
        cells = [f"{mine[s]['share']:.2f} [{mine[s]['low']:.2f}, {mine[s]['high']:.2f}]" for s in shown]
        table.add_row(env, agent, *cells, f"{mine[last]['reached'] / mine[last]['seeds']:.2f}")
    Console(width=140).print(table, markup=False)


if __name__ == "__main__":
    main()
