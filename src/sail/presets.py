"""What a kind of environment implies for the other settings, before the user's own. No jax here."""

from __future__ import annotations

from typing import Any

from sail.machine import MANY_CORES, cores

# The paper's: Dopamine's numbers for DQN. 50M steps are 200M frames; a phase is one of its iterations.
ATARI: dict[str, Any] = {
    "agent": {"network": "dopamine", "hidden": (512,)},
    "replay": {"capacity": 1_000_000, "time_limit_is_terminal": True},
    "optimiser": {"name": "rmsprop"},
    "exploration": {"end": 0.01, "decay_steps": 250_000},
    "learning": {"target_period": 8_000, "starts": 20_000, "max_block": 100},
    "evaluation": {"period": 250_000, "episodes": 0, "epsilon": 0.001, "steps": 125_000},
    "checkpoint": {"seconds": 300.0},
    "steps": 50_000_000,
}
# Vectors and small images, as in classic control: near what solved CartPole, LunarLander and a MiniGrid task.
GYM: dict[str, Any] = {
    "agent": {"hidden": (128, 128)},
    "replay": {"capacity": 100_000},
    "optimiser": {"learning_rate": 5e-4},
    "exploration": {"end": 0.04, "decay_steps": 25_000},
    "learning": {"starts": 2_000, "batch_size": 64, "update_period": 2, "target_period": 500},
    "evaluation": {"period": 10_000, "episodes": 10},
    "steps": 200_000,
}


def implied_by(kind: str, seeds: Any) -> dict[str, Any]:
    """The settings that a kind of environment brings along, for this machine."""
    match kind:
        case "atari":
            return {**ATARI, "learning": {**ATARI["learning"], "num_envs": emulators(seeds)}}
        case "gym":
            return GYM
        case _:
            return {"optimiser": {"name": "adam"}}


def emulators(seeds: Any) -> int:
    """Emulators for each seed: enough to keep every core at work while others wait for their actions.

    Several seeds share some more, since they wait for each other. On few cores there are fewer, since an episode takes
    its time and the first scores should not come after an hour.
    """
    shared_by = int(seeds) if str(seeds).isdigit() and int(seeds) > 0 else 1
    many = 200 if shared_by == 1 else 300
    return max((many if cores() >= MANY_CORES else 16) // shared_by // 4 * 4, 4)
