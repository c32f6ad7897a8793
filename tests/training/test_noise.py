"""Environments of a noisy agent have noise of their own, or all would explore alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sail.config import make_config
from sail.training.program import make_agent, make_program

KEY = jax.random.key(3)
STATES = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def _quick_to_compile() -> Iterator[None]:
    """These programs run for a moment each, and would be optimised for long."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def agent(base: str, **parts: Any) -> Any:
    tree = {"agent": {"network": "mlp", "hidden": [8], **parts}, "exploration": {"start": 0.0, "end": 0.0}}
    return make_agent(make_config("kdt", base, tree), (5,), np.float32, 3)


@pytest.mark.parametrize("base", ["dqn", "c51", "iqn", "full-rainbow"])
def test_each_state_has_the_values_of_a_network_with_its_own_noise(base: str) -> None:
    own = agent(base, noisy=True)
    params = own.init(KEY)
    found = jax.jit(own.q_values_of_each)(params, STATES, KEY)
    for state, key, values in zip(STATES, jax.random.split(KEY, len(STATES)), found, strict=True):
        np.testing.assert_allclose(values, own.q_values(params, state, key), rtol=1e-4, atol=1e-5)
    alike = jax.jit(own.q_values_of_each)(params, jnp.tile(STATES[:1], (6, 1)), KEY)
    assert len(np.unique(np.asarray(alike), axis=0)) == 6


def test_how_much_noise_there_is_at_first_is_a_setting() -> None:
    usual, more = (agent("full-rainbow", **parts).init(KEY).head for parts in ({}, {"noise": 2.0}))
    for stream in ("advantage", "value"):
        for layer in ("hidden", "out"):
            few, many = (getattr(getattr(head, stream), layer).weight_deviation for head in (usual, more))
            np.testing.assert_allclose(many, 4 * few, rtol=1e-6)


@pytest.mark.parametrize("base", ["dqn", "iqn"])
def test_without_noise_they_are_those_of_all_states_together(base: str) -> None:
    own = agent(base)
    params = own.init(KEY)
    for key in (KEY, None):
        np.testing.assert_array_equal(own.q_values_of_each(params, STATES, key), own.q_values(params, STATES, key))


@pytest.mark.parametrize("env", ["kdt", "atari:Pong"])
@pytest.mark.parametrize(("base", "alike"), [("full-rainbow", False), ("rainbow", True)])
def test_environments_that_begin_alike_do_not_act_alike(env: str, base: str, alike: bool) -> None:
    """In both loops. Of 12 environments in the same state those with the same noise would choose the same action."""
    if env == "atari:Pong":
        pytest.importorskip("ale_py")
    tree: dict[str, Any] = {
        "agent": {"network": "mlp", "hidden": [8]},
        "exploration": {"start": 0.0, "end": 0.0},
        "replay": {"capacity": 480},
        "learning": {"num_envs": 12, "starts": 480, "batch_size": 4},
    }
    if env == "atari:Pong":
        tree["env"] = {"processes": 0, "give_way": False, "sticky": 0.0}
        tree["learning"]["num_pools"] = 1
    config = make_config(env, base, tree)
    program = make_program(config)
    try:
        done = program.advance(program.init(), 0, config.block_steps)
        actions = np.asarray(done.state.ring.action)[0, :, 0]
    finally:
        program.close()
    assert actions.shape == (12,)
    assert (len(set(actions.tolist())) == 1) == alike
