"""Figures as files, there as a whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sail.errors import BadInputError
from sail.files import check_can_be_made, write_whole

NO_PICTURES = {"pgf", "raw", "rgba"}
"""What matplotlib writes as well: text for a LaTeX that it wants to be there, and bytes that nothing opens."""


def check_picture(to: Path) -> Path:
    """The path, if a picture can be written there: asked before it is drawn. Without an ending it becomes a PNG."""
    to = to if to.suffix else to.with_suffix(".png")
    endings = sorted(Figure().canvas.get_supported_filetypes().keys() - NO_PICTURES)
    if to.suffix[1:].lower() not in endings:
        raise BadInputError(
            f"{to} cannot be written: a picture ends in .png, .svg or .pdf (or in one of {', '.join(endings)})."
        )
    return check_can_be_made(to)


def save_figure(figure: Figure, to: Path, **how: Any) -> Path:
    """Writes a figure, in the format that the path ends in."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=to.suffix[1:].lower(), **how)
    write_whole(to, drawn.getvalue())
    return to
