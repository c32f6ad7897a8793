"""What self-imitation does to Advantage Learning where there is nothing to imitate.

    python -m evidence between results/between.csv

Advantage Learning pushes an action that is not the best one down by alpha (V - Qt(s, a)). SAIL puts max(G, Qt(s, a)) in
the place of Qt(s, a). So a return between Qt(s, a) and V, which is worse than what the agent expects and no reason to
repeat anything, stops the push all the same: under SAIL the gap can widen no further than returns are stale.

To see whether that matters there is a rule here that differs from SAIL in nothing else: returns count only above V. And
as Advantage Learning is not clipped and SAIL is, both are run with the other one's clip as well.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence import gridworlds
from sail import rules
from sail.files import write_whole
from sail.studies.cells import Cell
from sail.training.api import train_config

SEEDS = 100
TITLE = "What returns between an action's value and the best one do to Advantage Learning"
ABOVE = "above"
"""The rule's name here."""
Settings = dict[str, Any]
DQN, STRSIL, SAIL, AL = ((f"{name}dqn", Settings()) for name in ("", "strsil-", "sail-", "al-"))
UNCLIPPED_SAIL, CLIPPED_AL = ("sail-dqn", {"rule.clip": None}), ("al-dqn", {"rule.clip": 1.0})
ABOVE_DQN = (f"{ABOVE}-dqn", Settings())
PLAN: list[tuple[str, int, Settings, list[tuple[str, Settings]]]] = [
    ("deep-sea", 300_000, {"env.size": 16}, [DQN, STRSIL, SAIL, UNCLIPPED_SAIL, ABOVE_DQN, CLIPPED_AL, AL]),
    ("apple-kdt", 150_000, {}, [STRSIL, SAIL, ABOVE_DQN, AL]),
]
"""Where, for how many steps, with which settings, and who, with what of his own."""


def above(q_tm1: Any, a_tm1: Any, g_tm1: Any, *, clip: float | None, tau: float) -> Any:
    """G - V where the return is above V = max_b Qt(s, b), and Advantage Learning's Qt(s, a) - V everywhere else.

    That is the sum of both halves: where the first is not zero, the second is left out.
    """
    imitated = rules.strsil(q_tm1, a_tm1, g_tm1, clip=clip, tau=tau)
    pushed = rules.advantage_learning(q_tm1, a_tm1, g_tm1, clip=clip, tau=tau)
    return imitated + pushed * (imitated == 0)


def cells(seeds: int = SEEDS, **smaller: int) -> list[Cell]:
    """What is run; `smaller` may have `steps`."""
    found = []
    for env, steps, of_env, agents in PLAN:
        for agent, own in agents:
            group = ",".join([agent, *(f"{key}={value}" for key, value in own.items())])
            settings = {"steps": steps, **of_env, **own, **smaller}
            found.append(Cell(f"{env}/{group}/seeds0-{seeds - 1}", env, agent, None, settings, 0, seeds))
    return found


def register() -> None:
    """Makes the rule known, so that its agents can be named."""
    if ABOVE not in rules.RULES:
        rules.register(ABOVE, rules.Rule(above))


def collect(to: Path, folder: Path, of: Sequence[Cell] | None = None) -> str:
    """Runs what is missing in a folder like a study's, and sums up what there is after each of them."""
    register()
    of, said = cells() if of is None else of, ""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "study.yaml", f"title: {TITLE}\n")
    for number, cell in enumerate(of, 1):
        path = folder / "cells" / cell.name
        if not (path / "DONE").is_file():
            shutil.rmtree(path, ignore_errors=True)  # they take minutes: one that was cut off begins anew
            path.parent.mkdir(parents=True, exist_ok=True)
            train_config(cell.config(), out=path)
        said = gridworlds.collect(folder, to)
        print(f"{number} of {len(of)}: {cell.group}", file=sys.stderr, flush=True)
    return said
