"""Every base agent in the host loop: that it learns there, with priorities, curiosity and returns as they should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sail import replay
from sail.config import make_config
from sail.replay.ring import CLOSING, GOES_ON

pytest.importorskip("gymnasium")

from conftest import tiny_overrides
from host_training import Trained, assert_same_bits, tiny

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments

BASES = ("dqn", "c51", "iqn", "rainbow", "full-rainbow")


def newest_first(ring: replay.Ring, row: int) -> list[int]:
    """The slots of an environment that have been written, from the newest to the oldest."""
    length = ring.action.shape[1]
    return [int(ring.head[row] - 1 - back) % length for back in range(int(ring.size[row]))]


@pytest.mark.parametrize("base", BASES)
def test_every_base_learns_what_pays(base: str) -> None:
    """Of two states in turn, action 1 pays in the first."""
    explores = {"start": 1.0, "end": 0.0, "decay_steps": 800}
    exploration = {"start": 0.0, "end": 0.0} if base == "full-rainbow" else explores
    learning = {"num_envs": 4, "starts": 200, "update_period": 2, "target_period": 40, "max_block": 40}
    agent = {"discount": 0.5, "vmin": -2.0, "vmax": 2.0}
    config = tiny("Chain", f"sail-{base}", exploration=exploration, learning=learning, agent=agent)
    ring = Trained(config, 2400).ring()
    places = [(row, slot) for row in range(4) for slot in newest_first(ring, row)[:100]]
    chosen = [ring.action[place] for place in places if ring.observation[place][0] == 1]
    assert len(chosen) == 200 and np.mean(chosen) > 0.9


@pytest.mark.parametrize("agent", ["rainbow", "sail-full-rainbow"])
def test_priorities_follow_losses_and_closing_slots_have_none(agent: str) -> None:
    ring = Trained(tiny("Ragged", agent), 1200).ring()
    assert ring.priority is not None
    used = np.zeros(ring.action.shape, bool)
    for row in range(len(used)):
        used[row, newest_first(ring, row)] = True
    closing = used & (ring.end == CLOSING)
    assert closing.sum() > 10 and (ring.priority[closing] == 0).all()
    own = ring.priority[used & ~closing]
    assert own.min() > 0 and own.max() <= ring.top
    assert len(np.unique(own)) > 100


@pytest.mark.parametrize("returns", ["extrinsic", "total"])
def test_returns_are_of_the_reward_that_the_settings_name(returns: str) -> None:
    config = tiny("Ragged", "sail-iqn+rnd", rnd={"returns": returns, "scale": 0.1}, env={"clip_rewards": True})
    ring = Trained(config, 800).ring()
    assert ring.intrinsic is not None and np.abs(ring.intrinsic).max() > 0.01
    reward = ring.reward + (ring.intrinsic if returns == "total" else 0.0)
    found = 0
    for row in range(len(ring.action)):
        ahead: Any = None  # the return from the next step on, once its episode's end has been met
        for slot in newest_first(ring, row):
            if ring.end[row, slot] == CLOSING:
                continue
            if ring.end[row, slot] != GOES_ON:
                ahead = 0.0
            if ahead is None:
                assert ring.returns[row, slot] == replay.UNKNOWN_RETURN
            else:
                ahead = reward[row, slot] + config.agent.discount * ahead
                assert ring.returns[row, slot] == pytest.approx(ahead, abs=1e-4)
                found += 1
    assert found > 300


@pytest.mark.parametrize("base", ["iqn", "full-rainbow"])
def test_without_weight_a_rule_or_curiosity_changes_no_bit(base: str) -> None:
    def learned(agent: str, **changes: Any) -> Any:
        config = make_config("gym:host_envs:Ragged", agent, tiny_overrides(**changes))
        return Trained(config, 600).state.learner.params

    plain = learned(base)
    assert_same_bits(plain, learned(f"sail-{base}", rule={"alpha": 0.0}))
    assert_same_bits(plain, learned(f"{base}+rnd", rnd={"scale": 0.0}))
    with pytest.raises(AssertionError):
        assert_same_bits(plain, learned(f"sail-{base}"))
