"""Which grey a colour is, asked of the emulator itself: by a cartridge that shows every colour, and by games."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from sail.envs import atari_colours
from sail.envs.atari_colours import PALETTES, palette, screens_as_they_are
from sail.envs.atari_settings import AtariSettings
from sail.envs.shrinking import pooled

ale_py = pytest.importorskip("ale_py")
NTSC, PAL = PALETTES["NTSC"], PALETTES["PAL"]


def chart(lines: int) -> bytes:
    """A cartridge whose pictures have so many lines, each with the next background colour.

    The machine's code, for a 6507: registers 0 to 2 of the picture are VSYNC, VBLANK and WSYNC, 9 is the background.
    """
    clear = [0xA9, 0, 0xAA, 0x95, 0, 0xE8, 0xD0, 0xFB]  # A = X = 0; do memory[X] = A, X += 1 until X == 0
    wait = [0x85, 2]  # for the end of a line
    sync = [0xA9, 2, 0x85, 0, *3 * wait, 0xA9, 0, 0x85, 0]  # three lines of it begin a picture

    def draw(number: int) -> list[int]:
        return [0xA2, number, *wait, 0x84, 9, 0xC8, 0xC8, 0xCA, 0xD0, 0xF7]  # do wait, background = Y, Y += 2; X times

    rest = lines - 3
    again = [0x4C, len(clear), 0xF0]  # jump behind `clear`: the cartridge is at 0xF000
    code = [*clear, *sync, 0xA0, 0, *draw(rest // 2), *draw(rest - rest // 2), *again]
    return bytes([*code, *[0] * (0xFFC - len(code)), 0, 0xF0, 0, 0xF0])  # the last four say where to begin


def seen(lines: int, folder: Path) -> dict[int, int]:
    """The grey of every colour in the pictures of a cartridge, which is taken for Pong by its name."""
    path = folder / "pong.bin"
    path.write_bytes(chart(lines))
    game = ale_py.ALEInterface()
    game.loadROM(path)
    colours, greys = (np.zeros(game.getScreenDims(), np.uint8) for _ in range(2))
    pairs = set()
    for _ in range(10):
        game.act(ale_py.Action.NOOP)
        game.getScreen(colours)
        game.getScreenGrayscale(greys)
        pairs |= set(zip(colours.ravel().tolist(), greys.ravel().tolist(), strict=True))
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize(
    ("lines", "greys", "colours"),
    [
        (262, NTSC, range(0, 256, 2)),
        (263, NTSC, range(0, 256, 2)),
        (312, PAL, range(0, 256, 2)),
        (313, PAL, range(1, 256, 2)),
    ],
)
def test_palettes_are_the_emulators(lines: int, greys: Any, colours: Any, tmp_path: Path) -> None:
    assert seen(lines, tmp_path) == {colour: greys[colour] for colour in colours}


@pytest.mark.parametrize(("game", "expected"), [("Pong", NTSC), ("Carnival", NTSC), ("Amidar", NTSC), ("AirRaid", PAL)])
def test_every_screen_of_a_game_is_in_its_palette(game: str, expected: Any) -> None:
    """AirRaid's pictures have an odd number of lines at times, and Amidar's are black at first."""
    settings = AtariSettings(name=f"atari:{game}", processes=2)
    greys = palette(settings)
    assert greys is expected
    emulator = ale_py.ALEInterface()
    emulator.setInt("random_seed", 3)
    emulator.loadROM(atari_colours.rom_path(settings))
    actions, rng = emulator.getMinimalActionSet(), np.random.default_rng(0)
    for _ in range(400):
        np.testing.assert_array_equal(greys[emulator.getScreen()], emulator.getScreenGrayscale())
        emulator.act(actions[rng.integers(len(actions))])
    assert screens_as_they_are(settings)[0] == 2


def test_what_is_not_known_is_left_grey(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = AtariSettings(name="atari:Pong", processes=2)
    assert screens_as_they_are(settings) == (2, 210, 160)
    assert screens_as_they_are(replace(settings, processes=0)) == (210, 160)
    assert screens_as_they_are(replace(settings, noop_max=30)) == (210, 160)
    try:
        for others in ({"PAL": PAL}, {"NTSC": NTSC, "another": NTSC.copy()}):  # none that fits, or two
            atari_colours._palette.cache_clear()
            monkeypatch.setattr(atari_colours, "PALETTES", others)
            monkeypatch.setattr(atari_colours, "MOST_FRAMES", 20)
            assert palette(settings) is None
            assert screens_as_they_are(settings) == (210, 160)
    finally:
        atari_colours._palette.cache_clear()


def test_the_lighter_of_two_pixels_is_pooled_and_not_the_greater_colour() -> None:
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (5, 2, 30, 20), np.uint8)
    found = jax.jit(pooled)(colours, PAL)
    assert found.dtype == np.uint8
    expected = [[max(int(PAL[a]), int(PAL[b])) for a, b in zip(*two, strict=True)] for two in colours.reshape(5, 2, -1)]
    np.testing.assert_array_equal(found.reshape(5, -1), expected)
    assert (PAL[colours.max(axis=1)] != found).any()
