"""Our base agents beside the curves that Dopamine publishes.

`results/atari/published.csv` holds what is compared with: a few points of each curve, made by `excerpt` from Dopamine's
own files, which are not part of this project.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evidence import tables
from evidence.atari import MILLION, Curve, score_at

PUBLISHED = {"dqn": "DQN", "c51": "C51", "rainbow": "Rainbow", "iqn@dopamine": "IQN", "rainbow@dopamine": "Rainbow"}
"""What Dopamine calls the agents whose curves it has published."""
POINTS = (1, 2, 3, 5, 10, 20, 40)  # millions of frames
NEAR = 0.2
"""A score also agrees if it is this near to the published mean, in proportion to it."""


def excerpt(sources: Sequence[Path], games: Sequence[str], to: Path) -> None:
    """Points of the published curves of some games, from the first source that has them.

    A source is a folder of Dopamine's files (baselines/atari/data/pong.json, ...), which have every run, or a file of
    means {"legacy/DQN": {"Pong": [...]}}. Where only the mean is known, `low` and `high` stay empty.
    """
    rows = []
    for game in games:
        for agent in ("dqn", "iqn@dopamine", "rainbow@dopamine"):
            curves = [curve for source in sources if (curve := published(source, game, agent)) is not None]
            for million in POINTS:
                columns = [curve[:, million - 1] for curve in curves if million <= curve.shape[1]]
                if columns:
                    column = columns[0]
                    spread = len(column) > 1
                    row: dict[str, Any] = {
                        "game": game,
                        "agent": agent,
                        "frames": million * MILLION,
                        "runs": len(column),
                    }
                    row |= {"low": float(min(column)) if spread else None, "mean": float(np.mean(column))}
                    rows.append(row | {"high": float(max(column)) if spread else None})
    about = {
        "source": "Dopamine's published curves, https://github.com/google/dopamine/tree/master/baselines/atari/data",
        "frames": "the score is that of the million frames before",
        "runs": "1 where only the mean over runs is known here",
    }
    tables.write(to, about, rows)


def published(source: Path, game: str, agent: str) -> Any:
    """Dopamine's curve of a game, [runs, millions of frames]; one row, the mean, if the file has no runs."""
    name = PUBLISHED[agent]
    if source.is_dir():
        own = source / f"{game.lower()}.json"
        runs: dict[int, list[float]] = defaultdict(list)
        for row in json.loads(own.read_text()) if own.is_file() else []:  # run after run
            if row["Agent"] == name:
                runs[row["Iteration"]].append(row["Value"])
        full = max((len(values) for values in runs.values()), default=0)
        return None if not full else np.array([values for _, values in sorted(runs.items()) if len(values) == full]).T
    curve = json.loads(source.read_text()).get(f"legacy/{name}", {}).get(game)
    return None if curve is None else np.atleast_2d(np.array(curve, float))


def compare(curves: Sequence[Curve], points: Sequence[dict[str, Any]], frames: int) -> list[dict[str, Any]]:
    """Ours beside theirs at so many frames, for every game and agent that both have."""
    rows = []
    for game, agent in sorted({(curve.game, curve.agent) for curve in curves}):
        theirs = [p for p in points if (p["game"], p["agent"], p["frames"]) == (game, agent, frames)]
        scores = [score_at(curve.rows, frames) for curve in curves if (curve.game, curve.agent) == (game, agent)]
        known = [score for score in scores if score is not None]
        if theirs and known:
            ours, point = float(np.mean(known)), theirs[0]
            inside = point["low"] is not None and point["low"] <= ours <= point["high"]
            near = abs(ours - point["mean"]) <= NEAR * abs(point["mean"])
            row = {"game": game, "agent": agent, "frames": frames, "seeds": len(known), "ours": ours}
            row |= {name: point[name] for name in ("low", "mean", "high", "runs")}
            rows.append(row | {"agrees": inside or near, "how": "inside" if inside else "near" if near else "no"})
    return rows
