"""How fast a game's emulators are on this machine when nothing holds them up: no agent, and nobody to wait for.

    python benchmarks/emulators.py                      # Pong, as many processes as cores
    python benchmarks/emulators.py --game Hero --processes 1 8 16

Every process plays 8 games in one thread with random actions, begun anew whenever they end. Frames per second of all
processes together: of games that nobody looks at, of small screens (84 x 84, as the agent sees them, made small by the
emulators) and of whole ones, as they are when the device makes them small. What a loop can reach is below that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sail.envs.atari import SCREEN, AtariEnv, whole_screen
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings, rom
from sail.machine import cores

GAMES_EACH = 8
KINDS = ("nobody looks", "small screens", "whole screens")
RESULTS = Path(__file__).parent / "results"
WHERE = "import json; from sail.training.provenance import provenance; print(json.dumps(provenance()))"
console = Console(width=None if sys.stdout.isatty() else 150)


def play(game: str, kind: str, seconds: float) -> float:
    """Frames per second of this process."""
    rng = np.random.default_rng(0)
    frames, began = 0, time.perf_counter()
    if kind == KINDS[0]:
        from ale_py import ALEInterface, LoggerMode, roms

        ALEInterface.setLoggerMode(LoggerMode.Error)
        ale, path = ALEInterface(), roms.get_rom_path(rom(game))
        assert path is not None
        ale.setFloat("repeat_action_probability", 0.25)
        ale.loadROM(path)
        actions = ale.getMinimalActionSet()
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            for choice in rng.integers(len(actions), size=400).tolist():
                ale.act(actions[choice])
                if ale.game_over():
                    ale.reset_game()
            frames += 400
        return frames / (time.perf_counter() - began)
    screen = whole_screen(game) if kind == KINDS[2] else (SCREEN, SCREEN)
    settings: dict[str, Any] = {"name": game, "threads": 1, "processes": 0, "give_way": False}
    env = AtariEnv(AtariSettings(**settings), GAMES_EACH, screen)
    env.reset(0)
    env.recv()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        env.send(rng.integers(env.num_actions, size=GAMES_EACH))
        frames += FRAME_SKIP * int(env.recv().stepped.sum())
    rate = frames / (time.perf_counter() - began)
    env.close()
    return rate


def measure(game: str, kind: str, processes: int, seconds: float) -> int:
    """Frames per second of so many processes."""
    command = [sys.executable, __file__, "--game", game, "--play", kind, "--seconds", str(seconds)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    answers = [child.communicate(timeout=seconds + 120)[0] for child in running]
    if any(child.returncode for child in running):
        raise SystemExit("A process of emulators has failed.")
    return round(sum(float(answer.split()[-1]) for answer in answers))


def main() -> None:
    """Measures one after the other, prints a table, and writes the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--processes", type=int, nargs="+", default=[cores()])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--play", choices=KINDS, help=argparse.SUPPRESS)  # how a child of this one is called
    parser.add_argument("--out", type=Path, default=RESULTS / "emulators.json")
    options = parser.parse_args()
    game = options.game if ":" in options.game else f"atari:{options.game}"
    if options.play:
        print(play(game, options.play, options.seconds))
        return
    where = json.loads(subprocess.run([sys.executable, "-c", WHERE], capture_output=True, text=True, check=True).stdout)
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    report: dict[str, Any] = {**where, "command": command, "game": game, "seconds": options.seconds, "results": []}
    table = Table("processes", *KINDS, title=f"{game}: frames per second of the emulators alone")
    for processes in options.processes:
        rates = {kind: measure(game, kind, processes, options.seconds) for kind in KINDS}
        report["results"].append({"processes": processes, **rates})
        table.add_row(str(processes), *(f"{rate:,}" for rate in rates.values()))
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    console.print(table)


if __name__ == "__main__":
    main()
