"""The generated parts of docs/results.md and docs/baselines.md, each between two comments that name it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evidence import atari, dopamine, tables
from evidence.favourites import by_case
from evidence.gridworlds import UNCHANGED, by_size, changes
from evidence.paper import CLAIMS, OWN, Claim
from sail.agents.names import BASES, parse
from sail.analysis.published import paper_scores
from sail.analysis.statistics import wilson
from sail.games import GROUPS
from sail.rules import RULES

AGENTS = ("dqn", "al-dqn", "sail-dqn", "strsil-dqn", "iqn", "sail-iqn")
AGREES = {"inside": "", "within 20 %": ", near", "no": ", **no**"}
APPLE_STEPS = (100_000, 200_000)
FIRST_LOOK_STEPS = (100_000, 400_000)
FIRST_LOOK_RND_STEPS = (50_000, 100_000, 200_000)
DEEP_SEA_RND_STEPS = (150_000, 200_000, 300_000)
BASES_STEPS = (100_000, 150_000, 200_000)
NOTHING = "No runs yet."
Parts = dict[str, Callable[[Path], str]]
"""What makes each part, from the folder of results."""


def pages() -> dict[str, Parts]:
    """Every page with generated parts."""
    return {
        "results.md": {
            "claims": lambda results: claims(CLAIMS, results),
            "apples": apples,
            "own": lambda results: claims(OWN, results),
            "when": when_stale,
            "first look": lambda results: made_of_it(results / "kdt" / "first_look.csv", FIRST_LOOK_STEPS),
            "between": between,
            "favourites": favourite_actions,
            "sizes": deep_sea,
            "sizes with rnd": lambda results: made_of_it(results / "deep_sea" / "rnd.csv", DEEP_SEA_RND_STEPS),
            "first look with rnd": lambda results: made_of_it(
                results / "kdt" / "first_look_rnd.csv", FIRST_LOOK_RND_STEPS
            ),
            "bases": lambda results: made_of_it(results / "kdt" / "bases.csv", BASES_STEPS),
            "scores": lambda results: scores(results / "atari"),
        },
        "baselines.md": {
            "dopamine": lambda results: beside_dopamine(results / "atari", results),
            "dopamine other roms": lambda results: beside_dopamine(results / atari.OTHER_ROMS, results),
            "scores not held": lambda results: scores(results / atari.NOT_HELD),
            "dopamine not held": lambda results: beside_dopamine(results / atari.NOT_HELD, results),
        },
    }


def write(docs: Path, results: Path) -> None:
    """Brings the pages in a folder up to date."""
    for name, parts in pages().items():
        path = docs / name
        path.write_text(filled(path.read_text(), parts, results))


def filled(text: str, parts: Parts, results: Path) -> str:
    """A page's text with its generated parts made anew."""
    for name, make in parts.items():
        pattern = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise SystemExit(f"The page must have exactly one part <!-- {name} --> ... <!-- end of {name} -->.")
        begin, end = next(pattern.finditer(text)).span()
        text = f"{text[:begin]}{make(results)}\n{text[end:]}"
    return text


def claims(rows: Sequence[Claim], results: Path) -> str:
    """Claims as a table."""
    head = ["claim", "the paper's number", "ours", "frames or steps", "seeds", "verdict", "command"]
    return _markdown([head, *([c.what, c.theirs, *c.ours(results), f"`{c.command}`"] for c in rows)])


def apples(results: Path) -> str:
    """How many seeds have solved Key-Door-Treasure with apples. The slips are apart: they have the same seeds."""
    rows = [row for row in _rows(results / "kdt" / "stale_returns.csv") if row["env"] == "apple-kdt"]
    cases = [(step, slip) for step in APPLE_STEPS for slip in sorted({row["settings"] for row in rows})]
    found = [["agent", *(f"slip {slip.split('=')[-1]}, {step:,} steps" for step, slip in cases)]]
    for agent in dict.fromkeys([*AGENTS[:4], *(row["agent"] for row in rows)]):
        at = {(row["step"], row["settings"]): row for row in rows if row["agent"] == agent}
        here = [at.get(case) for case in cases]
        found.append([agent, *("" if row is None else _of_seeds(row["solved"], row["seeds"]) for row in here)])
    return _markdown(found) if rows else NOTHING


def made_of_it(path: Path, steps: Sequence[int]) -> str:
    """How many seeds have come upon the aim, how many of those solve it, and how long that took."""
    rows = _rows(path)
    found = [
        ["setting", "agent", *(f"{what}, {step:,} steps" for step in steps for what in ("come upon it", "solve it"))]
    ]
    found[0].append("steps from coming upon it to solving it, median")
    cases = {(row["settings"] or "", row["agent"]) for row in rows}
    fewest_settings_first = sorted(cases, key=lambda case: (len(case[0].split()), case[0], _place(case[1])))
    for setting, agent in fewest_settings_first:
        at = {row["step"]: row for row in rows if (row["settings"] or "", row["agent"]) == (setting, agent)}
        line = [f"`{setting}`" if setting else "", agent]
        for step in steps:
            row = at[step]
            line += [f"{row['reached']} of {row['seeds']}", _of_seeds(row["kept"], row["reached"])]
        made = at[steps[-1]]["made_50"]
        found.append([*line, "not in time" if made is None else f"{made:,}"])
    return _markdown(found) if rows else NOTHING


