"""Our base agents beside the curves that Dopamine publishes.

`results/atari/published.csv` holds what is compared with: a few points of some curves, made by `excerpt` from its own
files (baselines/atari/data/pong.json, ...), which are not part of this project.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evidence import tables
from evidence.atari import MILLION, Curve, score_at
from sail.games import GAMES

PUBLISHED = {"dqn": "DQN", "iqn@dopamine": "IQN", "rainbow": "Rainbow"}
"""What Dopamine calls the agents whose curves it has published."""
POINTS = (1, 2, 3, 5, 10, 20, 40)  # millions of frames
NEAR = 0.2
"""A score also agrees if it is this near to the published mean, in proportion to it."""


def excerpt(folder: Path, to: Path) -> None:
    """Points of every published curve that there is a file of."""
    rows = []
    games = {game.lower(): game for game in GAMES}
    for path in sorted(folder.glob("*.json")):
        for agent in PUBLISHED:
            curve = published(path, agent)
            for million in POINTS:
                column = (
                    curve[:, million - 1] if curve is not None and million <= curve.shape[1] else np.array([np.nan])
                )
                if not np.isnan(column).any():
                    row: dict[str, Any] = {"game": games[path.stem], "agent": agent, "frames": million * MILLION}
                    row |= {"runs": len(column), "low": float(column.min()), "mean": float(column.mean())}
                    rows.append(row | {"high": float(column.max())})
    about = {
        "source": "Dopamine's published runs, https://github.com/google/dopamine/tree/master/baselines/atari/data",
        "frames": "the score is that of the million frames before",
    }
    tables.write(to, about, rows)


def published(path: Path, agent: str) -> Any:
    """Dopamine's curves of a game and an agent, [runs, millions of frames]; NaN where a run stopped earlier."""
    runs: list[dict[int, float]] = []
    for row in json.loads(path.read_text()):  # run after run
        if row["Agent"] == PUBLISHED[agent]:
            if not runs or row["Iteration"] in runs[-1]:
                runs.append({})
            runs[-1][row["Iteration"]] = row["Value"]
    length = max((max(run) + 1 for run in runs), default=0)
    return np.array([[run.get(i, np.nan) for i in range(length)] for run in runs]) if runs else None


def compare(curves: Sequence[Curve], points: Sequence[dict[str, Any]], frames: int) -> list[dict[str, Any]]:
    """Ours beside theirs at so many frames, for every game and agent that both have."""
    rows = []
    for game, agent in sorted({(curve.game, curve.agent) for curve in curves}):
        theirs = [p for p in points if (p["game"], p["agent"], p["frames"]) == (game, agent, frames)]
        own = [curve for curve in curves if (curve.game, curve.agent) == (game, agent)]
        known = [score for score in (score_at(curve.rows, frames) for curve in own) if score is not None]
        if theirs and known:
            ours, point = float(np.mean(known)), theirs[0]
            inside = point["low"] <= ours <= point["high"]
            near = abs(ours - point["mean"]) <= NEAR * abs(point["mean"])
            row = {"game": game, "agent": agent, "frames": frames, "seeds": len(known), "ours": ours}
            row["emulators"] = " and ".join(sorted({str(curve.about.get("emulators")) for curve in own}))
            row |= {name: point[name] for name in ("low", "mean", "high", "runs")}
            rows.append(row | {"agrees": "inside" if inside else "within 20 %" if near else "no"})
    return rows
