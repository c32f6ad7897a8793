"""Numbers of others that ours are shown beside, each with its source in its file under data/."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@cache
def human_scores() -> dict[str, tuple[float, float]]:
    """Of each game that has them: the scores of a random policy and of a human."""
    lines = [line for line in (DATA / "atari_scores.csv").read_text().splitlines() if not line.startswith("#")]
    return {row["game"]: (float(row["random"]), float(row["human"])) for row in csv.DictReader(lines)}


@cache
def paper_scores() -> dict[str, Any]:
    """The paper's final scores: {agent: {game: score}} under `scores`, with their `frames` and `source`."""
    tree: dict[str, Any] = json.loads((DATA / "paper_scores.json").read_text())
    return tree


def game_of(env: str) -> str | None:
    """The Atari game that an environment's name says; None where it is none."""
    kind, _, game = env.partition(":")
    return game if kind == "atari" and game else None
