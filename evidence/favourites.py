"""Why a wider action gap explores less: how often favourite actions change while nothing pays, and what is found.

    python -m evidence favourites results/kdt/favourites.csv

Key-Door-Treasure as in the study evidence/no-reward, with an instrument that runs do not have: after every thousand
steps it looks at what the network that acts would do in every state, and whether that has changed. Rules and their
weights differ in that, and in the action gap. So some runs of DQN are held: they act with a copy of the network that is
renewed only now and then, while learning is as it was. Then favourites change less often without any rule.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from evidence import tables
from sail.agents.base import Params
from sail.analysis.statistics import wilson
from sail.config import make_config
from sail.machine import cores
from sail.training.on_device import Episodes, OnDeviceProgram, SeedState
from sail.training.provenance import provenance
from sail.training.seeds import map_seeds

WINDOW = 1_000
"""Steps between two looks: each of the 8 environments has taken 125, an episode and a quarter."""
STEPS, EVERY, SEEDS = 100_000, 10_000, 100
CLOSINGS = 8
"""More than the episodes that can end in an environment in a window, each of which takes another slot of its ring."""


class Case(NamedTuple):
    """An agent, its rule's weight, and for how many steps it acts with the same network: 0 for no longer than usual."""

    agent: str
    alpha: float | None
    held: int


CASES = (
    Case("dqn", None, 0),
    *(Case("al-dqn", alpha, 0) for alpha in (0.3, 0.6, 0.9, 0.99)),
    *(Case(agent, 0.9, 0) for agent in ("sail-dqn", "strsil-dqn", "munchausen-dqn")),
    *(Case("dqn", None, held) for held in (1_000, 5_000, 20_000)),
)


