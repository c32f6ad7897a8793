"""One run from its first step, or its newest checkpoint, to DONE."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from sail.config import Config
from sail.errors import BadInputError, TrainingError
from sail.training import checkpoint
from sail.training.evaluation import Scores, play_episodes
from sail.training.metrics import Phase
from sail.training.on_device import Program, SeedState, epsilon_of, map_seeds
from sail.training.routes import greedy_route
from sail.training.run_folder import LOGS, RunFolder

# Steps, over all seeds, of one call of the compiled program: about a second's work, so that a progress bar moves.
SLICE_STEPS = {"cpu": 100_000, "gpu": 5_000_000}


class InterruptedTrainingError(TrainingError):
    """Training was stopped by the user; its checkpoint is written."""

    exit_code = 130


class Reporter(Protocol):
    """Who hears how a run goes."""

    def advanced(self, step: int) -> None:
        """`step` steps are done."""
        ...

    def phase(self, rows: list[dict[str, Any]]) -> None:
        """A phase was evaluated: a row for each seed."""
        ...

    def note(self, sentence: str) -> None:
        """Something worth a sentence."""
        ...


class Silent:
    """Nobody listens."""

    def advanced(self, step: int) -> None:
        """Nothing."""

    def phase(self, rows: list[dict[str, Any]]) -> None:
        """Nothing."""

    def note(self, sentence: str) -> None:
        """Nothing."""


class Start(NamedTuple):
    """Where training goes on from."""

    program: Program
    state: SeedState
    step: int = 0
    seconds: float = 0.0
    """Training time so far."""
    log_sizes: dict[str, int] = dict.fromkeys(LOGS, 0)
    """What of the logs belongs to the time before."""


def start_from_checkpoint(run: RunFolder, reporter: Reporter) -> Start:
    """The newest good checkpoint of a run, or its beginning: without a checkpoint nothing was promised yet."""
    program = Program(run.config)
    if not checkpoint.list_checkpoints(run.checkpoints):
        return Start(program, program.init())
    state, meta, passed_over = checkpoint.load_newest(run.checkpoints, jax.eval_shape(program.init))
    for sentence in passed_over:
        reporter.note(sentence)
    try:
        return Start(
            program, state, meta["step"], float(meta["seconds"]), {log: meta["log_sizes"][log] for log in LOGS}
        )
    except (KeyError, TypeError, ValueError):
        raise BadInputError(f"The checkpoint of step {meta['step']} in {run.path} was not written by a run.") from None


def run_training(run: RunFolder, start: Start, reporter: Reporter) -> dict[str, Any]:
    """Trains until the config's last step, and returns the summary that DONE holds."""
    config = run.config
    program, state, step, seconds, log_sizes = start
    run.cut_logs(log_sizes)
    if step:
        reporter.note(f"Resuming at step {step:,}.")
    evaluate = Evaluator(program)
    last_saved = time.monotonic()
    with _stop_requests(reporter) as stop:
        while step < config.steps:
            started = time.monotonic()
            phase = Phase(config, step)
            end = min(step + config.phase_steps, config.steps)
            for num_steps in _slices(config, end - step):
                state, diagnostics, episodes = program.advance(state, step, num_steps)
                phase.add(diagnostics, episodes, num_steps)
                step += num_steps
                reporter.advanced(step)
            _check_finite(phase, state, run)
            scores = evaluate(state, step)
            seconds += time.monotonic() - started
            rows = phase.metric_rows(scores, float(epsilon_of(config, step)), seconds)
            run.append("episodes.jsonl", phase.episode_rows())
            run.append("metrics.jsonl", rows)
            reporter.phase(rows)
            over = step >= config.steps or stop.is_set()
            if over or time.monotonic() - last_saved >= config.checkpoint.seconds:
                _save(run, step, state, seconds)
                last_saved = time.monotonic()
            if stop.is_set() and step < config.steps:
                raise InterruptedTrainingError(f"Interrupted at step {step:,}; go on with 'sail resume {run.path}'.")
    return _finish(run, program, state)


