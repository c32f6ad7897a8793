"""How an environment from Gymnasium is found by its name and made, and what its spaces become."""

from __future__ import annotations

import difflib
import importlib
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from sail.envs.gym_settings import GymSettings
from sail.errors import BadInputError

Frames = np.ndarray[Any, np.dtype[Any]]
Autoreset = Literal["next", "same", "disabled"]

AUTORESET = {"next": "NextStep", "same": "SameStep", "disabled": "Disabled"}
"""Our words for when an environment resets itself, and Gymnasium's."""
_SET_ELSEWHERE = {
    "max_episode_steps": "env.time_limit",
    "vectorization_mode": "env.processes",
    "num_envs": "learning.num_envs",
}


class EnvRaisedError(Exception):
    """What an environment raised, and where. Unlike that error itself, it is sure to pass between processes."""


class _Muted:
    """How many want Gymnasium to say nothing itself, and what it would say it with."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted_by = 0
        self._before: Any = None

    def begin(self) -> None:
        """Nothing is said until as many have ended as have begun."""
        with self._lock:
            self._wanted_by += 1
            if self._wanted_by == 1:
                logger = _logger()
                self._before, logger.error = logger.error, lambda *_: None

    def end(self) -> None:
        """Whoever is the last has things as they were."""
        with self._lock:
            self._wanted_by -= 1
            if self._wanted_by == 0:
                _logger().error = self._before


_MUTED = _Muted()


@cache
def _logger() -> Any:
    return importlib.import_module("gymnasium.logger")


@contextmanager
def errors_left_to_us() -> Iterator[None]:
    """Has Gymnasium say nothing itself of what an environment in a process raised, while it passes that on.

    It would print every traceback twice, as warnings, before our sentence about the same. Every pool of every seed
    steps in a thread of its own, so one may be in here while another comes or goes.
    """
    _MUTED.begin()
    try:
        yield
    finally:
        _MUTED.end()


def find_spec(gymnasium: Any, name: str) -> Any:
    """The registered environment of that name, or one whose constructor is what the name points at."""
    wanted = name.removeprefix("gym:")
    if wanted in gymnasium.registry:
        return gymnasium.registry[wanted]
    module_name, colon, env_id = wanted.rpartition(":")
    valid = list(gymnasium.registry)
    if colon:
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            raise BadInputError(
                f"{name} needs the module '{module_name}', which Python cannot import: {message(error)}."
            ) from error
        if env_id in gymnasium.registry:
            return gymnasium.registry[env_id]
        if callable(getattr(module, env_id, None)):
            return gymnasium.envs.registration.EnvSpec(id=wanted, entry_point=wanted)
        own = (key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        valid = [*gymnasium.registry, *own]
    lower = {key.lower(): key for key in valid}
    nearest = difflib.get_close_matches(env_id.lower(), lower, n=1)
    hint = (
        f"did you mean 'gym:{module_name}{colon}{lower[nearest[0]]}'?"
        if nearest
        else "gym:package:ID imports a package that registers it, and gymnasium.pprint_registry() shows what there is."
    )
    raise BadInputError(f"There is no environment '{name}': {hint}")


def make_vector_env(
    gymnasium: Any, spec: Any, settings: GymSettings, num_envs: int, render_mode: str | None, autoreset: Autoreset
) -> Any:
    """The environments of these settings, as one that Gymnasium steps together."""
    name, kwargs = settings.name, dict(settings.kwargs)
    for key in sorted(kwargs.keys() & _SET_ELSEWHERE.keys()):
        raise BadInputError(f"{name} takes no {key} among its kwargs: it is set with {_SET_ELSEWHERE[key]}.")
    if settings.time_limit is not None:
        kwargs["max_episode_steps"] = settings.time_limit
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    options: dict[str, Any] = {"vectorization_mode": "vector_entry_point"}
    if spec.entry_point is not None:
        mode = gymnasium.vector.AutoresetMode(AUTORESET[autoreset])
        # What is observed is copied once, when it is converted.
        options = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": mode, "copy": False}}
        options["wrappers"] = [_tell]
        if settings.processes:
            # A fork of a process in which jax runs its threads can hang.
            options["vectorization_mode"] = "async"
            options["vector_kwargs"]["context"] = "spawn"
    elif settings.processes:
        raise BadInputError(f"{name} comes as one environment that steps many together: it has no use for processes.")
    cause: Exception | None
    try:
        with errors_left_to_us():
            return gymnasium.make_vec(spec, num_envs=num_envs, **options, **kwargs)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        problem, cause = f"needs a package that is not installed: {message(error)}", error
    except (EOFError, ConnectionError) as error:
        # The error holds on to processes that did start: without it they end.
        problem, cause = f"could not start its processes ({_typed(error)})", None
        problem += "; a script that starts them does so under if __name__ == '__main__'"
    except Exception as error:
        given = f" with {', '.join(f'{key}={value!r}' for key, value in kwargs.items())}" if kwargs else ""
        problem, cause = f"cannot be made{given}: {_typed(error)}", error
    raise BadInputError(f"{name} {problem}.") from cause


def read_actions(gymnasium: Any, space: Any, name: str) -> tuple[int, int]:
    """How many actions there are, and the number of the first."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.n), int(space.start)
    kind = "continuous actions" if isinstance(space, gymnasium.spaces.Box) else "actions of several parts"
    raise BadInputError(f"{name} has {kind} ({space}), and sail needs a choice of one (Discrete).")


