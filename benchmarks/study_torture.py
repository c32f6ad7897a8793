"""A study whose driver and cells are killed with SIGKILL at random times, beside one that is left alone.

    python benchmarks/study_torture.py --kills 10 --out benchmarks/results/study_torture.json

Driver and workers are killed in turns. After a driver the study is started again; a worker its driver starts again. At
the end every cell must be done, with the same logs as in the study that was left alone, and none of those that were
done when something was killed may have been started again. With --ray two raylets run it too, and one is killed midway.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sail.studies.folder import StudyFolder
from sail.training.provenance import provenance


def main() -> int:
    """Runs it, and says whether all held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="kdt/smoke")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", action="store_true", help="two raylets, one of which is killed midway, as well")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = torture(options.study, Path(folder), options.kills, options.seed)
        if options.ray:
            result["ray"] = on_ray(options.study, Path(folder))
    result = {"study": options.study, "seed": options.seed, **result, "provenance": provenance()}
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["same_logs"] and not result["done_twice"] and result.get("ray", {}).get("same_logs", True) else 1


def torture(study: str, folder: Path, kills: int, seed: int, pause: float | None = None) -> dict[str, Any]:
    """The undisturbed study in `folder`/alone, the other in `folder`/killed; what became of the latter.

    Something is killed every `pause` seconds, more or less; by default so that the kills are spread over the study.
    """
    rng = random.Random(seed)
    alone, killed = folder / "alone", folder / "killed"
    began = time.monotonic()
    finish(start(study, alone))
    undisturbed = time.monotonic() - began
    began = time.monotonic()
    driver = start(study, killed)
    events: list[str] = []
    done_twice: set[str] = set()
    pause = pause or undisturbed / (kills + 1)
    while len(events) < kills:
        time.sleep(rng.uniform(0.4, 1.6) * pause)
        workers: list[int] = []
        while driver.poll() is None and len(events) % 2 == 1 and not (workers := children(driver.pid)):
            time.sleep(0.02)  # on a busy machine a driver takes its time to start any
        if driver.poll() is not None:
            break  # there was nothing left to kill
        before = starts_of_the_done(killed)
        if not workers:
            driver.kill()
            driver.wait()
            events.append("driver")
            driver = start(study, killed)
        else:
            os.kill(rng.choice(workers), signal.SIGKILL)
            events.append("worker")
        done_twice |= started_again(before, killed)
    finish(driver)
    done_twice |= started_again(before if events else {}, killed)
    return {
        "cells": len(StudyFolder(killed).cells),
        "killed": events,
        "seconds_undisturbed": round(undisturbed, 1),
        "seconds_with_kills": round(time.monotonic() - began, 1),
        "done_twice": sorted(done_twice),
        "starts": sum(len(StudyFolder(killed).record(cell).starts) for cell in StudyFolder(killed).cells),
        "starts_from_a_checkpoint": sum(
            start["from_step"] > 0
            for cell in StudyFolder(killed).cells
            for start in StudyFolder(killed).record(cell).starts
        ),
        "same_logs": logs(alone) == logs(killed),
    }


def on_ray(study: str, folder: Path) -> dict[str, Any]:
    """The study on a cluster of a head without cores and two raylets with one each; one is killed midway."""
    from ray.cluster_utils import Cluster

    out = folder / "ray"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1, memory=4 * 10**9) for _ in range(2)]
        began = time.monotonic()
        driver = start(study, out, "--executor", "ray", "--address", cluster.address)
        total = None
        while driver.poll() is None:
            time.sleep(0.2)
            if total is None and (out / "study.json").is_file():
                total = len(StudyFolder(out).cells)
            if total and len(nodes) == 2 and len(starts_of_the_done(out)) >= total // 2:
                cluster.remove_node(nodes.pop(), allow_graceful=False)
        finish(driver)
        seconds = time.monotonic() - began
    finally:
        cluster.shutdown()
    return {"raylets_left": len(nodes), "seconds": round(seconds, 1), "same_logs": logs(folder / "alone") == logs(out)}


def start(study: str, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """A driver."""
    arguments = [sys.executable, "-m", "sail", "study", "run", study, "--out", str(out), "--quiet", "--json", *more]
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL)


def finish(driver: subprocess.Popen[bytes]) -> None:
    """Waits for a driver that must end well."""
    code = driver.wait(1800)
    if code:
        raise SystemExit(f"A driver ended with code {code}.")


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def starts_of_the_done(folder: Path) -> dict[str, int]:
    """How often each cell that is done now was started."""
    if not (folder / "study.json").is_file():
        return {}
    study = StudyFolder(folder)
    return {cell.name: len(study.record(cell).starts) for cell in study.cells if study.is_done(cell)}


def started_again(before: dict[str, int], folder: Path) -> set[str]:
    """The cells among those done before that were started since."""
    now = starts_of_the_done(folder)
    return {name for name, starts in before.items() if now.get(name, 0) > starts}


def logs(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every line of every log, but for the times."""
    lines = {}
    for path in sorted((folder / "cells").rglob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        lines[str(path.relative_to(folder))] = [
            {key: value for key, value in row.items() if key != "seconds"} for row in rows
        ]
    return lines


if __name__ == "__main__":
    sys.exit(main())
