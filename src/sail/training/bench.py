"""How fast this machine is: its emulators alone, its learner alone, both together, and which of them binds.

Where the environment is compiled in there is only the whole to measure.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sail import replay
from sail.config import Config
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings
from sail.training.emulators import Waited
from sail.training.host import FILL_ROWS, HostProgram
from sail.training.host_device import HostState
from sail.training.on_device import OnDeviceProgram

GIB = 1024**3


def bench(config: Config, seconds: float = 20.0) -> dict[str, Any]:
    """Measures a config as it would train past its first steps, with a full ring. All rates are over all seeds."""
    if config.on_device:
        return _bench_on_device(config, seconds)
    frames = FRAME_SKIP if isinstance(config.env, AtariSettings) else 1
    program = HostProgram(config)
    try:
        state = filled(program.init())
        on_device = sum(leaf.nbytes for leaf in jax.tree.leaves(state.ring))
        ring = on_device + program.bytes_on_host
        emulators = _emulator_limit(program, seconds / 3) * frames
        began = time.perf_counter()
        state = program.advance(state, config.learning.starts, 2 * config.block_steps).state
        state = _compiled_in_full(program, state)
        jax.block_until_ready(state.learner)
        compile_seconds = time.perf_counter() - began
        learner, state = _learner_limit(program, state, seconds / 3)
        assert program.pools is not None
        program.pools.waited = Waited()
        began = time.perf_counter()
        achieved = _achieved(program, state, seconds) * frames
        a_round = _a_round(program.pools.waited, time.perf_counter() - began)
        in_processes = program.pools.peak_memory()
    finally:
        program.close()
    learner *= frames
    return {
        **_described(config, frames),
        "resize": "device" if program.device.shrinks else "emulator",
        "emulator_limit": round(emulators),
        "learner_limit": round(learner),
        "achieved": round(achieved),
        "updates_per_second": round(achieved / frames / config.learning.update_period),
        "share_of_emulators": round(achieved / emulators, 3),
        "binds": "emulators" if emulators < learner else "learner",
        "round_ms": a_round,
        "seconds_to_compile": round(compile_seconds, 1),
        **_memory(on_device, ring, in_processes),
    }


def _bench_on_device(config: Config, seconds: float) -> dict[str, Any]:
    """Steps per second of training, over all seeds, once it is compiled and learns."""
    program = OnDeviceProgram(config)
    state = jax.block_until_ready(program.init())
    piece = -(-max(config.learning.starts, 50 * config.block_steps) // config.block_steps) * config.block_steps
    began = time.perf_counter()
    state, step = program.advance(state, 0, piece).state, piece
    compile_seconds = time.perf_counter() - began
    began, first = time.perf_counter(), step
    while time.perf_counter() - began < seconds or step == first:
        state, step = program.advance(state, step, piece).state, step + piece
    jax.block_until_ready(state)
    rate = (step - first) * config.seeds / (time.perf_counter() - began)
    return {
        **_described(config, 1),
        "emulator_limit": None,
        "learner_limit": None,
        "achieved": round(rate),
        "updates_per_second": round(rate / config.learning.update_period),
        "share_of_emulators": None,
        "binds": None,
        "seconds_to_compile": round(compile_seconds, 1),
        **_memory(0, sum(leaf.nbytes for leaf in jax.tree.leaves(state.ring)), 0),
    }


def _described(config: Config, frames: int) -> dict[str, Any]:
    return {
        "env": config.env.name,
        "agent": config.agent_name,
        "network": config.agent.network,
        "precision": config.agent.precision,
        "seeds": config.seeds,
        "capacity": config.replay.capacity,
        "batch_size": config.learning.batch_size,
        "update_period": config.learning.update_period,
        "num_envs": config.learning.num_envs,
        "num_pools": config.num_pools,
        "processes": int(getattr(config.env, "processes", 0)),
        "frames_a_step": frames,
    }


def _emulator_limit(program: HostProgram, seconds: float) -> float:
    """Steps per second of the program's own pools with random actions and nothing else to do."""
    assert program.pools is not None
    config, pools = program.config, program.pools
    seeds, rng = np.arange(config.seeds), np.random.default_rng(0)

    def round_trip() -> int:
        steps = 0
        asked, answers = pools.rows(seeds)
        for pool, rows in zip(asked, answers, strict=True):
            assert rows is not None
            pool.act(rng.integers(program.env.num_actions, size=len(rows.env)))
            steps += int(rows.stepped.sum())
        return steps

    for _ in range(2 * config.num_pools):
        round_trip()  # every environment has begun
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        steps += round_trip()
    return steps / (time.perf_counter() - began)


