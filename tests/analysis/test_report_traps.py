"""Runs that do not fit together, and folders that would break a report: what each once did wrong."""

from __future__ import annotations

import csv
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_report import part, row, write_run

from sail.analysis.report import build_report
from sail.analysis.watch import Watcher
from sail.cli import main


def respace(run: Path, step: int) -> Path:
    """Phases of another length: the same curve, score = step / 10,000, logged more or less often."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for i, line in enumerate(lines, 1):
        line["step"] = step * i
        line["train_return"] = step * i / 10_000
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_phases_are_compared_at_the_same_step(tmp_path: Path) -> None:
    for game in ("Alien", "Hero", "Venture"):
        respace(write_run(tmp_path / game / "a", f"atari:{game}", "dqn", {0: [0.0] * 10}), 100_000)
        respace(write_run(tmp_path / game / "b", f"atari:{game}", "sail-dqn", {0: [0.0] * 2}), 500_000)
    report = build_report([tmp_path], reps=100)
    cells = part(report, "relative-improvement")["rows"][0]["cells"]
    assert cells[4:] == [2, 0.0, 0.0]  # two phases in common, in which both have the same


def test_games_are_normalised_at_the_same_step(tmp_path: Path) -> None:
    respace(write_run(tmp_path / "a", "atari:Alien", "dqn", {0: [0.0] * 4}), 250_000)
    respace(write_run(tmp_path / "b", "atari:Hero", "dqn", {0: [0.0] * 2}), 500_000)
    respace(write_run(tmp_path / "c", "atari:Venture", "dqn", {0: [0.0] * 1}), 500_000)
    line = part(build_report([tmp_path], reps=100), "human-normalised")
    assert line["series"][0]["x"] == [2_000_000] and "ends at 2,000,000 frames" in line["about"]


def test_seeds_that_run_ahead_or_stopped_do_not_speak_for_all(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "kdt", "dqn", {0: [0.0, 0.0, 1.0], 1: [0.0, 0.0], 2: [0.0, 0.5], 3: [0.25]})
    write_run(tmp_path / "b", "kdt", "sail-dqn", {0: [0.5, 0.5, 0.75]})
    cells = row(part(build_report([tmp_path], reps=100), "final-scores"), "kdt")
    dqn = cells["dqn"]
    assert (dqn["value"], dqn["seeds"], dqn["of"], dqn["at"]) == (pytest.approx(0.5 / 3, rel=1e-4), 3, 4, 500_000)
    assert (cells["sail-dqn"]["value"], cells["at"]) == (0.75, 750_000)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "r.html"), "--format", "csv,md", "--quiet"]) == 0
    with (tmp_path / "r-files" / "final-scores.csv").open() as file:
        line = next(csv.DictReader(file))
    assert (line["dqn at"], line["sail-dqn at"]) == ("500000", "750000")
    assert "x 3 of 4 @500,000" in (tmp_path / "r-files" / "report.md").read_text()


def test_evaluation_and_training_returns_are_not_mixed(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "kdt", "dqn", {0: [1.0]})
    other = write_run(tmp_path / "b", "kdt", "dqn", {1: [100.0]})
    text = (other / "metrics.jsonl").read_text()
    (other / "metrics.jsonl").write_text(text.replace("eval_return", "train_return"))
    report = build_report([tmp_path], reps=100)
    assert row(part(report, "final-scores"), "kdt")["dqn"]["value"] == 1.0
    assert part(report, "left-out")["items"] == [f"{other}: seed 1 of dqn has no eval return in kdt"]


def test_an_agent_with_few_environments_does_not_hide_the_others(tmp_path: Path) -> None:
    for game in ("Alien", "Hero", "Venture"):
        for agent, score in (("dqn", 100.0), ("sail-dqn", 200.0)):
            write_run(tmp_path / game / agent, f"atari:{game}", agent, {0: [score]})
    write_run(tmp_path / "x", "atari:Hero", "iqn", {0: [300.0]})
    write_run(tmp_path / "Alien" / "empty", "atari:Alien", "al-dqn", {0: [None]})
    write_run(tmp_path / "Hero" / "al", "atari:Hero", "al-dqn", {0: [50.0]})
    report = build_report([tmp_path], reps=100)
    statistics = part(report, "statistics")
    assert [line["cells"][0] for line in statistics["rows"]] == ["dqn", "sail-dqn"]
    assert "iqn (in 1 of 3 environments)" in statistics["about"] and "al-dqn (in 1 of 3" in statistics["about"]
    over = [line["cells"][:4] for line in part(report, "relative-improvement")["rows"]]
    assert ["al-dqn", "dqn", "all", 1] in over and ["iqn", "dqn", "all", 1] in over


def test_the_baseline_is_the_studys_and_each_agents_own_base(tmp_path: Path) -> None:
    study = tmp_path / "studies" / "s"
    for slip in (0.0, 0.1):
        for agent in ("dqn", "al-dqn", "sail-dqn", "sail-iqn", "iqn"):
            folder = study / "cells" / "kdt" / f"{agent},env.slip={slip}" / "seed0"
            write_run(folder, "kdt", agent, {0: [0.5]}, env={"slip": slip})
    report = {"baseline": "al-dqn", "show": ["sticky", "curves"]}
    (study / "study.json").write_text(json.dumps({"definition": {"report": report}}))
    page = build_report([tmp_path], reps=100)
    assert [one["id"] for one in page.page["parts"]][:2] == ["sticky", "curves"]
    assert page.page["title"] == "sail: s"
    names = [line["name"] for line in part(page, "sticky")["series"]]
    assert names == [f"{agent} over al-dqn" for agent in ("dqn", "sail-dqn", "iqn", "sail-iqn")]
    pairs = {tuple(line["cells"][:2]) for line in part(page, "relative-improvement")["rows"]}
    assert ("sail-iqn env.slip=0.1", "iqn env.slip=0.1") in pairs  # its own base, with its own settings
    assert ("dqn env.slip=0.1", "al-dqn env.slip=0.1") in pairs and len(pairs) == 14


def break_yaml(run: Path, text: str) -> None:
    tree = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(tree + text)


def test_nothing_breaks_it(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("matplotlib")
    write_run(tmp_path / "runs" / "good", "kdt", "dqn", {0: [0.5, 1.0]})
    break_yaml(write_run(tmp_path / "runs" / "loop", "kdt", "al-dqn", {0: [1.0]}), "x: &a {b: *a}\n")
    break_yaml(write_run(tmp_path / "runs" / "list", "kdt", "al-dqn", {0: [1.0]}), "x: &a [*a]\n")
    huge = write_run(tmp_path / "runs" / "huge", "kdt", "sail-dqn", {0: [1.0, 1e308], 1: [1.0, 1.7e308]})
    text = (huge / "metrics.jsonl").read_text().replace('"seconds": 10.0', '"seconds": 1e-320')
    (huge / "metrics.jsonl").write_text(text.replace('"max_q": 2.0', '"max_q": Infinity'))
    slippery = write_run(tmp_path / "runs" / "slip", "kdt", "dqn", {0: [1.0]}, env={"slip": 0.5})
    (slippery / "config.yaml").write_text((slippery / "config.yaml").read_text().replace("slip: 0.5", "slip: [a, $x$]"))
    (tmp_path / "runs" / "up").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "linked").symlink_to(write_run(tmp_path / "elsewhere", "kdt", "strsil-dqn", {0: [0.1]}))
    os.mkfifo(tmp_path / "runs" / "good" / "pipe")
    pipe = tmp_path / "runs" / "piped"
    pipe.mkdir()
    os.mkfifo(pipe / "config.yaml")
    (pipe / "DONE").touch()
    odd = tmp_path / "runs" / os.fsdecode(b"\xff\xfe")
    odd.mkdir()
    (odd / "DONE").touch()
    out = tmp_path / "r.html"
    assert main(["report", str(tmp_path / "runs"), "--out", str(out), "--format", "html,md,csv,png,svg", "--json"]) == 0
    said = "\n".join(json.loads(capsys.readouterr().out)["left_out"])
    assert "usable numbers" in said and "piped: it has no config.yaml" in said
    page = out.read_text()
    for agent in ("dqn", "sail-dqn", "strsil-dqn"):
        assert agent in page


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    write_run(tmp_path / "good", "kdt", "dqn", {0: [1.0]})
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert part(build_report([tmp_path]), "left-out")["items"] == [f"{closed}: it cannot be read: Permission denied"]


def test_a_video_is_a_file_of_the_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "kdt", "dqn", {0: [1.0]})
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (run / "video").mkdir()
    (run / "video" / "a.mp4").symlink_to(tmp_path / "secret.mp4")
    (run / "video" / "b.webp").write_bytes(b"mine")
    items = part(build_report([tmp_path], reps=50), "videos")["items"]
    assert [(item["kind"], item["src"]) for item in items] == [("image", "data:image/webp;base64,bWluZQ==")]


def test_the_watcher_outlives_whatever_it_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", "kdt", "dqn", {0: [0.5]})
    first, second = Watcher([tmp_path]), Watcher([tmp_path])
    assert first.page["version"] != second.page["version"]  # two servers never say the same version
    monkeypatch.setattr("sail.analysis.watch.PERIOD", 0.05)
    real, broken = first.look, {"now": True}
    monkeypatch.setattr(first, "look", lambda: 1 / 0 if broken["now"] else real())
    first.start()
    try:
        wait_for(lambda: "ZeroDivisionError" in first.page["subtitle"])
        assert first.page["agents"] == ["dqn"]  # what was there before
        broken["now"] = False
        wait_for(lambda: first.page["subtitle"].startswith("1 run "))
        (run / "config.yaml").unlink()
        (run / "metrics.jsonl").unlink()
        (run / "DONE").unlink()
        wait_for(lambda: "nothing to show" in first.page["subtitle"])
        assert first._known == {}  # forgotten, not kept for ever
    finally:
        first.stop()


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_what_is_named_by_hand_may_be_anything(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "kdt", "dqn", {0: [1.0]})
    tree = yaml.safe_load((run / "config.yaml").read_text())
    tree["agent"]["base"], tree["rule"]["name"] = "my-agent", "own"
    (run / "config.yaml").write_text(yaml.safe_dump(tree))
    write_run(tmp_path / "other", "kdt", "dqn", {0: [0.5]})
    report = build_report([tmp_path], reps=50)
    assert report.page["agents"] == ["dqn", "own-my-agent"]
    assert part(report, "relative-improvement")["rows"][0]["cells"][:2] == ["own-my-agent", "dqn"]


@pytest.mark.parametrize("formats", ["html,csv", "csv"])
@pytest.mark.parametrize("in_the_way", ["a file", "a link that leads nowhere"])
def test_what_is_in_the_way_of_the_files_is_said_before_there_is_a_page(
    tmp_path: Path, capsys: Any, formats: str, in_the_way: str
) -> None:
    write_run(tmp_path / "run", "kdt", "dqn", {0: [1.0]})
    files = tmp_path / "r-files"
    if in_the_way == "a file":
        files.write_text("mine")
    else:
        files.symlink_to("nowhere")
    command = ["report", str(tmp_path / "run"), "--out", str(tmp_path / "r.html"), "--format", formats]
    assert main(command) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err == (
        f"sail: {files} is no folder, and the report's files belong into it: give --out another name.\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r-files", "run"]
