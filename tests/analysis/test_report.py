"""From run folders in any state to the report: numbers by hand, and nothing that makes it fail."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sail.analysis.groups import group_runs
from sail.analysis.page_file import page_html
from sail.analysis.report import build_report
from sail.analysis.runs import read_runs
from sail.cli import main
from sail.config import config_to_tree, make_config


def write_run(
    folder: Path, where: str, name: str, scores: dict[int, list[float | None]], done: bool = True, **overrides: Any
) -> Path:
    """A run folder with a phase of 250,000 steps for each score of each seed."""
    seeds = list(scores)
    config = make_config(where, name, {"seed": seeds[0], "seeds": len(seeds), **overrides})
    folder.mkdir(parents=True)
    tree = config_to_tree(config) | {"provenance": {"command": "sail train x", "commit": "abc", "started": "2026"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    column = "eval_return" if ":" not in where else "train_return"
    rows = [
        {"step": 250_000 * (i + 1), "seed": seed, column: score, "seconds": 10.0 * (i + 1), "bonus": 0.1, "max_q": 2.0}
        for seed, values in scores.items()
        for i, score in enumerate(values)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if done:
        (folder / "DONE").write_text("{}")
    return folder


def part(report: Any, name: str) -> dict[str, Any]:
    return next(one for one in report.page["parts"] if one["id"] == name)


def row(table: dict[str, Any], first: str) -> dict[str, Any]:
    found = next(one for one in table["rows"] if one["cells"][0] == first)
    return dict(zip([column["name"] for column in table["columns"]], found["cells"], strict=True))


@pytest.fixture
def three_games(tmp_path: Path) -> Path:
    """DQN and SAIL-DQN on three hard games and one without a human score; two seeds on one of them."""
    for game, base, better in (("Alien", 100.0, 300.0), ("Frostbite", 200.0, 100.0), ("Venture", 10.0, 40.0)):
        write_run(tmp_path / game / "dqn", f"atari:{game}", "dqn", {0: [base, 2 * base]})
        write_run(tmp_path / game / "sail", f"atari:{game}", "sail-dqn", {0: [better, 2 * better]})
    write_run(tmp_path / "Alien" / "dqn1", "atari:Alien", "dqn", {1: [300.0, 600.0]})
    write_run(tmp_path / "Pooyan" / "dqn", "atari:Pooyan", "dqn", {0: [5.0, 7.0]})
    return tmp_path


def test_the_numbers_by_hand(three_games: Path) -> None:
    report = build_report([three_games], reps=200)
    assert report.page["agents"] == ["dqn", "sail-dqn"]
    assert report.page["subtitle"] == "8 runs (all finished): 2 agents in 4 environments, 1 to 2 seeds each."
    final = row(part(report, "final-scores"), "atari:Alien")
    # DQN's seeds end at 200 and 600; SAIL's one at 600. The paper has 2,586 and 4,769 at 200M.
    assert (final["dqn"]["value"], final["dqn"]["seeds"], final["dqn"]["low"], final["dqn"]["high"]) == (
        400,
        2,
        200,
        600,
    )
    assert (final["sail-dqn"]["value"], final["sail-dqn"].get("best"), final["sail-dqn"]["low"]) == (600, True, None)
    assert (final["at"], final["paper: dqn"], final["paper: sail-dqn"]) == (2_000_000, 2586, 4769)
    assert row(part(report, "final-scores"), "atari:Pooyan")["sail-dqn"] is None
    # Averages over phases, then seeds: (150 + 450) / 2 and 450.
    average = row(part(report, "average-scores"), "atari:Alien")
    assert (average["dqn"]["value"], average["sail-dqn"]["value"]) == (300, 450)
    # (450 - 300) / 300, (150 - 300) / 300, (60 - 15) / 15.
    bars = {item["label"]: item["value"] for item in part(report, "improvement-sail-dqn-over-dqn")["items"]}
    assert bars == pytest.approx({"Venture": 3.0, "Alien": 0.5, "Frostbite": -0.5}, abs=1e-6)
    assert list(bars) == ["Venture", "Alien", "Frostbite"]  # sorted
    assert all(item["bold"] for item in part(report, "improvement-sail-dqn-over-dqn")["items"])
    assert "atari:Pooyan" in part(report, "improvement-sail-dqn-over-dqn")["about"]
    over = [one["cells"] for one in part(report, "relative-improvement")["rows"]]
    assert over[0] == ["sail-dqn", "dqn", "all", 3, 2, pytest.approx(1.0), pytest.approx(0.5)]
    assert over[2][2:4] == ["sparse", 1]  # Venture alone


def test_the_human_normalised_median_by_hand(three_games: Path) -> None:
    report = build_report([three_games], reps=200)
    lines = part(report, "human-normalised")
    assert "Pooyan" in lines["about"]
    dqn = next(line for line in lines["series"] if line["agent"] == "dqn")
    # Alien (227.8, 7127.7): mean of the seeds 200; Frostbite (65.2, 4334.7): 200; Venture (0, 1187.5): 10.
    first = sorted([(200 - 227.8) / 6899.9, (200 - 65.2) / 4269.5, 10 / 1187.5])
    assert dqn["y"][0] == pytest.approx(first[1], rel=1e-3) and dqn["x"] == [1_000_000, 2_000_000]
    statistics = part(report, "statistics")
    assert (
        "Left out: atari:Pooyan (no human score)." in statistics["about"]
        and "sail-dqn has one seed, which gives no interval." in statistics["about"]
    )
    values = [(600 - 227.8) / 6899.9, (200 - 65.2) / 4269.5, 80 / 1187.5]
    assert row(statistics, "sail-dqn")["mean"]["value"] == pytest.approx(np.mean(values), rel=1e-4)
    # SAIL beats DQN in Venture, loses in Frostbite, and in Alien wins against one seed and draws with the other.
    better = row(part(report, "probability-of-improvement"), "sail-dqn")["P(better than dqn)"]
    assert better["value"] == pytest.approx((1 + 0 + 0.75) / 3, rel=1e-4)


def test_settings_that_differ_make_curves_of_their_own(tmp_path: Path) -> None:
    for slip in (0.0, 0.1):
        for agent, score in (("dqn", 0.5), ("sail-dqn", 1.0 - slip)):
            write_run(tmp_path / f"{agent}{slip}", "kdt", agent, {0: [score], 1: [score]}, env={"slip": slip})
    # Nothing that decides what is learned: the same agent, with more seeds.
    write_run(tmp_path / "more", "kdt", "dqn", {2: [0.5]}, env={"slip": 0.1}, checkpoint={"keep": 5}, steps=10**6)
    report = build_report([tmp_path], reps=100)
    assert report.page["agents"] == [f"{a} env.slip={s}" for a in ("dqn", "sail-dqn") for s in (0.0, 0.1)]
    cells = row(part(report, "final-scores"), "kdt")
    assert cells["dqn env.slip=0.1"]["seeds"] == 3
    sticky = part(report, "sticky")
    assert sticky["series"] == [
        {"name": "sail-dqn over dqn", "x": [0.0, 0.1], "y": pytest.approx([1.0, 0.8], rel=1e-4)}
    ]


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    good = write_run(tmp_path / "good", "kdt", "dqn", {0: [0.0, 1.0]}, done=False)
    with (good / "metrics.jsonl").open("a") as file:
        file.write('{"step": 750000, "se')  # half a line: a kill
    write_run(tmp_path / "again", "kdt", "dqn", {0: [0.5]})
    (tmp_path / "empty").mkdir()
    broken = write_run(tmp_path / "broken", "kdt", "al-dqn", {0: [0.0]})
    (broken / "config.yaml").write_text("env: [")
    bare = write_run(tmp_path / "bare", "kdt", "al-dqn", {0: [0.0]})
    (bare / "config.yaml").unlink()
    other = write_run(tmp_path / "other", "kdt", "al-dqn", {0: [0.0]})
    (other / "config.yaml").write_text("schema: 7\nsomething: else\n")
    dirty = write_run(tmp_path / "dirty", "kdt", "sail-dqn", {0: [0.25]})
    (dirty / "metrics.jsonl").write_text("not json\n[1]\n" + (dirty / "metrics.jsonl").read_text())
    young = write_run(tmp_path / "young", "kdt", "al-dqn", {0: []})
    report = build_report([tmp_path, tmp_path / "nowhere", tmp_path / "empty", good])
    assert report.page["agents"] == ["dqn", "sail-dqn"]
    said = {line.split(": ")[0]: line.split(": ", 1)[1] for line in part(report, "left-out")["items"]}
    assert said.pop(str(broken)).startswith("its config.yaml cannot be read")
    assert said == {
        str(tmp_path / "again"): "seed 0 of dqn in kdt is in another folder too, which counts instead",
        str(bare): "it has no config.yaml",
        str(other): "its config.yaml does not say which agent trained where",
        str(dirty / "metrics.jsonl"): "2 broken line(s)",
        str(young): "it has no metrics yet",
        str(tmp_path / "nowhere"): "there is no such folder",
        str(tmp_path / "empty"): "there are no run folders in it",
    }
    assert row(part(report, "final-scores"), "kdt")["dqn"]["value"] == 1.0
    assert "(1 finished)" in report.page["subtitle"]


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{JS}}&amp;"


def test_hostile_names_are_text(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "kdt", "dqn", {0: [1.0]})
    tree = yaml.safe_load((run / "config.yaml").read_text())
    tree["env"]["name"], tree["agent"]["base"], tree["provenance"]["command"] = HOSTILE, HOSTILE, HOSTILE
    (run / "config.yaml").write_text(yaml.safe_dump(tree))
    report = build_report([tmp_path], title=HOSTILE)
    page = page_html(report.page)
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert inside and json.loads(inside[1])["title"] == HOSTILE and json.loads(inside[1])["agents"] == [HOSTILE]
    assert page.count("<script") == 2 and "<img" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace('http-equiv="Content', "")


def test_every_format_from_the_command(three_games: Path, tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "made" / "report.html"
    out.parent.mkdir()
    assert main(["report", str(three_games), "--out", str(out), "--format", "html,md,csv,png,svg", "--json"]) == 0
    files = {Path(path).name for path in json.loads(capsys.readouterr().out)["files"]}
    assert {"report.html", "report.md", "final-scores.csv", "curves.csv", "curves.png", "curves.svg"} <= files
    folder = out.with_name("report-files")
    with (folder / "final-scores.csv").open() as file:
        alien = next(line for line in csv.DictReader(file) if line["environment"] == "atari:Alien")
    assert (alien["dqn"], alien["dqn low"], alien["dqn seeds"], alien["paper: dqn"]) == ("400.0", "200.0", "2", "2586")
    assert alien["dqn at"] == "2000000"
    with (folder / "curves.csv").open() as file:
        scores = list(csv.DictReader(file))
    assert len(scores) == 16 and scores[0]["frames"] == "1000000"
    text = (folder / "report.md").read_text()
    assert "| atari:Alien | 2,000,000 | 400 [200, 600] x 2 | **600** x 1 |" in text and "](curves.png)" in text
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert main(["report", str(three_games), "--out", str(out)]) == 0
    assert "8 runs" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["html", "csv", "md", "png", "svg"])
def test_a_full_disk_leaves_no_report(
    kind: str, three_games: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "made").mkdir()
    monkeypatch.setattr(os, "replace", full)
    assert main(["report", str(three_games), "--out", str(tmp_path / "made" / "x.html"), "--format", kind]) == 1
    assert capsys.readouterr().err.startswith(f"sail: {os.strerror(errno.ENOSPC)}: ")
    assert list((tmp_path / "made").iterdir()) == []


BAD = [
    (["report", "no/such", "--out", "x.html"], "is no folder"),
    (["report", "{tmp}", "--out", "{tmp}"], "name a file in a folder that exists"),
    (["report", "{tmp}", "--out", "{tmp}/x/y.html"], "name a file in a folder that exists"),
    (["report", "{tmp}", "--out", "{tmp}/y.html", "--format", "pfd"], "There is no format 'pfd'"),
    (["report", "{tmp}", "--out", "{tmp}/y.html", "--baseline", "dqn"], "There is no agent 'dqn' in these runs"),
    (["report", "{tmp}"], "--out"),
    (
        ["report", "{tmp}", "--out", "{tmp}/y.pdf"],
        "y.pdf is no name for html (what --format says): end it in .html",
    ),
    (["report", "{tmp}", "--out", "{tmp}/y.md", "--format", "html,md"], "y.md is no name for html and md (what"),
    (["report", "{tmp}", "--out", "{tmp}/y.csv", "--format", "png,md"], "end it in .html, .htm, .png, .md, or in"),
]


def test_runs_in_which_no_episode_has_ended_say_so(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", "atari:Alien", "dqn", {0: [None, None]}, done=False)
    report = build_report([tmp_path])
    assert report.page["subtitle"] == "There is nothing to show yet: no episode has ended yet in the run."
    why = "seed 0 of dqn has no train return in atari:Alien, where no episode of it has ended yet"
    assert part(report, "left-out")["items"] == [f"{one}: {why}"]
    other = write_run(tmp_path / "b", "atari:Alien", "al-dqn", {0: [None]}, done=False)
    subtitle = build_report([tmp_path]).page["subtitle"]
    assert subtitle == "There is nothing to show yet: no episode has ended yet in any of the 2 runs."
    text = (other / "metrics.jsonl").read_text().replace('"train_return": null, ', "")
    (other / "metrics.jsonl").write_text(text)  # an episode may have ended, for all we know
    report = build_report([tmp_path])
    assert report.page["subtitle"] == "There is nothing to show yet: there is no return in any of the 2 runs."
    assert f"{other}: seed 0 of al-dqn has no train return in atari:Alien" in part(report, "left-out")["items"]


def test_one_is_not_many(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "kdt", "dqn", {0: [0.5]})
    assert build_report([tmp_path]).page["subtitle"] == "1 run (finished): 1 agent in 1 environment, 1 seed each."
    write_run(tmp_path / "b", "kdt", "al-dqn", {0: [0.5], 1: [0.5]}, done=False)
    subtitle = build_report([tmp_path]).page["subtitle"]
    assert subtitle == "3 runs (1 finished): 2 agents in 1 environment, 1 to 2 seeds each."


@pytest.mark.parametrize(("name", "kinds"), [("x", "html"), ("x.HTM", "html"), ("x.csv", "csv"), ("x.html", "csv,md")])
def test_what_is_made_may_be_named_so(three_games: Path, tmp_path: Path, name: str, kinds: str) -> None:
    (tmp_path / "made").mkdir()
    assert main(["report", str(three_games), "--out", str(tmp_path / "made" / name), "--format", kinds]) == 0
    assert (tmp_path / "made" / name).is_file() == (kinds == "html")


@pytest.mark.parametrize(("arguments", "phrase"), BAD)
def test_bad_input_is_one_sentence(arguments: list[str], phrase: str, tmp_path: Path, capsys: Any) -> None:
    assert main([argument.replace("{tmp}", str(tmp_path)) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and phrase in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


KEYS = st.sampled_from(["env", "agent", "rule", "name", "base", "seed", "step", "eval_return"])
SCALARS = st.none() | st.integers() | st.floats() | st.text()
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8)
HARM = st.tuples(
    st.sampled_from(["config.yaml", "metrics.jsonl", "DONE"]),
    st.sampled_from(["cut", "change", "insert", "remove", "other"]),
    st.floats(0, 1),
    st.binary(min_size=1, max_size=8),
    TREES,
)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(HARM, min_size=1, max_size=3))
def test_mutilated_folders_give_a_report(harms: list[Any]) -> None:
    """Bytes cut, changed or put in anywhere in a run's files: a report comes out, with the good run in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(folder / "good", "kdt", "dqn", {0: [0.5, 1.0]})
        bad = write_run(folder / "bad", "kdt", "sail-dqn", {0: [0.5, 1.0], 1: [None, 0.5]})
        for file, how, where, bytes_, tree in harms:
            content = (bad / file).read_bytes() if (bad / file).is_file() else b""
            at = int(where * len(content))
            (bad / file).unlink(missing_ok=True)
            if how != "remove":
                kept = {"cut": b"", "change": bytes_ + content[at + 1 :], "insert": bytes_ + content[at:]}
                other = json.dumps(tree).encode() + b"\n"
                (bad / file).write_bytes(other if how == "other" else content[:at] + kept[how])
        report = build_report([folder], reps=50)
        assert "dqn" in report.page["agents"] and part(report, "left-out")["kind"] == "list"
        data = re.search(r'id="data">(.*?)</script>', page_html(report.page), re.DOTALL)
        assert data and json.loads(data[1])["title"]


def test_reading_and_grouping_by_hand(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "kdt", "dqn", {3: [0.1, None], 4: [0.2]}, done=False)
    runs, left_out = read_runs([tmp_path])
    assert left_out == [] and [curve.seed for curve in runs[0].seeds] == [3, 4] and not runs[0].done
    (group,), _ = group_runs(runs)
    np.testing.assert_array_equal(group.steps, [250_000, 500_000])
    table = group.table()
    assert table[0, 0] == 0.1 and math.isnan(table[0, 1]) and table[1, 0] == 0.2 and math.isnan(table[1, 1])
    np.testing.assert_array_equal(group.table("max_q"), [[2, 2], [2, np.nan]])
    assert np.isnan(group.table("nothing")).all()
