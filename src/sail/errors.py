"""The errors that reach a user as one sentence, and the exit code each one carries."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SailError(Exception):
    """A problem that sail can explain in one sentence; the command prints it and exits with `exit_code`."""

    exit_code = 1


class BadInputError(SailError, ValueError):
    """The caller asked for something that cannot be: a wrong name, value, file or folder."""

    exit_code = 2


class TrainingError(SailError, RuntimeError):
    """Training cannot go on, for instance because the loss is no longer finite."""


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> BadInputError:
    """The error for a name that does not exist, with the nearest one that does."""
    valid = sorted(valid)
    nearest = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"choose one of {', '.join(valid)}."
    return BadInputError(f"There is no {kind} '{name}': {hint}")
