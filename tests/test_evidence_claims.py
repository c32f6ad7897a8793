"""How claims are judged, by numbers worked out by hand."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from curve_files import write_curve

from sail.analysis.published import human_scores
from sail.studies.cells import expand
from sail.studies.definition import read_definition
from sail.studies.library import find

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import atari, claims, game_scores, improvements, tables, verdicts  # noqa: E402
from evidence.paper import CLAIMS  # noqa: E402


def test_a_ratio_is_of_what_both_have() -> None:
    x, y = np.array([[2.0, 4.0, np.nan], [4.0, np.nan, np.nan]]), np.array([[1.0, 2.0, 100.0]])
    # Over seeds x is 3, 4; y is 1, 2: gains 2 and 2 over a mean of 1.5.
    assert improvements.ratio(x, y) == pytest.approx(4 / 3)
    assert improvements.ratio(-y[:, :2], -x[:, :2]) == pytest.approx(2 / 3.5)  # less negative is better
    assert improvements.ratio(x, 0 * y) == math.inf
    assert improvements.ratio(-x, 0 * y) == -math.inf
    assert improvements.ratio(0 * y, 0 * y) == 0
    assert math.isnan(improvements.ratio(x[:, 2:], y[:, 2:]))


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([0.5] * 16, verdicts.HOLDS),
        ([-0.5] * 16, verdicts.DOES_NOT),
        ([0.5] * 9 + [-0.5] * 7, verdicts.LEANS),
        ([0.5] * 7 + [-0.5] * 9, verdicts.AGAINST),
        ([0.0] * 16, verdicts.NO_DIFFERENCE),
    ],
)
def test_verdicts(gains: list[float], verdict: str) -> None:
    pairs = [(np.array([[1 + gain]]), np.array([[1.0]])) for gain in gains]
    found = improvements.over_games(pairs)
    assert found.verdict == verdict
    assert found.text.startswith(f"average {100 * np.mean(gains):+.0f} % [")


def test_one_run_of_one_game_has_no_interval() -> None:
    one = np.array([[1.0, 3.0]])
    assert improvements.over_games([(3 * one, one)]) == improvements.OverGames("+200 %, no interval", verdicts.UNTESTED)


@pytest.mark.parametrize(("games", "verdict"), [(1, "not tested"), (5, verdicts.LEANS), (6, verdicts.HOLDS)])
def test_a_few_games_prove_nothing(games: int, verdict: str) -> None:
    better = [(np.array([[1.5]]), np.array([[1.0]]))] * games
    worse = [(y, x) for x, y in better]
    assert improvements.over_games(better).verdict == verdict
    other_way = {verdicts.LEANS: verdicts.AGAINST, verdicts.HOLDS: verdicts.DOES_NOT}
    assert improvements.over_games(worse).verdict == other_way.get(verdict, verdict)


def test_the_difference_of_shares_is_newcombes() -> None:
    """The first example of his paper: 56 of 70 and 48 of 80."""
    found = verdicts.difference((56, 70), (48, 80))
    assert tuple(found) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    turned = verdicts.difference((48, 80), (56, 70))
    assert tuple(turned) == pytest.approx((-found.value, -found.high, -found.low))


def test_a_base_of_zero_counts_in_the_median_and_is_said_to_be_missing_in_the_average() -> None:
    finite, infinite = (np.array([[1.5]]), np.array([[1.0]])), (np.array([[5.0]]), np.array([[0.0]]))
    found = improvements.over_games([finite] * 2 + [infinite] * 3)
    assert found.text.startswith(
        "average of the 2 games with a base above or below 0 +50 % [+50 %, +50 %], median unbounded"
    )
    assert improvements.over_games([infinite] * 2).text == "median unbounded [unbounded, unbounded]"


def test_seeds_widen_the_interval() -> None:
    base = np.array([[1.0]])
    alone = improvements.over_games([(np.array([[1.5]]), base)] * 2)
    several = improvements.over_games([(np.array([[1.0], [2.0]]), base)])
    assert "median +50 % [+50 %, +50 %]" in alone.text
    assert "median +50 % [+0 %, +100 %]" in several.text


def judged_by(tmp_path: Path, measure: verdicts.Measure, *runs: tuple[str, str, list[float]]) -> verdicts.Ours:
    """Of runs of two million frames: game, agent, and each seed's score in the second million (the first has 0)."""
    for game, agent, seeds in runs:
        for seed, score in enumerate(seeds):
            write_curve(tmp_path, game, agent, [0.0, score], seed)
    return measure(tmp_path)


