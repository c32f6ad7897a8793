"""How soon favourites change: the instrument, on learners that change at once and on one that never does."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium")

sys.path.insert(0, str(Path(__file__).parents[2]))

from evidence import churn, tables
from host_training import tiny

from sail.training.api import train_config

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments


@pytest.mark.parametrize(("rate", "changes"), [(1.0, True), (1e-12, False)])
def test_favourites_change_as_fast_as_the_network_learns(tmp_path: Path, rate: float, changes: bool) -> None:
    optimiser = {"name": "adam", "learning_rate": 1e-3}
    run = train_config(tiny("Ragged", "dqn", optimiser=optimiser, seeds=2), out=tmp_path / "run")
    text = (run.path / "config.yaml").read_text()
    (run.path / "config.yaml").write_text(text.replace("learning_rate: 0.001\n", f"learning_rate: {rate}\n", 1))
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    to = tmp_path / "churn.csv"
    assert churn.collect([run.path], to, after=(1, 20), capacity=400) == f"{to}: 1 run."
    rows = tables.read(to)
    assert [(row["game"], row["agent"], row["updates"]) for row in rows] == [
        ("host_envs:Ragged", "dqn", updates) for updates in (1, 20)
    ]
    assert all(row["frames"] == 4 * run.config.steps and row["states"] == churn.STATES for row in rows)
    assert (rows[1]["changed"] > 0) == changes and (changes or rows[0]["changed"] == 0)
    assert before == {path: path.read_bytes() for path in before}  # the run stays as it is


def test_the_gap_by_hand() -> None:
    assert churn.gap(np.array([[1.0, 3.0, 2.5], [-1.0, -1.0, -4.0]])) == pytest.approx(0.25)
