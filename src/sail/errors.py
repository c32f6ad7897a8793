"""The errors that reach a user as one sentence, and the exit code each one carries."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any


class SailError(Exception):
    """A problem that sail can explain in one sentence; the command prints it and exits with `exit_code`."""

    exit_code = 1


class BadInputError(SailError, ValueError):
    """The caller asked for something that cannot be: a wrong name, value, file or folder."""

    exit_code = 2


class TrainingError(SailError, RuntimeError):
    """Training cannot go on, for instance because the loss is no longer finite."""


def unknown_name(
    kind: str, name: str, valid: Iterable[str], section: str = "", shown: Iterable[str] | None = None
) -> BadInputError:
    """The error for a name that does not exist, with the nearest one that does, or with all of them (`shown`)."""
    valid = list(_by_lower(valid).values())
    near = nearest(name, valid)
    hint = (
        f"did you mean '{section}{near}'?"
        if near is not None
        else f"choose one of {', '.join(section + name for name in shown or valid)}."
    )
    return BadInputError(f"There is no {kind} '{section}{name}': {hint}")


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that was most likely meant; None where there is nothing like it."""
    by_lower = _by_lower(valid)
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def _by_lower(names: Iterable[str]) -> dict[str, str]:
    return {one.lower(): one for one in sorted(names)}


def invalid_settings(
    error: Any, fields: Callable[[list[str]], Iterable[str]], members: Iterable[str] = ()
) -> BadInputError:
    """The first problem of a pydantic ValidationError as one sentence.

    `fields` gives the valid names in a section, which is a path from the root of the settings as pydantic writes it:
    with the chosen one of several kinds of section in it. `members` are the names of those, which no user wrote.
    """
    problem = error.errors()[0]
    where = [str(part) for part in problem["loc"]]
    path = [part for i, part in enumerate(where) if not (i == 1 and part in members)]
    dotted = ".".join(path) or "A config"
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, BadInputError):  # a setting's own check has said it already
        return cause
    match problem["type"]:
        case "unexpected_keyword_argument" | "extra_forbidden":
            section = "".join(f"{part}." for part in path[:-1])
            if not section and (meant := [f"'{one}.{path[-1]}'" for one in fields([]) if path[-1] in fields([one])]):
                return BadInputError(f"There is no setting '{path[-1]}': did you mean {' or '.join(meant)}?")
            return unknown_name("setting", path[-1], fields(where[:-1]), section)
        case "union_tag_invalid":
            tags = problem["ctx"]["expected_tags"].replace("'", "").split(", ")
            return unknown_name(path[0], str(problem["ctx"]["tag"]), tags)
        case "union_tag_not_found":
            return BadInputError(f"{dotted} must have a name.")
        case "missing":
            return BadInputError(f"{dotted} must be given.")
        case "dataclass_type" | "model_attributes_type":
            wanted = "a section of settings"
        case "too_short":
            wanted = "a list of at least one"
        case "literal_error":
            wanted = problem["ctx"]["expected"]
        case _:
            wanted = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            wanted = wanted.removeprefix("must be ").split(",")[0].rstrip(".")
    shown = "none" if problem["input"] is None else repr(problem["input"])
    return BadInputError(f"{dotted} must be {wanted}, not {shown}.")
