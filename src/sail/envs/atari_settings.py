"""What can be set in an Atari game. No jax and no emulator here."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from typing import Annotated, Literal

from pydantic import Field

from sail.envs.settings import Int, Probability, settings
from sail.errors import BadInputError, unknown_name
from sail.games import GAMES
from sail.machine import CORES_OF_THE_LOOP, MANY_CORES, cores

FRAME_SKIP = 4
MOST_PROCESSES = 32
"""By default. Every turn of a pool is told to each of them, which takes the loop its time."""


@settings
class AtariSettings:
    """An Atari 2600 game; the defaults are the paper's protocol (Dopamine's)."""

    name: str = "atari:Pong"
    """The game, as Dopamine writes it."""
    sticky: Probability = 0.25
    """Probability, at each emulator frame, that the action before is repeated instead."""
    life_loss_ends: bool = False
    """End an episode at each lost life, for the learner and the score. The next one begins a new game, as in ale-py and
    Gymnasium, so later lives are never played."""
    time_limit: Annotated[Int, Field(ge=1, le=2**29)] = 27_000
    """Steps (of 4 frames) after which an episode is cut off; replay.time-limit-is-terminal says how it is valued."""
    actions: Literal["minimal", "full"] = "minimal"
    """The game's own actions, or all 18."""
    stack: Annotated[Int, Field(ge=1, le=16)] = 4
    """Frames that make up what the agent sees."""
    noop_max: Annotated[Int, Field(ge=0, le=200)] = 0
    """Most random no-ops at the beginning of an episode."""
    roms: str | None = None
    """A folder with the games' files (bank_heist.bin), ale-py's or atari-py's, which the paper played; none for those
    that ale-py carries. A relative one is looked for where a command is started."""
    clip_rewards: bool = True
    """The learner sees rewards clipped to [-1, 1]; logged scores never are."""
    resize: Literal["auto", "emulator", "device"] = "auto"
    """Who makes the screens grey and small, with the same bits: the emulators or the device. auto: the device if it is
    a GPU that holds the replay ring and if checkpoints do not keep that ring, else the emulators."""
    threads: Annotated[Int, Field(ge=0, le=1024)] = 0
    """Emulator threads of each pool, where games have no processes of their own; 0 for as many as there are cores."""
    processes: Annotated[Int, Field(ge=0, le=1024)] = (
        min(cores() - CORES_OF_THE_LOOP, MOST_PROCESSES) if cores() >= MANY_CORES and os.name == "posix" else 0
    )
    """Processes that the games of all pools are spread over; 0 to keep them in this process. By default one for each
    core but two, up to 32, on 8 cores and more."""
    give_way: bool = cores() >= MANY_CORES
    """Emulators do not keep the learner waiting for a core: their processes leave two cores alone; threads of this
    process leave a core at once to whatever else wants it (Linux's idle class), so that beside other work on the same
    cores they are slow. By default so on 8 cores and more."""

    def __post_init__(self) -> None:
        rom(self.name)


def rom(name: str) -> str:
    """`atari:MontezumaRevenge` to the emulator's name for it, montezuma_revenge."""
    prefix, _, game = name.partition(":")
    if prefix != "atari" or not game:
        raise BadInputError(f"An Atari game is named like atari:MontezumaRevenge, not '{name}'.")
    if game in GAMES:
        return _snake(game)
    others = {_camel(rom): rom for rom in _roms()}
    if game not in others:
        raise unknown_name("Atari game", game, {*GAMES, *others})
    return others[game]


def _roms() -> list[str]:
    """What the emulator carries; nothing where it is not installed."""
    if find_spec("ale_py") is None:
        return []
    from ale_py import roms

    return list(roms.get_all_rom_ids())


def _snake(game: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", game).lower()


def _camel(rom: str) -> str:
    return "".join(part.capitalize() for part in rom.split("_"))
