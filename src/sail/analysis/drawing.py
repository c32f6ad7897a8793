"""A grid and a route through it, as text for the terminal."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

SIGNS = {"#": "██", ".": "  ", "S": "S ", "K": "K ", "D": "D ", "T": "T ", "a": "a "}
ARROWS = {(-1, 0): "↑ ", (1, 0): "↓ ", (0, -1): "← ", (0, 1): "→ "}


def grid_text(grid: Sequence[str], cells: Sequence[Sequence[int]] = ()) -> str:
    """The grid, two characters a cell, with an arrow in each cell for the last move out of it."""
    picture = [[SIGNS.get(sign, sign + " ") for sign in row] for row in grid]
    for here, there in itertools.pairwise(cells):
        move = (there[0] - here[0], there[1] - here[1])
        if grid[here[0]][here[1]] == ".":
            # Diagonal moves (DeepSea goes down and sideways at once) show their sideways half.
            picture[here[0]][here[1]] = ARROWS.get(move) or ARROWS.get((0, move[1])) or "· "
    return "\n".join("".join(row).rstrip() for row in picture)
