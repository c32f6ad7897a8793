"""What is packed for the device is what comes out there."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from sail.envs.host import Rows
from sail.training.parcels import pack, unpack


@pytest.mark.parametrize("with_closing", [False, True])
def test_rows_survive_the_journey(with_closing: bool) -> None:
    rng = np.random.default_rng(0)
    seeds, width = 3, 17
    flags = [rng.random((seeds, width)) < 0.5 for _ in range(4)]
    rewards = rng.standard_normal((seeds, width)).astype(np.float32)
    rewards[0, :4] = [np.inf, -0.0, 1e-40, 3e38]
    observation = rng.integers(0, 256, (seeds, width, 5, 2), np.uint8)
    closing = observation[::-1] if with_closing else None
    env = rng.integers(0, 2**30, (seeds, width)).astype(np.int32)
    rows = Rows(env, observation, rewards, *flags, closing)
    rounds, epsilon = np.array([0, 5, 2**31 - 1], np.int32), np.array([1.0, 0.01, 0.123456], np.float32)
    out, out_rounds, out_epsilon = jax.jit(jax.vmap(unpack))(pack(rows, rounds, epsilon))
    for name, sent, arrived in zip(Rows._fields, rows, out, strict=True):
        if sent is None:
            assert arrived is None
        else:
            assert arrived.dtype == sent.dtype, name
            np.testing.assert_array_equal(np.asarray(arrived).view(np.uint8), np.ascontiguousarray(sent).view(np.uint8))
    np.testing.assert_array_equal(out_rounds, rounds)
    np.testing.assert_array_equal(out_epsilon, epsilon)
