"""What the greedy policy does, step by step, for drawings."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sail.agents.base import Params
from sail.envs.deep_sea import DeepSea
from sail.envs.maps import env_map
from sail.training.on_device import OnDeviceProgram
from sail.training.program import Program


def greedy_route(program: Program, params: Params, seed: int) -> dict[str, Any] | None:
    """The cells that one greedy episode visits, with the map they are on; None where there is no map."""
    if not isinstance(program, OnDeviceProgram):
        return None
    env: Any = program.env
    agent = program.agent
    grid = env_map(program.config.env)
    if grid is None:
        return None

    @jax.jit
    def step(state: Any, key: Any) -> Any:
        q = agent.q_values(params, agent.prepare(env.observe(state)))
        return env.step(state, q.argmax(), key)

    keys = iter(jax.random.split(jax.random.key(seed), env.max_episode_steps + 1))
    state, over, success, total, steps = env.reset(next(keys)), False, False, 0.0, 0
    cells = [cell_of(env, state)]
    while not over:
        state, outcome = step(state, next(keys))
        over, success = bool(outcome.terminated | outcome.truncated), bool(outcome.success)
        total, steps = total + float(outcome.reward), steps + 1
        if cell_of(env, state)[0] < len(grid):
            cells.append(cell_of(env, state))
    return {"seed": seed, "success": success, "return": total, "steps": steps, "grid": grid, "cells": cells}


def cell_of(env: Any, state: Any) -> tuple[int, int]:
    """Where on its map an environment's state is: row and column."""
    if isinstance(env, DeepSea):
        return int(state.row), int(state.column)
    row, column = np.asarray(state.cell)
    return int(row), int(column)
