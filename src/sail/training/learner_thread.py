"""The learner's part of the host loop, in a thread of its own.

To dispatch a block's updates, about a thousand small programs, takes the host nearly as long as they take the GPU. So a
second thread dispatches, in the order in which the loop asks: write these rows, fill in those returns, learn.
Meanwhile the loop takes rows and chooses actions with the networks of a block ago or older. Before it asks for a
block's updates it waits until those of the block before are dispatched, and for nothing else. That depends on no clock,
so a seed gives the same run again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

from sail import replay
from sail.agents.base import Params
from sail.config import Config
from sail.replay.host_frames import HostFrames
from sail.training.host_device import DeviceSide, HostState, News
from sail.training.learner import Diagnostics, LearnerState

MOST_WAITING = 64
"""Things asked for that have yet to be done, before whoever asks waits: rows are not let pile up."""


class Learned(NamedTuple):
    """What a block's updates leave behind."""

    to_act: Params | None  # networks to choose actions with when the next block is in, if that is when they are renewed
    diagnostics: Any  # [seeds, one for each of Diagnostics]


class LearnerThread:
    """Owns the learner and the ring between `begin` and `end`."""

    learner: LearnerState
    ring: replay.Ring
    _key: Any

    def __init__(self, config: Config, device: DeviceSide) -> None:
        self._config, self._device = config, device
        self._host_frames: list[HostFrames] = []
        self._thread: ThreadPoolExecutor | None = None
        self._asked: deque[Future[Any]] = deque()
        self._failure: BaseException | None = None

    def read_frames_from(self, frames: list[HostFrames]) -> None:
        """Frames in this machine's memory, which the loop writes: then it waits for everything that it asks."""
        self._host_frames = frames

    def begin(self, state: HostState) -> None:
        """Takes over what learning changes."""
        self._wait_for_all_but(0)  # a run that was broken off may have left something
        self.learner, self.ring, self._key = state.learner, state.ring, state.key
        self._failure = None

    def write(self, news: News) -> None:
        """New rows into the ring."""
        self._ask(self._write, news)

    def fill(self, rows: Any) -> None:
        """Returns of episodes that have ended, in the rows [seeds, some] of the ring."""
        self._ask(self._fill, rows)

    def learn(self, step: int) -> Future[Learned]:
        """The updates that the block up to `step` has earned, and the target network if it is due. See `result`."""
        return self._ask(self.learn_now, step)

    def result(self, learned: Future[Learned]) -> Learned:
        """Waits until updates are on their way to the device; raises what has failed until then."""
        learned.exception()
        self._raise_failure()
        return learned.result()

    def end(self) -> tuple[LearnerState, replay.Ring]:
        """Waits until all is on its way to the device; raises what has failed."""
        self._wait_for_all_but(0)
        self._raise_failure()
        return self.learner, self.ring

    def close(self) -> None:
        """Ends the thread, without what has yet to be done."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
        self._thread = None
        self._asked.clear()

    def _ask(self, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self._raise_failure()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "learner")
        self._asked.append(self._thread.submit(self._do, task, *arguments))
        future = self._asked[-1]
        self._wait_for_all_but(0 if self._host_frames else MOST_WAITING)
        return future

    def _wait_for_all_but(self, number: int) -> None:
        while len(self._asked) > number:
            self._asked.popleft().exception()  # only waits: `_do` keeps what is raised

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _do(self, task: Callable[..., Any], *arguments: Any) -> Any:
        if self._failure is not None:
            return None  # what comes after it would learn from half of the rows
        try:
            return task(*arguments)
        except BaseException as error:
            self._failure = error
            return None

    def _write(self, news: News) -> None:
        self.ring, moments = self._device.write(self.ring, self.learner.curiosity, news)
        if moments is not None and self.learner.curiosity is not None:
            frames, errors = moments
            curiosity = self.learner.curiosity._replace(frames=frames, errors=errors)
            self.learner = self.learner._replace(curiosity=curiosity)

    def _fill(self, rows: Any) -> None:
        self.ring = self._device.fill(self.ring, rows)

    def learn_now(self, step: int) -> Learned:
        """`learn`, in the thread that calls it."""
        config, device, ring, key = self._config, self._device, self.ring, self._key
        if step < config.learning.starts:
            return Learned(device.to_act_after(self.learner.params, step), nothing_learned(config))
        if self._host_frames:
            drawn = device.draw(ring, key, np.int32(step))
            on_host = jax.device_get(drawn.places)
            states = [
                replay.gather_frames(frames.frames, jax.tree.map(lambda x, i=i: x[i], on_host), config.stack)
                for i, frames in enumerate(self._host_frames)
            ]
            found = device.learn(self.learner, ring, key, np.int32(step), drawn, np.stack(states))
        else:
            found = device.update(self.learner, ring, key, np.int32(step))
        learner, (priority, top), diagnostics = found
        diagnostics.copy_to_host_async()  # hundreds of them are asked for at once, and each would be waited for
        if step % config.learning.target_period == 0:
            learner = learner._replace(target=device.copy(learner.params))
        self.learner = learner
        if priority is not None:
            self.ring = ring._replace(priority=priority, top=top)
        return Learned(device.to_act_after(learner.params, step), diagnostics)


def nothing_learned(config: Config) -> Any:
    """The diagnostics of a block without updates."""
    return np.full((config.seeds, len(Diagnostics._fields)), np.nan, np.float32)
