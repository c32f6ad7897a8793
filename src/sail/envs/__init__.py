"""Environments: Key-Door-Treasure, DeepSea and the probes run inside the compiled program."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sail.envs.settings import (
    AppleKeyDoorTreasureSettings,
    DeepSeaSettings,
    EnvSettings,
    KeyDoorTreasureSettings,
    ProbeSettings,
)
from sail.errors import invalid_settings, unknown_name

if TYPE_CHECKING:
    from sail.envs.base import JaxEnv

SETTINGS: dict[str, type[Any]] = {
    "kdt": KeyDoorTreasureSettings,
    "apple-kdt": AppleKeyDoorTreasureSettings,
    "deep-sea": DeepSeaSettings,
    **dict.fromkeys(
        ("probe-constant", "probe-discount", "probe-observation", "probe-action", "probe-chain", "probe-time-limit"),
        ProbeSettings,
    ),
}
"""The settings of every environment, by the name it has on the command line."""


def make(env: str | EnvSettings, **settings: Any) -> JaxEnv[Any]:
    """An environment by name or by its settings: `make("kdt", slip=0.1)`."""
    if isinstance(env, str) and env not in SETTINGS:
        raise unknown_name("environment", env, SETTINGS)
    try:
        chosen: EnvSettings = SETTINGS[env](name=env, **settings) if isinstance(env, str) else env
    except ValidationError as error:
        raise invalid_settings(error, lambda path: [field.name for field in fields(SETTINGS[str(env)])]) from None
    # Imported here, so that reading settings does not cost the import of jax.
    from sail.envs.deep_sea import DeepSea
    from sail.envs.kdt import KeyDoorTreasure
    from sail.envs.probes import Probe

    match chosen:
        case KeyDoorTreasureSettings():
            return KeyDoorTreasure(chosen)
        case DeepSeaSettings():
            return DeepSea(chosen)
        case ProbeSettings():
            return Probe(chosen)
