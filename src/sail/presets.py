"""Every number that a name brings along, and where it comes from. What the user sets himself comes after. No jax here.

| preset     | numbers                                                                                              |
|------------|------------------------------------------------------------------------------------------------------|
| `paper`    | the paper's: Dopamine's of that time, but IQN with n = 1. What Atari games get                       |
| `dopamine` | Dopamine's own: DQN with Adam and the squared loss, IQN with n = 3                                  |
| `small`    | for problems that take minutes: what everything but Atari gets, near what solved the examples of this |
|            | project. On Atari a smaller ring, Adam, and a faster schedule                                        |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sail.machine import MANY_CORES, cores

PRESETS = ("paper", "dopamine", "small")
HOLD, HOLD_TOGETHER = 64, 7_680
"""The default of `learning.hold` for emulators: 64 steps of each, but no more than 7,680 of all together. With another
network at every step many emulators score far below a single one; with 64 steps as it does, on the two games where both
were tried; with 256 they learn late on one of them (docs/baselines.md)."""

# 50M steps are 200M frames; a phase is one of the paper's iterations.
_ATARI: dict[str, Any] = {
    "replay": {"capacity": 1_000_000, "time_limit_is_terminal": True},
    "exploration": {"end": 0.01, "decay_steps": 250_000},
    "learning": {"target_period": 8_000, "starts": 20_000, "max_block": 80},
    "evaluation": {"period": 250_000, "episodes": 0, "epsilon": 0.001},
    "rnd": {"period": 4},  # still twice as many frames as are played; at every update it is half of IQN's time on a GPU
    "checkpoint": {"seconds": 300.0},
    "steps": 50_000_000,
}
_ATARI_SMALL: dict[str, Any] = {
    **_ATARI,
    "replay": {"capacity": 100_000, "time_limit_is_terminal": True},
    "optimiser": {"name": "adam", "learning_rate": 1e-4},
    "exploration": {"end": 0.01, "decay_steps": 100_000},
    "learning": {"target_period": 2_000, "starts": 10_000, "max_block": 80},
    "steps": 2_500_000,
}
# Vectors and small images, as in classic control: near what solved CartPole, LunarLander and a MiniGrid task.
_GYM: dict[str, Any] = {
    "agent": {"hidden": (128, 128)},
    "replay": {"capacity": 100_000},
    "optimiser": {"name": "adam", "learning_rate": 5e-4},
    "exploration": {"end": 0.04, "decay_steps": 25_000},
    "learning": {"starts": 2_000, "batch_size": 64, "update_period": 2, "target_period": 500},
    "evaluation": {"period": 10_000, "episodes": 10},
    "steps": 200_000,
}
_FEW_QUANTILES = {"quantiles": 16, "target_quantiles": 16, "action_quantiles": 16, "cosines": 32}


def _adam(learning_rate: float, eps: float) -> dict[str, Any]:
    return {"optimiser": {"name": "adam", "learning_rate": learning_rate, "eps": eps}}


# Dopamine's configurations; the paper took them over (its appendix).
_OF_BASE: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {
        "dqn": {"optimiser": {"name": "rmsprop"}},
        "c51": _adam(2.5e-4, 3.125e-4),
        "iqn": _adam(5e-5, 3.125e-4),
        "rainbow": _adam(6.25e-5, 1.5e-4),
        "full-rainbow": _adam(6.25e-5, 1.5e-4),
    },
    "dopamine": {
        "dqn": {**_adam(6.25e-5, 1.5e-4), "agent": {"loss": "squared"}},
        "c51": _adam(2.5e-4, 3.125e-4),
        # As in October 2018, when the published curves were made: 5e-5 and 3.125e-4 came later, and learn too slowly.
        "iqn": {**_adam(6.25e-5, 1.5e-4), "replay": {"n_step": 3}},
        "rainbow": _adam(6.25e-5, 1.5e-4),
        "full-rainbow": _adam(6.25e-5, 1.5e-4),
    },
    "small": {"iqn": {"agent": _FEW_QUANTILES}},
}

_PAPER = "Ferret et al., 2021, which took Dopamine's of that time"
_NEAREST = "those of Dopamine's Rainbow, the nearest it has"
_SOURCES: dict[str, dict[str, str]] = {
    "paper": {"dqn": _PAPER, "c51": _PAPER, "iqn": _PAPER, "rainbow": _PAPER},
    "dopamine": {
        "dqn": "Dopamine's agents in JAX",
        "c51": "Dopamine",
        "iqn": "Dopamine, October 2018, when its curves were made",
        "rainbow": "Dopamine",
    },
}


def source(preset: str, base: str) -> str:
    """Where a base agent's numbers come from under a preset."""
    return "this project, near what solves its examples" if preset == "small" else _SOURCES[preset].get(base, _NEAREST)


def implied(kind: str, base: str, seeds: Any, preset: str | None = None) -> list[Mapping[str, Any]]:
    """The settings that an environment's kind and a base agent bring along for this machine, later ones first."""
    preset = preset or ("paper" if kind == "atari" else "small")
    # A base agent that is not in the table gets the numbers of Dopamine's newest.
    of_base = _OF_BASE[preset].get(base, {} if preset == "small" else _adam(6.25e-5, 1.5e-4))
    match kind, preset:
        case "atari", _:
            of_kind = _ATARI_SMALL if preset == "small" else _ATARI
            network = {"network": "nature" if preset == "small" else "dopamine", "hidden": (512,)}
            learning = {**_emulators(seeds), "hold": None}
            here = {"agent": network, "learning": learning, "evaluation": {"steps": 125_000}}
            return [of_base, here, of_kind]
        case "gym", "small":
            return [of_base, _GYM]
        case _, "small":
            return [of_base, {"optimiser": {"name": "adam"}}]
        case _:
            return [of_base, _ATARI]


def _emulators(seeds: Any) -> dict[str, int]:
    """Emulators for each seed: enough to keep every core at work while others wait for their actions.

    Several seeds share 360 instead of 240, since they wait for each other. Their blocks have at most 40 steps, so that
    the rows of one pool (of three seeds) fill one. On few cores there are fewer emulators, so that first episodes end
    soon.
    """
    shared_by = int(seeds) if str(seeds).isdecimal() and int(seeds) > 0 else 1
    if cores() < MANY_CORES:
        return {"num_envs": max(16 // shared_by // 4 * 4, 4)}
    if shared_by == 1:
        return {"num_envs": 240}
    return {"num_envs": max(360 // shared_by // 12 * 12, 12), "max_block": 40}  # pools of equal size
