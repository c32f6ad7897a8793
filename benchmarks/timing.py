"""What a timing is, and how sail is timed."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from sail.config import Config
from sail.machine import cores

CORES = cores()


class Timing(NamedTuple):
    """One timed stretch, after the warm-up."""

    steps: int
    updates: int
    seconds: float
    cpu_seconds: float
    """Of all threads. A busy machine changes it less than the seconds on the wall."""
    compile_seconds: float | None = None

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Steps per second of a core's work."""
        return self.steps / self.cpu_seconds


class Runner:
    """A compiled sail program past the start of learning."""

    def __init__(self, config: Config) -> None:
        from sail.training.on_device import OnDeviceProgram

        self.config, self.program, self.jax = config, OnDeviceProgram(config), _jax()
        # Calls are queued, so they need not be long: only long against the time it takes to queue one.
        self.slice_steps = config.block_steps * max(10, 50 // config.seeds)
        self.step, started = 0, time.perf_counter()
        self.state = self.program.init()
        self._advance(1)
        first = time.perf_counter() - started
        while self.step < config.learning.starts:
            self._advance(1)
        self.slice_seconds = self._advance(1)
        self.compile_seconds = max(first - self.slice_seconds, 0.0)

    def run(self, seconds: float) -> Timing:
        """At least about so many seconds of whole slices."""
        calls = int(seconds / self.slice_seconds) + 1
        cpu_started = time.process_time()
        elapsed = self._advance(calls)
        cpu_elapsed = time.process_time() - cpu_started
        if not np.isfinite(self.losses).all():
            raise RuntimeError(f"{self.config.agent_name} does not learn, so its speed would mean nothing.")
        steps = calls * self.slice_steps * self.config.seeds
        updates = steps // self.config.learning.update_period
        return Timing(steps, updates, elapsed, cpu_elapsed, self.compile_seconds)

    def _advance(self, calls: int) -> float:
        started = time.perf_counter()
        for _ in range(calls):
            self.state, diagnostics, _ = self.program.advance_arrays(self.state, self.step, self.slice_steps)
            self.step += self.slice_steps
        self.jax.block_until_ready((self.state, diagnostics))
        elapsed = time.perf_counter() - started
        self.losses = np.asarray(diagnostics.loss)
        return elapsed


def time_sail(configs: Sequence[Config], rounds: int, seconds: float, devices: int = 1) -> list[list[Timing]]:
    """`rounds` timings for each config; in every round all of them take a turn, every other round backwards."""
    if devices > 1:
        _jax().config.update("jax_num_cpu_devices", devices)
    runners = [Runner(config) for config in configs]
    timings: list[list[Timing]] = [[] for _ in configs]
    for i in range(rounds):
        for turn in list(range(len(configs)))[:: -1 if i % 2 else 1]:
            timings[turn].append(runners[turn].run(seconds))
    return timings


def time_one_sail(config: Config, seconds: float) -> Timing:
    """One config, with a share of its seeds on every core."""
    return time_sail([config], 1, seconds, devices=CORES if config.seeds > 1 else 1)[0][0]


def overhead(seeds: int, dqn: Sequence[Timing], sail: Sequence[Timing]) -> dict[str, Any]:
    """How SAIL's rate compares with DQN's, turn by turn."""
    ratios = [b.rate / a.rate for a, b in zip(dqn, sail, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {
        "seeds": seeds,
        "median": median,
        "quartiles": [low, high],
        "ratios": ratios,
        "cpu_time_median": statistics.median(b.cpu_rate / a.cpu_rate for a, b in zip(dqn, sail, strict=True)),
        "seconds_per_turn": statistics.median(timing.seconds for timing in (*dqn, *sail)),
    }


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result from a fresh process, which has ended when this returns."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _jax() -> Any:
    import jax  # only in the processes that run sail: devices are fixed when jax first looks for them

    return jax
