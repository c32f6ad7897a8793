"""sail's DQN and SAIL-DQN beside Stable-Baselines3's DQN and a CleanRL-style one on an Atari game, at equal work.

    python benchmarks/atari_race.py                                 # needs torch, stable-baselines3, gymnasium, ale-py
    python benchmarks/atari_race.py --device gpu --only sail-dqn dqn sb3-vector torch-loop --seconds 10 --rounds 1

The work: steps of Pong (frame skip 4, 84 x 84 grey, 4 stacked, sticky actions 0.25), and for every 4 of them one Adam
step on 32 of 100,000 transitions, Huber loss, for the network of the Nature paper. The CleanRL-style loop is ours: one
game, a buffer in numpy, eager PyTorch. On a GPU sail's convolutions are in bfloat16 unless it says float32; the others
are as PyTorch does them by default. Memory is the machine's, and the GPU's beside it: sail's replay memory is there.

How it is measured: every contestant in a process of its own, sail and Stable-Baselines3 in turns, several rounds,
every other one backwards. The replay memory is full and resident before anything is measured. Compilation and warm-up
are not part of a rate; they are part of the peak memory, which is that of all processes of a contestant together.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from atari_peers import sb3_variants, time_sail, time_sb3
from atari_torch import time_loop
from rich.console import Console
from rich.table import Table
from timing import CORES, in_own_process

from sail.config import Config, config_to_tree, make_config
from sail.envs.atari_settings import FRAME_SKIP

SAIL_AGENTS = ("dqn", "sail-dqn", "sail-dqn-float32")
LOOP = "torch-loop"
TORCH_DEVICE = {"cpu": "cpu", "gpu": "cuda"}
GIB = 1024**3
STARTUP_SECONDS = 300.0  # imports, emulators, compilation, and 5.6 GB to write, on a slow machine
RESULTS = Path(__file__).parent / "results"
console = Console(width=None if sys.stdout.isatty() else 150)


def configure(name: str, game: str, transitions: int) -> Config:
    """The work, and otherwise sail's defaults for Atari. Epsilon is at its end: all of a measurement is alike."""
    agent, _, precision = name.partition("-float")
    work = {
        "agent": {"network": "nature", "loss": "huber", "precision": "float32" if precision else "auto"},
        "optimiser": {"name": "adam", "learning_rate": 6.25e-5, "eps": 1.5e-4},
        "replay": {"capacity": transitions},
        "learning": {"batch_size": 32, "update_period": 4, "starts": 1_000},
        "exploration": {"start": 0.01, "end": 0.01, "decay_steps": 1},
    }
    return make_config(f"atari:{game}", agent, work)


