"""The picture of a run: what it shows, and what is said where something in the run is broken or cannot be drawn."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sail.analysis.pictures import summary_figure
from sail.cli import main
from sail.config import make_config
from sail.draw_command import title_of
from sail.training.run_folder import RunFolder


@pytest.mark.parametrize(("agent", "named"), [("dqn", "DQN"), ("sail-iqn", "SAIL-IQN"), ("al-dqn+rnd", "AL-DQN+RND")])
def test_it_names_the_agent_as_the_command_line_does(tmp_path: Path, agent: str, named: str) -> None:
    run = RunFolder.create(tmp_path / "run", make_config("kdt", agent, {}), {})
    assert title_of(run.path) == f"{named} on kdt"
    assert summary_figure(run.path, "Some title").get_suptitle() == "Some title"


def test_a_config_may_leave_out_what_has_a_default(run: Path) -> None:
    (run / "config.yaml").write_text("env: {name: kdt}\n")
    assert title_of(run) == "SAIL-DQN on kdt"
    assert main(["draw", str(run), "--out", str(run / "x.png")]) == 0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of Key-Door-Treasure with two lines of metrics and a route."""
    folder = RunFolder.create(tmp_path / "run", make_config("kdt", "dqn", {}), {})
    folder.append("metrics.jsonl", [{"step": step, "seed": 0, "eval_return": 0.5} for step in (100, 200)])
    folder.write("route.json", json.dumps(ROUTE))
    return folder.path


ROUTE = {"seed": 0, "success": False, "return": 0.0, "steps": 2, "grid": ["###", "#S#"], "cells": [[1, 1], [0, 1]]}


def said(capsys: Any, *arguments: Any) -> tuple[int, str, str]:
    code = main([*map(str, arguments)])
    return code, *capsys.readouterr()


BROKEN_ROUTES = [
    b"",
    b"[",
    b"{}",
    b"[]",
    b"\xff",
    json.dumps(ROUTE | {"cells": [[7, 7], [0, 0]]}).encode(),
    json.dumps(ROUTE | {"cells": [["a"]]}).encode(),
    json.dumps(ROUTE | {"grid": ["###", "#"]}).encode(),
    json.dumps(ROUTE | {"grid": []}).encode(),
]


@pytest.mark.parametrize("content", BROKEN_ROUTES)
def test_a_broken_route_is_named_and_the_curve_is_drawn_without_it(run: Path, content: bytes, capsys: Any) -> None:
    (run / "route.json").write_bytes(content)
    file = run / "route.json"
    sentence = f"sail: {file}: this is no route as sail writes it; --out FILE draws its learning curve.\n"
    assert said(capsys, "draw", run) == (2, "", sentence)
    to = run / "x.png"
    left_out = f"Left out: {file}: this is no route as sail writes it\n"
    assert said(capsys, "draw", run, "--out", to) == (0, f"Wrote {to}.\n", left_out)
    assert to.read_bytes().startswith(b"\x89PNG")


def test_broken_metrics_are_left_out_and_named(run: Path, capsys: Any) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{}\ngarbage{\n[1]\n{"step": 300, "seed": 0, "eval_return": "much"}\n{"step": 400, "se')
    to = run / "x.png"
    code, out, err = said(capsys, "draw", run, "--out", to)
    assert code == 0 and f"Wrote {to}.\n" in out
    assert err == f"Left out: {run / 'metrics.jsonl'}: 3 broken line(s)\n"
    curve = summary_figure(run).axes[0].lines[0]
    np.testing.assert_array_equal(curve.get_xydata(), [[100, 0.5], [200, 0.5]])


def test_the_mean_is_over_the_seeds_that_have_logged(run: Path) -> None:
    rows = [{"step": 100, "seed": 1, "eval_return": 1.0}, {"step": 200, "seed": 1, "eval_return": None}]
    RunFolder(run).append("metrics.jsonl", rows)
    curve = summary_figure(run).axes[0].lines[0]
    np.testing.assert_array_equal(curve.get_xydata(), [[100, 0.75], [200, 0.5]])


@pytest.mark.parametrize("name", ["x.png", "x.svg", "x.pdf"])
def test_a_full_disk_leaves_no_picture(run: Path, name: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    to = run / name
    monkeypatch.setattr(os, "replace", full)
    assert said(capsys, "draw", run, "--out", to) == (1, "", f"sail: {os.strerror(errno.ENOSPC)}: {to}.\n")
    assert not list(run.glob("*x*")) and not list(run.glob(".x*"))


def test_a_picture_without_an_ending_is_a_png(run: Path, capsys: Any) -> None:
    assert said(capsys, "draw", run, "--out", run / "x")[0] == 0
    assert (run / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("to", ["x.doc", "x.pgf", "x.rgba", "no/such/x.png"])
def test_where_no_picture_can_be_is_said(run: Path, to: str, capsys: Any) -> None:
    code, out, err = said(capsys, "draw", run, "--out", run / to)
    assert code == 2 and out == "" and f"{to} cannot be written: " in err and err.count("\n") == 1


def test_every_ending_that_is_offered_can_be_drawn(run: Path, capsys: Any) -> None:
    _, _, err = said(capsys, "draw", run, "--out", run / "x.doc")
    endings = err[err.index("one of ") + len("one of ") : err.index(")")].split(", ")
    assert {"png", "svg", "pdf", "eps"} <= set(endings) and not {"pgf", "raw", "rgba"} & set(endings)
    for ending in endings:
        code, _, err = said(capsys, "draw", run, "--out", run / f"x.{ending}")
        assert (code, err) == (0, "") and (run / f"x.{ending}").stat().st_size > 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("kdtt", "There is no run folder or environment with a map 'kdtt': did you mean 'kdt'?"),
        ("deep-sae", "There is no run folder or environment with a map 'deep-sae': did you mean 'deep-sea'?"),
        ("gym:CartPole-v1", "There is no map of 'gym:CartPole-v1' to draw: only kdt, apple-kdt, deep-sea have one."),
        ("atari:Pongg", "There is no map of 'atari:Pongg' to draw: only kdt, apple-kdt, deep-sea have one."),
        ("probe-chain", "There is no map of 'probe-chain' to draw: only kdt, apple-kdt, deep-sea have one."),
        ("runs/kdtt", "is no run folder, which would have a config.yaml, and no environment with a map (kdt,"),
        ("x" * 300, "is no run folder, which would have"),
    ],
)
def test_what_cannot_be_drawn_is_answered_with_what_can(name: str, sentence: str, capsys: Any) -> None:
    code, out, err = said(capsys, "draw", name)
    assert code == 2 and out == "" and sentence in err and err.count("\n") == 1


def test_an_empty_folder_is_no_run_folder(tmp_path: Path, capsys: Any) -> None:
    assert said(capsys, "draw", tmp_path) == (2, "", f"sail: {tmp_path} is no run folder: it has no config.yaml.\n")
