"""The evidence on Atari games, from run folders and files written by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from curve_files import write_curve

from sail.config import make_config
from sail.games import GROUPS
from sail.studies.records import Record, write_record
from sail.training.run_folder import RunFolder

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import atari, dopamine, figures, page, tables  # noqa: E402

PARTS = {name: make for parts in page.pages().values() for name, make in parts.items()}
EMPTY_PAGE = "".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in PARTS)


def make_run(
    folder: Path,
    agent: str = "dqn",
    scores: tuple[float, ...] = (),
    *,
    seeds: int = 1,
    preset: str | None = None,
    **overrides: Any,
) -> None:
    """A run folder with a phase of a million frames for each score."""
    overrides = {"steps": 250_000 * max(len(scores), 1), "seeds": seeds} | overrides
    source = {"command": "sail train", "commit": "abc", "hardware": {"cpu": "a"}}
    run = RunFolder.create(folder, make_config("atari:Pong", agent, overrides, preset), source)
    for phase, score in enumerate(scores, 1):
        rows = [
            {"step": 250_000 * phase, "seed": seed, "episodes": 4, "train_return": score + seed, "max_q": 0.5}
            for seed in range(seeds)
        ]
        run.append("metrics.jsonl", rows)


def test_runs_become_files_with_their_origin(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", scores=(-20.0, -10.0), seeds=2)
    make_run(tmp_path / "runs" / "b", agent="sail-dqn")
    make_run(tmp_path / "runs" / ".a.damaged-1", scores=(1.0,) * 5)
    (tmp_path / "runs" / "c").mkdir()
    (tmp_path / "runs" / "c" / "config.yaml").write_text("nonsense: 1")
    said = atari.collect(tmp_path / "runs", tmp_path / "to")
    assert [line.split(":")[0] for line in said if line.startswith("wrote")] == [
        "wrote Pong_dqn_seed0.csv",
        "wrote Pong_dqn_seed1.csv",
    ]
    assert sum(line.startswith("left out") for line in said) == 2  # nothing learned yet, and unreadable
    lines = (tmp_path / "to" / "Pong_dqn_seed1.csv").read_text().splitlines()
    assert {"# commit: abc", "# command: sail train", "# hardware: {'cpu': 'a'}"} <= set(lines)
    first, second = atari.read_all(tmp_path / "to")
    assert (first.game, first.agent, first.seed, first.frames) == ("Pong", "dqn", 0, 2_000_000)
    assert [row["mean_return"] for row in second.rows] == [-19, -9]
    found = atari.by_agent([first, second], 2, ["dqn"])
    np.testing.assert_array_equal(found["dqn"]["Pong"], [[-20, -10], [-19, -9]])
    assert atari.by_agent([first, second], 3, ["dqn"]) == {}


@pytest.mark.parametrize(("steps", "said"), [(500_000, None), (750_000, "at 2000000 of 3000000 frames")])
def test_a_file_says_where_its_run_was_broken_off(tmp_path: Path, steps: int, said: str | None) -> None:
    make_run(tmp_path / "runs" / "a", scores=(-20.0, -10.0), steps=steps)
    atari.collect(tmp_path / "runs", tmp_path / "to")
    (curve,) = atari.read_all(tmp_path / "to")
    assert curve.about.get("broken_off") == said


@pytest.mark.parametrize(
    ("agent", "preset", "overrides", "label"),
    [
        ("dqn", None, {}, "dqn"),
        ("dqn", "paper", {"learning": {"num_envs": 64, "num_pools": 2}}, "dqn"),
        ("iqn", "dopamine", {}, "iqn@dopamine"),
        ("rainbow", "dopamine", {}, "rainbow"),  # both presets have the same numbers
        ("dqn", None, {"env": {"roms": "some/folder"}}, "dqn"),
        ("dqn", None, {"env": {"sticky": 0.0}}, "dqn,env.sticky=0.0"),
        (
            "sail-dqn",
            None,
            {"rule": {"alpha": 0.5}, "replay": {"n_step": 3}},
            "sail-dqn,replay.n_step=3,rule.alpha=0.5",
        ),
    ],
)
def test_a_run_with_other_settings_is_another_agent(agent: str, preset: Any, overrides: Any, label: str) -> None:
    assert atari.label(make_config("atari:Pong", agent, overrides, preset)) == label


def test_a_longer_curve_stays_and_another_number_of_emulators_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "long" / "a", scores=(1.0, 2.0, 3.0), learning={"num_envs": 8})
    make_run(tmp_path / "short" / "a", scores=(9.0,), learning={"num_envs": 8})
    make_run(tmp_path / "more" / "a", scores=(9.0,) * 4, learning={"num_envs": 4})
    assert "wrote" in atari.collect(tmp_path / "long", tmp_path / "to")[0]
    assert "as long" in atari.collect(tmp_path / "short", tmp_path / "to")[0]
    assert "8 emulators" in atari.collect(tmp_path / "more", tmp_path / "to")[0]
    (kept,) = atari.read_all(tmp_path / "to")
    assert (kept.frames, kept.about["emulators"]) == (3_000_000, "8")


def test_of_each_game_runs_with_the_same_number_of_emulators_are_compared() -> None:
    def curve(agent: str, emulators: int, seed: int = 0, game: str = "Pong") -> atari.Curve:
        row = {"frames": 1_000_000, "mean_return": float(emulators), "episodes": 1}
        return atari.Curve(game, agent, seed, [row], {"emulators": str(emulators)})

    curves = [curve("dqn", 8), curve("dqn", 4, 1), curve("sail-dqn", 8), curve("dqn", 4, game="Venture")]
    both = ["dqn", "sail-dqn"]
    curves += [curve("iqn", 4, seed) for seed in range(5)]  # who is not compared does not count
    found = atari.by_agent(curves, 1, both)
    assert {agent: list(games) for agent, games in found.items()} == {"dqn": ["Pong", "Venture"], "sail-dqn": ["Pong"]}
    np.testing.assert_array_equal(found["dqn"]["Pong"], [[8.0]])
    drawn = atari.by_agent([curve("dqn", 8), curve("sail-dqn", 16)], 1, both)  # as many of each: the larger number
    assert list(drawn) == ["sail-dqn"]
    assert list(atari.by_agent(curves, 1, ["iqn"])) == ["iqn"]
    assert atari.by_agent(curves, 2, both) == {}


def test_a_file_says_that_its_run_went_on_with_another_ring(tmp_path: Path) -> None:
    study, cell = tmp_path / "study", "atari-Pong/dqn/seed0"
    make_run(study / "cells" / cell, scores=(1.0,))
    for starts, said in (
        ([], None),
        ([{"from_step": 0}], None),
        ([{"from_step": 250_000}], None),  # its end: all that was missing was an evaluation
        ([{"from_step": 0}, {"from_step": 50_000}, {"from_step": 50_000}], "at 200,000 frames, with a ring"),
    ):
        (study / "study.json").write_text("{}")
        write_record(study / "state" / f"{cell}.json", Record(starts=starts))
        (curve,) = atari.from_runs(study)
        assert (curve.about.get("resumed") or "").startswith(said or "") and ("resumed" in curve.about) == bool(said)
        (study / "study.json").unlink()
        (curve,) = atari.from_runs(study)  # no study, so nothing is known
        assert "resumed" not in curve.about


def test_runs_on_other_files_of_a_game_are_kept_apart(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", scores=(1.0,))
    make_run(tmp_path / "runs" / "b", scores=(1.0, 2.0), env={"roms": "some/folder"})
    assert len(atari.collect(tmp_path / "runs", tmp_path / "atari")) == 2
    (usual,), (other,) = atari.read_all(tmp_path / "atari"), atari.read_all(tmp_path / atari.OTHER_ROMS)
    assert (usual.frames, other.frames) == (1_000_000, 2_000_000)
    assert "roms" not in usual.about and other.about["roms"] == "some/folder"


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
    np.testing.assert_array_equal(atari.by_agent([curve], 3, ["dqn"])["dqn"]["Pong"], [[9.0, 3.0, np.nan]])


def test_published_points_are_of_complete_iterations(tmp_path: Path) -> None:
    runs = {"DQN": [[-20.0, -12.0, -3.0], [-19.0, -8.0]], "IQN": [[1.0]], "C51": [[5.0]]}
    rows = [
        {"Iteration": i, "Value": value, "Agent": agent}
        for agent, curves in runs.items()
        for curve in curves
        for i, value in enumerate(curve)
    ]
    (tmp_path / "pong.json").write_text(json.dumps(rows))
    dopamine.excerpt(tmp_path, tmp_path / "published.csv")
    assert [tuple(row.values()) for row in tables.read(tmp_path / "published.csv")] == [
        ("Pong", "dqn", 1_000_000, 2, -20, -19.5, -19),
        ("Pong", "dqn", 2_000_000, 2, -12, -10, -8),
        ("Pong", "iqn@dopamine", 1_000_000, 1, 1, 1, 1),
    ]


@pytest.mark.parametrize(
    ("ours", "agrees"), [(-9.0, "inside"), (-7.9, "no"), (-11.9, "within 20 %"), (-12.1, "no"), (-10.9, "inside")]
)
def test_a_score_agrees_inside_the_published_runs_or_near_their_mean(ours: float, agrees: str) -> None:
    curve = atari.Curve("Pong", "dqn", 0, [{"frames": 10**6, "mean_return": ours, "episodes": 2}], {})
    point = {"game": "Pong", "agent": "dqn", "frames": 10**6, "runs": 2, "low": -11.0, "mean": -10.0, "high": -8.0}
    (row,) = dopamine.compare([curve], [point], 10**6)
    assert (row["agrees"], row["seeds"]) == (agrees, 1)
    assert dopamine.compare([curve], [point], 2 * 10**6) == []


def row_of(text: str, claim: str) -> list[str]:
    """The cells of the row of a claim."""
    return next(
        [cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith(f"| {claim}")
    )


def test_the_page_says_when_returns_go_stale(tmp_path: Path) -> None:
    rows = [
        {"settings": setting, "agent": agent, "step": step, "solved": solved, "seeds": 40, "q_key": value}
        for setting, agent, step, solved, value in (
            ("agent.double=true", "strsil-dqn", 100_000, 7, 0.5),
            ("exploration.decay_steps=250000", "dqn", 50_000, 0, 2.5),
            ("exploration.decay_steps=250000", "dqn", 100_000, 1, 2.0),
            ("exploration.decay_steps=250000", "sail-dqn", 200_000, 40, 0.9),
            ("optimiser.learning_rate=0.0003", "dqn", 50_000, 0, 2.5),
        )
    ]
    tables.write(tmp_path / "kdt" / "when_stale.csv", {"commit": "abc"}, rows)
    lines = page.when_stale(tmp_path).splitlines()
    assert lines[0].count("|") == lines[2].count("|") == 12
    unchanged = "| nothing | 1 of 40 |  |  |  |  |  | 40 of 40 |  | 2.50 |  |"
    assert lines[2:] == [unchanged, "| `agent.double=true` |  |  |  | 7 of 40 |  |  |  |  |  |  |"]


def test_the_page_says_what_the_files_say(tmp_path: Path) -> None:
    text = page.filled(EMPTY_PAGE, PARTS, tmp_path)
    claim = "SAIL-DQN over DQN, 16 hard-exploration games"
    assert row_of(text, claim)[2:7] == ["average +654.3 %, median +71.8 %", "", "", "", "not tested"]
    assert text.count("No runs yet.") == len(PARTS) - 2  # all but claims
    for game in GROUPS["hard-exploration"][1:]:
        for agent, score in (("dqn", 10.0), ("sail-dqn", 15.0)):
            write_curve(tmp_path, game, agent, [score] * 10)
    write_curve(tmp_path, "Alien", "sail-dqn", [15.0] * 10)
    write_curve(tmp_path, "Alien", "dqn", [10.0] * 9)  # not there yet
    assert row_of(page.filled(text, PARTS, tmp_path), claim)[-4:-2] == ["1", "not all games yet"]
    write_curve(tmp_path, "Alien", "dqn", [10.0] * 20)  # further than the others: only ten count
    write_curve(tmp_path, "Venture", "dqn", [14.0] * 10, seed=1)
    published = {"game": "Alien", "agent": "dqn", "frames": 5 * 10**6, "runs": 5, "low": 8.0, "mean": 9.0, "high": 9.5}
    others = [published | {"frames": 10**6, "high": 1234.5}, published | {"frames": 10**7, "high": 8.0, "mean": 8.0}]
    others += [published | {"frames": 4 * 10**7}, published | {"game": "Pong"}]  # not reached, and not played
    tables.write(tmp_path / "atari" / "published.csv", {"source": "nowhere"}, [published, *others])
    write_curve(tmp_path / "elsewhere", "Alien", "dqn", [9.0] * 5)
    (tmp_path / "elsewhere" / "atari").rename(tmp_path / atari.NOT_HELD)
    write_curve(tmp_path / "elsewhere", "Alien", "dqn", [8.5])
    (tmp_path / "elsewhere" / "atari").rename(tmp_path / atari.OTHER_ROMS)
    text = page.filled(text, PARTS, tmp_path)
    ours = row_of(text, claim)
    # 15 games of +50 %, and 15 over the mean of 10 and 14.
    assert ours[3].startswith("average +48 % [") and "median +50 % [" in ours[3] and "16 of 16 games" in ours[3]
    assert ours[4:7] == ["10M", "1 to 2", "holds"]
    assert "| Venture | 10M | 12 (2 seeds) |  | 15 (1 seed) |  |" in text
    assert "| game | agent | seeds | emulators | 1M | 5M | 10M |\n" in text
    inside, near, no = "10.0 (8.0 to 1,234)", "10.0 (8.0 to 9.5), near", "10.0 (8.0 to 8.0), **no**"
    assert f"| Alien | dqn | 1 | 64 | {inside} | {near} | {no} |" in text
    assert "| Alien | dqn | 1 | 64 | 9.0 (8.0 to 1,234) | 9.0 (8.0 to 9.5) |\n<!-- end of dopamine not held" in text
    assert "| Alien | dqn | 1 | 64 | 8.5 (8.0 to 1,234) |\n<!-- end of dopamine other roms" in text
    assert page.filled(text, PARTS, tmp_path) == text
    with pytest.raises(SystemExit, match="claims"):
        page.filled("", PARTS, tmp_path)


def test_deep_sea_by_size(tmp_path: Path) -> None:
    assert page.deep_sea(tmp_path) == "No runs yet."
    rows = [
        {
            "agent": agent,
            "settings": f"env.size={size}",
            "step": step,
            "seeds": 4,
            "solved": solved,
            "low": 0.1,
            "high": 1,
        }
        for agent, size, step, solved in (("dqn", 9, 100, 4), ("dqn", 9, 200, 3), ("sail-dqn", 10, 200, 1))
    ]
    rows += [rows[-1] | {"settings": "env.size=20", "solved": 0}, rows[-1] | {"settings": "env.size=9", "solved": 0}]
    tables.write(tmp_path / "deep_sea" / "sizes.csv", {"commit": "abc"}, rows)
    text = page.deep_sea(tmp_path)
    assert row_of(text, "agent")[1:-1] == ["agent", "largest solved", "9", "10", "20"]
    assert row_of(text, "dqn")[1:-1] == ["dqn", "9", "3 of 4 [0.30, 0.95]", "", ""]
    assert row_of(text, "sail-dqn")[2:5] == ["10", "0 of 4 [0.00, 0.49]", "1 of 4 [0.05, 0.70]"]
    assert row_of(text, "al-dqn")[1:-1] == ["al-dqn", "none", "", "", ""]


def test_apples_are_counted_for_each_slip(tmp_path: Path) -> None:
    rows = [
        {"env": env, "agent": "sail-dqn", "settings": f"env.slip={slip}", "step": step, "seeds": 2, "solved": solved}
        for env, slip, step, solved in (
            ("kdt", 0.0, 100_000, 2),
            ("apple-kdt", 0.0, 100_000, 2),
            ("apple-kdt", 0.1, 100_000, 1),
            ("apple-kdt", 0.1, 150_000, 2),
        )
    ]
    tables.write(tmp_path / "kdt" / "stale_returns.csv", {"commit": "abc"}, rows)
    head = [f"slip {slip}, {step} steps" for step in ("100,000", "200,000") for slip in ("0.0", "0.1")]
    assert row_of(page.apples(tmp_path), "agent")[2:-1] == head
    all_of_two, one_of_two = "2 of 2 [0.34, 1.00]", "1 of 2 [0.09, 0.91]"
    assert row_of(page.apples(tmp_path), "sail-dqn")[2:-1] == [all_of_two, one_of_two, "", ""]


def test_what_is_made_of_the_first_treasures(tmp_path: Path) -> None:
    row = {"agent": "dqn", "settings": "a=1", "step": 100, "seeds": 10, "reached": 4, "kept": 3, "made_50": None}
    rows = [row, row | {"step": 200, "reached": 8, "kept": 4}]
    rows += [r | {"agent": "sail-dqn", "made_50": 1500, "reached": 0, "kept": 0} for r in rows]
    tables.write(tmp_path / "x.csv", {"commit": "abc"}, rows)
    head, _, *lines = page.made_of_it(tmp_path / "x.csv", (100, 200)).splitlines()
    assert head.split(" | ")[2:4] == ["come upon it, 100 steps", "solve it, 100 steps"]
    assert lines == [
        "| `a=1` | dqn | 4 of 10 | 3 of 4 [0.30, 0.95] | 8 of 10 | 4 of 8 [0.22, 0.78] | not in time |",
        "| `a=1` | sail-dqn | 0 of 10 |  | 0 of 10 |  | 1,500 |",
    ]


def test_returns_in_between_are_those_that_are_neither_stale_nor_above(tmp_path: Path) -> None:
    row = {"env": "deep-sea", "agent": "sail-dqn", "settings": None, "step": 100, "seeds": 4, "reached": 3, "solved": 1}
    # Of 10 transitions 9 have a known return; 7 of those are below V, and 4 of all above Qt(s, a): so 2 are above V.
    row |= {"known_share": 0.9, "stale_share": 0.7, "active_share": 0.4}
    row |= {"action_gap": 0.01, "advantage_part": -0.02, "imitation_part": 0.005}
    rows = [row, row | {"step": 200}, row | {"env": "apple-kdt", "settings": "rule.clip=None", "solved": 0}]
    tables.write(tmp_path / "between.csv", {"commit": "abc"}, rows)
    reached, numbers = "3 of 4 [0.30, 0.95]", "20.0 % | 0.0100 | -0.0200 | 0.0050"
    assert page.between(tmp_path).splitlines()[2:] == [
        f"| deep-sea | sail-dqn | {reached} | 1 of 4 [0.05, 0.70] | {numbers} |",
        f"| apple-kdt | sail-dqn, `rule.clip=None` | {reached} | 0 of 4 [0.00, 0.49] | {numbers} |",
    ]


def test_favourite_actions_are_named_by_what_was_done_to_them(tmp_path: Path) -> None:
    row = {"agent": "al-dqn", "alpha": 0.9, "held": 0, "shaken": None, "seeds": 4, "step": 50_000, "reached": 3}
    row |= {"changed": 0.25, "action_gap": 0.0125}
    rows = [row, row | {"alpha": 0.5}, row | {"held": 1000, "reached": 1}, row | {"shaken": 0.05, "step": 20_000}]
    rows += [row | {"shaken": 0.05, "changed": 0.5, "reached": 0}]
    tables.write(tmp_path / "kdt" / "favourites.csv", {"commit": "abc"}, rows)
    lines = page.favourite_actions(tmp_path).splitlines()[2:]
    assert lines == [
        "| al-dqn, shaken by 0.05 | 50 % | 0.013 | 0 of 4 [0.00, 0.49] |",
        "| al-dqn, alpha 0.9 | 25 % | 0.013 | 3 of 4 [0.30, 0.95] |",
        "| al-dqn, alpha 0.5 | 25 % | 0.013 | 3 of 4 [0.30, 0.95] |",
        "| al-dqn, held for 1,000 steps | 25 % | 0.013 | 1 of 4 [0.05, 0.70] |",
    ]


def test_curves_are_drawn(tmp_path: Path) -> None:
    write_curve(tmp_path, "Pong", "dqn", [-20.0, -10.0])
    write_curve(tmp_path, "Freeway", "sail-dqn", [1.0, 3.0, 2.0])
    assert [path.name for path in figures.draw_all(tmp_path, tmp_path / "pictures")] == ["atari_curves.png"]


def test_both_files_of_a_game_are_drawn_beside_each_other() -> None:
    rows = [
        {"frames": million * 10**6, "mean_return": score, "episodes": 1} for million, score in enumerate([1.0, 9.0], 1)
    ]
    own = atari.Curve("Amidar", "dqn", 0, rows, {})
    longer = own._replace(rows=[*rows, rows[-1] | {"frames": 3 * 10**6}])
    kinds = {"own": [own], "usual": [longer, own._replace(agent="sail-dqn")], "not held": [own._replace(game="Alien")]}
    published = {"game": "Amidar", "agent": "dqn", "frames": 10**6, "runs": 5, "low": 2.0, "mean": 3.0, "high": 4.0}
    figure = figures._other_roms(kinds, [published, published | {"frames": 3 * 10**6}])
    (axes,) = figure.axes
    drawn = [line.get_xydata().tolist() for line in axes.lines]
    assert drawn == [[[1, 1], [2, 9]], [[1, 1], [2, 9]], [[1, 2], [1, 4]], [[1, 3]]]  # as far as the first one goes


def test_the_committed_pages_are_up_to_date() -> None:
    for name, parts in page.pages().items():
        text = (ROOT / "docs" / name).read_text()
        assert page.filled(text, parts, ROOT / "results") == text
