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

sys.path.insert(0, str(Path(__file__).parents[1]))

from evidence import favourites, figures, tables
from evidence.favourites import Case, HeldProgram

SMALL = {"seeds": 2, "steps": 2_400, "evaluation": {"period": 1_200}, "learning": {"starts": 400}}


@pytest.fixture(scope="module")
def program() -> HeldProgram:
    return HeldProgram(make_config("kdt", "al-dqn", SMALL))


def test_networks_held_for_a_block_are_training_as_it_is(program: HeldProgram) -> None:
    block = program.config.block_steps
    usual, held, one_block = program.init(), program.init(), program.held(block)
    for step in range(0, 5 * block, block):
        usual, _, _ = program.advance_arrays(usual, step, block)
        held, _ = one_block(held, jax.tree.map(jnp.copy, program.params(held)), step)
    before = program.params(program.init())
    for a, b, c in zip(*map(jax.tree.leaves, (program.params(usual), program.params(held), before)), strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)  # something was learned


def test_what_is_held_acts(program: HeldProgram) -> None:
    """With networks that want to go down everywhere, hardly anyone goes anywhere else."""
    zeros = jax.tree.map(jnp.zeros_like, program.params(program.init()))
    down = jax.tree.map(lambda x: x.at[:, 1].set(1.0) if x.shape == (2, 4) else x, zeros)  # the last layer's biases
    greedy = HeldProgram(make_config("kdt", "al-dqn", {**SMALL, "exploration": {"start": 0.1, "end": 0.1}}))
    state, _ = greedy.held(400)(greedy.init(), down, 0)
    actions = np.asarray(state.ring.action)[:, :, :50]
    assert (actions == 1).mean() > 0.85  # 0.9 + 0.1 / 4


def test_every_state_is_what_the_environment_shows(program: HeldProgram) -> None:
    shown = np.asarray(favourites.every_state(program))
    cells = program.observation_shape[0] - 2
    assert shown.shape == (2 * cells, cells + 2) and len(np.unique(shown, axis=0)) == 2 * cells
    no = jnp.array(False)
    for has_key in (False, True):
        state = KdtState(jnp.array([8, 2]), jnp.array(has_key), no, jnp.full(2, False), jnp.array(0))
        seen = np.asarray(program.env.observe(state))
        assert (shown == seen).all(axis=1).sum() == 1


def ring(rows: list[list[list[int]]], head: list[list[int]]) -> Any:
    """Of observations with 3 cells and two flags: [seed][environment][slot] is a cell, + 10 with the key, or -1."""
    seen = np.zeros((*np.shape(rows), 5), np.uint8)
    for at, place in np.ndenumerate(rows):
        if place >= 0:
            seen[*at, place % 10] = 1
            seen[*at, 3] = place >= 10
    return SimpleNamespace(ring=SimpleNamespace(observation=jnp.asarray(seen), head=jnp.asarray(head)))


def test_where_a_seed_has_been_is_read_from_its_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(favourites, "CLOSINGS", 1)
    # Two environments: the last 2 steps are one of each, so two slots of each are looked at, one of them to spare.
    state = ring([[[0, 0, 1, 2], [11, -1, -1, -1]]], [[3, 1]])
    assert favourites.visited(state, 2).tolist() == [[True, True, False, False, True, False]]
    around = ring([[[10, 0, 1, 2], [1, 1, 1, 1]]], [[1, 0]])  # slots 0 and 3 of the first
    assert favourites.visited(around, 2).tolist() == [[False, True, True, True, False, False]]


def test_means_are_over_the_states_that_were_seen() -> None:
    seen = np.array([[True, True, False], [True, False, False]])
    assert favourites._over(seen, np.array([[1.0, 0.0, 9.0], [1.0, 9.0, 9.0]])) == 0.75


def test_favourites_that_are_held_do_not_change() -> None:
    rows = list(favourites.measure(Case("dqn", None, 4_000), seeds=2, steps=4_000, every=2_000))
    assert [row["step"] for row in rows] == [2_000, 4_000]
    assert [row["changed"] for row in rows] == [0.0, 0.0]
    assert 0 < rows[0]["seen"] <= rows[1]["seen"]
    renewed = list(favourites.measure(Case("dqn", None, 1_000), seeds=2, steps=4_000, every=2_000))
    assert renewed[1]["changed"] > 0


def test_cases_are_summed_up_and_drawn(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"agent": agent, "alpha": alpha, "held": held, "seeds": 4, "step": step, "reached": 1, "low": 0.1, "high": 0.5}
        | {"changed": changed * step / 10, "action_gap": 0.1, "seen": 5.0, "seconds": 1.0}
        for agent, alpha, held, changed in (
            ("dqn", None, 0, 0.4),
            ("al-dqn", 0.9, 0, 0.2),
            ("al-dqn", 0.5, 0, 0.3),
            ("sail-dqn", 0.9, 0, 0.2),
            ("dqn", None, 5_000, 0.1),
        )
        for step in (30, 10, 20)
    ]
    tables.write(tmp_path / "kdt" / "favourites.csv", {"study": "by hand"}, rows)
    found = list(favourites.by_case(tables.read(tmp_path / "kdt" / "favourites.csv")))
    assert [(agent, label, last["step"]) for agent, label, last, _ in found] == [
        ("dqn", "", 30),
        ("al-dqn", "0.9", 30),
        ("al-dqn", "0.5", 30),
        ("sail-dqn", "", 30),
        ("dqn", "5,000", 30),
    ]
    assert [means["changed"] for *_, means in found] == pytest.approx([1.0, 0.5, 0.75, 0.5, 0.25])  # of steps 20 and 30
    assert [path.name for path in figures.draw_all(tmp_path, tmp_path / "pictures")] == ["kdt_favourites.png"]