def read_observations(gymnasium: Any, space: Any, name: str) -> tuple[tuple[int, ...], Any, Callable[[Frames], Frames]]:
    """The shape and dtype of a frame as we deliver it, and what makes frames of a batch of observations.

    Images become [channels, height, width]. The frames are always a copy.
    """
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Discrete):
        return (int(space.n),), np.float32, partial(_one_hot, int(space.n), int(space.start))
    if not isinstance(space, spaces.Box | spaces.MultiBinary):
        raise BadInputError(
            f"{name} observes a {type(space).__name__}, and sail needs a Box, Discrete or MultiBinary: make it with a "
            "function (gym:my_module:make_env) that wraps it, for instance in gymnasium.wrappers.FlattenObservation or "
            "MiniGrid's ImgObsWrapper."
        )
    bytes_ = isinstance(space, spaces.MultiBinary) or space.dtype in (np.uint8, np.bool_)
    shape = tuple(map(int, space.shape)) or (1,)
    channels_last = False
    if isinstance(space, spaces.Box) and space.dtype == np.uint8:
        if len(shape) == 2:
            shape = (1, *shape)
        elif len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) > shape[2]:
            shape, channels_last = (shape[2], *shape[:2]), True
    dtype = np.uint8 if bytes_ else np.float32
    return shape, dtype, partial(_frames, shape, dtype, channels_last)


def message(error: BaseException) -> str:
    """What an error says, to end a sentence of ours with."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(" .") if lines else type(error).__name__


def _typed(error: BaseException) -> str:
    return f"{type(error).__name__}: {message(error)}" if str(error).strip() else type(error).__name__


def _one_hot(size: int, start: int, raw: Frames) -> Frames:
    frames = np.zeros((len(raw), size), np.float32)
    frames[np.arange(len(raw)), raw - start] = 1
    return frames


def _frames(shape: tuple[int, ...], dtype: Any, channels_last: bool, raw: Frames) -> Frames:
    if channels_last:
        raw = np.moveaxis(raw, -1, 1)
    with np.errstate(over="ignore"):  # whoever reads them refuses what is not finite
        return np.array(raw, dtype, order="C").reshape(len(raw), *shape)


def _tell(env: Any) -> Any:
    if multiprocessing.parent_process() is not None:
        # Ctrl-C goes to every process of a terminal: what it means is for the one that trains to decide.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for doing in ("reset", "step"):
        setattr(env, doing, partial(_telling, doing, getattr(env, doing)))
    return env


def _telling(doing: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise EnvRaisedError(f"raised {type(error).__name__} in {doing}: {message(error)}") from error
