"""What a study of games has yet to run, by the CSV files that are there: GPU time comes in pieces, on bare machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence.atari import Curve, label, read_all
from sail.envs.atari_settings import FRAME_SKIP
from sail.studies.cells import Cell, expand
from sail.studies.definition import read_definition
from sail.studies.library import find
from sail.studies.marked import dump


def write(study: str, to: Path, results: Path) -> str:
    """Writes a study file with the cells whose runs are not there, or not to their end; says how many."""
    name, marked = find(study)
    definition = read_definition(marked, name)
    cells = expand(definition, marked)
    there = read_all(results)
    missing = [cell for cell in cells if not any(_is(curve, cell) for curve in there)]
    if missing:
        tree = definition.to_tree() | {
            "title": f"What {name} has yet to run",
            "grids": [_grid(cell, definition.settings) for cell in missing],
        }
        tree.pop("report", None)  # a part of a study may be without its baseline
        to.write_text(dump(tree))
    return f"{len(missing)} of {len(cells)} cells of {name} are missing" + (f": {to}" if missing else "")


def _is(curve: Curve, cell: Cell) -> bool:
    config = cell.config()
    return (
        (f"atari:{curve.game}", curve.agent, curve.seed) == (cell.env, label(config), cell.seed)
        and str(curve.about.get("emulators")) == str(config.learning.num_envs)
        and curve.frames >= config.steps * FRAME_SKIP
    )


def _grid(cell: Cell, shared: Mapping[str, Any]) -> dict[str, Any]:
    grid = {"environments": [cell.env], "agents": [cell.agent], "seeds": {"first": cell.seed, "count": cell.seeds}}
    own = {name: value for name, value in cell.settings.items() if name != "steps" and name not in shared}
    return grid | {"steps": cell.config().steps, "settings": own} | ({"preset": cell.preset} if cell.preset else {})
