"""One seed's environments behind a thread or processes, so that one that hangs or dies cannot take the run with it."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sail import envs
from sail.config import Config
from sail.envs.host import HostEnv, Rows
from sail.errors import SailError, TrainingError

if TYPE_CHECKING:
    from sail.envs.crew import CrewPool

PATIENCE_SECONDS = 300.0
"""How long an environment may take over one step before it counts as hanging."""
CLOSING_SECONDS = 10.0
"""How long all pools together may take to end."""

SHORTEST_SLEEP, LONGEST_SLEEP = 3e-5, 1e-3
"""Seconds before the loop looks again for actions, and for what else it waits for; a round takes some milliseconds."""

FEWEST_POOLS = 3
"""With only two, a pool that misses its turn would leave one alone, and the device idle while that one plays."""


class Emulators:
    """Asks and answers in turns: `rows`, then `act` on them, then `rows` again."""

    def __init__(self, env: HostEnv, seed: int) -> None:
        self.env = env
        self._actions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, args=(seed,), daemon=True, name=f"emulators-{seed}")
        self._thread.start()

    def rows(self) -> Rows:
        """Waits for the next rows; what went wrong in an environment is raised here."""
        try:
            answer = self._answers.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            raise TrainingError(
                f"{self.env.name} has not answered for {PATIENCE_SECONDS:g} s, so the run stops."
            ) from None
        if isinstance(answer, SailError):
            raise answer
        if isinstance(answer, BaseException):
            raise _failed(self.env.name, answer) from answer
        return answer

    def act(self, actions: Any) -> None:
        """The actions for the last rows, or what gives them: then the thread waits for them, and nobody else."""
        self._actions.put(actions)

    def answered(self) -> bool:
        """Whether `rows` would not wait."""
        return not self._answers.empty()

    def deliver(self, wait: bool = True) -> bool:
        """Nothing: the thread does."""
        return True

    def end(self) -> None:
        """Has the thread end, with its environments."""
        self._actions.put(None)

    def join(self, seconds: float) -> None:
        """Waits for that; one that hangs is left behind."""
        self._thread.join(timeout=seconds)

    def close(self) -> None:
        """Both."""
        self.end()
        self.join(CLOSING_SECONDS)

    def _serve(self, seed: int) -> None:
        try:
            self.env.reset(seed)
            self._answers.put(self.env.recv())
            while (actions := self._actions.get()) is not None:
                self.env.send(actions() if callable(actions) else actions)
                self._answers.put(self.env.recv())
        except BaseException as error:  # whatever it is, it belongs to whoever waits for rows
            self._answers.put(error)
        finally:
            self.env.close()


class CrewEmulators:
    """The same for a pool that processes of a crew play: it needs no thread, which would only be in the loop's way.

    So actions that the device has yet to choose are sent by whoever calls `deliver`.
    """

    def __init__(self, pool: CrewPool, seed: int) -> None:
        self.env = pool
        self._actions: Any = None
        pool.reset(seed)

    def rows(self) -> Rows:
        """Waits for the next rows; what went wrong in a process is raised here."""
        return self.env.recv(PATIENCE_SECONDS)

    def act(self, actions: Any) -> None:
        """The actions for the last rows, or what gives them."""
        self._actions = actions

    def answered(self) -> bool:
        """Whether `rows` would not wait: never before its actions are delivered."""
        return self.env.answered()

    def deliver(self, wait: bool = True) -> bool:
        """Sends them once they are there, or only if they are; whether there is nothing left to send."""
        actions, ready = self._actions, getattr(self._actions, "ready", None)
        if actions is None:
            return True
        if not wait and ready is not None and not ready():
            return False
        self._actions = None
        try:
            self.env.send(actions() if callable(actions) else actions)
        except SailError:
            raise
        except Exception as error:
            raise _failed(self.env.name, error) from error
        return True


class Waited(NamedTuple):
    """Seconds that the loop has waited, and in how many rounds. To take rows and to send actions counts as well."""

    rounds: int = 0
    for_games: float = 0.0
    for_actions: float = 0.0
    """Or for games, if those were there first. Counted only where games are in processes."""
    for_updates: float = 0.0
    """Until they were handed to the device."""


class Pools:
    """The emulators of all seeds, in pools that take turns. Environments are numbered through over a seed's pools.

    A reset takes an emulator as long as many steps, so a pool with a reset skips its next turn. That depends on the
    games alone and on no clock, so a seed gives the same run again. (All environments that reset in a step of its own
    are treated so, however long it takes.)
    """

    def __init__(self, config: Config, step: int, whole_screens: bool = False) -> None:
        self.waited = Waited()
        self._each = config.learning.num_envs // config.num_pools
        self._pools: list[list[Emulators | CrewEmulators]] = []
        self._unsent: deque[Emulators | CrewEmulators] = deque()
        self._order = [list(range(config.num_pools)) for _ in range(config.seeds)]
        self._miss_next = np.zeros((config.seeds, config.num_pools), bool)
        number = config.seeds * config.num_pools
        pools, self._crew = envs.make_pools(config.host_env, number, self._each, whole_screens)
        waiting = iter(pools)
        behind: Any = Emulators if self._crew is None else CrewEmulators
        try:
            for seed in range(config.seed, config.seed + config.seeds):
                self._pools.append([])
                for begin in np.random.SeedSequence([seed, step, 1]).generate_state(config.num_pools) % 2**31:
                    self._pools[-1].append(behind(next(waiting), int(begin)))
        except BaseException:
            self.close()
            raise

    def rows(self, seeds: Any) -> tuple[list[Emulators | CrewEmulators], list[Rows | None]]:
        """What the next pool of each of these seeds answers, and the pools; None for the other seeds.

        Actions that have not been sent go out as soon as the device has chosen them. But if the rows are there first,
        they are something to give it meanwhile.
        """
        turns = [self._next_turn(seed) for seed in seeds]
        pools = [self._pools[seed][turn] for seed, turn in zip(seeds, turns, strict=True)]
        began = time.perf_counter()
        self.deliver_until(lambda: all(pool.answered() for pool in pools))
        self._unsent.extend(pools)
        sent = time.perf_counter()
        answers: list[Rows | None] = [None] * len(self._pools)
        for seed, turn, pool in zip(seeds, turns, pools, strict=True):
            rows = pool.rows()
            answers[seed] = rows._replace(env=rows.env + np.int32(turn * self._each))
            begins_anew = not pool.env.resets_within_step and (rows.terminated | rows.truncated).any()
            self._miss_next[seed, turn] = begins_anew
        waited = self.waited
        self.waited = waited._replace(
            rounds=waited.rounds + 1,
            for_games=waited.for_games + time.perf_counter() - sent,
            for_actions=waited.for_actions + sent - began,
        )
        return pools, answers

    def _next_turn(self, seed: int) -> int:
        """Whose turn it is, of a seed's pools. If all would miss it, it is the first one's."""
        order, misses = self._order[seed], self._miss_next[seed]
        while misses[order[0]] and len(order) >= FEWEST_POOLS:
            misses[order[0]] = False
            order.append(order.pop(0))
        order.append(order.pop(0))
        return order[-1]

    def deliver(self, wait: bool = True) -> None:
        """Sends actions that have not been sent, of the pool that was asked first first.

        Waits for those that the device has yet to choose, or leaves them.
        """
        while self._unsent and self._unsent[0].deliver(wait):
            self._unsent.popleft()

    def deliver_until(self, happens: Callable[[], bool]) -> None:
        """Sends actions as the device chooses them, until all are sent or something else happens."""
        began = time.perf_counter()
        self.deliver(wait=False)
        while self._unsent and not happens():
            # Nothing waits for both, so it looks again after an eighth of the time so far.
            time.sleep(min(max((time.perf_counter() - began) / 8, SHORTEST_SLEEP), LONGEST_SLEEP))
            self.deliver(wait=False)

    def wait_for(self, updates: Future[Any]) -> None:
        """Waits for those, and sends actions meanwhile; if they are done, nothing: the next updates go first."""
        if updates.done():
            return
        began = time.perf_counter()
        self.deliver_until(updates.done)
        updates.exception()
        self.waited = self.waited._replace(for_updates=self.waited.for_updates + time.perf_counter() - began)

    @property
    def processes(self) -> list[int]:
        """The numbers of those that play the games, if there are any."""
        return [] if self._crew is None else self._crew.processes

    def peak_memory(self) -> int:
        """Bytes that processes of their own have taken at most."""
        return 0 if self._crew is None else self._crew.peak_memory()

    def close(self) -> None:
        """Ends them all."""
        threads = [pool for pool in chain(*self._pools) if isinstance(pool, Emulators)]
        for pool in threads:
            pool.end()
        end = time.monotonic() + CLOSING_SECONDS
        for pool in threads:
            pool.join(max(end - time.monotonic(), 0.01))
        if self._crew is not None:
            self._crew.close()


def _failed(name: str, error: BaseException) -> TrainingError:
    return TrainingError(f"{name} failed: {type(error).__name__}: {error}")


def together(answers: list[Rows | None], screens_apart: bool = False) -> Rows:
    """The seeds' rows as one, with a leading axis; a seed that was not asked has rows of nobody.

    With `screens_apart` the screens of several seeds are a tuple, which saves copying them: the device may do that.
    """
    if len(answers) == 1 and answers[0] is not None:
        return Rows(*[None if x is None else x[None] for x in answers[0]])
    some = next(rows for rows in answers if rows is not None)
    nobody = Rows(*[None if x is None else np.zeros_like(x) for x in some])._replace(env=np.full_like(some.env, 2**30))
    columns = zip(*[nobody if rows is None else rows for rows in answers], strict=True)

    def as_one(name: str, column: Any) -> Any:
        if column[0] is None:
            return None
        return column if screens_apart and name == "observation" else np.stack(column)

    return Rows(*map(as_one, Rows._fields, columns))
