"""The generated parts of docs/results.md, each between two comments that name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evidence import atari, dopamine, tables
from evidence.gridworlds import UNCHANGED, by_size, changes
from evidence.paper import CLAIMS, OWN, Claim
from sail.analysis.published import paper_scores
from sail.games import GROUPS

AGENTS = ("dqn", "al-dqn", "sail-dqn", "strsil-dqn", "iqn", "sail-iqn")
AGREES = {"inside": "", "within 20 %": ", near", "no": ", **no**"}


def write(path: Path, results: Path) -> None:
    """Brings a page up to date."""
    path.write_text(filled(path.read_text(), results))


def filled(text: str, results: Path) -> str:
    """The page's text with its generated parts made anew."""
    parts: dict[str, Callable[[], str]] = {
        "claims": lambda: claims(CLAIMS, results),
        "own": lambda: claims(OWN, results),
        "when": lambda: when_stale(results),
        "sizes": lambda: deep_sea(results),
        "scores": lambda: scores(results / "atari"),
        "dopamine": lambda: beside_dopamine(results / "atari", results),
        "dopamine other roms": lambda: beside_dopamine(results / atari.OTHER_ROMS, results),
        "scores not held": lambda: scores(results / atari.NOT_HELD),
        "dopamine not held": lambda: beside_dopamine(results / atari.NOT_HELD, results),
    }
    for name, make in parts.items():
        pattern = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise SystemExit(f"The page must have exactly one part <!-- {name} --> ... <!-- end of {name} -->.")
        begin, end = next(pattern.finditer(text)).span()
        text = f"{text[:begin]}{make()}\n{text[end:]}"
    return text


def claims(rows: Sequence[Claim], results: Path) -> str:
    """Claims as a table."""
    head = ["claim", "the paper's number", "ours", "frames or steps", "seeds", "verdict", "command"]
    return _markdown([head, *([c.what, c.theirs, *c.ours(results), f"`{c.command}`"] for c in rows)])


def when_stale(results: Path) -> str:
    """How many seeds have solved Key-Door-Treasure when one thing is different, and the value of taking the key."""
    path = results / "kdt" / "when_stale.csv"
    rows = tables.read(path) if path.is_file() else []
    named = [[*AGENTS[:4]], ["dqn", "sail-dqn"]]
    head = [
        "what is different",
        *(f"{agent}, 100,000" for agent in named[0]),
        *(f"{agent}, 200,000" for agent in named[0]),
    ]
    found = [head + [f"the key to {agent}" for agent in named[1]]]
    for setting in changes(rows):
        at = {(row["agent"], row["step"]): row for row in rows if row["settings"] == setting}
        cells = [at.get((agent, step)) for step in (100_000, 200_000) for agent in named[0]]
        keys = [at.get((agent, 50_000)) for agent in named[1]]
        found.append(["nothing" if setting == UNCHANGED else f"`{setting}`"])
        found[-1] += ["" if cell is None else f"{cell['solved']} of {cell['seeds']}" for cell in cells]
        found[-1] += ["" if cell is None else f"{cell['q_key']:.2f}" for cell in keys]
    return _markdown(found) if rows else "No runs yet."


def deep_sea(results: Path) -> str:
    """How many seeds solve DeepSea at the end, by size, with the share's interval; and the largest size of any."""
    path = results / "deep_sea" / "sizes.csv"
    rows = tables.read(path) if path.is_file() else []
    of_agents = by_size(rows)
    sizes = sorted({size for of_agent in of_agents.values() for size in of_agent})
    found = [["agent", "largest solved", *(f"{size}" for size in sizes)]]
    for agent in dict.fromkeys([*AGENTS[:4], *sorted(of_agents)]):
        of_agent = of_agents.get(agent, {})
        largest = max((size for size, row in of_agent.items() if row["solved"]), default=None)
        cells = [
            f"{row['solved']} of {row['seeds']} [{row['low']:.2f}, {row['high']:.2f}]" if row else ""
            for row in (of_agent.get(size) for size in sizes)
        ]
        found.append([agent, "none" if largest is None else str(largest), *cells])
    return _markdown(found) if rows else "No runs yet."


def scores(folder: Path) -> str:
    """Our scores on the hard-exploration games beside the paper's, at 10M and at 40M frames."""
    paper = paper_scores()["scores"]
    curves = atari.read_all(folder)
    rows = [["game", "frames", *AGENTS, *(f"the paper's {agent}, 200M" for agent in AGENTS[:3])]]
    at = {millions: atari.by_agent(curves, millions) for millions in (10, 40)}
    for game in GROUPS["hard-exploration"]:
        for millions, found in at.items():
            own = [found.get(agent, {}).get(game) for agent in AGENTS]
            if any(seeds is not None for seeds in own):
                ours = ["" if seeds is None else _score(seeds[:, -1]) for seeds in own]
                theirs = [f"{paper[agent][game]:,.0f}" if game in paper[agent] else "" for agent in AGENTS[:3]]
                rows.append([game, f"{millions}M", *ours, *theirs])
    return _markdown(rows) if len(rows) > 1 else "No runs yet."


def beside_dopamine(folder: Path, results: Path) -> str:
    """Our base agents at the frames where the published curves have points, with the range of those in brackets."""
    path = results / "atari" / "published.csv"
    points = tables.read(path) if path.is_file() else []
    curves = atari.read_all(folder)
    frames = sorted({point["frames"] for point in points})
    compared = {each: dopamine.compare(curves, points, each) for each in frames}
    reached = [each for each in frames if compared[each]]
    rows = [["game", "agent", "seeds", "emulators", *(f"{each // atari.MILLION}M" for each in reached)]]
    for game, agent in sorted({(row["game"], row["agent"]) for each in reached for row in compared[each]}):
        own = [[row for row in compared[each] if (row["game"], row["agent"]) == (game, agent)] for each in reached]
        there = [found[0] for found in own if found]
        seeds = sorted({row["seeds"] for row in there})
        number = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
        rows.append([game, agent, number, there[0]["emulators"], *map(_beside, own)])
    return _markdown(rows) if len(rows) > 1 else "No runs yet."


def _beside(found: Sequence[dict[str, Any]]) -> str:
    """Ours, the range of theirs, and whether that agrees."""
    return "".join(
        f"{_short(r['ours'])} ({_short(r['low'])} to {_short(r['high'])}){AGREES[r['agrees']]}" for r in found
    )


def _short(score: float) -> str:
    return f"{score:,.1f}" if abs(score) < 100 else f"{score:,.0f}"


def _score(seeds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """The mean over seeds, and how many there are."""
    if np.isnan(seeds).any():
        return "no episode ended"
    return f"{seeds.mean():,.0f} ({len(seeds)} seed{'s' if len(seeds) > 1 else ''})"


def _markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
