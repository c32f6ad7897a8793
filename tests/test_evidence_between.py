"""A rule of the evidence's own: returns count above the best value alone."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import between, tables  # noqa: E402

from sail import rules  # noqa: E402

FINITE = st.floats(-5, 5, width=32)


@pytest.fixture(autouse=True)
def rules_as_before():
    """The rule is known to the evidence's own commands and to nobody else."""
    yield
    rules.RULES.pop(between.ABOVE, None)


@pytest.mark.parametrize(
    ("action", "observed", "bracket"),
    [
        (1, 1.25, 0.25),  # above the best value, 1: imitated
        (1, 0.75, -0.5),  # between 0.5 and 1, where SAIL has -0.25
        (1, 0.25, -0.5),  # stale: Advantage Learning, as SAIL is then
        (0, 0.75, 0.0),  # the best action is never pushed
        (0, 1.25, 0.25),
        (0, 3.0, 1.0),  # clipped
        (1, rules.UNKNOWN_RETURN, -0.5),
    ],
)
def test_by_hand(action: int, observed: float, bracket: float) -> None:
    between.register()
    q = np.array([1.0, 0.5], np.float32)
    ours = rules.bonus(between.ABOVE, q, np.array(action), np.array(observed), alpha=0.9)
    assert ours == pytest.approx(0.9 * bracket)


@given(arrays(np.float32, (3, 4), elements=FINITE), arrays(np.float32, 3, elements=FINITE))
def test_it_is_sail_but_for_returns_in_between(q: np.ndarray, observed: np.ndarray) -> None:
    between.register()
    actions = np.array([0, 1, 3])
    ours, sails, als = (rules.bonus(name, q, actions, observed, clip=None) for name in (between.ABOVE, "sail", "al"))
    taken, best = q[np.arange(3), actions], q.max(-1)
    inside = (taken < observed) & (observed <= best)
    np.testing.assert_array_equal(ours[~inside], sails[~inside])
    np.testing.assert_array_equal(ours[inside], als[inside])
    assert (sails[inside] >= als[inside]).all()


def test_cells_run_once_and_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    between.register()
    everything = between.cells()
    assert len({cell.name for cell in everything}) == len(everything) == 9
    assert {cell.seed for cell in everything} == {1000} and {cell.seeds for cell in everything} == {40, 300}
    assert all(cell.config().rule.name == cell.agent.removesuffix("-dqn") for cell in everything if "-" in cell.agent)
    few = [
        replace(cell, settings=cell.settings | {"learning.starts": 100, "evaluation.period": 200})
        for cell in between.cells(2, steps=400)
        if cell.env == "deep-sea" and cell.agent in ("sail-dqn", "above-dqn")
    ]
    to = tmp_path / "between.csv"
    assert "3 of 3" in between.collect(to, tmp_path / "runs", few)
    rows = [row for row in tables.read(to) if row["step"] == 400]
    assert {(row["agent"], row["settings"]) for row in rows} == {
        ("sail-dqn", None),
        ("sail-dqn", "rule.clip=None"),
        ("above-dqn", None),
    }
    assert all(row["seeds"] == 2 and row["advantage_part"] <= 0 <= row["imitation_part"] for row in rows)
    done = sorted((tmp_path / "runs").rglob("DONE"))
    times = [path.stat().st_mtime_ns for path in done]
    (done[0].parent / "DONE").unlink()  # as if it had been cut off
    between.collect(to, tmp_path / "runs", few)
    again = [path.stat().st_mtime_ns for path in done]
    assert again[0] > times[0] and again[1:] == times[1:]
