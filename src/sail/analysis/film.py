"""The frames of a video of one episode, drawn one at a time: the screen, and a panel of charts under it."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from sail.errors import BadInputError

WIDTH, PANEL, MARGIN = 480, 160, 12
PAPER, PLOT, AXIS, QUIET, TEXT = (17, 23, 31), (27, 36, 48), (78, 92, 108), (156, 168, 181), (236, 240, 244)
VALUE, BONUS, GAIN, LOSS = (104, 190, 255), (255, 184, 92), (112, 217, 138), (255, 110, 118)
# The rows of the panel: its line of numbers, the two charts, and the strip of rewards under them.
NUMBERS, VALUE_ROWS, BONUS_ROWS, REWARD_ROWS = (24, 46), (50, 92), (97, 139), (143, 154)
FAINT = 0.35
FINE = 4  # Lines and dots are drawn this much larger and then shrunk, which smooths them.


class Recording(NamedTuple):
    """An episode of T steps; what the agent saw before each step, and what came of it."""

    screens: Any  # uint8 [T, height, width, 3], or a list of T screens
    values: Any  # [T]: the value of the best action. NaN leaves a gap in the chart, here and below.
    bonuses: Any  # [T]: the rule's bonus for the step taken
    rewards: Any  # [T]: not clipped
    title: str
    frames_per_second: float


class Pillow(NamedTuple):
    """What is used of Pillow: its module Image, its class Draw, and its own font by size."""

    image: Any
    draw: Any
    font: Any


@functools.cache
def pillow() -> Pillow:
    """Pillow, which is installed only where videos are wanted."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise BadInputError("Videos need Pillow: pip install 'sail-rl[video]'.") from error
    return Pillow(Image, ImageDraw.Draw, functools.cache(lambda size: ImageFont.load_default(size=size)))


class Chart:
    """Where one series is drawn in the panel, and how its numbers are written."""

    def __init__(self, series: Any, rows: tuple[int, int], low: float, high: float):
        self.series, self.top, self.bottom = series, *rows
        self.low, self.high = low, high
        # One format for all numbers of a series, so that they do not jump about.
        largest = max(abs(low), abs(high))
        size = int(np.floor(np.log10(largest))) if largest else 0
        # The z turns -0.00 into 0.00.
        self.format = f"z,.{min(max(1 - size, 2), 4) if size < 2 else max(3 - size, 0)}f" if -4 < size < 6 else ".1e"
        self.y = self.row(series)

    def row(self, value: Any) -> Any:
        """The row of the panel, with a fraction; a constant series lies in the middle."""
        span, inside = self.high - self.low, self.bottom - self.top - 9
        part = (value - self.low) / span if span > 0 else value * 0 + 0.5
        return self.bottom - 5 - part * inside

    def text(self, k: int) -> str:
        """The number of step k."""
        return format(self.series[k], self.format) if np.isfinite(self.series[k]) else "none"

    def labels(self) -> list[tuple[float, str]]:
        """The ends of the scale: where they are written, and what."""
        ends = {self.low, self.high} if np.isfinite(self.series).any() else set()
        return [(float(self.row(end)), format(end, self.format)) for end in ends]


