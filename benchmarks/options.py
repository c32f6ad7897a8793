"""What the benchmarks of emulators have in common: a game to choose, and a JSON file to write."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sail.envs.atari_settings import rom
from sail.errors import SailError
from sail.training.provenance import provenance


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line with --game and --out too; refused if there is no such game, or no folder to write to."""
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--out", type=Path, help="JSON to write (default: none)")
    options = parser.parse_args()
    options.game = options.game if ":" in options.game else f"atari:{options.game}"
    try:
        rom(options.game)
    except SailError as error:
        parser.error(str(error))
    if options.out is not None and not options.out.parent.is_dir():
        parser.error(f"There is no folder {options.out.parent} to write to.")
    return options


def about(options: argparse.Namespace) -> dict[str, Any]:
    """When, where and by which command, without the file that it writes."""
    told = [word for word in sys.argv[1:] if word != "--out" and word != str(options.out)]
    return {**provenance(), "command": " ".join([Path(sys.argv[0]).name, *told])}
