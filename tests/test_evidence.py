"""The evidence's tables, from run folders written by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sail.config import make_config
from sail.studies.folder import SCHEMA
from sail.training.run_folder import RunFolder

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import figures, gridworlds, tables  # noqa: E402

EMPTY: dict[str, Any] = {"definition": {}, "cells": []}
SOURCE = {
    "commit": "c0ffee",
    "command": "sail train kdt",
    "started": "2026-01-01",
    "versions": {"jax": "1"},
    "hardware": {"cpu": "a CPU", "cores": 2, "devices": ["cpu"]},
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two cells of four seeds, one done and one not; and a seed that was added to the first later, for fewer steps."""
    (tmp_path / "study.yaml").write_text("title: A study\n")
    (tmp_path / "study.json").write_text(json.dumps({"schema": SCHEMA, "name": "kdt/some"} | EMPTY))
    for agent in ("dqn", "sail-dqn"):
        config = make_config("kdt", agent, {"seeds": 4, "seed": 10})
        run = RunFolder.create(tmp_path / "cells" / "kdt" / f"{agent},env.slip=0.1" / "seeds10-13", config, SOURCE)
        for step in (100, 200):
            rows = [
                {"step": step, "seed": 10 + i, "eval_success": float(i < step // 100), "stale_share": 0.1 * i}
                | {"q_key": float(i), "max_q_key": 1.0, "seconds": step / 10}
                for i in range(4)
            ]
            run.append("metrics.jsonl", rows)
        run.append(
            "episodes.jsonl",
            [
                {"step": 50, "seed": 10, "return": 0.0, "success": False},
                {"step": 60, "seed": 11, "return": 1.0, "success": True},
                {"step": 90, "seed": 12, "return": 1.0, "success": True},
                {"step": 95, "seed": 12, "return": 1.0, "success": True},
                {"step": 150, "seed": 13, "return": 1.0, "success": True},
            ],
        )
        if agent == "dqn":
            (run.path / "DONE").write_text("{}")
    later = tmp_path / "cells" / "kdt" / "dqn,env.slip=0.1" / "seed14"
    run = RunFolder.create(later, make_config("kdt", "dqn", {"seeds": 1, "seed": 14}), SOURCE | {"commit": "beef"})
    run.append("metrics.jsonl", [{"step": 100, "seed": 14, "eval_success": 0.0, "q_key": None, "seconds": 5.0}])
    (run.path / "DONE").write_text("{}")
    return tmp_path


def test_a_study_is_summed_up(study: Path) -> None:
    to = study / "results" / "kdt" / "stale_returns.csv"
    assert "2 of 3 cells" in gridworlds.collect(study, to)
    rows = tables.read(to)
    assert [(row["agent"], row["settings"], row["step"]) for row in rows] == [
        ("dqn", "env.slip=0.1", 100),
        ("dqn", "env.slip=0.1", 200),
    ]
    first, second = rows
    assert (first["seeds"], first["solved"], first["share"]) == (5, 1, 0.2)
    assert (second["seeds"], second["solved"], second["share"]) == (4, 2, 0.5)
    # Wilson for 2 of 4: 0.5 -+ 1.96 * sqrt(0.0625 + 1.96^2 / 64) / (1 + 1.96^2 / 4).
    assert (second["low"], second["high"]) == (pytest.approx(0.15004, abs=1e-4), pytest.approx(0.84996, abs=1e-4))
    assert (first["reached"], second["reached"]) == (2, 3)
    assert (first["kept"], second["kept"]) == (0, 1)  # seed 11 at step 200; seed 10 was not seen to reach the aim
    # Of five seeds, a tenth is one, and half are three.
    assert (first["first_10"], first["first_50"], first["first_90"]) == (60, 150, None)
    # Of the two that have reached the aim by step 100, one solves it, at step 200: 140 after it had come there. (Seed
    # 10 solves it too, but never came there in training.)
    assert (first["made_10"], first["made_50"], first["made_90"]) == (140, 140, None)
    assert first["stale_share"] == pytest.approx(0.15)
    assert (first["q_key"], first["q_key_10"], first["q_key_90"]) == (1.5, pytest.approx(0.3), pytest.approx(2.7))
    assert first["key_preferred"] == 0.75
    assert first["action_gap"] is None
    assert (first["seconds"], second["seconds"], first["commit"]) == (15, 20, "beef; c0ffee")
    assert tables.about(to)["hardware"] == "a CPU, 2 cores, cpu"
    assert tables.about(to)["command"] == "sail study run kdt/some; a cell of it: sail train kdt"


def test_steps_are_counted_from_the_first_success_of_the_first_half() -> None:
    first, solved = np.array([30.0, 100.0, 80.0, 101.0, np.inf]), np.array([200.0, np.inf, 50.0, 200.0, 150.0])
    np.testing.assert_array_equal(gridworlds.steps_made(first, solved, 200), [170, np.inf, 0])


def test_nothing_done_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="No cell"):
        gridworlds.collect(tmp_path, tmp_path / "x.csv")


def test_figures_are_drawn_from_the_files(study: Path) -> None:
    gridworlds.collect(study, study / "results" / "kdt" / "stale_returns.csv")
    made = figures.draw_all(study / "results", study / "pictures")
    assert {path.name for path in made} == {"kdt_solved.png", "kdt_stale_share.png", "kdt_key_value.png"}
    assert all(path.stat().st_size > 5_000 for path in made)


@pytest.mark.parametrize("path", sorted((ROOT / "results").rglob("*.csv")), ids=lambda path: path.stem)
def test_every_file_says_what_made_it(path: Path) -> None:
    """The commit may stand in each row; what others published has a source instead."""
    says = tables.about(path).keys() | tables.read(path)[0].keys()
    assert says.issuperset(
        {"source"} if path.stem.startswith("published") else {"commit", "command", "hardware", "seconds"}
    )


def test_every_committed_figure_can_be_drawn_again(tmp_path: Path) -> None:
    for name in ("results.md", "baselines.md"):
        (tmp_path / name).write_text((ROOT / "docs" / name).read_text())
    command = [sys.executable, "-m", "evidence", "figures", "--to", str(tmp_path), "--docs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    committed = {path.name for path in (ROOT / "docs" / "images" / "results").glob("*.png")}
    assert committed <= {path.name for path in tmp_path.iterdir()}