def between(results: Path) -> str:
    """What returns below the best value do to Advantage Learning, at the last step."""
    rows = _rows(results / "between.csv")
    head = [
        "environment",
        "agent",
        "come upon it",
        "solve it",
        "returns in between",
        "action gap",
        "pushed",
        "imitated",
    ]
    found = [head]
    for env in dict.fromkeys(row["env"] for row in rows):
        own = [row for row in rows if row["env"] == env]
        for row in (row for row in own if row["step"] == max(one["step"] for one in own)):
            # G > Qt(s, a) counts those above V as well, which are the known ones that are not stale.
            inside = row["active_share"] + row["stale_share"] - row["known_share"]
            parts = [f"{row[name]:.4f}" for name in ("action_gap", "advantage_part", "imitation_part")]
            name = f"{row['agent']}, `{row['settings']}`" if row["settings"] else row["agent"]
            shares = [_of_seeds(row[what], row["seeds"]) for what in ("reached", "solved")]
            found.append([env, name, *shares, f"{100 * inside:.1f} %", *parts])
    return _markdown(found) if rows else NOTHING


def favourite_actions(results: Path) -> str:
    """How often favourite actions change while nothing pays, and how many seeds find the treasure."""
    found = [["agent", "favourites change", "action gap", "seeds that find the treasure"]]
    rows = _rows(results / "kdt" / "favourites.csv")
    for agent, label, last, means in by_case(rows):
        kind = "held for {} steps" if last["held"] else "shaken by {}" if last["shaken"] else "alpha {}"
        name = f"{agent}, {kind.format(label)}" if label else agent
        share, gap = f"{100 * means['changed']:.0f} %", f"{means['action_gap']:.3f}"
        found.append([name, share, gap, _of_seeds(last["reached"], last["seeds"])])
    return _markdown(found) if rows else NOTHING


def when_stale(results: Path) -> str:
    """How many seeds have solved Key-Door-Treasure when one thing is different, and the value of taking the key."""
    rows = _rows(results / "kdt" / "when_stale.csv")
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
    return _markdown(found) if rows else NOTHING


def deep_sea(results: Path) -> str:
    """How many seeds solve DeepSea at the end, by size, with the share's interval; and the largest size of any."""
    rows = _rows(results / "deep_sea" / "sizes.csv")
    of_agents = by_size(rows)
    sizes = sorted({size for of_agent in of_agents.values() for size in of_agent})
    found = [["agent", "largest solved", *(f"{size}" for size in sizes)]]
    for agent in dict.fromkeys([*AGENTS[:4], *sorted(of_agents)]):
        of_agent = of_agents.get(agent, {})
        largest = max((size for size, row in of_agent.items() if row["solved"]), default=None)
        there = [of_agent.get(size) for size in sizes]
        cells = [_of_seeds(row["solved"], row["seeds"]) if row else "" for row in there]
        found.append([agent, "none" if largest is None else str(largest), *cells])
    return _markdown(found) if rows else NOTHING


def scores(folder: Path) -> str:
    """Our scores on the hard-exploration games beside the paper's, at 10M and at 40M frames."""
    paper = paper_scores()["scores"]
    curves = atari.read_all(folder)
    rows = [["game", "frames", *AGENTS, *(f"the paper's {agent}, 200M" for agent in AGENTS[:3])]]
    at = {
        millions: atari.by_agent(curves, millions, AGENTS[:4]) | atari.by_agent(curves, millions, AGENTS[4:])
        for millions in (10, 40)
    }
    for game in GROUPS["hard-exploration"]:
        for millions, found in at.items():
            own = [found.get(agent, {}).get(game) for agent in AGENTS]
            if any(seeds is not None for seeds in own):
                ours = ["" if seeds is None else _score(seeds[:, -1]) for seeds in own]
                theirs = [f"{paper[agent][game]:,.0f}" if game in paper[agent] else "" for agent in AGENTS[:3]]
                rows.append([game, f"{millions}M", *ours, *theirs])
    return _markdown(rows) if len(rows) > 1 else NOTHING


def beside_dopamine(folder: Path, results: Path) -> str:
    """Our base agents at the frames where the published curves have points, with the range of those in brackets."""
    points = _rows(results / "atari" / "published.csv")
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
    return _markdown(rows) if len(rows) > 1 else NOTHING


def _place(agent: str) -> tuple[int, int]:
    """An agent's place in a table: base by base, and the rules of each in their order."""
    rule, base, _ = parse(agent)
    return list(BASES).index(base), list(RULES).index(rule)


def _rows(path: Path) -> list[dict[str, Any]]:
    return tables.read(path) if path.is_file() else []


def _of_seeds(number: int, seeds: int) -> str:
    """A number of seeds with the 95 % Wilson interval of its share; nothing where there are none."""
    if not seeds:
        return ""
    share = wilson(number, seeds)
    return f"{number} of {seeds} [{share.low:.2f}, {share.high:.2f}]"


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
