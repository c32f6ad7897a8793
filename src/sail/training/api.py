"""Library use: `train`, `resume`, `load`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sail.config import Config, make_config
from sail.errors import BadInputError, TrainingError
from sail.training import checkpoint
from sail.training.loop import Evaluator, Reporter, Silent, Start, run_training, start_from_checkpoint
from sail.training.on_device import Program
from sail.training.provenance import provenance
from sail.training.run_folder import RunFolder, check_new


def train(
    env: str,
    agent: str = "sail-dqn",
    *,
    out: str | os.PathLike[str] | None = None,
    reporter: Reporter | None = None,
    **settings: Any,
) -> RunFolder:
    """Trains an agent and returns its run.

    `settings` are those of `sail.config.Config`: plain ones by name, sections as mappings. The sections `env` and
    `agent` are called `env_settings` and `agent_settings` here, since those names are taken.

        run = sail.train("kdt", agent="sail-dqn", seed=0)
        run = sail.train("kdt", steps=100_000, rule={"alpha": 0.5}, env_settings={"slip": 0.1}, out="runs/slippery")
        run.summary()["mean_return"]
    """
    for section in ("env", "agent"):
        if f"{section}_settings" in settings:
            settings[section] = settings.pop(f"{section}_settings")
    return train_config(make_config(env, agent, settings), out=out, reporter=reporter)


def train_config(
    config: Config, *, out: str | os.PathLike[str] | None = None, reporter: Reporter | None = None
) -> RunFolder:
    """Trains what a config describes, into a new folder: `out`, or a free name under runs/."""
    path = check_new(out if out is not None else _free_folder(config))
    set_up_jax(config.seeds)
    began = time.monotonic()
    with _explained():
        program = Program(config)
        # Waited for, so that what does not fit into memory fails before there is a folder.
        start = Start(program, jax.block_until_ready(program.init()), seconds=time.monotonic() - began)
    run = RunFolder.create(path, config, provenance())
    return _train(run, lambda: start, reporter or Silent())


def resume(run: str | os.PathLike[str] | RunFolder, *, reporter: Reporter | None = None) -> RunFolder:
    """Goes on with a run from its newest good checkpoint, to the same bits as if it had never stopped."""
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    if run.done:
        raise BadInputError(f"{run.path} is finished: there is nothing to resume.")
    set_up_jax(run.config.seeds)
    listener = reporter or Silent()
    return _train(run, lambda: start_from_checkpoint(run, listener), listener)


class Player:
    """A trained agent, to act with: `Player.act(observation)`."""

    def __init__(self, run: RunFolder, seed: int | None = None) -> None:
        self.run, self.config = run, run.config
        self.program = Program(run.config)
        self.seed = run.config.seed if seed is None else seed
        if not run.config.seed <= self.seed < run.config.seed + run.config.seeds:
            last = run.config.seed + run.config.seeds - 1
            raise BadInputError(f"{run.path} has seeds {run.config.seed} to {last}, not {self.seed}.")
        like = jax.eval_shape(self.program.init)
        self.state, meta, self.notes = checkpoint.load_newest(run.checkpoints, like)
        self.step: int = meta["step"]
        index = self.seed - run.config.seed
        self._params = jax.tree.map(lambda x: x[index], self.state.learner.params)
        agent = self.program.agent
        self._values = jax.jit(lambda params, observation: agent.q_values(agent.evaluate(params, observation)))

    def q_values(self, observation: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The action-values [..., A] of observations [..., inputs]."""
        observation = np.asarray(observation)
        shape = self.program.env.observation_shape
        if observation.shape[observation.ndim - len(shape) :] != shape:
            raise BadInputError(f"An observation must have the shape {shape}, not {observation.shape}.")
        return np.asarray(self._values(self._params, jnp.asarray(observation)))

    def act(self, observation: Any) -> int:
        """The best action in one observation. (For many: `q_values(observations).argmax(-1)`.)"""
        values = self.q_values(observation)
        if values.ndim != 1:
            raise BadInputError(f"act takes one observation, not {len(values)}: use q_values(...).argmax(-1) for many.")
        return int(values.argmax())

    def evaluate(self, episodes: int | None = None, epsilon: float | None = None) -> dict[str, Any]:
        """Plays evaluation episodes with every seed of the run."""
        if episodes is not None and episodes < 1:
            raise BadInputError(f"episodes must be at least 1, not {episodes}.")
        if epsilon is not None and not 0 <= epsilon <= 1:
            raise BadInputError(f"epsilon must be from 0 to 1, not {epsilon}.")
        scores = Evaluator(self.program)(self.state, self.step, episodes, epsilon)
        return {
            "run": str(self.run.path),
            "step": self.step,
            "seeds": self.config.seeds,
            "episodes": int(scores.returns.size),
            "epsilon": self.config.evaluation.epsilon if epsilon is None else epsilon,
            "mean_return": float(scores.returns.mean()),
            "std_return": float(scores.returns.std()),
            "mean_length": float(scores.length.mean()),
            "success_rate": float(scores.success.mean()),
            "mean_return_by_seed": [float(x) for x in scores.returns.mean(axis=1)],
        }


def load(run: str | os.PathLike[str] | RunFolder, seed: int | None = None) -> Player:
    """The agent of a run, from its newest good checkpoint: `sail.load("runs/kdt").act(observation)`."""
    return Player(run if isinstance(run, RunFolder) else RunFolder(run), seed)


def set_up_jax(seeds: int) -> None:
    """Gives JAX one device for each core, to spread seeds over, and a cache of compiled programs on disk.

    The first works only before JAX has started up; whoever has chosen a
    cache of their own keeps it.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        with suppress(RuntimeError):  # nobody is at home
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sail" / "compiled"
            jax.config.update("jax_compilation_cache_dir", str(cache))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if seeds > 1 and cores > 1:
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", min(cores, seeds))


def _train(run: RunFolder, start: Callable[[], Start], reporter: Reporter) -> RunFolder:
    run.lock()
    try:
        with _explained():
            run_training(run, start(), reporter)
    finally:
        run.unlock()
    return run


@contextmanager
def _explained() -> Iterator[None]:
    """Turns jax's own failures, such as too little memory, into one sentence."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        first_line = (str(error).splitlines() or ["out of memory"])[0]
        raise TrainingError(f"The device could not run this: {first_line}") from None


def _free_folder(config: Config) -> Path:
    seeds = f"seed{config.seed}" if config.seeds == 1 else f"seeds{config.seed}-{config.seed + config.seeds - 1}"
    base = f"{config.env.name}-{config.agent_name}-{seeds}"
    names = [base, *(f"{base}-{n}" for n in range(2, 10_000))]
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())
