"""Who is how fast on Key-Door-Treasure: sail, Stable-Baselines3 and a CleanRL-style loop, on the same work.

    python benchmarks/kdt_speed.py                      # everything; needs torch, stable-baselines3 and gymnasium
    python benchmarks/kdt_speed.py --only sail          # without them
    python benchmarks/kdt_speed.py --gpu --json gpu.json

The work: steps of Key-Door-Treasure with epsilon 0.1, and for every 4 of them one Adam step on 32 transitions, for a
64-64 ReLU network; target copies and replay as in the config that `--json` writes down.

How it is timed: every contestant in a process of its own, one after the other, several times over, forwards and
backwards, so that a machine that gets slower slows all of them. Compilation and the steps before learning are not part
of a rate. The overhead of SAIL over DQN is too small for that: both take turns within one process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import Any

from numpy_kdt import NumpyKeyDoorTreasure, check_same_rules
from peers import kdt_settings, sb3_variants, time_sb3, time_torch_loop
from rich.console import Console
from rich.table import Table
from timing import CORES, Timing, in_own_process, overhead, time_one_sail, time_sail

from sail.config import Config, config_to_tree, make_config

GROUPS = {"sb3": "Stable-Baselines3 DQN", "torch": "PyTorch loop", "sail": "sail"}
PEER_PACKAGES = {"sb3": ("torch", "stable_baselines3", "gymnasium"), "torch": ("torch",), "sail": ()}
DEFAULT, BEST = "sb3_as_it_comes", "sb3_best"
console = Console(width=None if sys.stdout.isatty() else 140)


@dataclass
class Contestant:
    """Someone to be timed, and the timings so far."""

    group: str
    label: str
    agent: str = "dqn"
    seeds: int = 1
    timings: list[Timing] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Steps per second, over all seeds."""
        return statistics.median(timing.rate for timing in self.timings)

    def row(self, baselines: dict[str, float]) -> dict[str, Any]:
        """What is told about a contestant."""
        rates = [timing.rate for timing in self.timings]
        compiling = [timing.compile_seconds for timing in self.timings if timing.compile_seconds is not None]
        return {
            "group": self.group,
            "label": self.label,
            "agent": self.agent,
            "seeds": self.seeds,
            "steps_per_second": {"median": self.median, "min": min(rates), "max": max(rates), "all": rates},
            "updates_per_second": statistics.median(timing.updates / timing.seconds for timing in self.timings),
            "compile_seconds": statistics.median(compiling) if compiling else None,
            "timed_seconds": [timing.seconds for timing in self.timings],
            "cpu_seconds": [timing.cpu_seconds for timing in self.timings],
            "ratio_to": {name: self.median / rate for name, rate in baselines.items()},
        }


def configure(agent: str, seeds: int = 1) -> Config:
    """The work, and otherwise sail's defaults. Epsilon is low from the first update on: all of a run is alike."""
    work = {
        "seeds": seeds,
        "agent": {"hidden": (64, 64)},
        "optimiser": {"name": "adam", "learning_rate": 1e-3},
        "learning": {"batch_size": 32, "update_period": 4},
        "exploration": {"start": 1.0, "end": 0.1, "decay_steps": 1},
    }
    return make_config("kdt", agent, work)


def check_env() -> int:
    """Steps in which the peers' environment was found to be sail's."""
    return check_same_rules(NumpyKeyDoorTreasure(kdt_settings(configure("dqn"))))


