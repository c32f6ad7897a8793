"""One run from its first step, or its newest checkpoint, to DONE."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from sail.config import Config
from sail.errors import BadInputError, SailError, TrainingError
from sail.interrupts import stop_requests
from sail.training import checkpoint
from sail.training.blocks import small_block_note
from sail.training.metrics import Phase
from sail.training.program import Program, Scores, epsilon_of, make_program
from sail.training.reporting import Reporter
from sail.training.routes import greedy_route
from sail.training.run_folder import LOGS, RunFolder

STOPPING = "Stopping with a checkpoint; once more to stop at once."
# Steps, over all seeds, of one call of the compiled program: about a second's work, so that a progress bar moves.
SLICE_STEPS = {"cpu": 100_000, "gpu": 5_000_000}


class InterruptedTrainingError(TrainingError):
    """Training was stopped by the user; its checkpoint is written."""

    exit_code = 130


class Start(NamedTuple):
    """Where training goes on from."""

    program: Program
    state: Any
    phase: Phase
    seconds: float = 0.0
    """Training time so far."""
    log_sizes: dict[str, int] = dict.fromkeys(LOGS, 0)
    """What of the logs belongs to the time before."""


def start_from_checkpoint(run: RunFolder, reporter: Reporter) -> Start:
    """The newest good checkpoint of a run, or its beginning: without a checkpoint nothing was promised yet."""
    program = make_program(run.config)
    program.attach(run.path)
    if not checkpoint.list_checkpoints(run.checkpoints):
        reporter.note(f"{run.path} has no checkpoint: it begins anew.")
        return Start(program, program.init(), Phase(run.config, 0))
    saved, meta, passed_over = checkpoint.load_newest(run.checkpoints, program.saved_like())
    for sentence in passed_over:
        reporter.note(sentence)
    try:
        kept = meta.get("phase")
        phase = Phase.from_json(run.config, kept) if kept else Phase(run.config, meta["step"])
        seconds, sizes = float(meta["seconds"]), {log: meta["log_sizes"][log] for log in LOGS}
    except (KeyError, TypeError, ValueError):
        raise BadInputError(f"The checkpoint of step {meta['step']} in {run.path} was not written by a run.") from None
    reporter.note(f"Resuming at step {meta['step']:,}.")
    try:
        state = program.restore(saved, meta, reporter.note)
    except BaseException:
        program.close()
        raise
    return Start(program, state, phase, seconds, sizes)


def run_training(run: RunFolder, start: Start, reporter: Reporter) -> dict[str, Any]:
    """Trains until the config's last step, and returns the summary that DONE holds."""
    config = run.config
    program, state, phase, seconds, log_sizes = start
    program.attach(run.path)
    run.cut_logs(log_sizes)
    if (slow := small_block_note(config)) is not None:
        reporter.note(slow)
    saver = _Saver(run, program)
    with stop_requests(lambda: reporter.note(STOPPING)) as stop:
        while phase.first_step < config.steps:
            started = time.monotonic()
            for num_steps in _slices(config, phase):
                state, steps, diagnostics, episodes, failure = program.advance(state, phase.step, num_steps)
                _check_losses(phase.first_bad_step(diagnostics), run)
                phase.add(diagnostics, episodes, steps)
                run.append("episodes.jsonl", episodes)
                reporter.advanced(phase.step)
                so_far = seconds + time.monotonic() - started
                if failure is not None:
                    saver.save(state, phase, so_far)
                    raise failure
                stopping = stop.is_set()  # once: a signal that comes after this is for the next look
                if stopping or (phase.step < phase.end and saver.is_due()):
                    saver.save(state, phase, so_far)
                if stopping:  # at the end of a phase too: its evaluation may take minutes, and can wait
                    raise _interrupted(run, phase.step)
            _check_networks(program.params(state), phase.step, run)
            try:
                scores = _evaluate(program, state, phase.step)
            except SailError:
                saver.save(state, phase, seconds + time.monotonic() - started)  # the training was good
                raise
            seconds += time.monotonic() - started
            rows = phase.metric_rows(scores, float(epsilon_of(config, phase.step)), seconds)
            rows = [row | values for row, values in zip(rows, program.look(program.params(state)), strict=True)]
            run.append("metrics.jsonl", rows)
            reporter.phase(rows)
            phase = phase.next()
            stopping = stop.is_set()
            if phase.step >= config.steps or stopping or saver.is_due() or not config.checkpoint.seconds:
                saver.save(state, phase, seconds)
            if stopping and phase.step < config.steps:
                raise _interrupted(run, phase.step)
    return _finish(run, program, state)


def _evaluate(program: Program, state: Any, step: int) -> list[Scores] | None:
    settings = program.config.evaluation
    if settings.episodes == 0:
        return None
    return program.evaluate(program.params(state), step, epsilon=settings.epsilon, episodes=settings.episodes)