class Evaluator:
    """Plays the evaluation episodes of every seed; their randomness is its own, so training never depends on them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._play = jax.jit(self._play_seeds, static_argnames="episodes")

    def __call__(
        self, state: SeedState, step: int, episodes: int | None = None, epsilon: float | None = None
    ) -> Scores:
        """Scores [seeds, episodes] as numpy arrays."""
        settings = self.program.config.evaluation
        epsilon = settings.epsilon if epsilon is None else epsilon
        scores = self._play(state.learner.params, step, epsilon, episodes=episodes or settings.episodes)
        return jax.tree.map(np.asarray, scores)

    def _play_seeds(self, params: Any, step: Any, epsilon: Any, episodes: int) -> Scores:
        config = self.program.config

        def play(seed_and_params: tuple[Any, Any]) -> Scores:
            seed, params = seed_and_params
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), step), 0x5A11)
            return play_episodes(self.program.agent, self.program.env, params, key, epsilon, episodes)

        seeds = np.arange(config.seed, config.seed + config.seeds)
        scores: Scores = map_seeds(play, (jax.numpy.asarray(seeds), params))
        return scores


def summarise(run: RunFolder) -> dict[str, Any]:
    """Did it learn, from the logs alone: the last evaluation of every seed, and when each first succeeded."""
    config, rows = run.config, run.metrics()
    last = {row["seed"]: row for row in rows}
    first_success: dict[int, int] = {}
    for row in rows:
        if row["eval_success"] == 1.0:
            first_success.setdefault(row["seed"], row["step"])
    returns = [row["eval_return"] for row in last.values()]
    seconds = max((row["seconds"] for row in rows), default=0.0)
    steps = max((row["step"] for row in rows), default=0)
    return {
        "run": str(run.path),
        "env": config.env.name,
        "agent": config.agent_name,
        "steps": steps,
        "seeds": config.seeds,
        "mean_return": float(np.mean(returns)),
        "std_return_over_seeds": float(np.std(returns)),
        "solved_seeds": sum(row["eval_success"] == 1.0 for row in last.values()),
        "first_solved_step": min(first_success.values(), default=None),
        "seconds": seconds,
        "steps_per_second": round(steps * config.seeds / seconds) if seconds else None,
    }


def _finish(run: RunFolder, program: Program, state: SeedState) -> dict[str, Any]:
    rows = run.metrics()[-run.config.seeds :]
    best = max(range(len(rows)), key=lambda i: (rows[i]["eval_success"], rows[i]["eval_return"]))
    route = greedy_route(program, jax.tree.map(lambda x: x[best], state.learner.params), rows[best]["seed"])
    if route is not None:
        run.write("route.json", json.dumps(route))
    summary = summarise(run)
    run.write("DONE", json.dumps(summary, indent=1) + "\n")
    return summary


def _save(run: RunFolder, step: int, state: SeedState, seconds: float) -> None:
    run.sync_logs()  # a checkpoint must not outlive the lines it counts on
    meta = {"seconds": seconds, "log_sizes": run.log_sizes()}
    checkpoint.save_checkpoint(run.checkpoints, step, state, meta, run.config.checkpoint.keep)


def _check_finite(phase: Phase, state: SeedState, run: RunFolder) -> None:
    """Stops the run before anything that is not finite is saved: a loss, or what the last update made of a network."""
    bad = phase.first_bad_step()
    if bad is None:
        leaves = [np.isfinite(np.asarray(x)) for x in jax.tree.leaves(state.learner.params)]
        good = np.all([leaf.reshape(len(leaf), -1).all(axis=1) for leaf in leaves], axis=0)  # [seeds]
        if good.all():
            return
        bad = run.config.seed + int(np.argmin(good)), phase.step
    kept = checkpoint.list_checkpoints(run.checkpoints)
    last = f"the last good checkpoint is that of step {int(kept[-1].name):,}" if kept else "there was no checkpoint yet"
    what = "loss" if phase.first_bad_step() else "network"
    raise TrainingError(f"The {what} of seed {bad[0]} is not finite at step {bad[1]:,}, so training stopped; {last}.")


def _slices(config: Config, num_steps: int) -> Iterator[int]:
    """A phase in equal pieces of whole blocks, as few as keep each near SLICE_STEPS."""
    blocks = num_steps // config.block_steps
    wanted = SLICE_STEPS.get(jax.default_backend(), SLICE_STEPS["gpu"]) // (config.block_steps * config.seeds)
    each = max(d for d in range(1, blocks + 1) if blocks % d == 0 and d <= max(wanted, 1))
    for _ in range(blocks // each):
        yield each * config.block_steps


@contextmanager
def _stop_requests(reporter: Reporter) -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that a run ends between two phases; a second one ends it at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        reporter.note("Stopping with a checkpoint at the end of this phase; once more to stop at once.")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
