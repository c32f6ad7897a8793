"""What one cell of a study may use: cores, memory, a share of a GPU, time and further tries."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import Any

from sail.errors import BadInputError, unknown_name
from sail.studies.marked import Marked, Where

_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SECONDS = {"": 1, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_MOST_BYTES, _MOST_SECONDS = 10**18, 10_000 * 86_400


@dataclass(frozen=True)
class Resources:
    """What one cell may use."""

    cores: int = 1
    """Cores, and so threads of computation."""
    memory: int = 2 * 10**9
    """Bytes; a cell that takes more is stopped."""
    gpus: float = 0.0
    """Share of a GPU, or whole ones; 0 for none."""
    time_limit: float | None = None
    """Seconds over all its tries; None for no limit."""
    retries: int = 2
    """Further tries of a cell that failed, each from its newest checkpoint."""

    def to_tree(self) -> dict[str, Any]:
        """As a study file says it."""
        tree = {one.name: getattr(self, one.name) for one in fields(self)}
        return {key: value for key, value in tree.items() if value is not None}


def read_resources(marked: Marked, tree: Any, where: Where) -> Resources:
    """The section `resources` of a study file."""
    if not isinstance(tree, dict):
        raise marked.error(where, f"resources must be a mapping, not {tree!r}.")
    names = [one.name for one in fields(Resources)]
    values: dict[str, Any] = {}
    for key, value in tree.items():
        if key not in names:
            raise marked.error((*where, key), str(unknown_name("key", key, names, "resources.")))
        try:
            values[key] = read_resource(key, value)
        except BadInputError as error:
            raise marked.error((*where, key), f"resources.{error}") from None
    return Resources(**values)


def read_resource(name: str, value: Any) -> Any:
    """One of them, from a file or the command line; an error begins with the name."""
    match name:
        case "cores":
            return _number(name, value, 1, 4096, whole=True)
        case "retries":
            return _number(name, value, 0, 1000, whole=True)
        case "gpus":
            share = _number(name, value, 0, 64)
            if share > 1 and share != int(share):
                raise BadInputError(f"{name} must be a share of one GPU or a whole number of them, not {value}.")
            return float(share)
        case "memory":
            return int(_with_unit(name, value, _BYTES, "such as 2GB", _MOST_BYTES, "from 1B to 1,000,000TB"))
        case _:
            if value in (None, "none"):
                return None
            return _with_unit(name, value, _SECONDS, "such as 90min or 2h", _MOST_SECONDS, "from 1s to 10,000d")


def _number(name: str, value: Any, least: int, most: int, whole: bool = False) -> Any:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not least <= number <= most or (whole and number != int(number)):
        kind = "whole number" if whole else "number"
        raise BadInputError(f"{name} must be a {kind} from {least} to {most:,}, not {value!r}.")
    return int(number) if whole else number


def _with_unit(name: str, value: Any, units: dict[str, int], example: str, most: int, span: str) -> float:
    """How many of the smallest unit. A number alone counts those, so what was read is read the same once written."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", str(value).strip().lower())
    if isinstance(value, bool) or not match or match[2] not in units:
        raise BadInputError(f"{name} must be {example}, not {value!r}.")
    number = float(match[1]) * units[match[2]]
    if not 1 <= number <= most:
        raise BadInputError(f"{name} must be {span}, not {value!r}.")
    return number


def bytes_text(number: float) -> str:
    """A number of bytes as people write it."""
    for unit in ("B", "kB", "MB", "GB"):
        if float(f"{number:.3g}") < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB" if number < 999.5 else f"{number:.0f} TB"


def time_text(seconds: float) -> str:
    """A number of seconds as people write it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
