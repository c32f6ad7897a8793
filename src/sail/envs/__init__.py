"""Environments. Key-Door-Treasure, DeepSea and the probes run inside the compiled program; Atari and Gymnasium outside.

A pure-JAX environment has a name of its own (`kdt`); the others a kind and a name (`atari:Pong`, `gym:CartPole-v1`).
"""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Tag, ValidationError

from sail.envs.atari_settings import AtariSettings
from sail.envs.gym_settings import GymSettings
from sail.envs.settings import (
    AppleKeyDoorTreasureSettings,
    DeepSeaSettings,
    JaxEnvSettings,
    KeyDoorTreasureSettings,
    ProbeSettings,
)
from sail.errors import BadInputError, invalid_settings, unknown_name
from sail.games import GAMES

if TYPE_CHECKING:
    from sail.envs.base import JaxEnv
    from sail.envs.crew import Crew
    from sail.envs.host import HostEnv

SETTINGS: dict[str, type[Any]] = {
    "kdt": KeyDoorTreasureSettings,
    "apple-kdt": AppleKeyDoorTreasureSettings,
    "deep-sea": DeepSeaSettings,
    **dict.fromkeys(
        ("probe-constant", "probe-discount", "probe-observation", "probe-action", "probe-chain", "probe-time-limit"),
        ProbeSettings,
    ),
}
"""The settings of every pure-JAX environment, by the name it has on the command line."""

KINDS: dict[str, type[Any]] = {"atari": AtariSettings, "gym": GymSettings}
"""The settings of the environments outside the compiled program, by what stands before the colon."""

HostEnvSettings = AtariSettings | GymSettings


def _tag(env: Any) -> str | None:
    """What kind of settings a mapping or a section is; pydantic asks."""
    name = env.get("name") if isinstance(env, dict) else getattr(env, "name", None)
    if not isinstance(name, str):
        return None
    return "probe" if SETTINGS.get(name) is ProbeSettings else kind_of(name)


EnvSettings = Annotated[
    Annotated[KeyDoorTreasureSettings, Tag("kdt")]
    | Annotated[AppleKeyDoorTreasureSettings, Tag("apple-kdt")]
    | Annotated[DeepSeaSettings, Tag("deep-sea")]
    | Annotated[ProbeSettings, Tag("probe")]
    | Annotated[AtariSettings, Tag("atari")]
    | Annotated[GymSettings, Tag("gym")],
    Discriminator(_tag),
]


def kind_of(name: str) -> str:
    """`atari` or `gym`; a pure-JAX environment is its own kind."""
    return name.partition(":")[0] if ":" in name else name


def settings_class(name: str) -> type[Any]:
    """The settings of an environment, by its full name."""
    found = KINDS.get(kind_of(name)) if ":" in name else SETTINGS.get(name)
    if found is None:
        known = [*SETTINGS, *(f"atari:{game}" for game in GAMES), "gym:CartPole-v1"]
        raise unknown_name("environment", name, known, shown=[*SETTINGS, "atari:GAME", "gym:ID"])
    return found


def make(env: str | JaxEnvSettings, **settings: Any) -> JaxEnv[Any]:
    """A pure-JAX environment by name or by its settings: `make("kdt", slip=0.1)`."""
    if isinstance(env, str) and env not in SETTINGS:
        raise unknown_name("environment", env, SETTINGS)
    try:
        chosen: JaxEnvSettings = SETTINGS[env](name=env, **settings) if isinstance(env, str) else env
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


def make_host(settings: HostEnvSettings, num_envs: int, **screen: Any) -> HostEnv:
    """A pool of environments outside the compiled program."""
    if isinstance(settings, AtariSettings):
        from sail.envs.atari import AtariEnv

        return AtariEnv(settings, num_envs, **screen)
    from sail.envs.gym import GymEnv

    return GymEnv(settings, num_envs)


def make_pools(
    settings: HostEnvSettings, num_pools: int, num_envs: int, whole_screens: bool = False
) -> tuple[list[HostEnv], Crew | None]:
    """Pools of `num_envs` environments each, and the processes that play in them if they have any of their own.

    With `whole_screens`, which only Atari games have, rows carry screens as they are: one in grey [H, W], or two in
    colours [2, H, W] from processes (`atari_colours`).
    """
    screen: dict[str, Any] = {}
    if whole_screens and isinstance(settings, AtariSettings):
        from sail.envs.atari_colours import screens_as_they_are

        screen["screen"] = screens_as_they_are(settings)
    if isinstance(settings, AtariSettings) and settings.processes:
        if os.name != "posix":  # said before the crew is imported, which could not be elsewhere
            raise BadInputError("env.processes needs Linux or macOS: leave it at 0.")
        from sail.envs.crew import Crew

        crew = Crew(settings, num_pools, num_envs, **screen)
        return list(crew.pools), crew
    pools: list[HostEnv] = []
    try:
        for _ in range(num_pools):
            pools.append(make_host(settings, num_envs, **screen))
    except BaseException:
        for pool in pools:
            pool.close()
        raise
    return pools, None
