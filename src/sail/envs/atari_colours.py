"""The greys of an Atari game's colours, for screens that are sent as the emulator has them and made grey on the device.

To make its two screens grey takes an emulator a tenth of a step of Pong; in colours they are only copied. A colour is a
number from 0 to 255. Which grey it is depends on the television that a game is for: NTSC (America) or PAL (Europe).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sail.envs.atari import whole_screen
from sail.envs.atari_roms import rom_path
from sail.envs.atari_settings import AtariSettings

# Read off ale-py 0.12.1 with a cartridge that shows every colour, which tests/envs/test_atari_colours.py makes. Odd
# numbers are for European pictures with an odd number of lines, which lose their colours on the real thing: Air Raid's
# alone, as far as we have seen. NTSC has none.
_NTSC = """
00004a006f008e00aa00c000d600ec0040005f007a009400ac00c100d600e9003f0057006e0083009600a700b800c7003b0055006b0081009400a700
b700c7002c0044005a006e0080009200a100b00033004a005f00730084009500a400b20027003f0055006b007d008f009f00ae001600310049006000
740088009900a9001100290040005500680079008900990020003c0055006d0082009600a800ba00280045005f0078008d00a200b600c8002b004a00
65007f009700ad00c100d4002800470062007c009300a900bd00cf0029004a00680084009d00b500cb00df002f004f006b0085009d00b300c800dc00
2f004f006b0085009d00b300c800dc00
"""
_PAL = """
002b2b525276769797b6b6d2d2ecec00002b2b525276769797b6b6d2d2ecec005a1a723288489d5caf6fc080d090df004a1a66327f48975cac6fc080
d390e400401a5b3274488c5ca16fb580c790d8143d355952726e89879f9eb3b4c5c8d61424353e52576e6d87819e95b4a6c8b75c40765a8e72a488b8
9ccbafdcc0ecd05c2c7444895a9e6eb081c192d1a2e0b17030894ca065b67cc992dca5ecb8fcc970278940a057b66cc97fdc91eca1fcb17020893ca0
55b66dc983dc97eca9fcbb801e9636ab4dbe62cf75df87ee97fca688109d29b040c256d269e17cef8dfc9c00002b2b525276769797b6b6d2d2ecec00
002b2b525276769797b6b6d2d2ecec00
"""
PALETTES: dict[str, Any] = {
    name: np.frombuffer(bytes.fromhex(greys.replace("\n", "")), np.uint8)
    for name, greys in (("NTSC", _NTSC), ("PAL", _PAL))
}
"""[256] the grey of each colour."""
MOST_FRAMES = 1000
"""That a game is watched for, until its screens tell. Nearly every colour but black does."""


def screens_as_they_are(settings: AtariSettings) -> tuple[int, ...]:
    """The shape of what a row shows where the device makes it small: [H, W] in grey, or two in colours [2, H, W].

    Only processes play the games themselves; random no-ops and grey are left to the emulator's vector environment.
    """
    size = whole_screen(settings)
    in_colours = settings.processes and not settings.noop_max and palette(settings) is not None
    return (2, *size) if in_colours else size


def palette(settings: AtariSettings) -> Any:
    """The one that all screens of a game's beginning are in; None if it is neither, or if they do not tell."""
    path = rom_path(settings).resolve()
    return _palette(path, path.stat().st_mtime_ns)


@lru_cache
def _palette(rom: Path, written: int) -> Any:
    from ale_py import ALEInterface, LoggerMode

    ALEInterface.setLoggerMode(LoggerMode.Error)
    game = ALEInterface()
    game.setInt("random_seed", 0)
    game.loadROM(rom)
    actions, possible = game.getLegalActionSet(), list(PALETTES.values())
    colours = np.zeros(game.getScreenDims(), np.uint8)
    greys = np.zeros_like(colours)
    for frame in range(MOST_FRAMES):
        game.getScreen(colours)
        game.getScreenGrayscale(greys)
        possible = [one for one in possible if np.array_equal(one[colours], greys)]
        if len(possible) < 2 or game.game_over():
            break
        game.act(actions[frame % len(actions)])
    return possible[0] if len(possible) == 1 else None