def filled(state: HostState) -> HostState:
    """The state with a ring that is full: of nothing, but the device reads it as far apart as the real thing."""

    def fill(ring: replay.Ring) -> replay.Ring:
        return ring._replace(
            size=jnp.full_like(ring.size, ring.action.shape[-1]),
            age=jnp.full_like(ring.age, 100),
            returns=jnp.zeros_like(ring.returns),
            priority=None if ring.priority is None else jnp.ones_like(ring.priority),
        )

    return state._replace(ring=jax.jit(fill, donate_argnums=0)(state.ring))


def _compiled_in_full(program: HostProgram, state: HostState) -> HostState:
    """The state, when what the loop calls only now and then has been called as well."""
    program.device.copy(state.learner.params)
    return state._replace(ring=program.device.fill(state.ring, np.zeros((program.config.seeds, FILL_ROWS), np.int32)))


def _learner_limit(program: HostProgram, state: HostState, seconds: float) -> tuple[float, HostState]:
    """Steps per second that the updates alone would allow."""
    config, steps, calls = program.config, program.config.learning.starts, 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds or calls < 2:
        for _ in range(4):
            steps += config.block_steps
            state = program.learn(state, steps)
            calls += 1
        jax.block_until_ready(state.learner.params)
    rate = calls * config.block_steps * config.seeds / (time.perf_counter() - began)
    return rate, state


def _achieved(program: HostProgram, state: HostState, seconds: float) -> float:
    """Steps per second of real training."""
    config = program.config
    step, slice_steps = config.learning.starts + 2 * config.block_steps, config.block_steps
    began, first = time.perf_counter(), step
    while time.perf_counter() - began < seconds or step == first:
        advance = program.advance(state, step, slice_steps)
        if advance.failure is not None:
            raise advance.failure
        state, step = advance.state, step + slice_steps
        slice_steps = min(slice_steps * 2, 100 * config.block_steps)
        if time.perf_counter() - began > 3 * seconds:
            break
    jax.block_until_ready(state.learner.params)
    return (step - first) * config.seeds / (time.perf_counter() - began)


def _a_round(waited: Waited, seconds: float) -> dict[str, float]:
    """What a round of the loop takes, in milliseconds, and what of it is waiting."""
    parts = {
        "whole": seconds,
        "waits_for_games": waited.for_games,
        "waits_for_actions": waited.for_actions,
        "waits_for_updates": waited.for_updates,
    }
    return {name: round(1000 * part / max(waited.rounds, 1), 2) for name, part in parts.items()}


def _memory(ring_on_device: int, ring: int, in_processes: int) -> dict[str, Any]:
    """What the ring takes, and what the device, this process and its emulators' processes took at most."""
    stats = jax.devices()[0].memory_stats() or {}
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    peak = stats.get("peak_bytes_in_use")
    return {
        "device": jax.devices()[0].device_kind,
        "ring_gib": round(ring / GIB, 2),
        "device_beside_ring_gib": round((peak - ring_on_device) / GIB, 2) if peak else None,
        "process_gib": round(rss / GIB, 2),
        "emulators_gib": round(in_processes / GIB, 2),
    }
