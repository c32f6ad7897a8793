"""Time per update of every agent on this machine, on observations of an Atari game; emulators play no part.

    python benchmarks/updates.py                              # every base under every rule, and what RND costs
    python benchmarks/updates.py --agents dqn sail-dqn iqn sail-iqn iqn+rnd --rounds 10

Batch 32, the network of the Nature paper, and whatever else the preset `paper` says (IQN: 64, 64 and 32 quantiles). An
update is drawing, gathering, target values, bonus, loss, gradient and optimiser, and for RND the predictor's step. All
agents take turns, and the fastest of an agent's rounds counts. The JSON is written again after each round.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from sail.agents import names
from sail.config import make_config
from sail.machine import cores
from sail.training.api import set_up_jax
from sail.training.bench import filled
from sail.training.host import HostProgram
from sail.training.provenance import provenance

AGENTS = [*names.all_names(), "dqn+rnd", "iqn+rnd", "sail-iqn+rnd"]
RESULTS = Path(__file__).parent / "results"


class Measured:
    """One agent with a full ring, and its rounds so far."""

    def __init__(self, name: str, capacity: int, block: int) -> None:
        self.config = make_config(
            "atari:Pong",
            name,
            {
                "agent": {"network": "nature"},
                "replay": {"capacity": capacity, "frames": "device"},
                "learning": {"num_envs": 16, "max_block": block},
            },
        )
        self.program = HostProgram(self.config)
        device = self.program.device
        self.state = filled(device.with_empty_ring(device.init()))
        self.step, self.seconds = self.config.learning.starts, list[float]()
        self.round(0)  # compiles
        self.seconds.clear()

    def round(self, at_least: float) -> None:
        """Updates for about so many seconds."""
        began, blocks = time.perf_counter(), 0
        while blocks == 0 or time.perf_counter() - began < at_least:
            self.step += self.config.block_steps
            self.state = self.program.learn(self.state, self.step)
            blocks += 1
            if blocks % 8 == 0 or jax.default_backend() == "cpu":
                jax.block_until_ready(self.state.learner.params)
        jax.block_until_ready(self.state.learner.params)
        updates = blocks * self.program.device.num_updates
        self.seconds.append((time.perf_counter() - began) / updates)


def base_of(name: str) -> str | None:
    """What an agent's overhead is measured against: itself without RND, or without its rule."""
    rule, base, curious = names.parse(name)
    if curious:
        return names.join(rule, base)
    return None if rule == "bellman" else base


def report(measured: dict[str, Measured], command: str) -> dict[str, Any]:
    """What was found so far."""
    best = {name: min(one.seconds) for name, one in measured.items() if one.seconds}
    rows = {
        name: {
            "us_per_update": round(1e6 * seconds, 1),
            "us_of_rounds": [round(1e6 * one, 1) for one in measured[name].seconds],
            "to_its_base": round(seconds / best[base], 3) if (base := base_of(name)) in best else None,
            "frames_per_second_at_most": round(16 / seconds),  # one update for 4 steps of 4 frames
        }
        for name, seconds in best.items()
    }
    return {**provenance(), "command": command, "agents": rows}


def show(found: dict[str, Any]) -> None:
    """The table."""
    title = f"{', '.join(found['hardware']['devices'])}, {found['hardware']['cores']} cores"
    table = Table("agent", title=title)
    for heading in ("us per update", "to its base", "frames/s at most"):
        table.add_column(heading, justify="right")
    for name, row in found["agents"].items():
        ratio = "" if row["to_its_base"] is None else f"{row['to_its_base']:.3f}"
        table.add_row(name, f"{row['us_per_update']:,.0f}", ratio, f"{row['frames_per_second_at_most']:,}")
    Console(width=None if sys.stdout.isatty() else 100).print(table)


def main() -> None:
    """Measures, prints the table, and writes the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--agents", nargs="+", default=AGENTS)
    parser.add_argument("--rounds", type=int, default=5, help="of each agent (default: 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round, at least (default: 1)")
    parser.add_argument("--capacity", type=int, help="of the ring (default: 200,000, or 10,000 on a CPU)")
    parser.add_argument("--out", type=Path, help="JSON to write (default: results/updates_DEVICE.json)")
    options = parser.parse_args()
    set_up_jax(1)
    on_cpu = jax.default_backend() == "cpu"
    capacity = options.capacity or (10_000 if on_cpu else 200_000)
    device = "cpu" if on_cpu else jax.devices()[0].device_kind.lower().removeprefix("nvidia ").replace(" ", "_")
    out = options.out or RESULTS / f"updates_{device}.json"
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    # Compiling takes most of the time, and a core each.
    with ThreadPoolExecutor(max(cores() // 2, 1)) as threads:
        built = threads.map(lambda name: Measured(name, capacity, 40 if on_cpu else 100), options.agents)
        measured = dict(zip(options.agents, built, strict=True))
    for number in range(options.rounds):
        for name, one in measured.items():
            one.round(options.seconds)
            if number == 0:
                print(f"{name}: {1e6 * one.seconds[0]:,.0f} us per update", flush=True)
        out.write_text(json.dumps(report(measured, command), indent=1) + "\n")
    show(report(measured, command))


if __name__ == "__main__":
    main()
