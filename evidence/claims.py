"""Every quantitative claim of the paper as a row: its number, ours, and a verdict, from the files under results/."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evidence import atari, tables
from sail.analysis.metrics import over_seeds
from sail.games import GROUPS

RESAMPLES = 2_000
HOLDS, LEANS, DOES_NOT, UNTESTED = "holds", "leans so", "does not hold", "not tested"
Curves = Mapping[str, Mapping[str, Any]]


class Ours(NamedTuple):
    """What we have to say on a claim."""

    number: str = ""
    frames: str = ""
    seeds: str = ""
    verdict: str = UNTESTED
    command: str = ""


class Claim(NamedTuple):
    """A claim of the paper, its number, and how ours is found."""

    what: str
    theirs: str
    ours: Callable[[Path, Curves], Ours]


def page(results: Path, benchmarks: Path) -> str:
    """The table of claims, as Markdown."""
    curves = atari.by_agent(atari.read_all(results / "atari"))
    lines = [
        "| claim | the paper's number | ours | frames | seeds | verdict | command |",
        "|---|---|---|---|---|---|---|",
    ]
    for claim in claims(benchmarks):
        ours = claim.ours(results, curves)
        cells = [claim.what, claim.theirs, *ours]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def improvement(agent: str, base: str, group: str, command: str) -> Callable[[Path, Curves], Ours]:
    """The relative improvement of an agent over its base on a group of games, as far as there are runs of both."""

    def ours(_: Path, curves: Curves) -> Ours:
        x, y = curves.get(agent, {}), curves.get(base, {})
        games = [game for game in GROUPS[group] if game in x and game in y]
        of = len(GROUPS[group])
        if len(games) < of / 2:
            have = f"{len(games)} of {of} games so far" if games else ""
            return Ours(have, command=f"`{command}`")
        found = over_games([(x[game], y[game]) for game in games])
        frames = [min(x[game].shape[1], y[game].shape[1]) for game in games]
        seeds = [min(len(x[game]), len(y[game])) for game in games]
        return Ours(
            f"average {found.average}, median {found.median}; {len(games)} of {of} games",
            f"{_range(frames)}M",
            _range(seeds),
            found.verdict,
            f"`{command}`",
        )

    return ours


class OverGames(NamedTuple):
    """An improvement over several games, in words."""

    average: str
    median: str
    verdict: str


def over_games(pairs: list[tuple[Any, Any]]) -> OverGames:
    """The average and median of the relative improvement x over y, of pairs of curves [seeds, millions].

    Intervals are 95 % of resamples of the games, and of the seeds of each. A base that scores 0 gives no finite ratio:
    such a game counts in the median, as better, worse or the same, and is left out of the average.
    """
    random = np.random.default_rng(0)
    values = np.array([ratio(x, y) for x, y in pairs])
    resampled = np.empty((RESAMPLES, len(pairs)))
    for column, (x, y) in enumerate(pairs):
        for row in range(RESAMPLES):
            resampled[row, column] = (
                ratio(_drawn(x, random), _drawn(y, random)) if len(x) * len(y) > 1 else values[column]
            )
    chosen = random.integers(len(pairs), size=resampled.shape)
    resampled = np.take_along_axis(resampled, chosen, axis=1)
    finite = np.where(np.isfinite(resampled), resampled, np.nan)
    averages = np.nanmean(finite[~np.isnan(finite).all(axis=1)], axis=1)
    medians = np.median(resampled, axis=1)
    median, low = float(np.median(values)), float(np.percentile(medians, 2.5, method="nearest"))
    verdict = HOLDS if low > 0 else LEANS if median > 0 else DOES_NOT
    average = float(np.mean(values[np.isfinite(values)])) if np.isfinite(values).any() else np.nan
    return OverGames(_interval(average, averages), _interval(median, medians), verdict)


def ratio(x: Any, y: Any) -> float:
    """mean_t(x - y) / |mean_t y| over the millions of frames that both have; infinite where y is 0 and x is not."""
    x, y = over_seeds(x), over_seeds(y)
    length = min(len(x), len(y))
    known = ~np.isnan(x[:length]) & ~np.isnan(y[:length])
    gain, level = float(np.mean((x[:length] - y[:length])[known])), float(abs(np.mean(y[:length][known])))
    return gain / level if level else float(np.sign(gain)) * np.inf if gain else 0.0


def solved(env: str, agent: str, other: str, setting: str, step: int) -> Callable[[Path, Curves], Ours]:
    """The share of seeds of two agents that solve a gridworld by a step."""
    command = "`sail study run paper/stale-returns`"

    def ours(results: Path, _: Curves) -> Ours:
        path = results / "kdt" / "stale_returns.csv"
        rows = tables.read(path) if path.is_file() else []
        here = {row["agent"]: row for row in rows if (row["env"], row["settings"], row["step"]) == (env, setting, step)}
        if not {agent, other} <= here.keys():
            return Ours(command=command)
        a, b = here[agent], here[other]
        number = "; ".join(f"{r['agent']} {r['share']:.2f} [{r['low']:.2f}, {r['high']:.2f}]" for r in (a, b))
        verdict = HOLDS if a["low"] > b["high"] else DOES_NOT if a["high"] < b["low"] else "no difference seen"
        return Ours(number, f"{step:,} steps", str(a["seeds"]), verdict, command)

    return ours


def overhead(benchmarks: Path, agent: str, most: float) -> Callable[[Path, Curves], Ours]:
    """How much longer an agent's update takes than its base's, on a GPU."""

    def ours(_: Path, __: Curves) -> Ours:
        command = "`python benchmarks/updates.py`"
        path = benchmarks / "updates_h200.json"
        if not path.is_file():
            return Ours(command=command)
        found = json.loads(path.read_text())
        slower = found["agents"][agent]["to_its_base"] - 1
        verdict = HOLDS if slower <= most else DOES_NOT
        return Ours(f"{slower:+.1%} time per update on one H200", "", "", verdict, command)

    return ours


def untested(command: str) -> Callable[[Path, Curves], Ours]:
    """A claim that is out of reach so far."""
    return lambda _, __: Ours(command=f"`{command}`")


def claims(benchmarks: Path) -> list[Claim]:
    """All of them, in the paper's order."""
    hard, everything = "hard-exploration", "paper"
    return [
        Claim(
            "SAIL-DQN over DQN, 16 hard-exploration games",
            "average +654.3 %, median +71.8 %",
            improvement("sail-dqn", "dqn", hard, "sail study run evidence/atari"),
        ),
        Claim(
            "SAIL-DQN over AL-DQN, hard-exploration games",
            "average +361.6 %, median +24.9 %",
            improvement("sail-dqn", "al-dqn", hard, "sail study run evidence/atari"),
        ),
        Claim(
            "SAIL-DQN over AL-DQN, all 59 games",
            "average +101.4 %, median +6.7 %",
            improvement("sail-dqn", "al-dqn", everything, "sail study run paper/dqn"),
        ),
        Claim(
            "SAIL-IQN over Rainbow, all games",
            "average +80.3 %, median +4 %",
            improvement("sail-iqn", "rainbow", everything, "sail study run paper/iqn"),
        ),
        Claim(
            "SAIL-IQN over RND-IQN, all games",
            "average +72.2 %, median +28.2 %",
            improvement("sail-iqn", "iqn+rnd", everything, "sail study run paper/rnd"),
        ),
        Claim(
            "RND does not raise IQN's median, hard-exploration games",
            "median -0.2 %",
            improvement("iqn+rnd", "iqn", hard, "sail study run paper/rnd"),
        ),
        Claim(
            "Montezuma's Revenge, final score: SAIL-IQN, RND-IQN, IQN",
            "833, 161, 0",
            untested("sail study run paper/iqn"),
        ),
        Claim(
            "Montezuma's Revenge: SAIL-IQN with RND and n = 3",
            "5180",
            untested("sail train atari:MontezumaRevenge --agent sail-iqn --rnd --n-step 3"),
        ),
        Claim("SAIL slows IQN down by", "5 % (100 to 95 frames a second)", overhead(benchmarks, "sail-iqn", 0.05)),
        Claim("RND slows IQN down by", "122 % (100 to 45 frames a second)", overhead(benchmarks, "iqn+rnd", 1.22)),
        Claim(
            "SAIL-DQN over AL-DQN without sticky actions, all games",
            "average +222.6 %, median +11.7 % (caption); +231.6 %, +12.7 % (text)",
            untested("sail study run paper/sticky"),
        ),
        Claim(
            "SAIL-DQN over strSIL-DQN, hard-exploration games",
            "average +72.2 %, median +45.2 %",
            improvement("sail-dqn", "strsil-dqn", hard, "sail study run evidence/atari"),
        ),
        Claim(
            "SAIL-IQN over strSIL-IQN, hard-exploration games",
            "average +16.0 %, median +22.3 %",
            improvement("sail-iqn", "strsil-iqn", hard, "sail study run paper/strsil"),
        ),
        Claim(
            "Key-Door-Treasure: SAIL learns where stale returns hold strSIL back",
            "a drawing, no number",
            solved("kdt", "sail-dqn", "strsil-dqn", "env.slip=0.0", 150_000),
        ),
        Claim(
            "The same with apples",
            "no number",
            solved("apple-kdt", "sail-dqn", "strsil-dqn", "env.slip=0.0", 150_000),
        ),
        Claim(
            "Not in the paper: the released SAIL-DQN is term for term strSIL; who ran it compared DQN with strSIL",
            "-",
            lambda _, __: Ours(
                "(max(G, Qt(s,a)) - V)+ = (G - V)+, bit for bit", "", "", HOLDS, "`pytest tests/test_rules.py`"
            ),
        ),
    ]


def _drawn(curves: Any, random: np.random.Generator) -> Any:
    return curves[random.integers(len(curves), size=len(curves))]


def _interval(value: float, resampled: Any) -> str:
    # Nearest: there may be infinities among them, which nothing lies between.
    low, high = np.percentile(resampled, [2.5, 97.5], method="nearest") if len(resampled) else (np.nan, np.nan)
    return f"{100 * value:+.0f} % [{100 * low:+.0f}, {100 * high:+.0f}]"


def _range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"
