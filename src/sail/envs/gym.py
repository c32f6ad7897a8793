"""Environments from Gymnasium, many at once, in this process or in one each.

Packages that register their environments when Gymnasium is imported need only the ID. Others are imported first:
`gym:ale_py:ALE/Pong-v5`. Anything callable that returns an environment will do as well, and that is the
place for wrappers: `gym:my_module:make_env`.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from multiprocessing import connection
from typing import Any

import numpy as np

from sail.envs.gym_making import (
    AUTORESET,
    Autoreset,
    EnvRaisedError,
    Frames,
    errors_left_to_us,
    find_spec,
    make_vector_env,
    message,
    read_actions,
    read_observations,
)
from sail.envs.gym_settings import GymSettings
from sail.envs.host import Rows, Rows1D, checked_actions
from sail.errors import BadInputError, SailError, TrainingError

ANSWER_SECONDS = 60.0
"""How long the processes may take for one step or reset."""
CLOSE_SECONDS = 5.0
"""How long they may take to close before they are killed."""


class GymEnv:
    """A Gymnasium vector environment as a HostEnv."""

    def __init__(
        self,
        settings: GymSettings,
        num_envs: int,
        *,
        render_mode: str | None = None,
        autoreset: Autoreset = "next",
    ) -> None:
        self.name = settings.name
        self.stack = settings.stack
        self.num_envs = num_envs
        try:
            import gymnasium
        except ImportError:
            raise BadInputError(f"{self.name} needs gymnasium: pip install 'sail-rl[gym]'.") from None
        spec = find_spec(gymnasium, self.name)
        self.max_episode_steps: int | None = settings.time_limit or spec.max_episode_steps
        solved_at = settings.solved_at
        self.reward_threshold: float | None = spec.reward_threshold if solved_at is None else solved_at
        self._vec = make_vector_env(gymnasium, spec, settings, num_envs, render_mode, autoreset)
        self._processes: list[Any] = self._vec.processes if settings.processes else []
        self._render_mode = render_mode
        self._closed = False
        self._doing = "reset"
        self._answer: Callable[[], Any] | None = None
        self._ended = np.zeros(num_envs, bool)
        try:
            self.num_actions, self._actions_from = read_actions(gymnasium, self._vec.single_action_space, self.name)
            reading = read_observations(gymnasium, self._vec.single_observation_space, self.name)
            if self._vec.num_envs != num_envs:
                raise BadInputError(f"{self.name} makes {self._vec.num_envs} environments, not {num_envs}.")
            mode = self._vec.metadata.get("autoreset_mode")
            self._mode = getattr(mode, "value", mode)
            if self._mode not in AUTORESET.values():
                raise BadInputError(f"{self.name} does not say when it resets itself (metadata['autoreset_mode']).")
        except BaseException:
            self.close()
            raise
        self.observation_shape, self.observation_dtype, self._convert = reading
        self.resets_within_step = self._mode != AUTORESET["next"]

    def reset(self, seed: int) -> None:
        """Begins an episode everywhere, seeded with `seed`, `seed + 1` and so on."""
        self._doing = "reset"
        with self._naming_errors("reset"):
            if self._answer is not None and self._processes:
                self._answer()  # what was asked before must be heard before anything else can be asked
            self._answer = self._ask_reset(seed=int(seed))

    def send(self, actions: Rows1D) -> None:
        """The actions for the rows of the last `recv`. Without processes, the step is taken in the next `recv`."""
        sent = checked_actions(self, actions).astype(np.int64) + self._actions_from
        if self._answer is not None:
            raise RuntimeError("send must follow recv")
        self._doing = "step"
        with self._naming_errors("step"):
            if self._processes:
                self._vec.step_async(sent)
                self._answer = partial(self._vec.step_wait, ANSWER_SECONDS)
            else:
                self._answer = partial(self._vec.step, sent)

    def recv(self) -> Rows:
        """One row from every environment, in their order."""
        if self._answer is None:
            raise RuntimeError("recv must follow reset or send")
        ask, self._answer = self._answer, None
        with self._naming_errors(self._doing):
            answer = ask()
            return self._first_rows(answer[0]) if self._doing == "reset" else self._step_rows(*answer)

    def render(self) -> Frames:
        """What environment 0 looks like, as an RGB image; between `recv` and `send`."""
        if self._render_mode != "rgb_array":
            raise BadInputError(f"{self.name} can be rendered only if made with render_mode='rgb_array'.")
        with self._naming_errors("render"):
            frames = self._vec.render()
        if frames is None or frames[0] is None:
            raise BadInputError(f"{self.name} has no picture of itself (render_mode 'rgb_array').")
        return np.asarray(frames[0])

    def close(self) -> None:
        """Ends every process behind it, by force where one does not end by itself."""
        if self._closed:
            return
        self._closed = True
        if not self._processes:
            with suppress(Exception):
                self._vec.close()
            return
        # Gymnasium's own close waits for ever for a process that was killed or hangs.
        for pipe in self._vec.parent_pipes:
            with suppress(OSError, AttributeError):  # the pipe of an environment that raised is None
                pipe.send(("close", None))
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(1)
        for pipe in self._vec.parent_pipes:
            if pipe is not None:
                pipe.close()
        self._vec.closed = True

    def _ask_reset(self, **how: Any) -> Callable[[], Any]:
        if self._processes:
            self._vec.reset_async(**how)
            return partial(self._vec.reset_wait, ANSWER_SECONDS)
        return partial(self._vec.reset, **how)

    def _first_rows(self, raw: Any) -> Rows:
        observation, no = self._read(raw), np.zeros(self.num_envs, bool)
        self._ended = no.copy()
        closing = observation if self.resets_within_step else None
        return Rows(np.arange(self.num_envs), observation, no.astype(np.float32), no, no, no, ~no, closing)

    def _step_rows(self, raw: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]) -> Rows:
        stepped = ~self._ended
        terminated = np.asarray(terminated, bool) & stepped
        truncated = np.asarray(truncated, bool) & stepped & ~terminated
        ended = terminated | truncated
        with np.errstate(over="ignore"):
            reward = np.where(stepped, reward, 0).astype(np.float32)
        if not np.isfinite(reward).all():
            raise TrainingError(f"{self.name} gave a reward of {reward[~np.isfinite(reward)][0]}.")
        observation, begins, closing = self._read(raw), ~stepped, None
        if not self.resets_within_step:
            self._ended = ended
        else:
            begins, closing = ended, observation
            if ended.any() and self._mode == AUTORESET["same"]:
                last = np.stack([np.asarray(info["final_obs"][i]) for i in np.flatnonzero(ended)])
                closing = observation.copy()
                closing[ended] = self._read(last)
            elif ended.any():
                fresh, _ = self._ask_reset(options={"reset_mask": ended.copy()})()
                observation = closing.copy()
                observation[ended] = self._read(np.asarray(fresh)[ended])
        return Rows(np.arange(self.num_envs), observation, reward, terminated, truncated, stepped, begins, closing)

    def _read(self, raw: Any) -> Frames:
        """Observations as they are delivered: always a copy, since the environments write over theirs."""
        frames = self._convert(np.asarray(raw))
        if frames.dtype == np.float32 and not np.isfinite(frames).all():
            raise TrainingError(f"{self.name} gave an observation that is not finite.")
        return frames

    @contextmanager
    def _naming_errors(self, doing: str) -> Iterator[None]:
        try:
            with errors_left_to_us() if self._processes else nullcontext():
                yield
        except SailError:
            raise
        except EnvRaisedError as error:
            raise TrainingError(f"{self.name} {error}.") from error
        except Exception as error:
            if self._processes and isinstance(error, EOFError | OSError | multiprocessing.TimeoutError):
                raise TrainingError(f"{self.name} {self._what_happened(error)}.") from error
            what = f"raised {type(error).__name__} in {doing}: {message(error)}"
            raise TrainingError(f"{self.name} {what}.") from error

    def _what_happened(self, error: Exception) -> str:
        late = isinstance(error, multiprocessing.TimeoutError)
        ended = connection.wait([process.sentinel for process in self._processes], 0 if late else 1)
        for i, process in enumerate(self._processes):
            if process.sentinel in ended:
                process.join(1)  # its pipes close a moment before its exit code is known
                return f"lost the process of environment {i} (exit code {process.exitcode})"
        if late:
            return f"did not answer a {self._doing} within {ANSWER_SECONDS:g} seconds"
        return f"lost a process ({type(error).__name__})"
