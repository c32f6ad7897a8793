"""The generated parts of docs/results.md, each between two comments that name it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evidence import atari, claims, dopamine, tables
from sail.analysis.published import paper_scores
from sail.games import GROUPS

AGENTS = ("dqn", "al-dqn", "sail-dqn", "strsil-dqn")


def write(path: Path, results: Path, benchmarks: Path) -> None:
    """Brings a page up to date."""
    path.write_text(filled(path.read_text(), results, benchmarks))


def filled(text: str, results: Path, benchmarks: Path) -> str:
    """The page's text with its generated parts made anew."""
    parts: dict[str, Callable[[], str]] = {
        "claims": lambda: claims.page(results, benchmarks),
        "scores": lambda: scores(results),
        "dopamine": lambda: beside_dopamine(results),
    }
    for name, make in parts.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise SystemExit(f"The page must have exactly one part <!-- {name} --> ... <!-- end of {name} -->.")
        before, after = pattern.split(text)[0], pattern.split(text)[-1]
        text = f"{before}<!-- {name} -->\n{make()}\n<!-- end of {name} -->{after}"
    return text


def scores(results: Path) -> str:
    """Our last scores on the hard-exploration games beside the paper's."""
    curves = atari.by_agent(atari.read_all(results / "atari"))
    paper = paper_scores()["scores"]
    rows = [["game", *(f"{agent}" for agent in AGENTS), *(f"the paper's {agent}, 200M" for agent in AGENTS[:3])]]
    for game in GROUPS["hard-exploration"]:
        ours = [_last(curves.get(agent, {}).get(game)) for agent in AGENTS]
        if any(ours):
            theirs = [f"{paper[agent][game]:,.0f}" if game in paper[agent] else "" for agent in AGENTS[:3]]
            rows.append([game, *ours, *theirs])
    return _markdown(rows) if len(rows) > 1 else "No runs yet."


def beside_dopamine(results: Path) -> str:
    """Our base agents at the frames where the published curves have points."""
    path = results / "atari" / "published.csv"
    points = tables.read(path) if path.is_file() else []
    curves = atari.read_all(results / "atari")
    rows = [["game", "agent", "frames", "ours", "seeds", "Dopamine's mean", "its runs", "agrees?"]]
    for game, agent in sorted({(curve.game, curve.agent) for curve in curves}):
        own = [curve for curve in curves if (curve.game, curve.agent) == (game, agent)]
        for frames in (40, 20, 10, 5):
            found = dopamine.compare(own, points, frames * atari.MILLION)
            if found:
                row = found[0]
                runs = "mean alone" if row["low"] is None else f"{row['low']:,.1f} to {row['high']:,.1f}"
                agrees = {"inside": "inside", "near": "within 20 %", "no": "no"}[row["how"]]
                rows.append([game, agent, f"{frames}M", f"{row['ours']:,.1f}", str(row["seeds"])])
                rows[-1] += [f"{row['mean']:,.1f}", runs, agrees]
                break
    return _markdown(rows) if len(rows) > 1 else "No runs yet."


def _last(seeds: Any) -> str:
    """The last score that all seeds have, with frames and seeds."""
    if seeds is None:
        return ""
    known = np.flatnonzero(~np.isnan(seeds).any(axis=0))
    if not len(known):
        return ""
    last = int(known[-1])
    return f"{seeds[:, last].mean():,.0f} ({last + 1}M, {len(seeds)} seed{'s' if len(seeds) > 1 else ''})"


def _markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