def measure_here(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One contestant's measurement, in this process."""
    if name in SAIL_AGENTS:
        config = configure(name, options.game, options.transitions)
        timing, update_ms = time_sail(config, options.seconds)
    else:
        config, device = configure("dqn", options.game, options.transitions), TORCH_DEVICE[options.device]
        if name == LOOP:
            timing, update_ms = time_loop(config, options.seconds, device)
        else:
            timing, update_ms = time_sb3(config, sb3_variants(config)[name], options.seconds, device)
    if timing.updates * config.learning.update_period != timing.steps:
        raise RuntimeError(f"{timing.updates} updates in {timing.steps} steps is not the work that was agreed.")
    return {
        "frames_per_second": FRAME_SKIP * timing.rate,
        "updates_per_second": timing.updates / timing.seconds,
        "ms_per_update": 1000 * timing.seconds / timing.updates,
        "update_alone_ms": update_ms,
        "steps": timing.steps,
        "updates": timing.updates,
        "seconds": timing.seconds,
        "cpu_seconds": timing.cpu_seconds,
        "start_seconds": timing.compile_seconds,
        "device_gib": device_bytes(name, options.device) / GIB,
    }


def device_bytes(name: str, device: str) -> int:
    """The most that this process has had on the GPU."""
    if device == "cpu":
        return 0
    if name in SAIL_AGENTS:
        import jax

        return int((jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0))
    import torch

    return int(torch.cuda.max_memory_reserved())


def session_rss(session: int, proc: Path = Path("/proc")) -> int:
    """Bytes of memory that all processes of a session hold now. Pages that they share count for each of them."""
    pages = 0
    for stat in proc.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()  # what comes before it is the command's name
        except OSError:
            continue  # it has just ended
        if int(fields[3]) == session:
            pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure_apart(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The same in a fresh process, with the peak of its memory and of all processes it starts."""
    command = [sys.executable, __file__, "--measure", name, "--game", options.game]
    command += ["--seconds", str(options.seconds), "--transitions", str(options.transitions)]
    command += ["--device", options.device]
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    if options.device == "cpu":
        environment["JAX_PLATFORMS"] = "cpu"
    peak, deadline = 0, time.monotonic() + STARTUP_SECONDS + 3 * options.seconds
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, env=environment, start_new_session=True)
        try:
            while child.poll() is None and time.monotonic() < deadline:
                peak = max(peak, session_rss(child.pid))
                time.sleep(0.2)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        out.seek(0)
        lines = out.read().splitlines()
    if child.returncode != 0:
        raise RuntimeError(f"{name} ended with {child.returncode} (its last words are above).")
    return {**json.loads(lines[-1]), "peak_gib": peak / GIB}


def summarise(name: str, label: str, rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The medians of a contestant's rounds, and all of them."""
    keys = ("frames_per_second", "updates_per_second", "ms_per_update", "update_alone_ms", "start_seconds")
    medians = {key: statistics.median(one[key] for one in rounds) for key in keys}
    peak = max(one["peak_gib"] for one in rounds)
    on_device = max(one.get("device_gib", 0.0) for one in rounds)
    return {"name": name, "label": label, **medians, "peak_gib": peak, "device_gib": on_device, "rounds": list(rounds)}


def compare(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """sail's rows against the fastest and the leanest of the others, whichever those are."""
    ours = [row for row in rows if row["name"] in SAIL_AGENTS]
    theirs = [row for row in rows if row["name"] not in SAIL_AGENTS]
    found = []
    for one, (word, key, pick) in itertools.product(
        ours, [("fastest", "frames_per_second", max), ("leanest", "peak_gib", min)] if theirs else []
    ):
        other = pick(theirs, key=lambda row, key=key: row[key])
        found.append(
            {
                "agent": one["name"],
                "against": f"the {word} of the others ({other['name']})",
                "speed_ratio": one["frames_per_second"] / other["frames_per_second"],
                "memory_ratio": (one["peak_gib"] + one["device_gib"]) / (other["peak_gib"] + other["device_gib"]),
            }
        )
    return found


def show(report: dict[str, Any]) -> None:
    """The tables."""
    table = Table(
        "contestant", title=f"{report['game']}, {report['device']}, {report['transitions']:,} transitions in memory"
    )
    for heading in ("frames/s", "min .. max", "updates/s", "ms/update", "alone", "peak, GiB", "GPU, GiB", "start, s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report["results"]:
        rates = [one["frames_per_second"] for one in row["rounds"]]
        spread = f"{min(rates):,.0f} .. {max(rates):,.0f}"
        table.add_row(
            row["label"],
            f"{row['frames_per_second']:,.0f}",
            spread,
            f"{row['updates_per_second']:.1f}",
            f"{row['ms_per_update']:.1f}",
            f"{row['update_alone_ms']:.1f}",
            f"{row['peak_gib']:.2f}",
            f"{row['device_gib']:.2f}",
            f"{row['start_seconds']:.0f}",
        )
    console.print(table)
    ratios = Table("sail's", "against", "frames/s, x", "memory, x")
    for row in report["ratios"]:
        ratios.add_row(row["agent"], row["against"], f"{row['speed_ratio']:.2f}", f"{row['memory_ratio']:.2f}")
    if report["ratios"]:
        console.print(ratios)
    for failure in report["failures"]:
        console.print(f"failed: {failure}", style="red", markup=False)


def describe_machine() -> dict[str, Any]:
    """Date, commit, hardware and versions."""
    from sail.training.provenance import provenance

    where = provenance()
    for package in ("ale-py", "torch", "stable-baselines3", "gymnasium", "opencv-python-headless"):
        try:
            where["versions"][package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            where["versions"][package] = None
    return where


def parse(names: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each measurement (default: 30)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each contestant (default: 3)")
    parser.add_argument("--transitions", type=int, default=100_000, help="in the replay memory (default: 100,000)")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="who takes part")
    parser.add_argument("--device", choices=TORCH_DEVICE, default="cpu", help="where all learn (default: cpu)")
    parser.add_argument("--out", type=Path, help="JSON to write (default: results/atari_race_DEVICE.json)")
    parser.add_argument("--measure", choices=names, help=argparse.SUPPRESS)  # what the processes are started with
    return parser.parse_args()


def main() -> None:
    """Measures everyone, prints the tables, and writes the JSON."""
    variants = sb3_variants(configure("dqn", "Pong", 100_000))
    labels = {
        **{agent: f"sail {agent}" for agent in SAIL_AGENTS},
        **{k: f"SB3, {v.label}" for k, v in variants.items()},
        LOOP: "CleanRL-style: 1 env of ale-py's vector environment",
    }
    # In turns: sail, someone else, sail, ...
    turns = itertools.chain(*itertools.zip_longest(SAIL_AGENTS, [*variants, LOOP]))
    options = parse([name for name in turns if name])
    if options.measure:
        print(json.dumps(measure_here(options.measure, options)))
        return
    out = options.out or RESULTS / f"atari_race_{options.device}.json"
    if options.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    report: dict[str, Any] = {
        **in_own_process(describe_machine),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "load_average_at_start": os.getloadavg(),
        "game": options.game,
        "device": options.device,
        "transitions": options.transitions,
        "seconds": options.seconds,
        "settings": config_to_tree(configure("sail-dqn", options.game, options.transitions)),
        "results": [],
        "ratios": [],
        "failures": [],
    }
    if os.getloadavg()[0] > CORES / 4:
        console.print(f"Others use this machine (load {os.getloadavg()[0]:.1f}): the rates mean little.", style="red")
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in options.only}
    for i in range(options.rounds):
        for name in options.only[:: -1 if i % 2 else 1]:
            try:
                one = measure_apart(name, options)
            except RuntimeError as error:
                report["failures"].append(str(error))
                console.print(str(error), style="red", markup=False)
                continue
            measured[name].append(one)
            rate, peak = one["frames_per_second"], one["peak_gib"]
            console.print(f"{i + 1}/{options.rounds} {labels[name]}: {rate:,.0f} frames/s, {peak:.2f} GiB at most")
            report["results"] = [summarise(name, labels[name], rounds) for name, rounds in measured.items() if rounds]
            report["ratios"] = compare(report["results"])
            report["load_average_at_end"] = os.getloadavg()
            out.write_text(json.dumps(report, indent=1) + "\n")
    show(report)


if __name__ == "__main__":
    main()