class Film:
    """Draws the frames of a recording: once what is the same in all of them, the rest on demand."""

    def __init__(self, recording: Recording):
        self.frames_per_second = float(recording.frames_per_second)
        if not 0 < self.frames_per_second < np.inf:
            raise BadInputError(f"A video's frames_per_second must be above 0, not {recording.frames_per_second}.")
        self.screens, values, bonuses, rewards = _checked(recording)
        height, width = np.shape(self.screens[0])[:2]
        self.scale = _scale(height, width)
        # Even sides, because H.264 has one colour for two pixels.
        across, down = (size + size % 2 for size in (max(WIDTH, width * self.scale), height * self.scale))
        self.size = (across, down + PANEL)
        self.corner = (across - width * self.scale) // 2
        self.value = Chart(values, VALUE_ROWS, *_limits(values))
        self.bonus = Chart(bonuses, BONUS_ROWS, *_limits(np.append(bonuses, 0)))
        self.score = np.nancumsum(rewards)
        self.score_decimals = 0 if np.all(self.score == np.rint(self.score)) else 2
        self._draw_panels(recording.title, rewards)
        self._base = np.full((down + PANEL, across, 3), PAPER, np.uint8)
        self._base[down:] = self._faint

    def __len__(self) -> int:
        return len(self.screens)

    def frame(self, k: int) -> Any:
        """The picture [height, width, 3] of step k, counted from 0."""
        picture = self._base.copy()
        wide = np.repeat(self.screens[k], self.scale, axis=1)
        for i in range(self.scale):
            picture[i : self.scale * len(wide) : self.scale, self.corner : self.corner + wide.shape[1]] = wide
        panel, x = picture[-PANEL:], round(self._x[k])
        panel[VALUE_ROWS[0] :, : x + 1] = self._bright[VALUE_ROWS[0] :, : x + 1]
        for chart, colour in ((self.value, VALUE), (self.bonus, BONUS)):
            panel[chart.top : chart.bottom, x] = AXIS
            if np.isfinite(chart.y[k]):
                stamp(panel, disc(11), (chart.y[k], x), PLOT)
                stamp(panel, disc(7), (chart.y[k], x), colour)
        panel[slice(*NUMBERS)] = self._numbers(k)
        return picture

    def _numbers(self, k: int) -> Any:
        """The line of text about step k."""
        pil = pillow()
        strip = self._names.copy()
        draw, font = pil.draw(strip), pil.font(14)
        step, score = f"{k + 1:,} / {len(self):,}", f"{self.score[k]:,.{self.score_decimals}f}"
        texts = (step, self.value.text(k), self.bonus.text(k), score)
        for x, text, colour in zip(self._columns, texts, (TEXT, VALUE, BONUS, TEXT), strict=True):
            draw.text((x, strip.height / 2), text, colour, font, anchor="lm")
        return np.asarray(strip)

    def _draw_panels(self, title: str, rewards: Any) -> None:
        """The panel as before the episode (faint) and as after it (bright), and the names in its line of numbers."""
        pil, across = pillow(), self.size[0]
        picture = pil.image.new("RGB", (across, PANEL), PAPER)
        draw, font, small = pil.draw(picture), pil.font(14), pil.font(11)
        while font.getlength(title) > across - 2 * MARGIN:
            title = title.removesuffix("...")[:-1] + "..."
        draw.text((MARGIN, 14), title, TEXT, font, anchor="lm")
        # Fixed places, so that nothing moves when a number gets longer.
        self._columns = []
        for name, part in (("step", 0.0), ("value", 0.32), ("bonus", 0.53), ("score", 0.77)):
            x = MARGIN + round(part * (across - 2 * MARGIN))
            draw.text((x, sum(NUMBERS) / 2), name, QUIET, font, anchor="lm")
            self._columns.append(x + round(font.getlength(name + " ")) + 1)
        self._names = picture.crop((0, NUMBERS[0], across, NUMBERS[1]))

        charts = ((self.value, VALUE), (self.bonus, BONUS))
        labels = [label for chart, _ in charts for label in chart.labels()]
        labels.append((sum(REWARD_ROWS) / 2 - 0.5, "reward"))
        right = across - MARGIN - 6 - round(max(small.getlength(text) for _, text in labels))
        for chart, _ in charts:
            draw.rectangle((MARGIN, chart.top, right - 1, chart.bottom - 1), PLOT)
        for y, text in labels:
            draw.text((right + 6, y), text, QUIET, small, anchor="lm")
        zero = round(self.bonus.row(0.0))
        draw.line((MARGIN, zero, right - 1, zero), AXIS)
        self._x = np.linspace(MARGIN + 5, right - 6, len(self))
        self._faint, self._bright = np.array(picture), np.array(picture)
        masks = [(_line(self._x, chart.y, (across, PANEL)), colour) for chart, colour in charts]
        middle = sum(REWARD_ROWS) // 2
        for marked, rows, colour in (
            (rewards > 0, slice(REWARD_ROWS[0], middle), GAIN),
            (rewards < 0, slice(middle, REWARD_ROWS[1]), LOSS),
        ):
            ticks = np.zeros((PANEL, across))
            for offset in (0, 1):
                ticks[rows, np.rint(self._x[marked]).astype(int) + offset] = 1
            masks.append((ticks, colour))
        for mask, colour in masks:
            _blend(self._faint, FAINT * mask, colour)
            _blend(self._bright, mask, colour)


