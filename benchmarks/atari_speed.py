"""How fast sail trains on an Atari game on this machine, in frames per second; made for one with a GPU.

    python benchmarks/atari_speed.py --game Pong --seconds 20
    python benchmarks/atari_speed.py --prototype PATH       # the throwaway prototype beside it, in the same run
    python benchmarks/atari_speed.py --replay.capacity 100000       # any setting of sail bench

Every measurement is a `sail bench` in a process of its own with a time limit, one after the other, with the network of
the Nature paper and a ring of a million frames. The JSON is written again after each, so a kill loses nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sail.envs.atari_settings import rom

STARTUP_SECONDS = 180.0
"""What a child may need beside measuring: 200 emulators in threads take 26 s to start, and compiling 20 to 60 s."""
PROTOTYPE_SECONDS = 85
"""It prints a rate every 20 s, and the first one has its compilation in it."""
COLUMNS = {
    "emulators": "emulator_limit",
    "learner": "learner_limit",
    "achieved": "achieved",
    "share": "share_of_emulators",
    "updates/s": "updates_per_second",
    "ring, GiB": "ring_gib",
    "beside, GiB": "device_beside_ring_gib",
    "process, GiB": "process_gib",
}
RESULTS = Path(__file__).parent / "results"
WHERE = "import json; from sail.training.provenance import provenance; print(json.dumps(provenance()))"
console = Console(width=None if sys.stdout.isatty() else 150)


def measurements(options: argparse.Namespace, settings: list[str]) -> dict[str, list[str]]:
    """The commands, by the name of what each measures."""
    base = [sys.executable, "-u", "-m", "sail", "bench", f"atari:{options.game}", "--json", "--agent.network", "nature"]
    base += ["--seconds", str(options.seconds), *settings]

    def envs(seeds: int) -> list[str]:
        """All seeds share the emulators that were asked for; without a wish sail chooses."""
        return ["--learning.num-envs", str(max(options.envs // seeds, 1))] if options.envs else []

    found = {
        "sail-dqn": [*base, "--agent", "sail-dqn", *envs(1)],
        "dqn": [*base, "--agent", "dqn", *envs(1)],
        "sail-dqn, 3 seeds": [*base, "--agent", "sail-dqn", "--seeds", "3", *envs(3)],
    }
    if options.prototype:
        command = [sys.executable, "-u", str(options.prototype), rom(f"atari:{options.game}"), "--rule", "sail"]
        command += ["--seconds", str(options.prototype_seconds), "--envs", "256", "--batch", "128"]
        found["prototype"] = command
    return found


def run_child(command: list[str], limit: float) -> tuple[list[str], str | None]:
    """The lines a command prints, shown as they come, and what went wrong: it ran past its limit, or failed."""
    lines: list[str] = []
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None

    def read(stream: Iterable[str]) -> None:
        for line in stream:
            lines.append(line.rstrip())
            print(f"    {line.rstrip()}"[:200], flush=True)

    reader = threading.Thread(target=read, args=(child.stdout,), daemon=True)
    reader.start()
    failure = None
    try:
        if child.wait(limit) != 0:
            failure = f"it ended with {child.returncode}"
    except subprocess.TimeoutExpired:
        failure = f"it ran past its limit of {limit:.0f} s"
        child.kill()
        child.wait()
    reader.join(10)
    return lines, failure


def prototype_rate(lines: Iterable[str]) -> int | None:
    """The best rate that the prototype printed, without its first line, in which it compiles."""
    rates = [float(m[1].replace(",", "")) for m in (re.search(r"([\d.,]+) frames/s", line) for line in lines) if m]
    return round(max(rates[1:])) if len(rates) > 1 else None


def result_of(name: str, lines: list[str]) -> dict[str, Any] | None:
    """What a child found out, or None if it did not come so far."""
    if name == "prototype":
        rate = prototype_rate(lines)
        return None if rate is None else {"achieved": rate, "lines": lines}
    for line in reversed(lines):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return None


def ratios(results: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Whatever can be compared."""
    rate = {name: row["achieved"] for name, row in results.items()}
    pairs = {
        "sail-dqn to dqn": ("sail-dqn", "dqn"),
        "3 seeds together to one": ("sail-dqn, 3 seeds", "sail-dqn"),
        "sail-dqn to the prototype": ("sail-dqn", "prototype"),
        "sail-dqn, 3 seeds, to the prototype": ("sail-dqn, 3 seeds", "prototype"),
    }
    return {what: rate[a] / rate[b] for what, (a, b) in pairs.items() if a in rate and b in rate}


