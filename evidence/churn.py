"""How soon favourite actions change on an Atari game while an agent learns: after one update, ten, three hundred.

    python -m evidence churn results/atari/churn.csv RUN RUN ...

An emulator that plays alone takes four steps for each update. One of 120 has to wait for the others, and 30 updates
come between two of its steps. So if favourites change within 30 updates, it hardly has a policy (docs/baselines.md).

Each run is taken up where its newest checkpoint is: a small ring is filled with its policy's steps, some states are
drawn from it, and then it learns on, one update after the other. The run itself stays as it is. (Its own ring had steps
of many policies, so here the first updates learn something new, too.)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from evidence import tables
from sail import replay
from sail.config import config_from_tree, config_to_tree
from sail.envs.atari_settings import FRAME_SKIP
from sail.training import checkpoint
from sail.training.api import set_up_jax
from sail.training.host import HostProgram
from sail.training.host_evaluation import value_function
from sail.training.provenance import provenance
from sail.training.run_folder import RunFolder

AFTER = (1, 3, 10, 30, 100, 300)
CAPACITY, STATES, BEGINNINGS = 100_000, 1_024, 20


def collect(runs: Sequence[Path], to: Path, after: Sequence[int] = AFTER, capacity: int = CAPACITY) -> str:
    """Measures the first seed of every run and writes the file."""
    about = provenance() | {
        "command": "python -m evidence churn",
        "changed": "share of states whose best action is another one after so many updates",
        "gap": "by which the best action's value is above the second's, mean over states",
    }
    rows: list[dict[str, Any]] = []
    for run in runs:
        rows += measure(RunFolder(run), after, capacity)
        tables.write(to, about, rows)
    return f"{to}: {len(runs)} {'run' if len(runs) == 1 else 'runs'}."


def measure(run: RunFolder, after: Sequence[int], capacity: int) -> list[dict[str, Any]]:
    """A row for each number of updates, with means over some beginnings, which follow one after the other."""
    tree = config_to_tree(run.config)
    tree["learning"]["max_block"] = run.config.learning.update_period  # blocks of one update
    tree["replay"] |= {"capacity": capacity, "frames": "device"}
    tree["steps"] *= 2  # it goes on, also if the run is done
    config = config_from_tree(tree)
    set_up_jax(config.seeds)
    program = HostProgram(config)
    try:
        saved, meta, _ = checkpoint.load_newest(run.checkpoints, program.saved_like())
        state = program.restore(saved, {"step": meta["step"]}, lambda _: None)
        states = draw(state.ring, config.stack, config.seed)
        value = value_function(program.agent)

        def values() -> Any:
            return np.asarray(value(jax.tree.map(lambda x: x[0], state.learner.params), states))

        step, changed, gaps = int(meta["step"]), dict.fromkeys(after, 0.0), []
        for _ in range(BEGINNINGS):
            before = values()
            gaps.append(gap(before))
            for made in range(1, max(after) + 1):
                step += config.block_steps
                state = program.learn(state, step)
                if made in changed:
                    changed[made] += float((values().argmax(-1) != before.argmax(-1)).mean()) / BEGINNINGS
    finally:
        program.close()
    return [
        {
            "game": config.env.name.partition(":")[2],
            "agent": config.agent_name,
            "frames": int(meta["step"]) * FRAME_SKIP,
            "updates": made,
            "changed": share,
            "gap": float(np.mean(gaps)),
            "states": len(states),
            "beginnings": BEGINNINGS,
            "run": run.path.name,
        }
        for made, share in changed.items()
    ]


def draw(ring: replay.Ring, stack: int, seed: int) -> Any:
    """Some of the first seed's states."""
    own = jax.tree.map(lambda x: x[0], ring)
    slots = replay.sample(own, jax.random.key(seed), STATES, stack=stack)
    return replay.gather(own, slots, discount=0.99, stack=stack).observation


def gap(values: Any) -> float:
    """By how much the best action is better than the second, on average."""
    best = np.sort(values, axis=-1)
    return float((best[:, -1] - best[:, -2]).mean())
