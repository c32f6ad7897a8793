"""A sparse reward and a wrapper of your own: find the key, open the door, reach the goal (MiniGrid's DoorKey-5x5).

python examples/minigrid_doorkey.py

The environment is made by a function in this file, which is the place for wrappers: `gym:minigrid_doorkey:make_env`.
(Whoever loads the run later must be able to import this file: PYTHONPATH=examples sail eval RUN.)

MEASURED
"""

from __future__ import annotations

import argparse
import sys

import gymnasium
import numpy as np

import sail

CODES = (11, 6, 3)  # kinds of objects, colours, states of a door


class OneHot(gymnasium.ObservationWrapper):
    """The 7 x 7 cells in view, each with three codes, as zeros and ones: codes are names, not amounts."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 1, (7, 7, sum(CODES)), np.uint8)

    def observation(self, observation: dict) -> np.ndarray:
        """[7, 7, 20]; the direction and the mission are left out: the view turns along, and the mission never changes."""
        codes = np.moveaxis(observation["image"], -1, 0)
        return np.concatenate([np.eye(n, dtype=np.uint8)[code] for n, code in zip(CODES, codes, strict=True)], axis=-1)


def make_env(size: int = 5, **kwargs: object) -> gymnasium.Env:
    """What sail calls for each environment, with the settings env.kwargs."""
    import minigrid  # noqa: F401 (it registers its environments)

    return OneHot(gymnasium.make(f"MiniGrid-DoorKey-{size}x{size}-v0", **kwargs))


def main(steps: int = 80_000, out: str | None = None, seed: int = 0) -> None:
    """Trains and prints the curve and a verdict."""
    settings = {"optimiser": {"learning_rate": 5e-4}, "replay": {"n_step": 5}}
    settings |= {"exploration": {"decay_steps": 40_000}, "evaluation": {"episodes": 32}}
    settings |= {"learning": {"batch_size": 64, "target_period": 500}}
    run = sail.train("gym:minigrid_doorkey:make_env", steps=steps, seed=seed, out=out, **settings)
    for row in run.metrics():
        print(f"step {row['step']:>6,}  evaluation return {row['eval_return']:.2f}  after {row['seconds']:.0f} s")
    verdict = sail.load(run).evaluate(episodes=100)
    print(f"100 more episodes: a mean return of {verdict['mean_return']:.3f} in {verdict['mean_length']:.1f} steps each.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default=None, help="run folder (default: a new one under runs/)")
    try:
        main(**vars(parser.parse_args()))
    except sail.SailError as error:  # such as: minigrid is not installed
        sys.exit(str(error))
