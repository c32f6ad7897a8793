"""Claims about gridworlds, by their tables, and about speed, by the benchmarks' files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence import tables
from evidence.verdicts import DOES_NOT, HOLDS, NO_DIFFERENCE, Measure, Ours, difference


def solved(file: str, env: str, agents: tuple[str, str], setting: str, step: int) -> Measure:
    """The share of seeds of two agents that solve a gridworld at a step: is the first one's larger?"""

    def ours(results: Path) -> Ours:
        here = _rows(results / file, env, setting, step)
        if not set(agents) <= here.keys():
            return Ours()
        a, b = (here[agent] for agent in agents)
        number = "; ".join(f"{r['agent']} {r['share']:.2f} [{r['low']:.2f}, {r['high']:.2f}]" for r in (a, b))
        more = difference((a["solved"], a["seeds"]), (b["solved"], b["seeds"]))
        number += f"; difference {more.value:+.2f} [{more.low:+.2f}, {more.high:+.2f}]"
        verdict = HOLDS if more.low > 0 else DOES_NOT if more.high < 0 else NO_DIFFERENCE
        return Ours(number, f"{step:,} steps", f"{a['seeds']} and {b['seeds']}", verdict)

    return ours


def undervalued(file: str, env: str, agents: tuple[str, str], setting: str, step: int, optimum: float) -> Measure:
    """Whether the first agent's value of taking the key is below the optimum's; the second one's stands beside it."""

    def ours(results: Path) -> Ours:
        here = _rows(results / file, env, setting, step)
        if not set(agents) <= here.keys():
            return Ours()
        a, b = (here[agent] for agent in agents)
        values = [f"{r['agent']} {r['q_key']:.2f} ({r['q_key_10']:.2f} to {r['q_key_90']:.2f})" for r in (a, b)]
        number = f"{'; '.join(values)}, 8 of 10 seeds in brackets; the optimum is {optimum:.2f}"
        verdict = HOLDS if a["q_key_90"] < optimum else DOES_NOT if a["q_key_10"] > optimum else NO_DIFFERENCE
        return Ours(number, f"{step:,} steps", f"{a['seeds']} and {b['seeds']}", verdict)

    return ours


def update_rates(file: str, agents: Sequence[str], times: float) -> Measure:
    """Frames per second by the updates of agents alone: is the second one `times` as fast as the last?"""

    def ours(results: Path) -> Ours:
        path = results.parent / "benchmarks" / "results" / file
        rows = json.loads(path.read_text())["agents"] if path.is_file() else {}
        if not set(agents) <= rows.keys():
            return Ours()
        rates = [rows[agent]["frames_per_second_at_most"] for agent in agents]
        rounds = [rows[agent]["us_of_rounds"] for agent in agents]
        number = ", ".join(f"{rate:,}" for rate in rates) + " by updates alone, the fastest rounds"
        # Every round of the one against every round of the other.
        low, high = min(rounds[-1]) / max(rounds[1]), max(rounds[-1]) / min(rounds[1])
        verdict = HOLDS if low > times else DOES_NOT if high < times else NO_DIFFERENCE
        number += f"; {rates[1] / rates[-1]:.2f} times as fast, {low:.2f} to {high:.2f} by single rounds"
        verdict = f"{verdict} for updates alone"
        return Ours(number, "no training", f"{len(rounds[1])} rounds", verdict)

    return ours


def _rows(path: Path, env: str, setting: str, step: int) -> dict[str, dict[str, Any]]:
    """{agent: row}."""
    rows = tables.read(path) if path.is_file() else []
    return {row["agent"]: row for row in rows if (row["env"], row["settings"], row["step"]) == (env, setting, step)}
