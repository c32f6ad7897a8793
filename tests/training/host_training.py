"""Training in the host loop piece by piece, for the tests of what it does."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from typing import Any

import jax
import numpy as np
from conftest import tiny_overrides

from sail import replay
from sail.config import Config, make_config
from sail.training.host import HostProgram
from sail.training.learner_thread import LearnerThread
from sail.training.program import Advance
from sail.training.reporting import Silent

NEVER = {"starts": 100_000}
DEVICES: dict[str, Any] = {}


def tiny(name: str = "Counter", rule: str = "sail-dqn", **changes: Any) -> Config:
    return make_config(f"gym:host_envs:{name}", rule, tiny_overrides(**changes))


def program_of(config: Config) -> HostProgram:
    """A program whose compiled part is shared with others of the same settings."""
    program = HostProgram(config)
    program.device = DEVICES.setdefault(str(dataclasses.asdict(config)), program.device)
    program._learner_thread = LearnerThread(config, program.device)
    return program


class Trained:
    """What some pieces of training gave."""

    def __init__(self, config: Config, *pieces: int) -> None:
        self.program = program_of(config)
        self.state, self.step, self.episodes = self.program.init(), 0, []
        try:
            for piece in pieces:
                self.go_on(piece)
        finally:
            self.program.close()

    def go_on(self, num_steps: int) -> Advance:
        result = self.program.advance(self.state, self.step, num_steps)
        self.state, self.step = result.state, self.step + result.steps
        self.episodes += result.episodes
        if result.failure:
            raise result.failure
        return result

    def ring(self, seed: int = 0) -> replay.Ring:
        return jax.tree.map(lambda x: np.asarray(x[seed]), self.state.ring)

    def rounds(self) -> int:
        """Answers taken: the emulators are one ahead."""
        return int(self.program._rounds[0])

    def updates(self) -> list[int]:
        return np.asarray(self.state.learner.optimiser[0].count).tolist()  # Adam counts its steps


def assert_same_bits(a: Any, b: Any) -> None:
    for (path, x), (_, y) in zip(*map(jax.tree_util.tree_leaves_with_path, (a, b)), strict=True):
        np.testing.assert_array_equal(x, y, err_msg=str(path))


def last_bias(params: Any) -> Any:
    return params.head.advantage.out.bias


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("emulators")]


class Heard(Silent):
    """Keeps what it is told, and interrupts its own process (as Ctrl-C would) at a step."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.notes: list[str] = []
        self.steps: list[int] = []
        self.stop_at = stop_at

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def advanced(self, step: int) -> None:
        self.steps.append(step)
        if self.stop_at is not None and step >= self.stop_at:
            self.stop_at = None
            os.kill(os.getpid(), signal.SIGINT)
