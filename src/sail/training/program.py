"""A config made executable. There are two kinds, and one training loop that does not ask which it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax

from sail import replay
from sail.agents import names
from sail.agents.base import Agent, Params
from sail.agents.torso import Torso, torso_kind
from sail.config import Config
from sail.errors import SailError
from sail.exploration import RND, epsilon_at
from sail.training.learner import Diagnostics, Learner
from sail.training.optimisers import make_optimiser

STATES_IN_MEMORY = 200  # of an agent that is wide: a few hundred megabytes on their way through an Atari network
Numbers = Any  # a numpy array; a jax array inside the compiled program


class Scores(NamedTuple):
    """One number for each evaluation episode of one seed."""

    returns: Numbers  # undiscounted, unclipped
    length: Numbers
    success: Numbers | None  # None where an environment does not say what success is


class Advance(NamedTuple):
    """What some steps of training gave."""

    state: Any
    steps: int
    """Steps taken: fewer than asked for only after a failure."""
    diagnostics: Diagnostics
    """Numpy arrays [seeds, blocks], NaN where nothing was learned."""
    episodes: list[dict[str, Any]]
    """A row for each episode that ended, in the order of their steps."""
    failure: SailError | None = None
    """Why training cannot go on. The state is good: that of the last whole block."""


class Program(Protocol):
    """Seeds that train side by side."""

    config: Config
    agent: Agent
    observation_shape: tuple[int, ...]
    """What the agent sees, stack included."""

    def attach(self, folder: Path) -> None:
        """The run folder, for programs that keep more than checkpoints."""
        ...

    def init(self) -> Any:
        """All seeds at step 0."""
        ...

    def params(self, state: Any) -> Params:
        """The networks [seeds, ...] of a state."""
        ...

    def target_params(self, state: Any) -> Params:
        """Their target networks."""
        ...

    def saved(self, state: Any) -> Any:
        """The part of a state that a checkpoint holds."""
        ...

    def saved_like(self) -> Any:
        """Shapes and types of `saved`."""
        ...

    def restore(self, saved: Any, meta: dict[str, Any], note: Callable[[str], None]) -> Any:
        """A state from what a checkpoint holds."""
        ...

    def checkpoint_meta(self) -> dict[str, Any]:
        """What else `restore` will need, on disk by the time this returns."""
        ...

    def advance(self, state: Any, step: int, num_steps: int) -> Advance:
        """Every seed `num_steps` steps further. `state` is used up."""
        ...

    def evaluate(
        self,
        params: Params,
        step: int,
        *,
        epsilon: float,
        episodes: int | None = None,
        steps: int | None = None,
    ) -> list[Scores]:
        """Plays with frozen parameters [seeds, ...]: so many episodes, or whole episodes until so many steps."""
        ...

    def look(self, params: Params) -> list[dict[str, float]]:
        """For each seed, action-values at the places that the environment points out, by name."""
        ...

    def close(self) -> None:
        """Lets go of everything outside this process's memory."""
        ...


def make_program(config: Config) -> Program:
    """The program of a config."""
    if config.on_device:
        from sail.training.on_device import OnDeviceProgram

        return OnDeviceProgram(config)
    from sail.training.host import HostProgram

    return HostProgram(config)


def make_agent(config: Config, observation_shape: tuple[int, ...], dtype: Any, num_actions: int) -> Agent:
    """The base agent of a config, sized for an environment's observations (stack included)."""
    settings = config.agent
    kind = torso_kind(settings.network, observation_shape, dtype)
    agent: Agent = names.bases()[settings.base].maker()(
        settings,
        torso=Torso(observation_shape, kind, settings.hidden, settings.precision, alone=config.seeds == 1),
        num_actions=num_actions,
        rule=config.rule.name,
        tau=config.rule.tau,
        double=settings.double,
        dueling=settings.dueling,
        noisy=settings.noisy,
        noise=settings.noise,
    )
    return agent


def make_curiosity(config: Config, agent: Agent) -> RND | None:
    """Random network distillation on single frames of what the agent sees, if it is turned on."""
    if not config.rnd.enabled:
        return None
    torso = agent.torso
    frame_shape = torso.observation_shape[1:] if config.stack > 1 else torso.observation_shape
    kind = torso.kind if len(frame_shape) >= 2 else "mlp"
    features = config.rnd.features or (64 if kind == "mlp" else 512)
    rnd = config.rnd
    return RND(frame_shape, kind, rnd.scale, features, rnd.learning_rate, rnd.period, torso.alone)


def make_learner(config: Config, agent: Agent) -> Learner:
    """The learner of a config, in the form that is fastest on this backend.

    With convolutions a GPU wants two updates in each turn of a block's loop (more take the host longer to hand over,
    and are no faster), and a CPU wants the activations of one minibatch in its cache. A noisy network must not have the
    same noise for a whole round.
    """
    batch_size = config.learning.batch_size
    backend, has_convolutions = jax.default_backend(), agent.torso.kind != "mlp"
    by_minibatch = batch_size if agent.noisy or (has_convolutions and backend == "cpu") else None
    return Learner(
        agent=agent,
        rule=config.rule,
        sampling=config.replay,
        optimiser=make_optimiser(config.optimiser),
        discount=config.agent.discount,
        batch_size=batch_size,
        stack=config.stack,
        curiosity=make_curiosity(config, agent),
        at_once=by_minibatch or (STATES_IN_MEMORY if agent.is_wide and has_convolutions else None),
        unroll=2 if has_convolutions and backend != "cpu" else 1,
        undo_each=has_convolutions and backend != "cpu",
    )


def empty_ring(config: Config, frame_shape: tuple[int, ...], dtype: Any) -> replay.Ring:
    """The ring of one seed, with the columns that the config needs."""
    return replay.init(
        frame_shape,
        dtype,
        config.learning.num_envs,
        length=config.ring_length,
        intrinsic=config.rnd.enabled,
        prioritised=config.replay.prioritised,
    )


def epsilon_of(config: Config, step: Any) -> Any:
    """A config's epsilon at a step, or at many."""
    settings = config.exploration
    return epsilon_at(
        step,
        start=settings.start,
        end=settings.end,
        begins=config.learning.starts,
        decay_steps=settings.decay_steps,
    )
