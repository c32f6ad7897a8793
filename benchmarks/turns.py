"""How well games in pools that take turns keep the cores at work while a device chooses their actions: without one.

    python benchmarks/turns.py                              # Pong, 36 games in 3 pools, a process for each core
    python benchmarks/turns.py --games 240 --processes 14 --delays 0,1,2,4

The loop's emulators are those of training, but actions are random and come some milliseconds after the rows they are
for, from nobody. Frames per second, and how many cores the emulators' processes keep busy, for each of these delays,
which take turns. With a delay of 0 it is what the emulators can do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from options import about, parsed
from rich.console import Console
from rich.table import Table

from sail.arguments import count
from sail.config import make_config
from sail.envs.atari_settings import FRAME_SKIP
from sail.machine import cores
from sail.training.emulators import Pools

console = Console(width=None if sys.stdout.isatty() else 150)


class Late:
    """Actions that are there at some time."""

    def __init__(self, actions: Any, when: float) -> None:
        self._actions, self._when = actions, when

    def ready(self) -> bool:
        """Whether there is nothing to wait for."""
        return time.perf_counter() >= self._when

    def __call__(self) -> Any:
        """Waits."""
        time.sleep(max(self._when - time.perf_counter(), 0.0))
        return self._actions


def processor_seconds(pools: Pools) -> float:
    """What the emulators' processes have used so far; only where there are some, and on Linux."""
    ticks = 0
    for process in pools.processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(options: argparse.Namespace, delay: float) -> tuple[int, float]:
    """Frames per second with a delay in milliseconds, and the cores that were busy."""
    settings = {
        "env": {"processes": options.processes},
        "learning": {"num_envs": options.games, "num_pools": options.pools},
    }
    pools = Pools(make_config(options.game, "dqn", settings), 0, whole_screens=True)
    rng, seeds = np.random.default_rng(0), np.arange(1)

    def turn() -> int:
        (asked,), (rows,) = pools.rows(seeds)
        assert rows is not None
        asked.act(Late(rng.integers(asked.env.num_actions, size=len(rows.env)), time.perf_counter() + delay / 1000))
        return int(rows.stepped.sum())

    try:
        for _ in range(2 * options.pools):
            turn()  # every game has begun
        steps, began, used = 0, time.perf_counter(), processor_seconds(pools)
        while time.perf_counter() - began < options.seconds:
            steps += turn()
        seconds = time.perf_counter() - began
        return round(FRAME_SKIP * steps / seconds), (processor_seconds(pools) - used) / seconds
    finally:
        pools.close()


def milliseconds(text: str) -> list[float]:
    """As in 0,1.5,3."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [-1.0]
    if not all(0 <= delay < 1e6 for delay in found):
        raise argparse.ArgumentTypeError(f"must be milliseconds like 0,1.5,3, not '{text}'")
    return found


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--games", type=count, default=36, help="at once, in all pools (default: 36)")
    parser.add_argument("--pools", type=count, default=3)
    parser.add_argument("--processes", type=count, default=cores(), help="that play them (default: one for each core)")
    parser.add_argument("--delays", type=milliseconds, default=[0.0, 1.0, 2.0, 3.0], help="as in 0,1,2,3")
    parser.add_argument("--seconds", type=count, default=4, help="of each measurement (default: 4)")
    parser.add_argument("--rounds", type=count, default=3, help="of all delays (default: 3)")
    options = parsed(parser)
    if options.games % options.pools:
        parser.error(f"--games must be a multiple of --pools, not {options.games} in {options.pools}.")
    return options


def main() -> None:
    """Measures, prints a table, and writes the JSON."""
    options = parse()
    report = about(options)
    found: dict[float, list[tuple[int, float]]] = {delay: [] for delay in options.delays}
    for _ in range(options.rounds):
        for delay, rates in found.items():
            rates.append(measure(options, delay))
    table = Table("delay, ms", "frames/s", "cores busy", title=f"{options.games} games in {options.pools} pools")
    rows = []
    for delay, rates in found.items():
        busy = round(statistics.median(cores for _, cores in rates), 2)
        rows.append({"delay_ms": delay, "frames_per_second": [rate for rate, _ in rates], "cores_busy": busy})
        table.add_row(f"{delay:g}", ", ".join(f"{rate:,}" for rate, _ in rates), str(busy))
    console.print(table)
    if options.out is not None:
        options.out.write_text(json.dumps({**report, "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
