"""What atari-py's files of the games, which the paper played, show and do otherwise than those of ale-py.

    python -m evidence roms atari_py/atari_roms results/atari/roms.csv

(docs/atari.md says where those are to be had.) Both files of a game are played with the same random actions. The
picture shows what an agent sees of those hard-exploration games whose files have screens of another height.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from evidence import tables
from sail.envs.atari_roms import rom_path
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings
from sail.envs.shrinking import shrink
from sail.games import GAMES, GROUPS
from sail.training.provenance import provenance

STEPS = 2_000
SEEN, SHOWN_AT = 84, 100
"""Pixels of what an agent sees, and the step at which the picture shows it."""


class Played(NamedTuple):
    """What random actions came to."""

    height: int
    rewards: list[int]  # of each step
    ends: list[bool]
    seen: Any  # [steps, 84, 84]


def collect(folder: Path, to: Path, picture: Path, steps: int = STEPS) -> str:
    """Compares every game whose files differ, writes the table and draws the picture."""
    rows, shown = [], {}
    for game in GAMES:
        told: list[dict[str, Any]] = [{"name": f"atari:{game}"}, {"name": f"atari:{game}", "roms": str(folder)}]
        paths = [rom_path(AtariSettings(**settings)) for settings in told]
        if paths[0].read_bytes() == paths[1].read_bytes():
            continue
        new, old = (play(path, steps) for path in paths)
        rows.append({"game": game, **difference(new, old)})
        if new.height != old.height and game in GROUPS["hard-exploration"]:
            shown[game] = (new.seen[SHOWN_AT], old.seen[SHOWN_AT])
    about = provenance() | {
        "played": f"{steps} steps with the same random actions, without sticky ones",
        "same_steps": "up to the first reward or end of an episode that is not the same",
        "grey_difference": f"mean over pixels of what an agent sees ({SEEN} x {SEEN}, of 255) in those steps",
        "not_here": f"{len(GAMES) - len(rows)} games whose files are the same",
    }
    tables.write(to, about, rows)
    draw(shown).savefig(picture, dpi=110)
    return f"{to}: {len(rows)} of {len(GAMES)} games have another file. {picture}: {', '.join(shown)}."


def play(path: Path, steps: int) -> Played:
    """Plays a file with random actions, which are the same for every file of a game."""
    from ale_py import ALEInterface, LoggerMode

    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale, rng = ALEInterface(), np.random.default_rng(0)
    ale.setInt("random_seed", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("frame_skip", FRAME_SKIP)
    ale.loadROM(path)
    actions = ale.getMinimalActionSet()
    rewards, ends, screens = [], [], []
    for _ in range(steps):
        rewards.append(int(ale.act(actions[rng.integers(len(actions))])))
        ends.append(bool(ale.game_over()))
        screens.append(ale.getScreenGrayscale())
        if ends[-1]:
            ale.reset_game()
    some = [jnp.stack(screens[i : i + 100]) for i in range(0, steps, 100)]
    seen = [np.asarray(shrink(screen, SEEN, SEEN, jnp.int32(0))) for screen in some]
    return Played(int(ale.getScreenDims()[0]), rewards, ends, np.concatenate(seen))


def difference(new: Played, old: Played) -> dict[str, Any]:
    """A row of the table."""
    differs = np.flatnonzero((np.array(new.rewards) != old.rewards) | (np.array(new.ends) != old.ends))
    same = int(differs[0]) if len(differs) else len(new.rewards)
    apart = np.abs(new.seen[:same].astype(float) - old.seen[:same]).mean() if same else float("nan")
    return {
        "height_ale_py": new.height,
        "height_atari_py": old.height,
        "same_steps": same,
        "score_ale_py": sum(new.rewards),
        "score_atari_py": sum(old.rewards),
        "grey_difference": float(apart),
    }


def draw(shown: dict[str, tuple[Any, Any]]) -> Figure:
    """Pairs of what an agent sees, ale-py's above atari-py's."""
    figure = Figure(figsize=(2.1 * max(len(shown), 2), 4.4), layout="constrained")
    panels = figure.subplots(2, max(len(shown), 1), squeeze=False)
    for column, (game, pair) in zip(panels.T, shown.items(), strict=True):
        column[0].set_title(game, fontsize=9)
        for axes, seen in zip(column, pair, strict=True):
            axes.imshow(seen, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
    for axes, name in zip(panels[:, 0], ("ale-py's file", "atari-py's file"), strict=True):
        axes.set_ylabel(name, fontsize=9)
    return figure
