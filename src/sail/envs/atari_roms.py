"""The files that games are played from: those that ale-py carries, or those of a folder (`env.roms`).

The paper, and Dopamine before it, played those that came with atari-py, by all we can tell. For some games they are
other cartridges: made for European television, say, with the same game in another picture (docs/atari.md).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sail.envs.atari_settings import AtariSettings, rom
from sail.errors import BadInputError

OF_ATARI_PY = {
    "amidar": "056f5d886a4e7e6fdd83650554997d0d",
    "assault": "c31a17942d162b80962cb1f7571cd1d5",
    "atlantis": "0b33252b680b65001e91a411e56e72e9",
    "bank_heist": "83b8c01c72306d60dd9b753332ebd276",
    "battle_zone": "e434c0e161dd3c3fb435eb6bad2e182c",
    "berzerk": "fac28963307b6e85082ccd77c88325e7",
    "carnival": "de29e46dbea003c3c09c892d668b9413",
    "centipede": "17d000a2882f9fdaa8b4a391ad367f00",
    "defender": "e1029676edb3d35b76ca943da7434da8",
    "demon_attack": "b24f6a5820a4b7763a3d547e3e07441d",
    "double_dunk": "cfc226d04d7490b69e155abd7741e98c",
    "gopher": "8f90590dba143d783df5a6cff2000e4d",
    "gravitar": "4767356fa0ed3ebe21437b4473d4ee28",
    "ice_hockey": "47711c44723da5d67047990157dcb5dd",
    "kaboom": "dbdaf82f4f0c415a94d1030271a9ef44",
    "krull": "cc724ebe74a109e39c0b2784ddc980ca",
    "kung_fu_master": "0b4e793c9425175498f5a65a3e960086",
    "ms_pacman": "9469d18238345d87768e8965f9f4a6b2",
    "name_this_game": "f98d2276d4a25b286135566255aea9d0",
    "pitfall": "f73d2d0eff548e8fc66996f27acf2b4b",
    "pooyan": "668dc528b7ea9345140f4fcfbecf7066",
    "riverraid": "da5096000db5fdaa8d02db57d9367998",
    "road_runner": "7d3cdde63b16fa637c4484e716839c94",
    "skiing": "367411b78119299234772c08df10e134",
    "space_invaders": "61dbe94f110f30ca4ec524ae5ce2d026",
    "tennis": "a5c96b046d5f8b7c96daaa12f925bef8",
    "tutankham": "66c2380c71709efa7b166621e5bb4558",
    "venture": "c63a98ca404aa5ee9fcff1de488c3f43",
    "video_pinball": "a2424c1a0c783d7585d701b1c71b5fdc",
    "wizard_of_wor": "663ef22eb399504d5204c543b8a86bcd",
    "yars_revenge": "ee8027d554d14c8d0b86f94737d2fdcc",
}
"""MD5 sums of the files of atari-py (0.1.4 to 0.2.6, which are the same) that are not those of ale-py 0.12."""

_finding = threading.Lock()


def rom_path(settings: AtariSettings) -> Path:
    """The file of a game.

    One that is not known to be that game is refused, since the emulator plays any bytes, and may never come back.
    """
    from ale_py import roms

    name = rom(settings.name)
    if settings.roms is None:
        path = roms.get_rom_path(name)
        assert path is not None, name
        return path
    path = Path(settings.roms, f"{name}.bin")
    try:
        path = path.expanduser()
        found = _md5(path)
    except (OSError, RuntimeError, ValueError) as error:  # nobody's home, or no path at all
        why = getattr(error, "strerror", None) or error
        raise BadInputError(
            f"env.roms: {path} cannot be read ({why}): {settings.name} is played from a file of that name."
        ) from None
    usual = roms.get_rom_path(name)
    if found != OF_ATARI_PY.get(name) and (usual is None or found != _md5(usual)):
        raise BadInputError(
            f"env.roms: {path} is neither ale-py's nor atari-py's file for {settings.name}: its MD5 sum is {found}."
        )
    return path


@contextmanager
def rom_of(settings: AtariSettings) -> Iterator[None]:
    """In here ale-py's own environments, which take the name of a game and no file, find the file of the settings."""
    if settings.roms is None:
        yield
        return
    from ale_py import roms

    game, path = rom(settings.name), rom_path(settings)
    with _finding:
        usual = roms.get_rom_path
        roms.get_rom_path = lambda name: path if name == game else usual(name)
        try:
            yield
        finally:
            roms.get_rom_path = usual


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
