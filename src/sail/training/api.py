"""Library use: `train`, `resume`, `load`."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sail.bench_store import cache_folder, remember
from sail.config import Config, make_config
from sail.errors import BadInputError, TrainingError
from sail.files import write_whole
from sail.machine import cores
from sail.training import checkpoint
from sail.training.bench import bench
from sail.training.host_evaluation import value_function
from sail.training.loop import Start, run_training, start_from_checkpoint
from sail.training.metrics import Phase
from sail.training.program import make_program
from sail.training.provenance import provenance
from sail.training.reporting import Reporter, Silent
from sail.training.run_folder import RunFolder, TakenError, check_new


def train(
    env: str,
    agent: str = "sail-dqn",
    *,
    out: str | os.PathLike[str] | None = None,
    reporter: Reporter | None = None,
    preset: str | None = None,
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
    return train_config(make_config(env, agent, settings, preset), out=out, reporter=reporter)


def train_config(
    config: Config, *, out: str | os.PathLike[str] | None = None, reporter: Reporter | None = None
) -> RunFolder:
    """Trains what a config describes, into a new folder: `out`, or a free name under runs/."""
    if out is not None:
        check_new(out)
    set_up_jax(config.seeds)
    began = time.monotonic()
    with _explained(), ExitStack() as if_it_fails:
        program = make_program(config)
        if_it_fails.callback(program.close)
        # Waited for, so that what does not fit into memory fails before there is a folder.
        state = jax.block_until_ready(program.init())
        start = Start(program, state, Phase(config, 0), seconds=time.monotonic() - began)
        run = _new_folder(config, out)
        if_it_fails.pop_all()
    return _train(run, lambda: start, reporter or Silent())


def resume(run: str | os.PathLike[str] | RunFolder, *, reporter: Reporter | None = None) -> RunFolder:
    """Goes on with a run from its newest good checkpoint.

    Where the environment is compiled in, to the same bits as if it had never stopped.
    """
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
        self.program: Any = make_program(run.config)
        self.seed = run.config.seed if seed is None else seed
        run.check_seed(self.seed)
        saved, meta, self.notes = checkpoint.load_newest(run.checkpoints, self.program.saved_like())
        self.step: int = meta["step"]
        index = self.seed - run.config.seed
        self._all_params = self.program.params(saved)
        self.params = jax.tree.map(lambda x: x[index], self._all_params)
        self.target_params = jax.tree.map(lambda x: x[index], self.program.target_params(saved))
        agent: Any = self.program.agent
        self._values = value_function(agent)

    def q_values(self, observation: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The action-values [..., A] of observations: with a stack of frames in front, where the agent sees one."""
        observation = np.asarray(observation)
        shape = self.program.observation_shape
        if observation.shape[observation.ndim - len(shape) :] != shape:
            raise BadInputError(f"An observation must have the shape {shape}, not {observation.shape}.")
        return np.asarray(self._values(self.params, jnp.asarray(observation)))

    def act(self, observation: Any) -> int:
        """The best action in one observation. (For many: `q_values(observations).argmax(-1)`.)"""
        values = self.q_values(observation)
        if values.ndim != 1:
            raise BadInputError(f"act takes one observation, not {len(values)}: use q_values(...).argmax(-1) for many.")
        return int(values.argmax())

    def evaluate(
        self, episodes: int | None = None, epsilon: float | None = None, steps: int | None = None
    ) -> dict[str, Any]:
        """Plays evaluation episodes with every seed of the run: so many, or whole ones until so many steps.

        By default as the run's settings say; for Atari that is the paper's protocol, 125,000 steps at epsilon 0.001.
        """
        settings = self.config.evaluation
        for name, number in (("episodes", episodes), ("steps", steps)):
            if number is not None and number < 1:
                raise BadInputError(f"{name} must be at least 1, not {number}.")
        if episodes is not None and steps is not None:
            raise BadInputError("Give episodes or steps, not both.")
        if epsilon is not None and not 0 <= epsilon <= 1:
            raise BadInputError(f"epsilon must be from 0 to 1, not {epsilon}.")
        epsilon = settings.epsilon if epsilon is None else epsilon
        if episodes is None and steps is None:
            steps = settings.steps
            episodes = None if steps else settings.episodes or 1
        scores = self.program.evaluate(self._all_params, self.step, epsilon=epsilon, episodes=episodes, steps=steps)
        returns, lengths = (np.concatenate([getattr(one, name) for one in scores]) for name in ("returns", "length"))
        knows_success = all(one.success is not None for one in scores)
        return {
            "run": str(self.run.path),
            "step": self.step,
            "seeds": self.config.seeds,
            "episodes": len(returns),
            "epsilon": epsilon,
            "mean_return": float(returns.mean()),
            "std_return": float(returns.std()),
            "mean_length": float(lengths.mean()),
            "success_rate": float(np.concatenate([one.success for one in scores]).mean()) if knows_success else None,
            "mean_return_by_seed": [float(one.returns.mean()) for one in scores],
        }


def load(run: str | os.PathLike[str] | RunFolder, seed: int | None = None) -> Player:
    """The agent of a run, from its newest good checkpoint: `sail.load("runs/kdt").act(observation)`."""
    return Player(run if isinstance(run, RunFolder) else RunFolder(run), seed)


def measure(config: Config, seconds: float = 20.0, out: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """What `sail bench` finds about this machine, with date, hardware and commit; also written to `out`.

    It is kept for `sail study plan` as well.
    """
    if out is not None and (Path(out).is_dir() or not Path(out).resolve().parent.is_dir()):
        raise BadInputError(f"{out} cannot be written: name a file in a folder that exists.")
    set_up_jax(config.seeds if config.on_device else 1)
    with _explained():
        result = bench(config, seconds) | {"provenance": provenance()}
    remember(result)
    if out is not None:
        write_whole(Path(out), json.dumps(result, indent=1) + "\n")
    return result


def set_up_jax(seeds: int) -> None:
    """Gives JAX one device for each core, to spread seeds over, and a cache of compiled programs on disk.

    The first works only before JAX has started up; whoever has chosen a
    cache of their own keeps it.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        folder = cache_folder()
        if folder is not None:
            jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    if seeds > 1 and cores() > 1:
        with suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", min(cores(), seeds))


def _train(run: RunFolder, start: Callable[[], Start], reporter: Reporter) -> RunFolder:
    run.lock()
    begun: Start | None = None
    try:
        with _explained():
            begun = start()
            reporter.begun(run)
            run_training(run, begun, reporter)
    finally:
        if begun is not None:
            begun.program.close()
        run.unlock()
        reporter.ended()
    return run


@contextmanager
def _explained() -> Iterator[None]:
    """Turns jax's own failures, such as too little memory, into one sentence."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        first_line = (str(error).splitlines() or ["out of memory"])[0]
        raise TrainingError(f"The device could not run this: {first_line}") from None


def _new_folder(config: Config, out: str | os.PathLike[str] | None) -> RunFolder:
    """The folder that was asked for, or the first free one of those named after the run."""
    origin = provenance()
    if out is not None:
        return RunFolder.create(out, config, origin)
    seeds = f"seed{config.seed}" if config.seeds == 1 else f"seeds{config.seed}-{config.seed + config.seeds - 1}"
    env = re.sub(r"[:/]", "-", config.env.name)
    base = Path("runs") / f"{env}-{config.agent_name}-{seeds}"
    for number in itertools.count(1):
        path = base if number == 1 else base.with_name(f"{base.name}-{number}")
        with suppress(TakenError):  # by another run, perhaps of this very moment
            return RunFolder.create(path, config, origin)
    raise AssertionError("there is always another number")