@pytest.mark.parametrize(
    ("x", "y", "verdict"),
    [
        ([5, 6, 7], [1, 2, 4], verdicts.HOLDS),
        ([5, 6], [1, 2], verdicts.LEANS),  # two seeds are too few
        ([5, 6, 7], [1, 2, 5], verdicts.LEANS),  # the worst is not above the best
        ([5, 6, 7], [6, 6, 6], verdicts.AGAINST),  # on average no better
        ([1, 2, 3], [4, 5, 6], verdicts.DOES_NOT),  # on one of the two games
        ([1, 2], [4, 5], verdicts.AGAINST),
    ],
)
def test_who_is_ahead_is_a_matter_of_every_seed(tmp_path: Path, x: list[float], y: list[float], verdict: str) -> None:
    measure = game_scores.ahead(("sail-dqn", "dqn"), ("Pong", "Hero"), 2)
    assert judged_by(tmp_path, measure, ("Pong", "sail-dqn", x), ("Pong", "dqn", y), ("Hero", "dqn", [1])) == (
        verdicts.Ours()
    )
    ours = judged_by(tmp_path, measure, ("Hero", "sail-dqn", [9, 9, 9]), ("Hero", "dqn", [1, 1, 1]))
    assert ours.verdict == verdict and ours.frames == "2M" and ours.seeds in ("3", "2 to 3")
    assert ours.number.endswith("; Hero: sail-dqn 9 (on average 4), dqn 1 (on average 0)")


def test_scores_that_are_equal_or_not_there_decide_nothing(tmp_path: Path) -> None:
    measure = game_scores.ahead(("sail-dqn", "dqn"), ("Pong",), 2)
    ours = judged_by(tmp_path, measure, ("Pong", "sail-dqn", [0] * 3), ("Pong", "dqn", [0] * 3))
    assert ours.verdict == verdicts.NO_DIFFERENCE
    assert judged_by(tmp_path, measure, ("Pong", "dqn", [math.nan] * 3)).verdict == verdicts.UNTESTED


@pytest.mark.parametrize(
    ("rises", "said"),
    [
        (verdicts.HOLDS, verdicts.DOES_NOT),
        (verdicts.DOES_NOT, verdicts.HOLDS),
        (verdicts.LEANS, "no rise seen"),
        (verdicts.AGAINST, "no rise seen"),
        (verdicts.NOT_ALL, verdicts.NOT_ALL),
    ],
)
def test_that_nothing_rises_is_judged_by_whether_it_does(tmp_path: Path, rises: str, said: str) -> None:
    ours = verdicts.Ours("1", "2M", "3", rises)
    assert verdicts.no_rise(lambda _: ours)(tmp_path) == ours._replace(verdict=said)


@pytest.mark.parametrize(
    ("seeds", "verdict"),
    [
        ([11], verdicts.LEANS),
        ([9], verdicts.AGAINST),
        ([10, 11, 12], verdicts.HOLDS),
        ([9, 11, 12], verdicts.LEANS),
        ([9, 9, 12], verdicts.LEANS),
        ([9, 9, 11], verdicts.AGAINST),
        ([9, 8, 9], verdicts.DOES_NOT),
    ],
)
def test_whether_a_score_is_reached(tmp_path: Path, seeds: list[float], verdict: str) -> None:
    measure = game_scores.reaches("dqn", "Pong", 10, 2)
    assert measure(tmp_path) == verdicts.Ours()
    assert judged_by(tmp_path, measure, ("Pong", "dqn", seeds)).verdict == verdict


def test_scores_are_near_the_papers_by_a_fifth(tmp_path: Path) -> None:
    games = ("Frostbite", "Qbert", "Hero", "PrivateEye")  # the paper's DQN: 392, 10178, 17056, -114
    measure = game_scores.as_in_the_paper(("dqn",), games, 2)
    assert measure(tmp_path) == verdicts.Ours()
    runs = [("Frostbite", "dqn", [450.0]), ("Qbert", "dqn", [8_200.0, 8_200.0]), ("Hero", "dqn", [21_000.0])]
    ours = judged_by(tmp_path, measure, *runs)
    assert ours == verdicts.Ours("2 of 3 scores within 20 %; 3 of 4 are there", "2M", "1 to 2", verdicts.NOT_ALL)
    assert judged_by(tmp_path, measure, ("PrivateEye", "dqn", [-100.0])).verdict == verdicts.HOLDS  # 3 of 4
    assert judged_by(tmp_path, measure, ("PrivateEye", "dqn", [-80.0])).verdict == verdicts.DOES_NOT


def test_medians_are_human_normalised(tmp_path: Path) -> None:
    scale = {game: human_scores()[game] for game in ("Pong", "Hero", "Venture")}

    def runs(agent: str, *shares: list[float]) -> list[tuple[str, str, list[float]]]:
        """The score that is such a share of the way from a random policy to a human, on each game."""
        return [
            (game, agent, [low + share * (high - low) for share in seeds])
            for (game, (low, high)), seeds in zip(scale.items(), shares, strict=True)
        ]

    measure = game_scores.normalised(("sail-dqn", "dqn"), (*scale, "NoSuchGame"), 2)
    assert judged_by(tmp_path, measure, *runs("sail-dqn", [0.2], [0.5], [3.0])) == verdicts.Ours()
    ours = judged_by(tmp_path, measure, *runs("dqn", [0.4], [0.1], [0.3]))
    assert ours == verdicts.Ours("sail-dqn 0.50, dqn 0.30; 3 games", "2M", "1", verdicts.LEANS)
    ours = judged_by(tmp_path, measure, *runs("dqn", [0.4, 0.4], [0.1, 0.1], [0.3, 0.3]))
    assert (ours.verdict, ours.seeds) == (verdicts.LEANS, "1 to 2")  # there is nothing to resample of one
    several = [*runs("sail-dqn", *[[0.5, 0.6, 0.7]] * 3), *runs("dqn", *[[0.1, 0.2, 0.3]] * 3)]
    assert judged_by(tmp_path, measure, *several).verdict == verdicts.HOLDS
    assert judged_by(tmp_path, measure, *runs("dqn", *[[0.4, 0.6, 0.9]] * 3)).verdict == verdicts.AGAINST
    assert judged_by(tmp_path, measure, *runs("dqn", *[[0.8] * 3] * 3)).verdict == verdicts.DOES_NOT