def summarise(run: RunFolder) -> dict[str, Any]:
    """Did it learn, from the logs alone: the last score of every seed, and when each first succeeded."""
    config, rows = run.config, run.metrics()
    last = {row["seed"]: row for row in rows}
    first = {row["seed"]: row for row in reversed(rows)}
    first_success: dict[int, int] = {}
    for row in rows:
        if row.get("eval_success") == 1.0:
            first_success.setdefault(row["seed"], row["step"])
    evaluated = any("eval_return" in row for row in rows)
    column = "eval_return" if evaluated else "train_return"
    returns, first_returns = _known(last, column), _known(first, column)
    seconds = max((row["seconds"] for row in rows), default=0.0)
    steps = max((row["step"] for row in rows), default=0)
    knows_success = any(row.get("eval_success") is not None for row in rows)
    return {
        "run": str(run.path),
        "env": config.env.name,
        "agent": config.agent_name,
        "steps": steps,
        "seeds": config.seeds,
        "mean_return": float(np.mean(returns)) if returns else None,
        "std_return_over_seeds": float(np.std(returns)) if returns else None,
        "first_mean_return": float(np.mean(first_returns)) if first_returns else None,
        "returns_are": "evaluation" if evaluated else "training",
        "solved_seeds": sum(row["eval_success"] == 1.0 for row in last.values()) if knows_success else None,
        "first_solved_step": min(first_success.values(), default=None),
        "seconds": seconds,
        "steps_per_second": round(steps * config.seeds / seconds) if seconds else None,
    }


def _known(rows: dict[int, dict[str, Any]], column: str) -> list[float]:
    return [row[column] for row in rows.values() if row.get(column) is not None]


def _finish(run: RunFolder, program: Program, state: Any) -> dict[str, Any]:
    rows = run.metrics()[-run.config.seeds :]
    best = max(range(len(rows)), key=lambda i: (rows[i].get("eval_success") or 0, rows[i].get("eval_return") or 0))
    route = greedy_route(program, jax.tree.map(lambda x: x[best], program.params(state)), rows[best]["seed"])
    if route is not None:
        run.write("route.json", json.dumps(route))
    summary = summarise(run)
    run.write("DONE", json.dumps(summary, indent=1) + "\n")
    return summary


class _Saver:
    """Writes checkpoints, and knows when the next one is due."""

    def __init__(self, run: RunFolder, program: Program) -> None:
        self.run, self.program = run, program
        self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether the time between two checkpoints has passed. (With 0 seconds they come with the phases.)"""
        seconds = self.run.config.checkpoint.seconds
        return seconds > 0 and time.monotonic() - self._last >= seconds

    def save(self, state: Any, phase: Phase, seconds: float) -> None:
        """A checkpoint of now; not of a network that is not finite."""
        run = self.run
        _check_networks(self.program.params(state), phase.step, run)
        run.sync_logs()  # a checkpoint must not outlive the lines it counts on
        meta = {"seconds": seconds, "log_sizes": run.log_sizes(), "phase": phase.to_json()}
        meta |= self.program.checkpoint_meta()
        checkpoint.save_checkpoint(
            run.checkpoints, phase.step, self.program.saved(state), meta, run.config.checkpoint.keep
        )
        self._last = time.monotonic()


def _check_losses(bad: tuple[int, int] | None, run: RunFolder) -> None:
    if bad is not None:
        raise _not_finite("loss", bad, run)


def _check_networks(params: Any, step: int, run: RunFolder) -> None:
    """Stops the run before anything that is not finite is saved."""
    leaves = [np.isfinite(np.asarray(x)) for x in jax.tree.leaves(params)]
    good = np.all([leaf.reshape(len(leaf), -1).all(axis=1) for leaf in leaves], axis=0)  # [seeds]
    if not good.all():
        raise _not_finite("network", (run.config.seed + int(np.argmin(good)), step), run)


def _not_finite(what: str, where: tuple[int, int], run: RunFolder) -> TrainingError:
    kept = checkpoint.list_checkpoints(run.checkpoints)
    last = (
        f"the last good checkpoint is that of step {checkpoint.step_of(kept[-1]):,}"
        if kept
        else "there was no checkpoint yet"
    )
    return TrainingError(
        f"The {what} of seed {where[0]} is not finite at step {where[1]:,}, so training stopped; {last}."
    )


def _interrupted(run: RunFolder, step: int) -> InterruptedTrainingError:
    return InterruptedTrainingError(f"Interrupted at step {step:,}; go on with 'sail resume {run.path}'.")


def _slices(config: Config, phase: Phase) -> Iterator[int]:
    """The rest of a phase in pieces of whole blocks, each about a second's work, so that a progress bar moves."""
    blocks = (phase.end - phase.step) // config.block_steps
    if not blocks:  # all that is missing is the evaluation
        return
    if config.on_device:
        # Each size is a program to compile: equal pieces, as few as keep each near SLICE_STEPS.
        wanted = SLICE_STEPS.get(jax.default_backend(), SLICE_STEPS["gpu"]) // (config.block_steps * config.seeds)
        each = max(d for d in range(1, blocks + 1) if blocks % d == 0 and d <= max(wanted, 1))
        yield from [each * config.block_steps] * (blocks // each)
        return
    each = 1
    while blocks:
        each = min(each, blocks)
        began = time.monotonic()
        yield each * config.block_steps
        took = time.monotonic() - began
        blocks -= each
        each = each * 2 if took < 0.5 else max(each // 2, 1) if took > 2 else each
