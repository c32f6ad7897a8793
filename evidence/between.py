"""What returns below the best value do to Advantage Learning.

    python -m evidence between results/between.csv

Advantage Learning pushes an action that is not the best one down by alpha (V - Qt(s, a)). SAIL puts max(G, Qt(s, a)) in
the place of Qt(s, a). So a return between Qt(s, a) and V, which is worse than what the agent expects and no reason to
repeat anything, weakens the push to alpha (V - G) all the same: it can widen the gap by no more than alpha times what
the return is below V.

To see whether that matters there is a rule here that differs from SAIL in nothing else: returns count only above V. It
is run where Advantage Learning had done better than SAIL (DeepSea of size 16) and where SAIL had done a little better
(Key-Door-Treasure with apples). As Advantage Learning is not clipped and SAIL is, on DeepSea both are also run with the
other one's clip. The seeds are none of those that raised the question.
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

FIRST_SEED = 1000
TITLE = "What returns below the best value do to Advantage Learning"
ABOVE = "above"
"""The rule's name here."""
Settings = dict[str, Any]
DQN, SAIL, AL, ABOVE_DQN = ((f"{name}dqn", Settings()) for name in ("", "sail-", "al-", f"{ABOVE}-"))
UNCLIPPED_SAIL, CLIPPED_AL = ("sail-dqn", {"rule.clip": None}), ("al-dqn", {"rule.clip": 1.0})
PLAN: list[tuple[str, int, int, Settings, list[tuple[str, Settings]]]] = [
    ("apple-kdt", 300, 150_000, {}, [SAIL, ABOVE_DQN, AL]),
    ("deep-sea", 40, 300_000, {"env.size": 16}, [SAIL, ABOVE_DQN, AL, CLIPPED_AL, UNCLIPPED_SAIL, DQN]),
]
"""Where, how many seeds, for how many steps, with which settings, and who, with what of his own."""


def above(q_tm1: Any, a_tm1: Any, g_tm1: Any, *, clip: float | None, tau: float) -> Any:
    """G - V where the return is above V = max_b Qt(s, b), and Advantage Learning's Qt(s, a) - V everywhere else.

    That is the sum of both halves: where the first is not zero, the second is left out.
    """
    imitated = rules.strsil(q_tm1, a_tm1, g_tm1, clip=clip, tau=tau)
    pushed = rules.advantage_learning(q_tm1, a_tm1, g_tm1, clip=clip, tau=tau)
    return imitated + pushed * (imitated == 0)


def cells(seeds: int | None = None, **smaller: int) -> list[Cell]:
    """What is run; `smaller` may have `steps`."""
    found = []
    for env, number, steps, of_env, agents in PLAN:
        for agent, own in agents:
            group = ",".join([agent, *(f"{key}={value}" for key, value in own.items())])
            settings, number = {"steps": steps, **of_env, **own, **smaller}, seeds or number
            name = f"{env}/{group}/seeds{FIRST_SEED}-{FIRST_SEED + number - 1}"
            found.append(Cell(name, env, agent, None, settings, FIRST_SEED, number))
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
        said = gridworlds.collect(folder, to, f"python -m evidence between {to}")
        print(f"{number} of {len(of)}: {cell.group}", file=sys.stderr, flush=True)
    return said
