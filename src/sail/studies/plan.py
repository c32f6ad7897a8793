"""What a study costs, from what `sail bench` found: time on one device and on several, and disk."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sail.agents import names
from sail.bench_store import remembered
from sail.config import Config
from sail.envs import kind_of
from sail.envs.atari_settings import FRAME_SKIP
from sail.errors import BadInputError
from sail.studies.cells import Cell

LOG_BYTES_A_STEP = {"atari": 0.3, "gym": 3.0}
"""Lines of episodes.jsonl are about 120 bytes, and an episode of a game some 400 steps."""
LOG_BYTES_OTHERWISE = 3.0


def read_benches(files: Sequence[str]) -> list[dict[str, Any]]:
    """Results of `sail bench --out FILE`, of this machine or another; a file may also hold a list of them."""
    results: list[dict[str, Any]] = []
    for file in files:
        try:
            tree = json.loads(Path(file).read_text())
        except (OSError, ValueError) as error:
            raise BadInputError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
        found = [one for one in _objects(tree) if {"env", "agent", "achieved", "frames_a_step", "device"} <= one.keys()]
        if not found:
            raise BadInputError(f"{file} has no result of 'sail bench': make one with 'sail bench --out {file}'.")
        results += found
    return results


def _objects(tree: Any) -> list[dict[str, Any]]:
    if isinstance(tree, dict):
        return [tree, *(one for value in tree.values() for one in _objects(value))]
    return [one for value in tree for one in _objects(value)] if isinstance(tree, list) else []


def study_plan(
    name: str, cells: list[Cell], benches: list[dict[str, Any]] | None = None, devices: Sequence[int] = (1, 2, 4, 8)
) -> dict[str, Any]:
    """Cells, frames, hours, disk, and the time on several devices. Rates that nobody measured are left open."""
    benches = remembered() if benches is None else benches
    sizes: dict[Any, int] = {}
    groups: dict[tuple[str, str, int], list[tuple[Cell, Config]]] = {}
    for cell in cells:
        config = cell.config()
        groups.setdefault((cell.agent, kind_of(cell.env), cell.seeds), []).append((cell, config))
    rows: list[dict[str, Any]] = []
    disk, lasting, used = 0.0, [], []
    for (agent, kind, seeds), members in groups.items():
        config = members[0][1]
        # Each run of a group has the same numbers, but for its budget.
        steps = sum(one.steps * one.seeds for _, one in members)
        bench = _matching(benches, config, kind)
        rate = bench["achieved"] / bench["frames_a_step"] if bench else None
        start = (bench.get("seconds_to_compile") or 0.0) if bench else 0.0
        hours = None if rate is None else (steps / rate + start * len(members)) / 3600
        if bench is not None and rate is not None:
            lasting += [one.steps * one.seeds / rate + start for _, one in members]
            used.append(str(bench["device"]))
        disk += LOG_BYTES_A_STEP.get(kind, LOG_BYTES_OTHERWISE) * steps
        for cell, one in members:
            # Games differ in nothing that a checkpoint would show but their number of actions.
            alike = (cell.agent, kind, cell.seeds, cell.preset, repr(cell.settings))
            if alike not in sizes:
                sizes[alike] = checkpoint_bytes(one)
            disk += sizes[alike] * one.checkpoint.keep
        rows.append(
            {
                "agent": agent,
                "where": f"{kind} x {seeds} seeds together" if seeds > 1 else kind,
                "cells": len(members),
                "runs": sum(one.seeds for _, one in members),
                "steps": steps,
                "steps_per_second": rate,
                "hours": hours,
                "rate_from": _source(bench) if bench else None,
                "command": None if bench else _command(members[0][0]),
            }
        )
    # One measurement of each base agent is enough: see `_matching`.
    missing = {(_base(row["agent"]), row["where"]): row["command"] for row in reversed(rows) if row["command"]}
    hours = None if missing else sum(row["hours"] for row in rows)
    return {
        "study": name,
        "cells": len(cells),
        "runs": sum(row["runs"] for row in rows),
        "steps": sum(row["steps"] for row in rows),
        "frames": sum(row["steps"] * FRAME_SKIP for row in rows if row["where"].startswith("atari")),
        "rows": rows,
        "hours": hours,
        "unit": " or ".join(sorted(set(used))) or "device",
        "wall_seconds": None if hours is None else {str(k): wall_seconds(lasting, k) for k in devices},
        "disk_bytes": round(disk),
        "missing": [command for command in reversed(missing.values())],
    }


def wall_seconds(lasting: Sequence[float], devices: int) -> float:
    """How long so many devices take for cells that last so long, each on one device: the longest are begun first."""
    ends = [0.0] * devices
    for seconds in sorted(lasting, reverse=True):
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def _matching(benches: list[dict[str, Any]], config: Config, kind: str) -> dict[str, Any] | None:
    """The measurement that comes nearest: the same agent in the same environment, or another of its kind.

    Rules cost nearly the same, so the slowest measurement of the same base agent will do, and the plan names it.
    """
    fitting = [one for one in benches if kind_of(one["env"]) == kind]
    if config.on_device:
        fitting = [one for one in fitting if (one.get("seeds", 1) > 1) == (config.seeds > 1)]
    exact = [one for one in fitting if one["agent"] == config.agent_name]
    exact.sort(key=lambda one: (one["env"] != config.env.name, abs(one.get("seeds", 1) - config.seeds)))
    if exact:
        return exact[0]
    parts = (config.agent.base, config.rnd.enabled)
    same_base = [one for one in fitting if _base(one["agent"]) == parts]
    return min(same_base, key=lambda one: float(one["achieved"]), default=None)


def _base(agent: str) -> tuple[str, bool] | None:
    try:
        _, base, curious = names.parse(agent)
    except BadInputError:  # an agent of a package that is not here
        return None
    return base, curious


def _source(bench: dict[str, Any]) -> str:
    when = str((bench.get("provenance") or {}).get("started") or "")[:10]
    return f"{bench['agent']}, {bench['env']}, {bench['device']}" + (f", {when}" if when else "")


def _command(cell: Cell) -> str:
    """What measures a cell: the command that runs it, but for its seed and its length."""
    one = replace(cell, settings={key: value for key, value in cell.settings.items() if key != "steps"}, seed=0)
    words = one.command()
    return " ".join(["sail", "bench", *words[2 : words.index("--seed")], *words[words.index("--seeds") :]])


def checkpoint_bytes(config: Config) -> int:
    """The size of one checkpoint: exactly that of its arrays, and of the ring where it is kept."""
    import jax

    from sail.training.program import make_program

    program = make_program(config)
    try:
        like = program.saved_like()
    finally:
        program.close()
    total = sum(_leaf_bytes(leaf) for leaf in jax.tree.leaves(like))
    if not config.on_device and config.checkpoint.replay:
        total += config.replay.capacity * config.seeds * 84 * 84
    return total


def _leaf_bytes(leaf: Any) -> int:
    import jax
    import jax.numpy as jnp

    size = 8 if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf.dtype.itemsize
    return int(leaf.size) * size
