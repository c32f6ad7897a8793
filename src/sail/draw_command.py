"""`sail draw`: a run's learning curve and greedy route, or an environment's map."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sail.errors import BadInputError, nearest, unknown_name

if TYPE_CHECKING:
    from sail.analysis.runs import LeftOut


class Subject(NamedTuple):
    """What is to be drawn: a run, with the route on its map if there is one, or a map alone."""

    run: Path | None
    grid: Sequence[str] = ()
    cells: Sequence[Sequence[int]] = ()


def draw(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Draws a run or an environment."""
    from sail.analysis.drawing import grid_text

    left_out: list[LeftOut] = []
    subject = _subject(options.run_or_env, left_out)
    picture = None
    if options.out:
        picture = save_picture(subject, Path(options.out), left_out)
        if picture is None:
            raise BadInputError("Pictures need matplotlib: pip install 'sail-rl[report]'.")
    elif not subject.grid and not options.json:
        why = ": ".join(left_out[0]) if left_out else f"There is no map of '{options.run_or_env}' to draw"
        raise BadInputError(f"{why}; --out FILE draws its learning curve.")
    for item in dict.fromkeys(left_out):
        print(f"Left out: {item.path}: {item.reason}", file=sys.stderr)
    if options.json:
        where = {"picture": str(picture) if picture else None}
        print(json.dumps({"grid": list(subject.grid), "cells": list(subject.cells), **where}))
        return 0
    if subject.grid:
        print(grid_text(subject.grid, subject.cells))
    if picture:
        print(f"Wrote {picture}.")
    return 0


def _subject(name: str, left_out: list[LeftOut]) -> Subject:
    if not os.path.isdir(name):
        return Subject(None, _map(name))
    from sail.analysis.route_file import read_route
    from sail.training.run_folder import RunFolder

    run = RunFolder(name).path
    route = read_route(run, left_out)
    return Subject(run) if route is None else Subject(run, route.grid, route.cells)


def _map(name: str) -> Sequence[str]:
    """An environment's map. A name that is no folder either is answered with what can be drawn."""
    from sail.envs import KINDS, SETTINGS, kind_of
    from sail.envs.maps import env_map

    maps = {env: grid for env, settings in SETTINGS.items() if (grid := env_map(settings(name=env))) is not None}
    if name in maps:
        return maps[name]
    if name in SETTINGS or (":" in name and kind_of(name) in KINDS):
        raise BadInputError(f"There is no map of '{name}' to draw: only {', '.join(maps)} have one.")
    if "/" not in name and not os.path.exists(name) and nearest(name, maps) is not None:
        raise unknown_name("run folder or environment with a map", name, maps)
    raise BadInputError(
        f"{name} is no run folder, which would have a config.yaml, and no environment with a map ({', '.join(maps)})."
    )


def save_picture(subject: Subject, to: Path, left_out: list[LeftOut] | None = None) -> Path | None:
    """Writes the picture; None where matplotlib is not installed. What could not be drawn is added to `left_out`."""
    try:
        from sail.analysis import figure_file, pictures
    except ImportError:
        return None
    to = figure_file.check_picture(to)
    if subject.run is None:
        return pictures.save_grid(subject.grid, to)
    return pictures.save_summary(subject.run, title_of(subject.run), to, left_out)


def title_of(run: Path) -> str:
    """Who plays what in a run."""
    from sail.training.run_folder import RunFolder

    config = RunFolder(run).config
    return f"{config.agent_name.upper()} on {config.env.name}"
