"""Files of runs on games, written by hand."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import atari, tables  # noqa: E402


def write_curve(folder: Path, game: str, agent: str, scores: list[float], seed: int = 0) -> None:
    rows = [
        {"frames": 10**6 * i, "mean_return": score, "episodes": 3} | dict.fromkeys(atari.LOGGED[1:])
        for i, score in enumerate(scores, 1)
    ]
    tables.write(folder / "atari" / f"{game}_{agent}_seed{seed}.csv", {"commit": "abc", "emulators": 64}, rows)
