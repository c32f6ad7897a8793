"""What this machine has."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

from sail.errors import BadInputError

MANY_CORES = 8
"""From so many cores on, a machine is taken for one that is there for training, with a GPU."""
CORES_OF_THE_LOOP = 2
"""That emulators leave to a run that they give way to."""


def cores() -> int:
    """The cores that this process may use: those it is given, or as many of them as SAIL_CORES says."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("SAIL_CORES", "")
    return min(int(wanted), given) if _is_number(wanted) else given


def check_cores() -> None:
    """Refuses a SAIL_CORES that `cores` could only pass over."""
    wanted = os.environ.get("SAIL_CORES", "")
    if wanted and not _is_number(wanted):
        raise BadInputError(f"SAIL_CORES must be a whole number of at least 1, not '{wanted}'.")


def _is_number(wanted: str) -> bool:
    """Whether that is a number of cores. (To Python ² is a digit as well, and no number.)"""
    return wanted.isascii() and wanted.isdecimal() and int(wanted) > 0


def cores_to_share() -> list[int] | None:
    """Those for work that should not keep this process waiting: all but two for each run that may be here.

    None where a process cannot be held to some cores.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    given = sorted(os.sched_getaffinity(0))
    runs = len(given) // cores()
    return given[: max(len(given) - CORES_OF_THE_LOOP * runs, 1)]


def hold_to(places: list[int]) -> None:
    """Has this thread run on these cores only. Not if they have been taken away since."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, places)


def in_idle_class(make: Callable[[], Any]) -> Any:
    """What `make` gives, with every thread that it starts in Linux's idle class; elsewhere as they are.

    Such threads run when nothing else wants their core. They inherit it from a thread that ends here, since a thread
    without privileges cannot come back from that class.
    """
    made: list[Any] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            if hasattr(os, "SCHED_IDLE"):
                with contextlib.suppress(PermissionError):  # some containers forbid it
                    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            made.append(make())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return made[0]
