"""Why a wider action gap explores less: how often favourite actions change before the treasure is found.

    python -m evidence favourites results/kdt/favourites.csv

Key-Door-Treasure as in the study evidence/no-reward, with an instrument that runs do not have: whenever the network
that acts is renewed, after every block of steps, it looks at whether favourite actions have changed in the states that
are visited next. Rules and their weights differ in that, but also in other things. So there are runs in which nothing
else was meddled with. DQN is held: it acts with a copy of its network that is renewed only now and then. And AL is
shaken: it acts with a copy whose weights are disturbed, each time anew. Both learn from what they see as ever.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from evidence import tables
from sail.agents.base import Params
from sail.analysis.statistics import wilson
from sail.config import Config
from sail.machine import cores
from sail.replay.ring import CLOSING
from sail.studies.cells import expand
from sail.studies.definition import read_definition
from sail.studies.library import find
from sail.training.on_device import Episodes, OnDeviceProgram, SeedState
from sail.training.provenance import provenance
from sail.training.seeds import map_seeds

STUDY, EVERY = "evidence/no-reward", 10_000
SETTLED = 20_000
"""Steps after which every case has learned something and acts on it: what is before does not count in its means."""
LAYERS = 3
"""Of states: without the key, with it, and with the door open."""


class Case(NamedTuple):
    """An agent and its rule's weight; for how many steps it acts with the same network, and how much that is shaken."""

    agent: str
    alpha: float | None = None
    held: int = 0
    """0 for no longer than usual: a block."""
    shaken: float = 0.0
    """The standard deviation of what each weight is multiplied by, around 1."""


CASES = (
    Case("dqn"),
    *(Case("al-dqn", alpha) for alpha in (0.3, 0.6, 0.9, 0.99)),
    *(Case(agent, 0.9) for agent in ("sail-dqn", "munchausen-dqn")),
    *(Case("dqn", held=held) for held in (1_000, 5_000, 20_000)),
    *(Case("al-dqn", 0.9, shaken=shaken) for shaken in (0.05, 0.1)),
)


class HeldProgram(OnDeviceProgram):
    """Training that acts with networks which it is given, while its own learn."""

    _acting: Params = None

    def a_block(self) -> Callable[..., tuple[SeedState, Episodes]]:
        """What takes every seed a block further, from a state (used up), the networks that act, and a step."""

        def one(both: tuple[SeedState, Params], step: Any) -> tuple[SeedState, Episodes]:
            state, self._acting = both  # for `_collect`, while this is traced
            state, (_, episodes) = self._blocks(state, step, num_blocks=1)
            self._acting = None
            return state, episodes

        def run(state: SeedState, acting: Params, step: Any) -> Any:
            return map_seeds(lambda both: one(both, step), (state, acting))

        return jax.jit(run, donate_argnums=0)

    def _collect(self, params: Params, *others: Any) -> Any:
        return super()._collect(params if self._acting is None else self._acting, *others)


def every_state(cells: int) -> Any:
    """[layers x cells, ...] what the agent sees in each cell; the last two flags are the key and the open door."""
    layer, cell = np.divmod(np.arange(LAYERS * cells), cells)
    seen = np.zeros((len(cell), cells + 2), np.uint8)
    seen[np.arange(len(cell)), cell] = 1
    seen[:, cells], seen[:, cells + 1] = layer >= 1, layer >= 2
    return seen


