"""Train SAIL-DQN from Python, look at what it logged, and play the agent it became.

python examples/train_and_play.py
"""

from __future__ import annotations

import argparse
import sys

import jax

import sail


def main() -> None:
    """Trains, prints the curve, and walks one episode by hand."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--out", default=None, help="run folder (default: a new one under runs/)")
    options = parser.parse_args()

    run = sail.train("kdt", agent="sail-dqn", seed=0, steps=options.steps, out=options.out)
    for row in run.metrics():
        print(f"step {row['step']:>7,}  return {row['eval_return']:.2f}  active share {row['active_share'] or 0:.0%}")

    player = sail.load(run)
    env = sail.envs.make("kdt")
    state, score, over = env.reset(jax.random.key(0)), 0.0, False
    steps = 0
    while not over:
        action = player.act(env.observe(state))
        state, outcome = env.step(state, jax.numpy.asarray(action), jax.random.key(steps))
        score, steps = score + float(outcome.reward), steps + 1
        over = bool(outcome.terminated | outcome.truncated)
    print(f"One greedy episode: {steps} steps, return {score:.2f}.")


if __name__ == "__main__":
    try:
        main()
    except sail.SailError as error:  # such as: the folder is there already
        sys.exit(str(error))
