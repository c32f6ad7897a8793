"""Library use: `train`, `resume`, `load`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sail.config import Config, make_config
from sail.errors import BadInputError
from sail.training import checkpoint
from sail.training.loop import Evaluator, Reporter, Silent, run_training
from sail.training.on_device import Program
from sail.training.provenance import provenance
from sail.training.run_folder import RunFolder


def train(
    env: str,
    agent: str = "sail-dqn",
    *,
    out: str | os.PathLike[str] | None = None,
    reporter: Reporter | None = None,
    **settings: Any,
) -> RunFolder:
    """Trains an agent and returns its run.

    `settings` are those of `sail.config.Config`: plain ones by name, sections as mappings.

        run = sail.train("kdt", agent="sail-dqn", seed=0)
        run = sail.train("kdt", steps=100_000, rule={"alpha": 0.5}, env_settings={"slip": 0.1}, out="runs/slippery")
        run.summary()["mean_return"]
    """
    if "env_settings" in settings:
        settings["env"] = settings.pop("env_settings")
    return train_config(make_config(env, agent, settings), out=out, reporter=reporter)


def train_config(
    config: Config, *, out: str | os.PathLike[str] | None = None, reporter: Reporter | None = None
) -> RunFolder:
    """Trains what a config describes, into a new folder: `out`, or a free name under runs/."""
    set_up_jax(config.seeds)
    run = RunFolder.create(out if out is not None else _free_folder(config), config, provenance())
    return _train(run, reporter, resume=False)


def resume(run: str | os.PathLike[str] | RunFolder, *, reporter: Reporter | None = None) -> RunFolder:
    """Goes on with a run from its newest good checkpoint, to the same bits as if it had never stopped."""
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    if run.done:
        raise BadInputError(f"{run.path} is finished: there is nothing to resume.")
    set_up_jax(run.config.seeds)
    # Without a checkpoint nothing was promised yet: the beginning is the place to go on from.
    return _train(run, reporter, resume=bool(checkpoint.list_checkpoints(run.checkpoints)))


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
        """The best action in one observation."""
        return int(self.q_values(observation).argmax())

    def evaluate(self, episodes: int | None = None, epsilon: float | None = None) -> dict[str, Any]:
        """Plays evaluation episodes with every seed of the run."""
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

    Neither has an effect on what is computed. The first works only before JAX has started up; whoever has chosen a
    cache of their own keeps it.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sail" / "compiled"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if seeds > 1 and cores > 1:
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", min(cores, seeds))


def _train(run: RunFolder, reporter: Reporter | None, *, resume: bool) -> RunFolder:
    run.lock()
    try:
        run_training(run, reporter or Silent(), resume=resume)
    finally:
        run.unlock()
    return run


def _free_folder(config: Config) -> Path:
    seeds = f"seed{config.seed}" if config.seeds == 1 else f"seeds{config.seed}-{config.seed + config.seeds - 1}"
    base = f"{config.env.name}-{config.agent_name}-{seeds}"
    names = [base, *(f"{base}-{n}" for n in range(2, 10_000))]
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())