def show(report: dict[str, Any]) -> None:
    """The tables."""
    device, cores = ", ".join(report["hardware"]["devices"]), report["hardware"]["cores"]
    table = Table("what", title=f"{report['game']} on {device}, {cores} cores: frames per second")
    for heading in (*COLUMNS, "x prototype"):
        table.add_column(heading, justify="right", no_wrap=True)
    prototype = report["results"].get("prototype", {}).get("achieved")
    for name, row in report["results"].items():
        cells = ["" if row.get(key) is None else f"{row[key]:,}" for key in COLUMNS.values()]
        table.add_row(name, *cells, f"{row['achieved'] / prototype:.2f}" if prototype else "")
    console.print(table)
    for what, ratio in report["ratios"].items():
        console.print(f"{what}: {ratio:.3f}")
    for name, why in report["failures"].items():
        console.print(f"{name} failed: {why}", style="red", markup=False)


def device_slug(device: str) -> str:
    """`NVIDIA H200` to h200, for a file's name."""
    return re.sub(r"[^a-z0-9]+", "_", device.lower().removeprefix("nvidia ")).strip("_")


def parse() -> tuple[argparse.Namespace, list[str]]:
    """The command line, and the settings in it that are sail's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--seconds", type=int, default=20, help="how long each whole loop is measured (default: 20)")
    parser.add_argument("--envs", type=int, help="emulators, over all seeds (default: what sail chooses)")
    parser.add_argument("--prototype", type=Path, help="a script to measure in the same run")
    parser.add_argument("--prototype-seconds", type=int, default=PROTOTYPE_SECONDS)
    parser.add_argument("--out", type=Path, help="JSON to write (default: results/atari_speed_DEVICE.json)")
    return parser.parse_known_args()


def main() -> None:
    """Measures one after the other, prints the tables, and writes the JSON."""
    options, settings = parse()
    # This process must not touch the device: jax would take most of its memory.
    lines, failure = run_child([sys.executable, "-c", WHERE], STARTUP_SECONDS)
    if failure:
        sys.exit(f"jax does not run here: {failure}.")
    report: dict[str, Any] = {
        **json.loads(lines[-1]),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "load_average_at_start": os.getloadavg(),
        "game": options.game,
        "seconds": options.seconds,
        "results": {},
        "ratios": {},
        "failures": {},
    }
    out = options.out or RESULTS / f"atari_speed_{device_slug(report['hardware']['devices'][0])}.json"
    for name, command in measurements(options, settings).items():
        measured = options.prototype_seconds if name == "prototype" else 4 * options.seconds
        print(f"{name}: {' '.join(command[1:])}", flush=True)
        began = time.monotonic()
        lines, failure = run_child(command, STARTUP_SECONDS + measured)
        found = result_of(name, lines)
        print(f"  {time.monotonic() - began:.0f} s{f', {failure}' if failure else ''}", flush=True)
        if found is not None:
            report["results"][name] = {**found, "command": " ".join(command[1:])}
        if failure or found is None:
            report["failures"][name] = failure or "it printed no result"
        report["ratios"] = ratios(report["results"])
        out.write_text(json.dumps(report, indent=1) + "\n")
    show(report)


if __name__ == "__main__":
    main()
