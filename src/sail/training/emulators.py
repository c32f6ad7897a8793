"""One seed's environments behind a thread of their own, so that one that hangs or dies cannot take the run with it."""

from __future__ import annotations

import queue
import threading
from typing import Any

from sail.envs.host import HostEnv, Rows
from sail.errors import SailError, TrainingError

PATIENCE_SECONDS = 300.0
"""How long an environment may take over one step before it counts as hanging."""


class Emulators:
    """Asks and answers in turns: `rows`, then `act` on them, then `rows` again."""

    def __init__(self, env: HostEnv, seed: int, patience: float | None = None) -> None:
        self.env = env
        self.patience = PATIENCE_SECONDS if patience is None else patience
        self._actions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, args=(seed,), daemon=True, name=f"emulators-{seed}")
        self._thread.start()

    def rows(self) -> Rows:
        """Waits for the next rows; what went wrong in an environment is raised here."""
        try:
            answer = self._answers.get(timeout=self.patience)
        except queue.Empty:
            raise TrainingError(
                f"{self.env.name} has not answered for {self.patience:g} s, so the run stops."
            ) from None
        if isinstance(answer, SailError):
            raise answer
        if isinstance(answer, BaseException):
            raise TrainingError(f"{self.env.name} failed: {type(answer).__name__}: {answer}") from answer
        return answer

    def act(self, actions: Any) -> None:
        """The actions for the last rows; does not wait."""
        self._actions.put(actions)

    def close(self) -> None:
        """Ends the thread and the environments; one that hangs is left behind."""
        self._actions.put(None)
        self._thread.join(timeout=10.0)

    def _serve(self, seed: int) -> None:
        try:
            self.env.reset(seed)
            self._answers.put(self.env.recv())
            while (actions := self._actions.get()) is not None:
                self.env.send(actions)
                self._answers.put(self.env.recv())
        except BaseException as error:  # whatever it is, it belongs to whoever waits for rows
            self._answers.put(error)
        finally:
            self.env.close()