def describe_machine() -> dict[str, Any]:
    """Date, command, commit, hardware and versions."""
    from sail.training.provenance import provenance

    where = provenance()
    for package in ("torch", "stable-baselines3", "gymnasium"):
        try:
            where["versions"][package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            where["versions"][package] = None
    return where


def line_up(
    groups: Sequence[str], agents: Sequence[str], many: int, seconds: float
) -> list[tuple[Contestant, Callable[[], Timing]]]:
    """Everyone who takes part, and how each is timed once."""
    dqn, threads = configure("dqn"), sorted({1, min(2, CORES)})
    found: list[tuple[Contestant, Callable[[], Timing]]] = []
    if "sb3" in groups:
        for variant in sb3_variants(dqn):
            for n in threads:
                label = f"{variant.label}; {n} thread{'s' * (n > 1)}"
                found.append((Contestant("sb3", label), partial(time_sb3, dqn, variant, n, seconds)))
    if "torch" in groups:
        for agent in ("dqn", "sail-dqn"):
            for n in threads:
                measure = partial(time_torch_loop, configure(agent), n, seconds)
                found.append((Contestant("torch", f"{agent}; {n} thread{'s' * (n > 1)}", agent), measure))
    if "sail" in groups:
        for agent, seeds in [*((agent, 1) for agent in agents), *[("sail-dqn", many)] * (many > 1)]:
            label = agent if seeds == 1 else f"{agent}, {seeds} seeds together"
            measure = partial(time_one_sail, configure(agent, seeds), seconds)
            found.append((Contestant("sail", label, agent, seeds), measure))
    return found


def judge(
    contestants: Sequence[Contestant], baselines: dict[str, float], sail_to_dqn: float | None
) -> list[dict[str, Any]]:
    """The targets, and whether they are met."""
    single = {c.agent: c.median for c in contestants if c.group == "sail" and c.seeds == 1}
    many = next((c for c in contestants if c.group == "sail" and c.seeds > 1), None)
    found: list[tuple[str, float, float]] = []
    if single:
        slower = min(single["dqn"], single["sail-dqn"])
        for name, words in ((BEST, "SB3 at its best"), (DEFAULT, "SB3 as it comes")):
            if name in baselines:
                found.append((f"one seed (dqn and sail-dqn) to {words}", 20.0, slower / baselines[name]))
    if sail_to_dqn is not None:
        found.append(("sail-dqn to dqn, one seed, in turns", 0.95, sail_to_dqn))
    if many:
        found.append((f"{many.seeds} seeds together to one", 1.3, many.median / single["sail-dqn"]))
    return [{"what": w, "at_least": t, "measured": m, "met": m >= t} for w, t, m in found]


def run_cpu(options: argparse.Namespace, report: dict[str, Any]) -> None:
    """Fills the report: peers, sail, overhead, targets."""
    if set(options.only) - {"sail"}:
        report["same_environment_steps"] = in_own_process(check_env)
        console.print(f"The peers' environment gave the same in {report['same_environment_steps']:,} steps.")
    agents = ("dqn", "sail-dqn") if options.quick else ("dqn", "al-dqn", "sail-dqn", "strsil-dqn")
    everyone = line_up(options.only, agents, options.seeds[-1], options.seconds)
    for i in range(options.repeats):
        for contestant, measure in everyone[:: -1 if i % 2 else 1]:
            timing = in_own_process(measure)
            contestant.timings.append(timing)
            console.print(
                f"{i + 1}/{options.repeats} {GROUPS[contestant.group]}, {contestant.label}: {timing.rate:,.0f}"
            )
    contestants = [contestant for contestant, _ in everyone]
    sb3 = [c for c in contestants if c.group == "sb3"]
    baselines = {}
    if sb3:
        first = sb3[0].label.split(";")[0]
        default = max((c for c in sb3 if c.label.startswith(first)), key=lambda c: c.median)
        best = max(sb3, key=lambda c: c.median)
        baselines = {DEFAULT: default.median, BEST: best.median}
        report["baselines"] = {DEFAULT: default.label, BEST: best.label}
    report["results"] = [contestant.row(baselines) for contestant in contestants]
    ratio = None
    if "sail" in options.only:
        pair = [configure("dqn"), configure("sail-dqn")]
        turns = in_own_process(time_sail, pair, options.turns, min(options.seconds, 2.0))
        report["overhead"] = [overhead(1, *turns)]
        ratio = report["overhead"][0]["median"]
    report["targets"] = judge(contestants, baselines, ratio)


def run_gpu(options: argparse.Namespace, report: dict[str, Any]) -> None:
    """Fills the report: dqn and sail-dqn in turns, for every number of seeds; written down after each."""
    report.update(results=[], overhead=[], failures=[])
    for seeds in options.seeds:
        agents = ("dqn", "sail-dqn")
        try:
            turns = in_own_process(
                time_sail, [configure(agent, seeds) for agent in agents], options.repeats, options.seconds
            )
        except Exception as error:  # most likely out of memory: the others' numbers are worth keeping
            report["failures"].append({"seeds": seeds, "error": f"{type(error).__name__}: {error}"[:2000]})
            console.print(f"{seeds} seeds failed: {error}", style="red", markup=False)
            continue
        for agent, timings in zip(agents, turns, strict=True):
            contestant = Contestant("sail", f"{agent}, {seeds:,} seeds", agent, seeds, timings)
            report["results"].append(contestant.row({}))
            console.print(f"{contestant.label}: {contestant.median:,.0f}")
        if options.repeats > 1:
            report["overhead"].append(overhead(seeds, *turns))
        write(options.json, report)


def show(report: dict[str, Any]) -> None:
    """The tables."""
    table = Table("contestant", title="Key-Door-Treasure: environment steps per second")
    for heading in ("steps/s", "min .. max", "updates/s", "compiling, s", "x SB3 best", "x SB3 default"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in report["results"]:
        rate, ratios, compiling = row["steps_per_second"], row["ratio_to"], row["compile_seconds"]
        table.add_row(
            f"{GROUPS[row['group']]}, {row['label']}",
            f"{rate['median']:,.0f}",
            f"{rate['min']:,.0f} .. {rate['max']:,.0f}",
            f"{row['updates_per_second']:,.0f}",
            "" if compiling is None else f"{compiling:.1f}",
            *(f"{ratios[name]:.1f}" if name in ratios else "" for name in (BEST, DEFAULT)),
        )
    console.print(table)
    for name, label in report.get("baselines", {}).items():
        console.print(f"{name}: {label}")
    for row in report.get("overhead", []):
        low, high = row["quartiles"]
        console.print(
            f"sail-dqn / dqn, {row['seeds']:,} seed(s): {row['median']:.3f} (quartiles {low:.3f} .. {high:.3f}, "
            f"{len(row['ratios'])} turns of {row['seconds_per_turn']:.1f} s); by CPU time {row['cpu_time_median']:.3f}"
        )
    if report.get("targets"):
        targets = Table("target", "at least", "measured", "met")
        for row in report["targets"]:
            measured, met = f"{row['measured']:.3g}", "yes" if row["met"] else "no"
            targets.add_row(row["what"], f"{row['at_least']:g}", measured, met)
        console.print(targets)


def write(path: Path | None, report: dict[str, Any]) -> None:
    """The report as JSON, if it is wanted."""
    if path is not None:
        report["load_average_at_end"] = os.getloadavg()
        path.write_text(json.dumps(report, indent=1) + "\n")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS), help="who takes part")
    parser.add_argument("--gpu", action="store_true", help="sail alone, on whatever accelerator jax finds")
    parser.add_argument("--seeds", type=lambda text: [int(n) for n in text.split(",")], help="such as 1,64,256")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each contestant (with --gpu: turns)")
    parser.add_argument("--turns", type=int, default=9, help="turns of dqn and sail-dqn, for the overhead")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each timing (turns: 2 at most)")
    parser.add_argument("--quick", action="store_true", help="a smoke test: its numbers mean nothing")
    parser.add_argument("--json", type=Path, help="where to write everything")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.turns, options.seconds = 1, 2, 0.1
    options.seeds = options.seeds or ([1, 4] if options.quick else [1, 64, 256, 1024, 2048] if options.gpu else [100])
    if min(options.repeats, options.turns - 1, *options.seeds) < 1:
        parser.error("--repeats and --seeds must be at least 1, and --turns at least 2.")
    missing = [name for group in options.only for name in PEER_PACKAGES[group] if util.find_spec(name) is None]
    if missing and not options.gpu:
        parser.error(f"{', '.join(sorted(set(missing)))} cannot be imported: install them, or use --only sail.")
    return options


def main() -> None:
    """Times everyone, prints the tables, and writes the JSON."""
    options = parse()
    if not options.gpu:
        os.environ["JAX_PLATFORMS"] = "cpu"
    with tempfile.TemporaryDirectory() as folder:
        # The processes to come compile everything themselves, except in a smoke test.
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = str(options.quick)
        os.environ.update(JAX_COMPILATION_CACHE_DIR=folder, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
        report: dict[str, Any] = {
            **in_own_process(describe_machine),
            "load_average_at_start": os.getloadavg(),
            "timing": {"repeats": options.repeats, "turns": options.turns, "seconds": options.seconds},
            "settings": config_to_tree(configure("sail-dqn")),
            "block_steps": configure("sail-dqn").block_steps,
        }
        if os.getloadavg()[0] > CORES / 4 and not options.gpu:
            console.print(
                f"Others use this machine (load {os.getloadavg()[0]:.1f}): the rates mean little.", style="red"
            )
        run = run_gpu if options.gpu else run_cpu
        run(options, report)
    show(report)
    write(options.json, report)


if __name__ == "__main__":
    main()