class HeldProgram(OnDeviceProgram):
    """Training that acts with networks which it is given, while its own learn."""

    _acting: Params = None

    def held(self, num_steps: int) -> Callable[..., tuple[SeedState, Episodes]]:
        """What takes every seed so many steps further, from a state (used up), the networks that act, and a step."""

        def one(both: tuple[SeedState, Params], step: Any) -> tuple[SeedState, Episodes]:
            state, self._acting = both  # for `_collect`, while this is traced
            state, (_, episodes) = self._blocks(state, step, num_steps // self.config.block_steps)
            self._acting = None
            return state, episodes

        def run(state: SeedState, acting: Params, step: Any) -> Any:
            return map_seeds(lambda both: one(both, step), (state, acting))

        return jax.jit(run, donate_argnums=0)

    def _collect(self, params: Params, *others: Any) -> Any:
        return super()._collect(params if self._acting is None else self._acting, *others)


def every_state(program: OnDeviceProgram) -> Any:
    """[2 x cells, ...] what the agent sees in each cell, without the key and with it; the door is closed."""
    cells = program.observation_shape[0] - 2  # the last two say whether it has the key and whether the door is open
    seen = np.zeros((2 * cells, cells + 2), np.uint8)
    seen[np.arange(2 * cells), np.arange(2 * cells) % cells] = 1
    seen[cells:, cells] = 1
    return jnp.asarray(seen)


def visited(state: SeedState, steps: int) -> Any:
    """[seeds, 2 x cells] where each seed was in its last steps: a cell, without the key or with it."""
    ring = state.ring
    seeds, envs, slots, width = ring.observation.shape
    last = (ring.head[..., None] - 1 - jnp.arange(min(steps // envs + CLOSINGS, slots))) % slots
    newest = np.asarray(jnp.take_along_axis(ring.observation, last[..., None], axis=2)).reshape(seeds, -1, width)
    cells = width - 2
    at = newest[..., :cells].argmax(-1) + cells * newest[..., cells].astype(int)
    there = newest[..., :cells].any(-1)  # slots that have never been written are nowhere
    found = np.zeros((seeds, 2 * cells), bool)
    np.logical_or.at(found, (np.arange(seeds)[:, None], at), there)
    return found


def measure(case: Case, seeds: int = SEEDS, steps: int = STEPS, every: int = EVERY) -> Iterator[dict[str, Any]]:
    """A row for every 10,000 steps: what has changed in them, and what was found by then."""
    began = time.perf_counter()
    settings: dict[str, Any] = {
        "env": {"treasure_reward": 0.0},
        "exploration": {"start": 0.1, "end": 0.1},
        "evaluation": {"period": every},
        "seeds": seeds,
        "steps": steps,
        **({} if case.alpha is None else {"rule": {"alpha": case.alpha}}),
    }
    program = HeldProgram(make_config("kdt", case.agent, settings))
    everywhere = program.agent.prepare(every_state(program))
    values = jax.jit(jax.vmap(lambda params: program.agent.q_values(params, everywhere)))
    held, state = program.held(WINDOW), program.init()
    acting = jax.tree.map(jnp.copy, program.params(state))
    favourites = np.asarray(values(acting)).argmax(-1)
    first, seen = np.full(seeds, np.inf), np.zeros((seeds, favourites.shape[1]), bool)
    changed: list[float] = []
    gaps: list[float] = []
    for step in range(0, steps, WINDOW):
        if case.held:
            if step % case.held == 0:
                acting = jax.tree.map(jnp.copy, program.params(state))
            state, episodes = held(state, acting, step)
        else:
            state, _, episodes = program.advance_arrays(state, step, WINDOW)
            acting = program.params(state)
        found = np.asarray(episodes.ended & episodes.success).any(axis=(1, 2, 3))
        first[found] = np.minimum(first[found], step + WINDOW)
        seen |= visited(state, WINDOW)
        q = np.asarray(values(acting))
        before, favourites = favourites, q.argmax(-1)
        changed.append(_over(seen, favourites != before))
        gaps.append(_over(seen, np.diff(np.sort(q, axis=-1)[..., -2:])[..., 0]))
        if (step + WINDOW) % every == 0:
            reached = int(np.isfinite(first).sum())
            share = wilson(reached, seeds)
            yield {
                "agent": case.agent,
                "alpha": case.alpha,
                "held": case.held,
                "seeds": seeds,
                "step": step + WINDOW,
                "reached": reached,
                "low": float(share.low),
                "high": float(share.high),
                "changed": float(np.mean(changed)),
                "action_gap": float(np.mean(gaps)),
                "seen": float(seen.sum(axis=1).mean()),
                "seconds": time.perf_counter() - began,
            }
            changed, gaps = [], []


def _over(seen: Any, values: Any) -> float:
    """The mean over the states that a seed has been in, and over seeds."""
    return float(((seen * values).sum(axis=1) / seen.sum(axis=1)).mean())


def by_case(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, float]]]:
    """Of each case: its agent, what tells it from the agent's other ones, its last row, and its means.

    The first row is left out of the means: learning begins in it.
    """
    for agent, alpha, held in dict.fromkeys((row["agent"], row["alpha"], row["held"]) for row in rows):
        own = [row for row in rows if (row["agent"], row["alpha"], row["held"]) == (agent, alpha, held)]
        own.sort(key=lambda row: row["step"])
        weights = {row["alpha"] for row in rows if row["agent"] == agent}
        label = f"{held:,}" if held else f"{alpha:g}" if len(weights) > 1 else ""
        means = {name: float(np.mean([row[name] for row in own[1:] or own])) for name in ("changed", "action_gap")}
        yield agent, label, own[-1], means


def collect(to: Path) -> str:
    """Measures all cases, one for each core at a time, and writes them."""
    source = provenance()
    with multiprocessing.get_context("spawn").Pool(cores(), maxtasksperchild=1) as pool:
        rows: list[dict[str, Any]] = []
        for number, found in enumerate(pool.imap(_rows, CASES, chunksize=1), 1):
            rows += found
            print(f"{number} of {len(CASES)}: {CASES[number - 1]}", file=sys.stderr, flush=True)
    about = {
        "study": "How often favourite actions change before the first reward",
        "command": f"python -m evidence favourites {to}",
        "hardware": f"{source['hardware']['cpu']}, {source['hardware']['cores']} cores, a case on each",
        "versions": source["versions"],
        "commit": source["commit"],
        "held": "steps for which it acts with the same network; 0: as in training, 200 (a block)",
        "reached": "seeds that have reached the treasure by this step; low and high: 95 % Wilson interval of the share",
        "changed": f"share of states seen so far whose favourite action is another than {WINDOW:,} steps before, of the"
        f" network that acts; mean over the last {EVERY:,} steps and all seeds",
        "action_gap": "of the same network in the same states",
        "seen": "states (a cell, without the key or with it) that a seed has been in by this step",
        "seconds": "from the beginning of the case, all seeds together",
    }
    tables.write(to, about, rows)
    return f"{to}: {len(CASES)} cases of {SEEDS} seeds."


def _rows(case: Case) -> list[dict[str, Any]]:
    return list(measure(case))
