"""How often favourites change: the instrument, on cases whose answers are known."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sail.config import make_config
from sail.envs.kdt import KdtState
from sail.replay.ring import CLOSING, GOES_ON

sys.path.insert(0, str(Path(__file__).parents[1]))

from evidence import favourites, figures, tables
from evidence.favourites import Case, HeldProgram

SMALL = {
    "seeds": 2,
    "steps": 2_400,
    "evaluation": {"period": 1_200},
    "learning": {"starts": 400},
    "exploration": {"start": 0.1, "end": 0.1},
}
CELLS = 3


@pytest.fixture(scope="module")
def program() -> HeldProgram:
    return HeldProgram(make_config("kdt", "al-dqn", SMALL))


def copied(params: Any) -> Any:
    return jax.tree.map(jnp.copy, params)


def same(one: Any, other: Any) -> bool:
    return all(map(np.array_equal, jax.tree.leaves(one), jax.tree.leaves(other)))


def test_with_its_own_networks_it_is_training_as_ever(program: HeldProgram) -> None:
    block = program.config.block_steps
    usual, held, advance = program.init(), program.init(), program.a_block()
    for step in range(0, 5 * block, block):
        usual, _, _ = program.advance_arrays(usual, step, block)
        held, _ = advance(held, copied(program.params(held)), step)
    assert same(program.params(usual), program.params(held))
    assert not same(program.params(usual), program.params(program.init()))  # something was learned


def test_what_is_held_acts_and_the_own_networks_learn(program: HeldProgram) -> None:
    """With networks that want to go down everywhere, hardly anyone goes anywhere else, whatever was learned before."""
    state, block = program.init(), program.config.block_steps
    state, _, _ = program.advance_arrays(state, 0, 4 * block)
    before = copied(program.params(state))
    zeros = jax.tree.map(jnp.zeros_like, before)
    down = jax.tree.map(lambda x: x.at[:, 1].set(1.0) if x.shape == (2, 4) else x, zeros)  # the last layer's biases
    advance = program.a_block()
    for step in (4 * block, 5 * block):
        state, _ = advance(state, down, step)
    each = 2 * block // program.config.learning.num_envs
    head = np.asarray(state.ring.head)[..., None]
    actions = np.take_along_axis(np.asarray(state.ring.action), head - 1 - np.arange(each), axis=2)
    assert (actions == 1).mean() > 0.85  # 0.9 + 0.1 / 4
    assert not same(program.params(state), before)


def ring(places: list[list[list[int]]], head: list[list[int]], closing: tuple[int, ...] = ()) -> Any:
    """[seed][environment][slot] is a number of a state of three cells; -1 has not been written; some slots close."""
    seen = np.zeros((*np.shape(places), CELLS + 2), np.uint8)
    for at, place in np.ndenumerate(places):
        if place >= 0:
            seen[at] = favourites.every_state(CELLS)[place]
    end = np.full(np.shape(places), GOES_ON)
    end[..., list(closing)] = CLOSING
    return SimpleNamespace(ring=SimpleNamespace(observation=jnp.asarray(seen), end=end, head=np.asarray(head)))


def test_the_steps_of_a_block_are_counted_where_they_were_taken() -> None:
    """Two environments, so a block of 4 steps has two of each: the two slots before each head."""
    two_seeds = ring(
        [[[1, 2, 2, 5], [4, 4, 8, 8]], [[0, 0, 0, 0], [7, 3, -1, -1]]],
        [[3, 2], [1, 2]],  # the first seed's second environment has been in 4 twice
    )
    counts = favourites.visits(two_seeds, 4)
    assert counts[0].tolist() == [0, 0, 2, 0, 2, 0, 0, 0, 0]
    assert counts[1].tolist() == [2, 0, 0, 1, 0, 0, 0, 1, 0]  # slots 0 and 3 of the first: it goes round


def test_where_an_episode_closes_nobody_acts() -> None:
    state = ring([[[1, 2, 8, 5, 0], [1, 2, 8, 5, 0]]], [[4, 4]], closing=(2,))
    assert favourites.visits(state, 4)[0].tolist() == [0, 0, 2, 0, 0, 2, 0, 0, 0]


@pytest.mark.parametrize("cell", [(8, 2), (1, 7), (11, 11)])
@pytest.mark.parametrize("has_key, door_open", [(False, False), (True, False), (True, True)])
def test_a_state_that_is_visited_is_the_one_that_is_looked_at(
    program: HeldProgram, cell: tuple[int, int], has_key: bool, door_open: bool
) -> None:
    apples, flags = jnp.full(2, False), (jnp.array(has_key), jnp.array(door_open))
    seen = program.env.observe(KdtState(jnp.array(cell), *flags, apples, jnp.array(0)))
    slot = SimpleNamespace(observation=seen[None, None, None], end=np.zeros((1, 1, 1)), head=np.zeros((1, 1), int))
    (at,) = np.flatnonzero(favourites.visits(SimpleNamespace(ring=slot), 1)[0])  # type: ignore[arg-type]
    np.testing.assert_array_equal(favourites.every_state(len(seen) - 2)[at], seen)


def test_shaking_multiplies_every_weight_by_about_one() -> None:
    params = {"a": jnp.full((2, 500), 3.0), "b": jnp.full((2, 500), -2.0)}
    once, again, later = (favourites.shake(params, 0.1, step) for step in (1, 1, 2))
    assert same(once, again) and not same(once, later)
    for name, leaf in once.items():
        factor = np.asarray(leaf / params[name])
        assert abs(factor.mean() - 1) < 0.02 and abs(factor.std() - 0.1) < 0.02
    assert not np.array_equal(once["a"][0], once["a"][1])  # each seed its own


def test_favourites_change_when_they_are_renewed() -> None:
    def changed(case: Case) -> list[float]:
        rows = list(favourites.measure(case, seeds=2, steps=4_000, every=2_000))
        assert [row["step"] for row in rows] == [2_000, 4_000]
        return [row["changed"] for row in rows]

    assert changed(Case("dqn", held=4_000)) == [0.0, 0.0]
    usual, shaken = changed(Case("dqn")), changed(Case("dqn", shaken=0.5))
    assert usual[0] == 0.0 < shaken[0]  # before learning starts only shaking changes anything
    assert usual[1] > 0.0


def test_what_is_done_after_the_find_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody learns, all states are visited alike, and both seeds find the treasure between 1,000 and 2,000 steps."""

    def a_block(program: HeldProgram) -> Any:
        def advance(state: Any, acting: Any, step: int) -> Any:
            found = np.full((2, 1, 1, 1), step >= 1_000)
            return state, SimpleNamespace(ended=found, success=found)

        return advance

    monkeypatch.setattr(HeldProgram, "a_block", a_block)
    monkeypatch.setattr(favourites, "visits", lambda state, block: np.ones((2, favourites.LAYERS * 103), int))
    rows = list(favourites.measure(Case("dqn"), every=1_000, seeds=2, steps=3_000))
    program = HeldProgram(favourites.config_of(Case("dqn"), seeds=2))
    everywhere = program.agent.prepare(jnp.asarray(favourites.every_state(103)))
    q = np.asarray(jax.vmap(lambda own: program.agent.q_values(own, everywhere))(program.params(program.init())))
    best = q.max(-1, keepdims=True)
    second = np.where(q == best, -np.inf, q).max(-1)
    assert [row["reached"] for row in rows] == [0, 2, 2]
    assert [row["changed"] for row in rows] == [0.0, 0.0, None]
    assert rows[0]["action_gap"] == rows[1]["action_gap"] == pytest.approx((best[..., 0] - second).mean(), rel=1e-5)
    assert rows[2]["action_gap"] is None


