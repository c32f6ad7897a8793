"""How fast a game's emulators are on this machine when nothing holds them up: no agent, and nobody to wait for.

    python benchmarks/emulators.py                      # Pong, as many processes as cores
    python benchmarks/emulators.py --game Hero --processes 1,8,16

Every process plays 8 games with random actions, in the way that training's processes do. Frames per second of all
processes together, with small screens (84 x 84, as the agent sees them, made grey and small by the emulators) and with
two whole ones in colours, as they are sent where the device does that. Both take turns. What a training loop can reach
is below that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
from options import about, parsed
from rich.console import Console
from rich.table import Table

from sail.arguments import count, counts
from sail.envs.atari import SCREEN, AtariEnv, seeds_of_games
from sail.envs.atari_colours import screens_as_they_are
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings
from sail.envs.worker import bytes_of_tables, games, tables
from sail.machine import cores

GAMES_EACH = 8
KINDS = ("small", "colours")
STARTUP_SECONDS = 3.0
"""What processes may need before they begin, all at the same moment."""
console = Console(width=None if sys.stdout.isatty() else 150)


def play(game: str, kind: str, begin: float, seconds: float) -> float:
    """Frames per second of this process, from a time on."""
    told: dict[str, Any] = {"name": game, "threads": 1, "processes": 1, "give_way": False}
    settings = AtariSettings(**told)
    one = AtariEnv(settings, 1)  # only to be asked for its actions
    one.close()
    screen = screens_as_they_are(settings) if kind == "colours" else (SCREEN, SCREEN)
    if kind == "colours" and len(screen) != 3:
        raise SystemExit(f"{game} has colours that nobody knows the greys of: its screens are sent in grey.")
    (table,) = tables([GAMES_EACH], screen, bytearray(bytes_of_tables([GAMES_EACH], screen)))
    own, rng = games(settings, table, screen), np.random.default_rng(0)
    table["seed"][:] = seeds_of_games(0, GAMES_EACH)
    own.reset()
    time.sleep(max(begin - time.time(), 0.0))
    frames, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        table["action"][:] = rng.integers(one.num_actions, size=GAMES_EACH)
        own.step()
        frames += FRAME_SKIP * int(table["stepped"].sum())
    return frames / (time.perf_counter() - began)


def measure(game: str, kind: str, processes: int, seconds: int) -> int:
    """Frames per second of so many processes that begin together."""
    begin = time.time() + STARTUP_SECONDS + 0.2 * processes
    command = [sys.executable, __file__, "--game", game, "--play", kind, str(begin), "--seconds", str(seconds)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    try:
        answers = [child.communicate(timeout=seconds + 120)[0] for child in running]
    finally:
        for child in running:
            child.kill()  # nothing, where it has ended
    if any(child.returncode for child in running):
        raise SystemExit("A process of emulators has failed.")
    return round(sum(float(answer.split()[-1]) for answer in answers))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=counts, default=[cores()], help="as in 1,8,16 (default: one for each core)")
    parser.add_argument("--seconds", type=count, default=4, help="of each measurement (default: 4)")
    parser.add_argument("--rounds", type=count, default=3, help="of both kinds of screens (default: 3)")
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)  # how a child of this one is called
    return parsed(parser)


def main() -> None:
    """Measures one after the other, prints a table, and writes the JSON."""
    options = parse()
    if options.play:
        print(play(options.game, options.play[0], float(options.play[1]), options.seconds))
        return
    report: dict[str, Any] = {**about(options), "game": options.game, "seconds": options.seconds, "results": []}
    table = Table("processes", "small screens", "two in colours", "colours to small, medians")
    table.title = f"{options.game}: frames per second of the emulators alone"
    for processes in options.processes:
        rates: dict[str, list[int]] = {kind: [] for kind in KINDS}
        for _ in range(options.rounds):
            for kind, found in rates.items():
                found.append(measure(options.game, kind, processes, options.seconds))
        ratio = statistics.median(rates["colours"]) / statistics.median(rates["small"])
        report["results"].append({"processes": processes, **rates, "colours_to_small": round(ratio, 3)})
        shown = [", ".join(f"{rate:,}" for rate in found) for found in rates.values()]
        table.add_row(str(processes), *shown, f"{ratio:.2f}")
        if options.out is not None:
            options.out.write_text(json.dumps(report, indent=1) + "\n")
    console.print(table)


if __name__ == "__main__":
    main()
