"""What a study costs beyond the training itself: the same short cells as bare processes, as a study, and on Ray.

    python benchmarks/study_overhead.py --out benchmarks/results/study_overhead.json

A bare process imports sail and trains one cell with `sail.train_config`, with one core as a cell has; they run one
after another, and so do the cells of the study (one worker, or a Ray node with one core). Programs are compiled
beforehand, into the cache on disk that all of them use. Rounds are interleaved.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from sail.studies import library
from sail.studies.cells import expand
from sail.studies.definition import read_definition
from sail.studies.marked import Marked
from sail.studies.resources import Resources
from sail.studies.supervisor import environment_of
from sail.training.provenance import provenance

BARE = """
import json, sys
from sail.studies.cells import Cell
from sail.training.api import train_config
train_config(Cell(**json.loads(sys.argv[1])).config(), out=sys.argv[2])
"""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "cells.yaml"
        tree = json.loads(json.dumps(library.find("kdt/smoke")[1].tree))
        tree |= {"agents": ["sail-dqn"], "environments": ["kdt"], "vary": {}, "seeds": options.cells, "together": 1}
        file.write_text(json.dumps(tree))  # JSON is YAML
        bare(file, folder / "warm-up", 1)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        for i in range(options.rounds):
            row = {"bare": bare(file, folder / f"bare{i}", options.cells)}
            row["local"] = study(file, folder / f"local{i}", "--workers", "1")
            row["ray"] = study(file, folder / f"ray{i}", "--address", cluster.address)
            rows.append(row)
            print({key: round(value, 2) for key, value in row.items()}, file=sys.stderr, flush=True)
        cluster.shutdown()
    result = {
        "cells": options.cells,
        "seconds": rows,
        "seconds_a_cell_beyond_bare": {
            name: [round((row[name] - row["bare"]) / options.cells, 3) for row in rows] for name in ("local", "ray")
        },
        "note": "whole commands, the start of the driver included; the Ray cluster was there already",
        "provenance": provenance(),
    }
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def bare(file: Path, out: Path, count: int) -> float:
    """Seconds for the cells as processes one after another."""
    marked = Marked.from_file(file)
    cells = expand(read_definition(marked, "cells"), marked)[:count]
    began = time.perf_counter()
    for cell in cells:
        arguments = [sys.executable, "-c", BARE, json.dumps(cell.to_tree()), str(out / cell.name)]
        subprocess.run(arguments, check=True, env=environment_of(Resources()), stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def study(file: Path, out: Path, *more: Any) -> float:
    """Seconds for the same as a study."""
    began = time.perf_counter()
    arguments = [sys.executable, "-m", "sail", "study", "run", str(file), "--out", str(out), "--quiet", *more]
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