def test_cases_are_summed_up_and_drawn(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"agent": agent, "alpha": alpha, "held": held, "shaken": shaken, "seeds": 4, "step": step, "reached": 1}
        | {"low": 0.1, "high": 0.5, "changed": changed * step / 10_000, "action_gap": 0.1, "seconds": 1.0}
        for agent, alpha, held, shaken, changed in (
            ("dqn", None, 0, 0.0, 0.4),
            ("al-dqn", 0.9, 0, 0.0, 0.2),
            ("al-dqn", 0.5, 0, 0.0, 0.3),
            ("sail-dqn", 0.9, 0, 0.0, 0.2),
            ("dqn", None, 5_000, 0.0, 0.1),
            ("al-dqn", 0.9, 0, 0.1, 0.2),
        )
        for step in (40_000, 10_000, 30_000, 20_000)
    ]
    tables.write(tmp_path / "kdt" / "favourites.csv", {"study": "by hand"}, rows)
    found = list(favourites.by_case(tables.read(tmp_path / "kdt" / "favourites.csv")))
    assert [(agent, label, last["step"]) for agent, label, last, _ in found] == [
        ("dqn", "", 40_000),
        ("al-dqn", "0.9", 40_000),
        ("al-dqn", "0.5", 40_000),
        ("sail-dqn", "", 40_000),
        ("dqn", "5,000", 40_000),
        ("al-dqn", "0.1", 40_000),
    ]
    changed = [means["changed"] for *_, means in found]
    assert changed == pytest.approx([1.4, 0.7, 1.05, 0.7, 0.35, 0.7])  # of steps 30,000 and 40,000
    assert [path.name for path in figures.draw_all(tmp_path, tmp_path / "pictures")] == ["kdt_favourites.png"]