@functools.cache
def disc(diameter: int) -> Any:
    """How much of each pixel [diameter, diameter] a disc covers."""
    middle = (np.arange(diameter * FINE) + 0.5) / FINE - diameter / 2
    inside = middle[:, None] ** 2 + middle**2 <= (diameter / 2) ** 2
    return inside.reshape(diameter, FINE, diameter, FINE).mean(axis=(1, 3))


def stamp(picture: Any, mask: Any, centre: tuple[float, float], colour: tuple[int, int, int]) -> None:
    """Puts the mask in a colour on the picture, around a centre (row, column)."""
    top, left = (round(float(middle) + 0.5 - side / 2) for middle, side in zip(centre, mask.shape, strict=True))
    _blend(picture[top : top + len(mask), left : left + len(mask)], mask, colour)


def _blend(picture: Any, mask: Any, colour: tuple[int, int, int]) -> None:
    picture[...] = np.rint(picture + mask[..., None] * (np.array(colour, float) - picture))


def _line(x: Any, y: Any, size: tuple[int, int]) -> Any:
    """How much of each pixel the line through the points covers; it breaks off where y is not finite."""
    pil = pillow()
    mask = pil.image.new("L", (size[0] * FINE, size[1] * FINE))
    draw = pil.draw(mask)
    known = np.flatnonzero(np.isfinite(y))
    for piece in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
        points = np.column_stack([x[piece] + 0.5, y[piece] + 0.5]) * FINE
        if len(points) > 1:
            draw.line(points.ravel().tolist(), 255, width=7)
        elif len(points):
            draw.circle(points[0].tolist(), 4, 255)
    return np.asarray(mask, float).reshape(size[1], FINE, size[0], FINE).mean(axis=(1, 3)) / 255


def _limits(series: Any) -> tuple[float, float]:
    known = series[np.isfinite(series)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def _scale(height: int, width: int) -> int:
    """How many times larger the screen is shown: about 480 to 640 wide, and not so high that it leaves the window."""
    scale = -(-WIDTH // width)
    if scale * width > 640:
        scale -= 1
    return max(1, min(scale, 720 // height))


def _checked(recording: Recording) -> tuple[Any, Any, Any, Any]:
    """The screens, and the three series as arrays of float, all of one length."""
    lengths = [len(series) for series in recording[:4]]
    if len(set(lengths)) > 1 or not lengths[0]:
        found = "{} screens, {} values, {} bonuses and {} rewards".format(*lengths)
        raise BadInputError(f"A recording has one of each for every step, and a step at least, not {found}.")
    kinds = {(np.shape(screen), np.asarray(screen).dtype.name) for screen in recording.screens}
    shape, kind = min(kinds)
    if len(kinds) > 1 or kind != "uint8" or len(shape) != 3 or shape[2] != 3 or 0 in shape:
        raise BadInputError("The screens of a recording must be uint8 [height, width, 3], all of one size.")
    series = (np.asarray(given, float) for given in recording[1:4])
    values, bonuses, rewards = (np.where(np.isfinite(given), given, np.nan) for given in series)
    return recording.screens, values, bonuses, rewards