def test_every_claims_studies_have_its_agents() -> None:
    """Each row can be filled by the runs of the study that it names."""
    for claim in CLAIMS:
        labels: set[str] = set()
        for study in re.findall(r"(?:paper|evidence)/[a-z-]+", claim.command):
            name, marked = find(study)
            labels |= {atari.label(cell.config()) for cell in expand(read_definition(marked, name), marked)}
        wanted = [value for cell in claim.ours.__closure__ or () for value in agents_in(cell.cell_contents)]
        if not claim.command.endswith(("stale-returns", ".json")):  # those are of gridworlds, and of a benchmark's file
            assert wanted and labels.issuperset(wanted), claim.what


def agents_in(value: Any) -> list[str]:
    """The names of agents in what a measure was made with."""
    if callable(value):
        return [name for cell in value.__closure__ or () for name in agents_in(cell.cell_contents)]
    values = [value] if isinstance(value, str) else value if isinstance(value, tuple) else []
    return [one for one in values if re.match(r"[a-z-]*(dqn|iqn|c51|rainbow)", one)]


def kdt_row(agent: str, share: float, low: float, high: float, value: float) -> dict[str, Any]:
    row: dict[str, Any] = {"env": "kdt", "agent": agent, "settings": "env.slip=0.0", "seeds": 100, "step": 300_000}
    row |= {
        "share": share,
        "solved": round(100 * share),
        "low": low,
        "high": high,
        "q_key": value,
        "q_key_10": 0.1,
        "q_key_90": 0.9,
    }
    return row | {"key_preferred": 0.5}


def test_gridworlds_are_judged_by_their_intervals(tmp_path: Path) -> None:
    rows = [kdt_row("sail-dqn", 0.9, 0.8, 0.95, 0.7), kdt_row("strsil-dqn", 0.5, 0.4, 0.6, 0.3)]
    rows.append(kdt_row("al-dqn", 0.85, 0.75, 0.9, 0.8))
    tables.write(tmp_path / "x.csv", {}, rows)

    def judged(make: Any, *agents: str) -> str:
        ours: verdicts.Ours = make("x.csv", "kdt", agents, "env.slip=0.0", 300_000)(tmp_path)
        return ours.verdict

    assert judged(claims.solved, "sail-dqn", "strsil-dqn") == verdicts.HOLDS
    assert judged(claims.solved, "strsil-dqn", "sail-dqn") == verdicts.DOES_NOT
    assert judged(claims.solved, "sail-dqn", "al-dqn") == verdicts.NO_DIFFERENCE
    assert judged(claims.solved, "sail-dqn", "dqn") == verdicts.UNTESTED

    def valued(optimum: float) -> str:
        agents = ("strsil-dqn", "sail-dqn")
        return claims.undervalued("x.csv", "kdt", agents, "env.slip=0.0", 300_000, optimum)(tmp_path).verdict

    # Eight of ten seeds are between 0.1 and 0.9.
    assert [valued(optimum) for optimum in (0.95, 0.5, 0.05)] == [
        verdicts.HOLDS,
        verdicts.NO_DIFFERENCE,
        verdicts.DOES_NOT,
    ]


def test_agents_are_compared_by_the_time_of_their_updates(tmp_path: Path) -> None:
    assert claims.update_rates("x.json", ("a", "b", "c"), 2.0)(tmp_path / "results") == verdicts.Ours()
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    rounds = {"a": [9.0, 8.0], "b": [10.0, 12.0], "c": [15.0, 18.0]}
    rows = {k: {"frames_per_second_at_most": 120 / min(v), "us_of_rounds": v} for k, v in rounds.items()}
    (folder / "x.json").write_text(json.dumps({"agents": rows}))

    def found(times: float) -> verdicts.Ours:
        return claims.update_rates("x.json", ("a", "b", "c"), times)(tmp_path / "results")

    assert "15.0, 12.0, 8.0 by updates alone" in found(2).number
    assert "1.50 times as fast, 1.25 to 1.80 by single rounds" in found(2).number  # 15 / 12 to 18 / 10
    words = [verdicts.HOLDS, verdicts.NO_DIFFERENCE, verdicts.DOES_NOT]
    assert [found(times).verdict for times in (1.2, 1.5, 2.0)] == [f"{word} for updates alone" for word in words]
    assert found(2).seeds == "2 rounds"
