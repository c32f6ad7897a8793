"""route.json of a run folder: the map, and the cells that the greedy policy visits on it."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ValidationError, model_validator

from sail.analysis.runs import LeftOut


class Route(BaseModel):
    """One greedy episode on a map."""

    grid: list[str]
    cells: list[tuple[int, int]]
    """Row and column, from the start on."""
    seed: int
    success: bool
    steps: int

    @model_validator(mode="after")
    def _is_on_its_map(self) -> Route:
        rows, columns = len(self.grid), len(self.grid[0]) if self.grid else 0
        if not columns or any(len(row) != columns for row in self.grid):
            raise ValueError("the map is no rectangle")
        if not all(0 <= row < rows and 0 <= column < columns for row, column in self.cells):
            raise ValueError("a cell is outside the map")
        return self


def read_route(run: Path, left_out: list[LeftOut]) -> Route | None:
    """The route of a run; None where there is none, or none that can be read, which is then added to `left_out`."""
    path = run / "route.json"
    if not os.path.isfile(path):
        return None
    try:
        return Route.model_validate_json(path.read_bytes())
    except ValidationError:
        left_out.append(LeftOut(str(path), "this is no route as sail writes it"))
    except OSError as error:
        left_out.append(LeftOut(str(path), f"it cannot be read: {error.strerror}"))
    return None
