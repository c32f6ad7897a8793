"""The evidence on Atari games, from run folders and files written by hand."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sail.config import make_config
from sail.games import GROUPS
from sail.training.run_folder import RunFolder

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import atari, claims, dopamine, figures, page, tables  # noqa: E402

EMPTY_PAGE = "".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in ("claims", "scores", "dopamine"))


def make_run(
    folder: Path, game: str = "Pong", agent: str = "dqn", scores: tuple[float, ...] = (), seeds: int = 1
) -> None:
    """A run folder with a phase of a million frames for each score."""
    overrides = {"steps": 250_000 * max(len(scores), 1), "seeds": seeds}
    command = "sail train" + (" --preset dopamine --steps 1" if agent == "iqn" else "")
    source = {"command": command, "commit": "abc", "hardware": {"cpu": "a"}}
    run = RunFolder.create(folder, make_config(f"atari:{game}", agent, overrides), source)
    for phase, score in enumerate(scores, 1):
        rows = [
            {"step": 250_000 * phase, "seed": seed, "episodes": 4, "train_return": score + seed, "max_q": 0.5}
            for seed in range(seeds)
        ]
        run.append("metrics.jsonl", rows)


def test_runs_become_files_with_their_origin(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", scores=(-20.0, -10.0), seeds=2)
    make_run(tmp_path / "runs" / "b", agent="sail-dqn")
    make_run(tmp_path / "runs" / "c", agent="iqn", scores=(3.0,))
    made = atari.collect(tmp_path / "runs", tmp_path / "to")
    assert {path.name for path in made} == {"Pong_dqn_seed0.csv", "Pong_dqn_seed1.csv", "Pong_iqn@dopamine_seed0.csv"}
    lines = (tmp_path / "to" / "Pong_dqn_seed1.csv").read_text().splitlines()
    assert {"# commit: abc", "# command: sail train", "# hardware: {'cpu': 'a'}"} <= set(lines)
    first, second, third = atari.read_all(tmp_path / "to")
    assert (first.game, first.agent, first.seed, first.frames) == ("Pong", "dqn", 0, 2_000_000)
    assert [row["mean_return"] for row in second.rows] == [-19, -9]
    assert third.agent == "iqn@dopamine"
    found = atari.by_agent([first, second, third])
    np.testing.assert_array_equal(found["dqn"]["Pong"], [[-20, -10], [-19, -9]])


def test_a_shorter_curve_does_not_replace_a_longer_one(tmp_path: Path) -> None:
    make_run(tmp_path / "long" / "a", scores=(1.0, 2.0, 3.0))
    make_run(tmp_path / "short" / "a", scores=(9.0,))
    assert atari.collect(tmp_path / "long", tmp_path / "to")
    assert not atari.collect(tmp_path / "short", tmp_path / "to")
    assert atari.read_all(tmp_path / "to")[0].frames == 3_000_000


def test_a_score_is_that_of_the_episodes_of_the_last_million_frames() -> None:
    rows: list[dict[str, Any]] = [
        {"frames": 1_000_000, "mean_return": 9.0, "episodes": 5},
        {"frames": 1_500_000, "mean_return": 1.0, "episodes": 1},
        {"frames": 2_000_000, "mean_return": 4.0, "episodes": 2},
        {"frames": 3_000_000, "mean_return": None, "episodes": 0},
    ]
    assert atari.score_at(rows, 2_000_000) == 3.0
    assert atari.score_at(rows, 3_000_000) is None  # no episode ended
    assert atari.score_at(rows[:2], 2_000_000) is None  # not there yet
    curve = atari.Curve("Pong", "dqn", 0, rows, {})
    np.testing.assert_array_equal(atari.by_agent([curve])["dqn"]["Pong"], [[9.0, 3.0, np.nan]])


def dopamine_folder(folder: Path, *runs: list[float]) -> Path:
    """Files as Dopamine publishes them; the last run of each agent has one iteration too many."""
    rows = [
        {"Iteration": i, "Value": value, "Agent": agent}
        for agent in ("DQN", "C51")
        for curve in (*runs[:-1], [*runs[-1], 0.0])
        for i, value in enumerate(curve)
    ]
    (folder / "pong.json").write_text(json.dumps(rows))
    return folder


def test_published_points_come_from_the_first_source_that_has_them(tmp_path: Path) -> None:
    means = tmp_path / "means.json"
    means.write_text(json.dumps({"legacy/DQN": {"Pong": [-20.0, -12.5, -7.0], "Breakout": [1.0]}}))
    folder = dopamine_folder(tmp_path, [-20.0, -12.0], [-19.0, -8.0])
    dopamine.excerpt([folder, means], ["Pong", "Breakout"], tmp_path / "published.csv")
    rows = tables.read(tmp_path / "published.csv")
    assert [tuple(row.values()) for row in rows] == [
        ("Pong", "dqn", 1_000_000, 2, -20, -19.5, -19),
        ("Pong", "dqn", 2_000_000, 2, -12, -10, -8),
        ("Pong", "dqn", 3_000_000, 1, None, -7, None),
        ("Breakout", "dqn", 1_000_000, 1, None, 1, None),
    ]


@pytest.mark.parametrize(
    ("ours", "low", "how"),
    [(-9.0, -12.0, "inside"), (-7.9, -12.0, "no"), (-8.1, None, "near"), (-7.9, None, "no"), (-11.9, None, "near")],
)
def test_a_score_agrees_inside_the_published_runs_or_near_their_mean(ours: float, low: float | None, how: str) -> None:
    curve = atari.Curve("Pong", "dqn", 0, [{"frames": 10**6, "mean_return": ours, "episodes": 2}], {})
    point = {
        "game": "Pong",
        "agent": "dqn",
        "frames": 10**6,
        "runs": 2,
        "low": low,
        "mean": -10.0,
        "high": low and -8.0,
    }
    (row,) = dopamine.compare([curve], [point], 10**6)
    assert (row["how"], row["agrees"], row["seeds"]) == (how, how != "no", 1)
    assert dopamine.compare([curve], [point], 2 * 10**6) == []


def test_a_ratio_is_of_what_both_have() -> None:
    x, y = np.array([[2.0, 4.0, 100.0], [4.0, np.nan, 100.0]]), np.array([[1.0, 2.0]])
    # Over seeds x is 3, 4; y is 1, 2: gains 2 and 2 over a mean of 1.5.
    assert claims.ratio(x, y) == pytest.approx(4 / 3)
    assert claims.ratio(-y, -x[:, :2]) == pytest.approx(2 / 3.5)  # less negative is better
    assert claims.ratio(x, 0 * y) == math.inf
    assert claims.ratio(0 * y, 0 * y) == 0


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [([0.5] * 16, claims.HOLDS), ([-0.5] * 16, claims.DOES_NOT), ([0.5] * 9 + [-0.5] * 7, claims.LEANS)],
)
def test_verdicts(gains: list[float], verdict: str) -> None:
    pairs = [(np.array([[1 + gain]]), np.array([[1.0]])) for gain in gains]
    found = claims.over_games(pairs)
    assert found.verdict == verdict
    assert found.average.startswith(f"{100 * np.mean(gains):+.0f} % [")


def test_a_base_of_zero_counts_in_the_median_alone() -> None:
    pairs = [(np.array([[1.5]]), np.array([[1.0]]))] * 3 + [(np.array([[5.0]]), np.array([[0.0]]))]
    found = claims.over_games(pairs)
    assert found.average.startswith("+50 %") and found.median.startswith("+50 %")


def write_curve(folder: Path, game: str, agent: str, scores: list[float], seed: int = 0) -> None:
    rows = [
        {"frames": 10**6 * i, "mean_return": score, "episodes": 3} | dict.fromkeys(atari.LOGGED[1:])
        for i, score in enumerate(scores, 1)
    ]
    tables.write(folder / "atari" / f"{game}_{agent}_seed{seed}.csv", {"commit": "abc"}, rows)


def test_the_page_says_what_the_files_say(tmp_path: Path) -> None:
    text = page.filled(EMPTY_PAGE, tmp_path, tmp_path)
    assert (
        "| SAIL-DQN over DQN, 16 hard-exploration games | average +654.3 %, median +71.8 % |  |  |  | not tested |"
        in text
    )
    assert text.count("No runs yet.") == 2
    for game in GROUPS["hard-exploration"]:
        for agent, score in (("dqn", 10.0), ("sail-dqn", 15.0)):
            write_curve(tmp_path, game, agent, [score, score])
    write_curve(tmp_path, "Venture", "dqn", [14.0, 14.0], seed=1)
    tables.write(
        tmp_path / "atari" / "published.csv",
        {"source": "nowhere"},
        [{"game": "Alien", "agent": "dqn", "frames": 5 * 10**6, "runs": 1, "low": None, "mean": 9.0, "high": None}],
    )
    text = page.filled(text, tmp_path, tmp_path)
    assert "average +48 % [" in text  # 15 games of +50 %, and 15 over the mean of 10 and 14
    assert "median +50 % [" in text
    assert "| 2M | 1 | holds |" in text  # seeds: both agents have one at least everywhere
    assert "| Venture | 12 (2M, 2 seeds) |  | 15 (2M, 1 seed) |  |" in text
    assert page.filled(text, tmp_path, tmp_path) == text
    write_curve(tmp_path, "Alien", "dqn", [10.0] * 5)
    assert "| Alien | dqn | 5M | 10.0 | 1 | 9.0 | mean alone | within 20 % |" in page.filled(text, tmp_path, tmp_path)
    with pytest.raises(SystemExit, match="claims"):
        page.filled("", tmp_path, tmp_path)


def test_curves_are_drawn(tmp_path: Path) -> None:
    write_curve(tmp_path, "Pong", "dqn", [-20.0, -10.0])
    write_curve(tmp_path, "Freeway", "sail-dqn", [1.0, 3.0, 2.0])
    assert [path.name for path in figures.draw_all(tmp_path, tmp_path / "pictures")] == ["atari_curves.png"]


def test_the_committed_page_is_up_to_date() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    assert page.filled(text, ROOT / "results", ROOT / "benchmarks" / "results") == text
