"""How long a report of the paper's full set takes, and how large its page is: synthetic run folders, made here.

python benchmarks/report_size.py                                   # 59 games x 9 agents x 3 seeds x 200 iterations
python benchmarks/report_size.py --games 16 --agents 6             # the size that a page must keep under 2 MB
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml

from sail.config import config_to_tree, make_config
from sail.games import GROUPS
from sail.training.provenance import provenance

AGENTS = ("dqn", "al-dqn", "sail-dqn", "iqn", "al-iqn", "sail-iqn", "c51", "rainbow", "iqn+rnd")
_OF_THE_BONUS = ("bonus", "advantage_part", "imitation_part", "active_share", "known_share", "stale_share")
DIAGNOSTICS = (*_OF_THE_BONUS, "action_gap", "max_q", "loss", "epsilon")


def make_folders(folder: Path, games: int, agents: int, seeds: int, iterations: int) -> None:
    """Run folders as training would leave them, with scores that are made up."""
    random = np.random.default_rng(0)
    chosen = [
        *GROUPS["hard-exploration"],
        *(game for game in GROUPS["paper"] if game not in GROUPS["hard-exploration"]),
    ]
    for game in chosen[:games]:
        for agent in AGENTS[:agents]:
            text = yaml.safe_dump(config_to_tree(make_config(f"atari:{game}", agent)) | {"provenance": {"commit": "x"}})
            level = random.uniform(10, 5000)
            for seed in range(seeds):
                run = folder / game / agent / f"seed{seed}"
                run.mkdir(parents=True)
                (run / "config.yaml").write_text(text.replace("\nseed: 0\n", f"\nseed: {seed}\n"))
                scores = level * (1 - np.exp(-np.arange(iterations) / 60)) * random.normal(1, 0.1, iterations)
                noise = random.normal(0, 1, (iterations, len(DIAGNOSTICS)))
                rows = (
                    {"step": 250_000 * (i + 1), "seed": seed, "train_return": float(scores[i]), "seconds": 60.0 * i}
                    | dict(zip(DIAGNOSTICS, map(float, noise[i]), strict=True))
                    for i in range(iterations)
                )
                (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
                (run / "DONE").write_text("{}")


def main() -> None:
    """Makes the folders, runs `sail report` on them, and prints what that took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--games", type=int, default=59)
    parser.add_argument("--agents", type=int, default=9)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, page = Path(name) / "runs", Path(name) / "report.html"
        make_folders(folder, options.games, options.agents, options.seeds, options.iterations)
        began = time.perf_counter()
        command = [sys.executable, "-m", "sail", "report", str(folder), "--out", str(page), "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds, size = time.perf_counter() - began, page.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    shape = {key: getattr(options, key) for key in ("games", "agents", "seeds", "iterations")}
    result = {**shape, "seconds": round(seconds, 1), "page_megabytes": round(size / 1e6, 2), "peak_gib": round(peak, 2)}
    print(json.dumps(result))
    if options.out:
        options.out.write_text(json.dumps(result | {"provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
