"""The environments' maps as text: what drawings are made from. No jax here."""

from __future__ import annotations

from typing import Any

from sail.envs.settings import AppleKeyDoorTreasureSettings, DeepSeaSettings, KeyDoorTreasureSettings

# S start, K key, D door (closed to those without the key), T treasure, a apple (in the Apple variant only).
KEY_DOOR_TREASURE = (
    "#############",
    "#.....#T....#",
    "#...a.#.....#",
    "#.....#.....#",
    "#.a...#.....#",
    "#.....#.....#",
    "##.########D#",
    "#.....#.....#",
    "#.S...#.....#",
    "#...........#",
    "#.....#.....#",
    "#.....#....K#",
    "#############",
)


def env_map(env: Any) -> list[str] | None:
    """The rows of an environment's map, or None where it has none."""
    match env:
        case AppleKeyDoorTreasureSettings():
            return list(KEY_DOOR_TREASURE)
        case KeyDoorTreasureSettings():
            return [row.replace("a", ".") for row in KEY_DOOR_TREASURE]
        case DeepSeaSettings():
            return ["." * env.size] * env.size
        case _:
            return None
