"""One episode as a video: the game's screen, and under it the agent's value and the rule's bonus over time."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sail.analysis.film import Film, Recording, disc, pillow, stamp
from sail.analysis.mp4 import find_ffmpeg, write_mp4
from sail.errors import BadInputError, SailError

__all__ = ["Recording", "check_video", "draw_grid_frame", "save_video"]

# The colours of pictures.py, which needs matplotlib.
WALL, FLOOR, ROUTE = "#3a4a5a", "#f4f1ea", "#d1495b"
THINGS = {"S": "#5c7a99", "K": "#e0a100", "D": "#8d5524", "T": "#2e8b57", "a": "#b23a48"}


def save_video(recording: Recording, path: str | os.PathLike[str]) -> Path:
    """Writes the video and returns where it is: beside an .mp4 as .webp where imageio-ffmpeg is not installed."""
    path = check_video(path)
    if path.suffix.lower() == ".mp4" and find_ffmpeg() is None:
        path = path.with_suffix(".webp")
    film = Film(recording)
    # The suffix stays at the end, where ffmpeg looks for the format.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        WRITERS[path.suffix.lower()](film, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise SailError(f"The video '{path}' could not be written: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def check_video(path: str | os.PathLike[str]) -> Path:
    """The path, if a video can be written there: asked before an episode is played for it."""
    path = Path(path)
    if path.suffix.lower() not in WRITERS:
        raise BadInputError(f"A video is .mp4, .webp or .gif, not '{path.name}'.")
    pillow()
    if not path.parent.is_dir():
        raise BadInputError(f"There is no folder '{path.parent}' to write the video to.")
    return path


def draw_grid_frame(grid: Sequence[str], cell: tuple[int, int]) -> Any:
    """A picture [height, width, 3] of a map with the agent at (row, column); outside the map it is not drawn."""
    base, side = _draw_map(tuple(grid))
    picture = base.copy()
    row, column = cell
    if 0 <= row < len(grid) and 0 <= column < len(grid[0]):
        centre = ((row + 0.5) * side - 0.5, (column + 0.5) * side - 0.5)
        for part, colour in ((0.72, "#ffffff"), (0.56, ROUTE)):
            stamp(picture, disc(max(2, 2 * round(part * side / 2))), centre, _rgb(colour))
    return picture


@functools.lru_cache(maxsize=8)
def _draw_map(grid: tuple[str, ...]) -> tuple[Any, int]:
    """The map without the agent, and the side of a cell in pixels."""
    pil = pillow()
    rows, columns = len(grid), len(grid[0])
    # An even side, so that the video needs no margin.
    side = max(2, min(2 * -(-240 // columns), 2 * (360 // rows)))
    picture = pil.image.new("RGB", (columns * side, rows * side), FLOOR)
    draw, font = pil.draw(picture), pil.font(round(0.55 * side))
    for r, row in enumerate(grid):
        for c, sign in enumerate(row):
            x, y = c * side, r * side
            if sign == "#":
                draw.rectangle((x, y, x + side - 1, y + side - 1), WALL)
                continue
            if side >= 8:
                # Faint lines, without which a map that is all floor would not show its cells.
                draw.rectangle((x, y, x + side - 1, y + side - 1), outline="#ebe6db")
            if sign in THINGS:
                gap = round(0.08 * side)
                draw.rectangle((x + gap, y + gap, x + side - 1 - gap, y + side - 1 - gap), THINGS[sign])
                draw.text((x + side / 2, y + side / 2), sign.upper(), "white", font, anchor="mm")
    return np.array(picture), side


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def _write_mp4(film: Film, path: Path) -> None:
    write_mp4(path, _frames(film), len(film), film.size, film.frames_per_second)


def _write_webp(film: Film, path: Path) -> None:
    """Animated WebP without loss."""
    image = pillow().image
    # Pillow makes a list of what it is to append, so an iterator would be held whole. A picture of many frames is
    # asked for one frame after the other instead.
    reel: Any = image.fromarray(film.frame(0))
    reel.n_frames = len(film)
    reel.seek = lambda k: reel.paste(image.fromarray(film.frame(k)))
    # Where nothing is lost, quality is the effort. Key frames are rare, as a video on a page is not searched.
    settings = {"lossless": True, "quality": 10, "method": 1, "kmin": 200, "kmax": 300}
    reel.save(path, format="WEBP", save_all=True, duration=1000 / film.frames_per_second, **settings)


def _write_gif(film: Film, path: Path) -> None:
    """Animated GIF with one palette; a frame holds only what changed."""
    image = pillow().image
    gif = importlib.import_module("PIL.GifImagePlugin")
    sample = np.concatenate([film.frame(k) for k in np.linspace(0, len(film) - 1, 16, dtype=int)])
    # By coverage, a colour of few pixels, such as a ball's, counts as much as others. Entry 255 means "as before".
    palette = image.fromarray(sample).quantize(255, method=image.Quantize.MAXCOVERAGE)
    # Padded, so that there is an entry 255 whatever the number of colours.
    table = bytes(palette.getpalette()).ljust(768, b"\0")
    before = None
    # Frame by frame, because Pillow's own writer holds all frames before it writes the first.
    with path.open("wb") as file:
        for k, frame in enumerate(_frames(film)):
            now = np.asarray(image.fromarray(frame).quantize(palette=palette, dither=image.Dither.NONE))
            picture = image.fromarray(now if before is None else np.where(now == before, np.uint8(255), now))
            picture.putpalette(table)
            if before is None:
                file.writelines(gif.getheader(picture, info={"loop": 0})[0])
            # GIF counts in hundredths of a second; what rounding loses in one frame, the next gets.
            start, end = (round(100 * i / film.frames_per_second) for i in (k, k + 1))
            settings = {"duration": 10 * (end - start), "disposal": 1}
            if before is not None:
                settings["transparency"] = 255
            file.writelines(gif.getdata(picture, **settings))
            before = now
        file.write(b";")


def _frames(film: Film) -> Iterator[Any]:
    return (film.frame(k) for k in range(len(film)))


WRITERS: dict[str, Callable[[Film, Path], None]] = {".mp4": _write_mp4, ".webp": _write_webp, ".gif": _write_gif}
