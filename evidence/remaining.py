"""What a study of games has yet to run, by the CSV files that are there: it can go on without the study's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence.atari import OTHER_ROMS, Curve, label, read_all
from sail.envs.atari_settings import FRAME_SKIP
from sail.errors import BadInputError, unknown_name
from sail.studies.cells import Cell, expand
from sail.studies.definition import read_definition
from sail.studies.library import find
from sail.studies.marked import dump


def write(study: str, to: Path, results: Path, agents: Sequence[str] = ()) -> str:
    """Writes a study file with the cells whose runs are not there, or not to their end; says how many."""
    name, marked = find(study)
    definition = read_definition(marked, name)
    cells = expand(definition, marked)
    left = missing(cells, results, agents)
    if not left:
        return f"Nothing of {name} is missing: no file was written."
    tree = definition.to_tree() | {"title": f"What {name} has yet to run"}
    tree["grids"] = [_grid(cell) for cell in left]
    tree.pop("report", None)  # a part of a study may be without its baseline
    to.write_text(dump(tree))
    return f"{len(left)} of {len(cells)} cells of {name} are missing: {to}"


def missing(cells: Sequence[Cell], results: Path, agents: Sequence[str] = ()) -> list[Cell]:
    """Those of a study's cells that have no run to its end; of certain agents only, if any are named."""
    there_are = {cell.agent for cell in cells}
    for agent in agents:
        if agent not in there_are:
            raise unknown_name("agent of this study", agent, there_are)
    if others := [cell.env for cell in cells if not cell.env.startswith("atari:")]:
        raise BadInputError(f"This study has {others[0]}: only runs of Atari games have files of their own.")
    if not results.is_dir():
        raise BadInputError(f"There is no folder {results} of results.")
    there = {other: read_all(results / OTHER_ROMS.name if other else results) for other in (False, True)}
    wanted = [cell for cell in cells if not agents or cell.agent in agents]
    return [cell for cell in wanted if not _has_run(cell, there[bool(cell.settings.get("env.roms"))])]


def _has_run(cell: Cell, there: Sequence[Curve]) -> bool:
    """To its end, every seed of it, with as many emulators. With another number its file would be in the way."""
    config = cell.config()
    name, emulators = (cell.env, label(config)), str(config.learning.num_envs)
    own = [curve for curve in there if (f"atari:{curve.game}", curve.agent) == name]
    own = [curve for curve in own if cell.seed <= curve.seed < cell.seed + cell.seeds]
    for curve in own:
        if (other := str(curve.about.get("emulators"))) != emulators:
            raise BadInputError(
                f"{cell.name} has {emulators} emulators, and there is a file of {curve.game}, {curve.agent}, seed "
                f"{curve.seed} with {other}: move it elsewhere first."
            )
    return len({curve.seed for curve in own if curve.frames >= config.steps * FRAME_SKIP}) == cell.seeds


def _grid(cell: Cell) -> dict[str, Any]:
    """With the settings that are its own, which stand in its name; the rest is what all cells share."""
    own = sorted((cell.name.find(f",{name}="), name) for name in cell.settings)
    return {
        "environments": [cell.env],
        "agents": [cell.agent],
        "seeds": {"first": cell.seed, "count": cell.seeds},
        "steps": cell.config().steps,
        "settings": {name: cell.settings[name] for place, name in own if place >= 0},
        **({"preset": cell.preset} if cell.preset else {}),
    }