def visits(state: SeedState, block: int) -> Any:
    """[seeds, layers x cells] how often each seed has acted in each state in its last block."""
    ring = state.ring
    seeds, envs, slots, width = ring.observation.shape
    each = block // envs
    # The last observation of an episode has a slot as well, but nobody has acted on it. No episode is shorter than 26.
    newest = (np.asarray(ring.head)[..., None] - 1 - np.arange(min(each + each // 26 + 1, slots))) % slots
    acted = np.take_along_axis(np.asarray(ring.end), newest, axis=2) != CLOSING
    acted &= np.cumsum(acted, axis=2) <= each
    seen = np.asarray(jnp.take_along_axis(ring.observation, jnp.asarray(newest)[..., None], axis=2))
    cells = width - 2
    at = seen[..., :cells].argmax(-1) + cells * seen[..., cells:].sum(-1, dtype=int)
    counts = np.zeros((seeds, LAYERS * cells), int)
    np.add.at(counts, (np.arange(seeds)[:, None, None], at), acted)
    return counts


def shake(params: Params, deviation: float, step: int) -> Params:
    """Networks [seeds, ...] with every weight times 1 and some noise, another one at each step."""
    keys = iter(jax.random.split(jax.random.fold_in(jax.random.key(0), step), len(jax.tree.leaves(params))))
    return jax.tree.map(lambda x: x * (1 + deviation * jax.random.normal(next(keys), x.shape)), params)


def config_of(case: Case, every: int = EVERY, **smaller: int) -> Config:
    """The study's own settings, but for what makes the case; `smaller` may have `seeds` and `steps`."""
    name, marked = find(STUDY)
    cell = next(cell for cell in expand(read_definition(marked, name), marked) if cell.agent == case.agent)
    weight = {} if case.alpha is None else {"rule.alpha": case.alpha}
    settings = cell.settings | {"evaluation.period": every} | weight | smaller
    return replace(cell, settings=settings).config()


def measure(case: Case, every: int = EVERY, **smaller: int) -> Iterator[dict[str, Any]]:
    """A row for every so many steps: what has changed in them, and what was found by then."""
    began = time.perf_counter()
    program = HeldProgram(config_of(case, every, **smaller))
    seeds = program.config.seeds
    block = program.config.block_steps
    assert case.held % block == 0 and every % block == 0, (case, block)
    everywhere = program.agent.prepare(jnp.asarray(every_state(program.observation_shape[0] - 2)))
    values = jax.jit(jax.vmap(lambda params: program.agent.q_values(params, everywhere)))
    advance, state = program.a_block(), program.init()
    favourites = np.asarray(values(program.params(state))).argmax(-1)
    reached = np.zeros(seeds, bool)
    sums = np.zeros(3)  # of visits, of those where the favourite has changed, and of gaps
    for step in range(0, program.config.steps, block):
        if step % (case.held or block) == 0:
            own = program.params(state)  # which the next block uses up
            acting = shake(own, case.shaken, step) if case.shaken else jax.tree.map(jnp.copy, own)
        q = np.asarray(values(acting))
        gap = np.diff(np.sort(q, axis=-1)[..., -2:])[..., 0]
        before, favourites = favourites, q.argmax(-1)
        state, episodes = advance(state, acting, step)
        here = visits(state, block) * ~reached[:, None]  # what a seed does after it has found the treasure is left out
        sums += here.sum(), (here * (favourites != before)).sum(), (here * gap).sum()
        reached |= np.asarray(episodes.ended & episodes.success).any(axis=(1, 2, 3))
        if (step + block) % every == 0:
            found = int(reached.sum())
            share = wilson(found, seeds)
            yield {
                **case._asdict(),
                "seeds": seeds,
                "step": step + block,
                "reached": found,
                "low": float(share.low),
                "high": float(share.high),
                "changed": float(sums[1] / sums[0]) if sums[0] else None,
                "action_gap": float(sums[2] / sums[0]) if sums[0] else None,
                "seconds": time.perf_counter() - began,
            }
            sums[:] = 0


def by_case(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, float]]]:
    """Of each case: its agent, what tells it from the agent's other ones, its last row, and its means when settled."""
    cases: dict[Case, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["step"]):
        cases[Case(*(row[name] for name in Case._fields))].append(row)
    for case, own in cases.items():
        has_weights = len({other.alpha for other in cases if other.agent == case.agent}) > 1
        label = f"{case.held:,}" if case.held else f"{case.shaken or case.alpha:g}" if has_weights else ""
        settled = [row for row in own if row["step"] > SETTLED and row["changed"] is not None]
        means = {name: float(np.mean([row[name] for row in settled])) for name in ("changed", "action_gap")}
        yield case.agent, label, own[-1], means


def collect(to: Path) -> str:
    """Measures all cases, one for each core at a time, and writes them."""
    source = provenance()
    about = {
        "study": "How often favourite actions change before the treasure is found",
        "command": f"python -m evidence favourites {to}",
        "hardware": f"{source['hardware']['cpu']}, {source['hardware']['cores']} cores, a case on each",
        "versions": source["versions"],
        "commit": source["commit"],
        "held": "steps for which it acts with the same network; 0: as in training, a block of 200",
        "shaken": "standard deviation of what each weight of the network that acts is multiplied by, anew each block",
        "reached": "seeds that have reached the treasure by this step; low and high: 95 % Wilson interval of the share",
        "changed": "share of steps in states whose favourite action is another than in the 200 steps before, of the"
        f" network that acts; over the last {EVERY:,} steps of all seeds that have not reached the treasure",
        "action_gap": "of the same network in the same steps",
        "seconds": "from the beginning of the case, all seeds together",
    }
    with multiprocessing.get_context("spawn").Pool(cores(), maxtasksperchild=1) as pool:
        rows: list[dict[str, Any]] = []
        for number, found in enumerate(pool.imap(_rows, CASES, chunksize=1), 1):
            rows += found
            tables.write(to, about, rows)  # after each case: a kill loses no more than those that are at work
            print(f"{number} of {len(CASES)}: {CASES[number - 1]}", file=sys.stderr, flush=True)
    return f"{to}: {len(CASES)} cases of {rows[-1]['seeds']} seeds."


def _rows(case: Case) -> list[dict[str, Any]]:
    return list(measure(case))
