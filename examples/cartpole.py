"""CartPole: SAIL-DQN on an environment from Gymnasium, solved (a mean return of at least 475) in half a minute.

python examples/cartpole.py

Measured on 2 CPU cores: 50,000 steps in about 20 s; 6 of 6 fresh seeds (11 to 16) ended at a mean return of 500.0.
Longer is not safer: of 9 seeds trained for 100,000 steps, all were at 500 after 50,000 and only 3 at the end.
"""

from __future__ import annotations

import argparse
import sys

import sail


def main(steps: int = 50_000, out: str | None = None, seed: int = 0) -> None:
    """Trains, prints the curve and the summary, and watches the agent balance the pole once."""
    run = sail.train(
        "gym:CartPole-v1",
        agent="sail-dqn",
        steps=steps,
        seed=seed,
        out=out,
        optimiser={"learning_rate": 5e-4},
        exploration={"end": 0.04, "decay_steps": 10_000},
        learning={"batch_size": 64, "starts": 1_000, "update_period": 2, "target_period": 500},
        evaluation={"period": 5_000, "episodes": 20},
    )
    for row in run.metrics():
        print(f"step {row['step']:>6,}  evaluation return {row['eval_return']:5.1f}  after {row['seconds']:.0f} s")
    summary = run.summary() or {}
    solved = "solved" if summary["solved_seeds"] else "not solved (475 is)"
    print(f"A mean return of {summary['mean_return']:.1f}: {solved}, in {summary['seconds']:.0f} s.")

    import gymnasium

    player, env = sail.load(run), gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    length, over = 0, False
    while not over:
        observation, _, terminated, truncated, _ = env.step(player.act(observation))
        length, over = length + 1, terminated or truncated
    print(f"One episode by hand: the pole stood for {length} steps.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default=None, help="run folder (default: a new one under runs/)")
    try:
        main(**vars(parser.parse_args()))
    except sail.SailError as error:  # such as: gymnasium is not installed
        sys.exit(str(error))
