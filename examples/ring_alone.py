"""The replay ring without the rest of sail: returns appear when an episode ends.

python examples/ring_alone.py
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sail import replay


def block(observations: list[float], rewards: list[float], terminated: list[bool], first_age: int) -> replay.Steps:
    """Steps of one environment as a [K, 1] block."""
    column = jnp.array(observations, jnp.float32)[:, None, None]  # [K, E, observation]
    num_steps = len(rewards)
    return replay.Steps(
        observation=column[:-1],
        action=jnp.zeros((num_steps, 1), jnp.int32),
        reward=jnp.array(rewards, jnp.float32)[:, None],
        terminated=jnp.array(terminated)[:, None],
        truncated=jnp.zeros((num_steps, 1), bool),
        next_observation=column[1:],
        age=first_age + jnp.arange(num_steps, dtype=jnp.int32)[:, None],
    )


def main() -> None:
    """Two blocks of one episode: before it ends, and after."""
    ring = replay.init(observation_shape=(1,), observation_dtype=jnp.float32, num_envs=1, length=16)
    ring = replay.extend(ring, block([0, 1, 2], [0.0, 0.0], [False, False], first_age=0))
    ring = replay.fill_returns(ring, discount=0.9)
    print("while it runs:", ring.returns[0, :2])
    ring = replay.extend(ring, block([2, 3, 4], [0.0, 1.0], [False, True], first_age=2))
    ring = replay.fill_returns(ring, discount=0.9)
    print("when it ended:", ring.returns[0, :4])

    slots = replay.sample(ring, jax.random.key(0), 3)
    batch = replay.gather(ring, slots, discount=0.9)
    print("a batch:", batch.observation[:, 0], "->", batch.next_observation[:, 0], "with returns", batch.returns)


if __name__ == "__main__":
    main()
