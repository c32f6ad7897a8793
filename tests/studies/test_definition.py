"""Study files: which runs they stand for, how a study grows, and one sentence with a line for every mistake in one."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sail.errors import BadInputError
from sail.games import GROUPS
from sail.studies import cells as cells_module
from sail.studies.cells import Cell, expand
from sail.studies.definition import FIGURES, GRID_KEYS, KEYS, Definition, read_definition
from sail.studies.folder import StudyFolder, extend, open_or_create, up_to_date
from sail.studies.library import find, shipped
from sail.studies.marked import Marked
from sail.studies.records import STALE_SECONDS
from sail.studies.resources import Resources, bytes_text, read_resource, time_text

KDT = "environments: [kdt]\nagents: [dqn]\n"
PONG = "environments: [atari:Pong]\nagents: [dqn]\n"


def marked(text: str) -> Marked:
    return Marked("study.yaml", text)


def read(text: str) -> tuple[Definition, list[Cell]]:
    file = marked(text)
    definition = read_definition(file, "mine")
    return definition, expand(definition, file)


def names(text: str) -> list[str]:
    return [cell.name for cell in read(text)[1]]


# --- expansion


def test_a_grid_is_environments_by_agents_by_values_by_seeds() -> None:
    text = """
environments: [kdt, atari:Pong]
agents: [dqn, sail-iqn+rnd]
vary: {rule.alpha: [0.5, 0], rule.clip: [none, 1]}
settings: {replay: {n_step: 3}, agent.hidden: [16, 8]}
seeds: 2
steps: 1000
"""
    found = read(text)[1]
    values = ["rule.alpha=0.5,rule.clip=none", "rule.alpha=0.5,rule.clip=1"]
    values += ["rule.alpha=0,rule.clip=none", "rule.alpha=0,rule.clip=1"]
    kdt = [f"kdt/{agent},{value}/seeds0-1" for agent in ("dqn", "sail-iqn+rnd") for value in values]
    pong = [one.replace("kdt", "atari-Pong").replace("seeds0-1", seed) for one in kdt for seed in ("seed0", "seed1")]
    assert [cell.name for cell in found] == kdt + pong
    shared = {"replay.n_step": 3, "agent.hidden": [16, 8], "steps": 1000}
    first = {**shared, "rule.alpha": 0.5, "rule.clip": None}
    assert found[0] == Cell(kdt[0], "kdt", "dqn", None, first, seed=0, seeds=2)
    assert found[-1].settings == {**shared, "rule.alpha": 0, "rule.clip": 1}
    assert found[0].group == "kdt/dqn,rule.alpha=0.5,rule.clip=none"
    config = found[0].config()
    assert (config.seeds, config.replay.n_step, config.rule.clip, config.agent.hidden) == (2, 3, None, (16, 8))


def test_a_further_grid_says_only_where_it_differs() -> None:
    text = """
environments: [kdt]
agents: [dqn]
settings: {rule.alpha: 0.5, replay.n_step: 2}
vary: {env.slip: [0.25]}
seeds: 2
steps: 100
preset: small
grids:
  - {}
  - agents: [sail-dqn]
    settings: {rule.alpha: 0.75, agent.hidden: [8, 8]}
    vary: {}
    seeds: [7]
    steps: 200
    preset: paper
"""
    first, second = read(text)[1]
    shared = {"rule.alpha": 0.5, "replay.n_step": 2}
    assert first == Cell(
        "kdt/dqn,env.slip=0.25/seeds0-1", "kdt", "dqn", "small", {**shared, "env.slip": 0.25, "steps": 100}, 0, 2
    )
    own = {"rule.alpha": 0.75, "agent.hidden": [8, 8]}
    name = "kdt/sail-dqn,rule.alpha=0.75,agent.hidden=8x8/seed7"
    assert second == Cell(name, "kdt", "sail-dqn", "paper", {**shared, **own, "steps": 200}, 7, 1)


def test_settings_that_share_a_name_with_a_key_of_the_study_may_stand_in_their_section() -> None:
    nested = read(PONG + "settings: {evaluation: {steps: 1000}, replay: {frames: host}}")[1]
    assert nested == read(PONG + "settings: {evaluation.steps: 1000, replay.frames: host}")[1]


def test_the_groups_of_games() -> None:
    sizes = {"hard-exploration": 16, "sparse": 7, "paper": 59, "all": 60}
    assert {name: len(set(games)) for name, games in GROUPS.items()} == sizes
    assert set(GROUPS["sparse"]) < set(GROUPS["hard-exploration"]) < set(GROUPS["paper"])
    assert set(GROUPS["all"]) - set(GROUPS["paper"]) == {"ElevatorAction"}
    found = names("environments: [atari:Pong, group:sparse]\nagents: [dqn]")
    assert found[:2] == ["atari-Pong/dqn/seed0", "atari-Freeway/dqn/seed0"] and len(found) == 8


@pytest.mark.parametrize(("frames", "steps"), [(1, 1), (4, 1), (5, 2), (200_000_000, 50_000_000)])
def test_frames_are_four_to_a_step(frames: int, steps: int) -> None:
    assert read(PONG + f"frames: {frames}")[1][0].settings == {"steps": steps}


SEEDS = [
    ("", ["seed0"], ["seed0"]),
    ("seeds: 3", ["seeds0-2"], ["seed0", "seed1", "seed2"]),
    ("seeds: [5, 3, 4, 9]", ["seeds3-5", "seed9"], ["seed3", "seed4", "seed5", "seed9"]),
    ("seeds: {first: 3, count: 2}", ["seeds3-4"], ["seed3", "seed4"]),
    ("seeds: {first: 3}", ["seed3"], ["seed3"]),
    ("seeds: {count: 2}", ["seeds0-1"], ["seed0", "seed1"]),
    ("seeds: 5\ntogether: 2", ["seeds0-1", "seeds2-3", "seed4"], ["seeds0-1", "seeds2-3", "seed4"]),
    ("seeds: [0, 1, 3, 4, 5]\ntogether: 2", ["seeds0-1", "seeds3-4", "seed5"], ["seeds0-1", "seeds3-4", "seed5"]),
    ("seeds: 2\ntogether: 1", ["seed0", "seed1"], ["seed0", "seed1"]),
    ("seeds: 1e0", ["seed0"], ["seed0"]),
]


@pytest.mark.parametrize(("line", "on_device", "atari"), SEEDS)
def test_seeds_train_together_where_the_environment_is_compiled_in(
    line: str, on_device: list[str], atari: list[str]
) -> None:
    assert names(KDT + line) == [f"kdt/dqn/{one}" for one in on_device]
    assert names(PONG + line) == [f"atari-Pong/dqn/{one}" for one in atari]


# --- studies that grow


def begin(path: Path, text: str) -> StudyFolder:
    return up_to_date(open_or_create(path / "study", marked(text), "mine"), marked(text), "mine")


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        (KDT + "seeds: 3", KDT + "seeds: 5", ["kdt/dqn/seeds3-4"]),
        (KDT + "seeds: [4]", KDT + "seeds: 6", ["kdt/dqn/seeds0-3", "kdt/dqn/seed5"]),
        (KDT + "seeds: 3\ntogether: 2", KDT + "seeds: 5\ntogether: 3", ["kdt/dqn/seeds3-4"]),
        (PONG + "seeds: 2", PONG + "seeds: 3", ["atari-Pong/dqn/seed2"]),
        (KDT, "environments: [deep-sea, kdt]\nagents: [dqn]", ["deep-sea/dqn/seed0"]),
        (KDT, "environments: [kdt]\nagents: [sail-dqn, dqn]", ["kdt/sail-dqn/seed0"]),
        (KDT, KDT + "grids: [{}, {settings: {rule.alpha: 0.5}}]", ["kdt/dqn,rule.alpha=0.5/seed0"]),
        (KDT + "vary: {rule.alpha: [0]}", KDT + "vary: {rule.alpha: [0, 0.5]}", ["kdt/dqn,rule.alpha=0.5/seed0"]),
        (KDT, KDT + "title: Other", []),
    ],
)
def test_what_is_added_makes_new_cells_and_leaves_the_old(
    before: str, after: str, new: list[str], tmp_path: Path
) -> None:
    study = begin(tmp_path, before)
    larger, added = extend(study, marked(after), "mine")
    assert [cell.name for cell in added] == new
    assert sorted(cell.name for cell in larger.cells) == sorted([cell.name for cell in study.cells] + new)
    assert all(cell in larger.cells for cell in study.cells)
    assert begin(tmp_path, after).cells == larger.cells == StudyFolder(study.path).cells


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (KDT + "seeds: 3", KDT + "seeds: 2", "has no cell kdt/dqn/seeds0-2 any more"),
        ("environments: [kdt]\nagents: [dqn, iqn]", KDT, "has no cell kdt/iqn/seed0 any more"),
        (KDT + "steps: 100", KDT + "steps: 200", "changes the settings of kdt/dqn/seed0 from {'steps': 100} to"),
        (KDT, KDT + "settings: {rule.alpha: 0.5}", "changes the settings of kdt/dqn/seed0"),
        (KDT, KDT + "preset: paper", "changes the preset of kdt/dqn/seed0 from None to paper"),
    ],
)
def test_what_is_taken_away_or_changed_is_refused(before: str, after: str, sentence: str, tmp_path: Path) -> None:
    study = begin(tmp_path, before)
    kept = (study.path / "study.json").read_text()
    with pytest.raises(BadInputError) as error:
        extend(study, marked(after), "mine")
    assert str(error.value).startswith("study.yaml ") and sentence in str(error.value)
    assert "\n" not in str(error.value) and (study.path / "study.json").read_text() == kept


def test_an_unchanged_file_opens_its_folder_and_one_that_only_tells_otherwise_is_recorded(tmp_path: Path) -> None:
    study = begin(tmp_path, KDT + "seeds: 2")
    assert begin(tmp_path, KDT + "seeds: [0, 1]  # the same, said otherwise").cells == study.cells
    told = "title: New\nabout: Why\nreport: {show: [speed]}\nresources: {cores: 2}\ntogether: 1\n"
    assert begin(tmp_path, KDT + "seeds: 2\n" + told).cells == study.cells
    now, _ = StudyFolder(study.path).definition()
    assert (now.title, now.about, now.report.show, now.resources.cores, now.together) == (
        "New",
        "Why",
        ("speed",),
        2,
        1,
    )
    assert "title: New" in (study.path / "study.yaml").read_text()


def test_a_file_that_changed_is_refused_with_the_lines_that_differ(tmp_path: Path) -> None:
    study = begin(tmp_path, KDT + "seeds: 2")
    with pytest.raises(BadInputError) as error:
        begin(tmp_path, KDT + "seeds: 3")
    assert "study.yaml has changed since" in str(error.value)
    assert "\n  -    count: 2\n  +    count: 3\n" in str(error.value)
    assert f"sail study extend {study.path} --file study.yaml" in str(error.value)
    assert StudyFolder(study.path).cells == study.cells


@pytest.mark.parametrize("title", ["none", "1e6", "nan", "yes", "3", "a: b", "Größe", "x" * 200])
def test_any_title_survives_in_the_folder(title: str, tmp_path: Path) -> None:
    text = KDT + f"title: {json.dumps(title)}\nabout: {json.dumps(title)}"
    begin(tmp_path, text)
    now, _ = begin(tmp_path, text).definition()
    assert (now.title, now.about) == (title, title)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not what sail writes"),
        ("[]", "is not what sail writes"),
        ("{}", "is not what sail writes: 'schema'"),
        ('{"schema": 2}', "has schema 2, and this version of sail reads 1."),
        ('{"schema": 1, "name": "x", "definition": {}, "cells": [{"x": 1}]}', "is not what sail writes"),
        ('{"schema": 1, "name": "x", "definition": {}, "cells": 3}', "is not what sail writes"),
        ("\xff", "is not what sail writes"),
        (None, "is no study folder: it has no study.json."),
    ],
)
def test_a_study_folder_that_cannot_be_read_is_refused(text: str | None, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "study.json"
    if text is not None:
        file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInputError) as error:
        StudyFolder(tmp_path)
    assert sentence in str(error.value) and str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def test_a_folder_with_something_else_in_it_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "thesis.tex").touch()
    with pytest.raises(BadInputError, match="exists and is no study folder: name another with --out"):
        begin(tmp_path, KDT)
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["thesis.tex"]


# --- one driver at a time


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    study = begin(tmp_path, KDT)
    with study.driving():
        with (
            pytest.raises(BadInputError, match=f"by process {os.getpid()} on {socket.gethostname()}"),
            StudyFolder(study.path).driving(),
        ):
            pass
        assert study.driver_age() < STALE_SECONDS
    with pytest.raises(KeyError), study.driving():
        raise KeyError
    assert study.driver_age() == float("inf")
    with study.driving():
        study.touch()


def test_a_driver_on_another_machine_is_refused_until_it_is_stale(tmp_path: Path) -> None:
    study = begin(tmp_path, KDT)
    file = study.path / "driver.json"
    file.write_text('{"host": "elsewhere", "pid": 7}')
    with pytest.raises(BadInputError, match="is being run by process 7 on elsewhere"), study.driving():
        pass
    assert file.exists()
    long_ago = time.time() - STALE_SECONDS - 1
    os.utime(file, (long_ago, long_ago))
    with study.driving():
        assert json.loads(file.read_text())["host"] == socket.gethostname()


@pytest.mark.parametrize("text", ["", "[]", '{"pid": 3}', '{"host": "HERE", "pid": 3}'])
def test_what_a_dead_driver_left_stops_nobody(text: str, tmp_path: Path) -> None:
    study = begin(tmp_path, KDT)
    (study.path / "driver.json").write_text(text.replace("HERE", socket.gethostname()))
    with study.driving():
        pass


# --- there and back again


def same_again(definition: Definition, found: list[Cell]) -> None:
    again = Marked("again.yaml", yaml.safe_dump(definition.to_tree(), sort_keys=False))
    read_again = read_definition(again, definition.name)
    assert expand(read_again, again) == found
    assert read_again.to_tree() == definition.to_tree()
    assert (read_again.report, read_again.resources) == (definition.report, definition.resources)


def some(values: list[Any], least: int = 1) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), unique_by=str, min_size=least, max_size=3)


SEED_LISTS = (
    st.integers(1, 5)
    | st.lists(st.integers(0, 9), unique=True, min_size=1)
    | st.fixed_dictionaries({"first": st.integers(0, 9), "count": st.integers(1, 4)})
)
VALUES = {"rule.alpha": [0.0, 0.5, 1e-5], "rule.clip": [None, 1, 0.25], "agent.hidden": [[16], [16, 8]]}
GRID = {
    "environments": some(["kdt", "deep-sea", "atari:Pong", "group:sparse"]),
    "agents": some(["dqn", "sail-dqn", "al-iqn"]),
}
OPTIONAL = {
    "seeds": SEED_LISTS,
    "steps": st.integers(1, 10**6),
    "preset": st.sampled_from(["small", "paper"]),
    "settings": st.fixed_dictionaries({}, optional={key: st.sampled_from(value) for key, value in VALUES.items()}),
    "vary": st.fixed_dictionaries({}, optional={key: some(value) for key, value in VALUES.items()}),
}


@settings(max_examples=40, deadline=None)
@given(
    top=st.fixed_dictionaries(GRID, optional={**OPTIONAL, "together": st.integers(1, 3)}),
    further=st.lists(st.fixed_dictionaries({}, optional={**GRID, **OPTIONAL}), max_size=2),
)
def test_what_is_written_reads_as_the_same_cells(top: dict[str, Any], further: list[dict[str, Any]]) -> None:
    for i, grid in enumerate(further):  # each has a setting of its own, so that no two have a cell in common
        grid["settings"] = {**grid.get("settings", {}), "learning.batch_size": 8 + i}
    definition, found = read(yaml.safe_dump({**top, "grids": further} if further else top))
    same_again(definition, found)
    assert len({cell.name for cell in found}) == len(found)


def test_a_report_without_figures_stays_without() -> None:
    same_again(*read(KDT + "report: {show: []}"))


# --- the studies that come with sail

PAPER = {
    "dqn": 59 * 3 * 3 + 16 * 3 * 3,
    "iqn": 59 * 4 * 3 + 16 * 4 * 3,
    "human-normalised": 59 * 6 * 3,
    "rnd": 59 * 2 * 3 + 1 * 3,
    "sticky": 59 * 3 * 2 * 3 + 16 * 3 * 2 * 3,
    "strsil": 16 * 4 * 6,
    "stale-returns": 2 * 5 * 3 * 100,
}


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_study_is_valid_and_reads_the_same_when_written(name: str) -> None:
    _, file = find(name)
    definition = read_definition(file, name)
    found = expand(definition, file)
    assert definition.title != name and definition.report.show
    assert name.endswith("-cpu") <= all(cell.env in ("kdt", "apple-kdt", "deep-sea") for cell in found)
    same_again(definition, found)


@pytest.mark.parametrize(("name", "runs"), PAPER.items())
def test_the_papers_comparisons_are_there_in_three_sizes(name: str, runs: int) -> None:
    assert {f"paper/{name}", f"small/{name}", f"small/{name}-cpu"} <= shipped().keys()
    _, file = find(f"paper/{name}")
    found = expand(read_definition(file, name), file)
    assert sum(cell.seeds for cell in found) == runs
    # The gridworld's hundred seeds train together, a game's do not.
    assert len(found) == (30 if name == "stale-returns" else runs)
    assert {cell.settings["steps"] for cell in found} == {300_000 if name == "stale-returns" else 50_000_000}


def test_a_study_is_found_by_its_name_or_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(KDT)
    name, file = find(str(tmp_path / "mine.yaml"))
    assert name == "mine" and file.tree == {"environments": ["kdt"], "agents": ["dqn"]}
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for wrong, sentence in [
        ("paper/dqm", "There is no study 'paper/dqm': did you mean 'paper/dqn'?"),
        (str(tmp_path), "is a folder without a study.json"),
        (str(tmp_path / "none.yaml"), "There is no study file"),
        (str(tmp_path / "binary.yaml"), "is no text file."),
    ]:
        with pytest.raises(BadInputError) as error:
            find(wrong)
        assert sentence in str(error.value) and wrong in str(error.value)
    with pytest.raises(BadInputError, match="cannot be read: No such file or directory"):
        Marked.from_file(tmp_path / "none.yaml")


# --- resources


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("memory", "2GB", 2_000_000_000),
        ("memory", "512MiB", 536_870_912),
        ("memory", "1.5 kb", 1500),
        ("memory", "1TiB", 1_099_511_627_776),
        ("memory", 4096, 4096),
        ("time_limit", "1.5h", 5400.0),
        ("time_limit", "90min", 5400.0),
        ("time_limit", "2d", 172_800.0),
        ("time_limit", "30 s", 30.0),
        ("time_limit", 45, 45.0),
        ("time_limit", "none", None),
        ("gpus", 0.25, 0.25),
        ("gpus", "4", 4.0),
        ("cores", "3", 3),
        ("retries", 0, 0),
    ],
)
def test_resources_are_read_with_their_units(name: str, value: Any, expected: Any) -> None:
    found = read_resource(name, value)
    assert found == expected and type(found) is type(expected)
    assert getattr(read(KDT + f"resources: {{{name}: {value}}}")[0].resources, name) == expected


def test_what_one_cell_gets_by_default() -> None:
    assert read(KDT)[0].resources == Resources(cores=1, memory=2 * 10**9, gpus=0.0, time_limit=None, retries=2)


def test_sizes_and_times_as_people_write_them() -> None:
    sizes = [0, 999, 1000, 2_500_000, 32 * 10**9, 1.5e12]
    assert [bytes_text(one) for one in sizes] == ["0 B", "999 B", "1 kB", "2.5 MB", "32 GB", "1.5 TB"]
    times = [0, 89, 90, 5399, 5400, 172_799, 172_800]
    assert [time_text(one) for one in times] == ["0 s", "89 s", "2 min", "90 min", "1.5 h", "48.0 h", "2.0 days"]


@pytest.mark.parametrize("number", [999.4, 999.6, 999_999, 999_999_999, 123_456_789, 10**15])
def test_no_size_is_written_with_a_power_of_ten(number: float) -> None:
    assert "e" not in bytes_text(number)


# --- mistakes

MANY = "1" + 400 * "0"
BELOW_KDT = [  # after two good lines
    ("sedes: 3", 3, "There is no key 'sedes': did you mean 'seeds'?"),
    ("grids:\n  - seeds: 1\n  - settigns: {}", 5, "There is no key 'settigns': did you mean 'settings'?"),
    ("resources: {core: 1}", 3, "did you mean 'resources.cores'?"),
    ("report:\n  show: [curves]\n  bsaeline: dqn", 5, "did you mean 'report.baseline'?"),
    ("seeds: {frist: 3}", 3, "did you mean 'seeds.first'?"),
    ("agents: [iqn]", 3, "'agents' is there twice."),
    ("settings:\n  rule: {alpha: 0}\n  rule.alpha: 0.5", 5, "'rule.alpha' is there twice."),
    ("title: [a]", 3, "title must be text, not ['a']."),
    ("about: 3", 3, "about must be text, not 3."),
    ("together: 0", 3, "together must be a whole number from 1 to"),
    ("together: two", 3, "together must be a whole number"),
    ("seeds: 0", 3, "seeds must be a whole number from 1 to 100,000, not 0."),
    *((f"seeds: {bad}", 3, "seeds must be a whole number") for bad in ("100001", "1.5", "yes", "many", "")),
    ("seeds: []", 3, "the grid is empty: seeds must name at least one."),
    ("seeds:\n  - 1\n  - -1", 5, "seeds must be a whole number from 0 to"),
    ("seeds: {first: x}", 3, "seeds.first must be"),
    ("seeds: {first: 1, count: 0}", 3, "seeds.count must be"),
    ("seeds: [1, 1]", 1, "the cell kdt/dqn is there twice, with seeds in common."),
    ("seeds: {first: 2147483647, count: 2}", 3, "seed"),
    ("steps: 0", 3, "steps must be a whole number from 1 to"),
    ("steps: 1.5", 3, "steps must be"),
    ("steps: 1\nframes: 4", 4, "give steps or frames, not both."),
    ("frames: 400", 3, "frames are for Atari games: give steps for kdt."),
    ("preset: smal", 3, "There is no preset 'smal': did you mean 'small'?"),
    ("preset: 3", 3, "preset must be a name, not 3."),
    ("grids: {}", 3, "grids must be a list, not {}."),
    ("grids: []", 3, "grids must"),
    ("grids:\n  - {}\n  - kdt", 5, "a grid is a mapping of keys"),
    ("grids:\n  - {}\n  - {}", 5, "the cell kdt/dqn is there twice, with seeds in common."),
    ("grids:\n  - seeds: 3\n  - seeds: [2, 3]", 5, "the cell kdt/dqn is there twice"),
    # Seeds of one group are averaged, so they must have trained alike.
    ("grids:\n  - seeds: [0]\n    steps: 100\n  - seeds: [1]\n    steps: 200", 6, "kdt/dqn"),
    ("grids:\n  - seeds: 1\n  - agents: []", 5, "the grid is empty: agents must name at least one."),
    ("settings: 3", 3, "settings must be a mapping of settings, not 3."),
    ("settings: {seeds: 3}", 3, "seeds is not for settings: the study's seeds say it."),
    ("vary: {steps: [3]}", 3, "steps is not for settings: the study's steps say it."),
    ("settings:\n  rule.clip: 1\n  rule.alhpa: 0.5", 5, "There is no setting 'rule.alhpa': did you mean 'rule.alpha'?"),
    ("settings:\n  rule.clip: 1\n  rule.alpha: 1", 5, "rule.alpha must be less than 1, not 1."),
    ("settings:\n  rule:\n    clip: 1\n    alpha: 1", 6, "rule.alpha must be less than 1, not 1."),
    ("settings: {rule: 3, rule.alpha: 0}", 3, "'rule' is set twice, as a value and as a section."),
    ("settings:\n  seed.x: 3", 4, "seed"),
    (
        "settings:\n  agent.noisy: true\n  exploration.start: 0\n  exploration.end: 0\n  rule.alpha: 2",
        7,
        "rule.alpha must be less than 1, not 2.",
    ),
    ("settings:\n  rule.alpha: 2\ngrids:\n  - settings: {rule.clip: 1}", 4, "rule.alpha must be less than 1, not 2."),
    ("grids:\n  - {}\n  - seeds: [7]\n    settings:\n      rule.alpha: 2", 7, "rule.alpha must be less than 1"),
    ("vary: [1]", 3, "vary must be a mapping of settings, not [1]."),
    ("vary: {rule.alpha: 0.5}", 3, "vary.rule.alpha must be a list, not 0.5."),
    (
        "vary:\n  rule.clip: [1]\n  rule.alpha: []",
        5,
        "the grid is empty: vary.rule.alpha must have at least one value.",
    ),
    ("vary:\n  rule.alpha:\n    - 0.5\n    - 1.5", 6, "rule.alpha must be less than 1, not 1.5."),
    ("vary:\n  replay.n-step:\n    - 1\n    - 0", 6, "replay.n_step must be"),
    ("vary:\n  rule.alhpa: [0]", 4, "did you mean 'rule.alpha'?"),
    ("vary: {rule.alpha: [0, 0.0]}", 3, "vary.rule.alpha has a value twice."),
    ("report: []", 3, "report must be a mapping, not []."),
    ("report: {show: curves}", 3, "report.show must be a list, not 'curves'."),
    ("report:\n  show:\n    - curves\n    - sped", 6, "There is no figure 'sped': did you mean 'speed'?"),
    ("report:\n  baseline: iqn", 4, "the baseline iqn is not one of the study's agents."),
    ("report: {baseline: 3}", 3, "baseline must be text, not 3."),
    ("report:\n  curves: [kdt, nowhere]", 4, "nowhere"),
    ("resources: 3", 3, "resources must be a mapping, not 3."),
    ("resources: {memory: 2XB}", 3, "resources.memory must be such as 2GB, not '2XB'."),
    ("resources:\n  cores: 1\n  time_limit: soon", 5, "resources.time_limit must be such as 90min or 2h, not 'soon'."),
    ("resources: {cores: 1.5}", 3, "resources.cores must be a whole number from 1 to 4,096, not 1.5."),
    *((f"resources: {{cores: {bad}}}", 3, "resources.cores must be") for bad in ("[1]", ".inf", "yes", "0", MANY)),
    *((f"resources: {{memory: {bad}}}", 3, "resources.memory must be") for bad in ("0", "yes", "-1GB", "", MANY)),
    ("resources: {gpus: 1.5}", 3, "resources.gpus must be a share of one GPU or a whole number of them, not 1.5."),
    ("resources: {gpus: -0.5}", 3, "resources.gpus must be a number from 0 to 64, not -0.5."),
    ("resources: {retries: -1}", 3, "resources.retries must be"),
    # What YAML takes for something that it then cannot make.
    *((f"title: {bad}", 3, "") for bad in ("2026-13-45", "0b_", "!!int x", "!!bool x", "9" * 5000)),
    ("title: a\x00b", 3, "this is not YAML"),
    ("about: x: y", 3, "this is not YAML: mapping values are not allowed here."),
    ("about: *nowhere", 3, "this is not YAML: found undefined alias"),
    ("about: !!python/object:os.system x", 3, "this is not YAML"),
    ("vary: &a\n  rule.alpha: *a", 4, ""),
]
WHOLE = [
    ("", 1, "a study is a mapping of keys"),
    ("kdt", 1, "a study is a mapping of keys"),
    ("- kdt", 1, "a study is a mapping of keys"),
    ("? [kdt]\n: 1", 1, "a key must be a word."),
    ("agents: [dqn]", 1, "the grid is empty: environments must name at least one."),
    ("agents: [dqn]\nenvironments: []", 2, "the grid is empty: environments must name at least one."),
    ("agents: [dqn]\nenvironments: kdt", 2, "environments must be a list, not 'kdt'."),
    ("agents: [dqn]\nenvironments: [kdt, 3]", 2, "environments must be a name, not 3."),
    ("agents: [dqn]\nenvironments: [kdt, kdt]", 1, "the cell kdt/dqn is there twice"),
    ("agents: [dqn]\nenvironments:\n  - kdt\n  - kdtt", 4, "did you mean 'kdt'?"),
    ("agents: [dqn]\nenvironments:\n  - group:sparse\n  - atari:Pogn", 4, "no Atari game 'Pogn': did you mean 'Pong'?"),
    ("agents: [dqn]\nenvironments:\n  - kdt\n  - group:spars", 4, "no group of games 'spars': did you mean 'sparse'?"),
    ("environments: [kdt]\nagents: dqn", 2, "agents must be a list, not 'dqn'."),
    ("environments: [kdt]\nagents:\n  - dqn\n  -", 4, "agents must be a name, not None."),
    ("environments: [kdt]\nagents:\n  - dqn\n  - sial-dqn", 4, "did you mean 'sail-dqn'?"),
    ("environments: [kdt]\ngrids:\n  - agents:\n    - dqm", 4, "did you mean 'dqn'?"),
    ("environments: [kdtt]\ngrids:\n  - agents: [dqn]", 1, "did you mean 'kdt'?"),
    ("agents: [dqn]\nframes: 400\ngrids:\n  - environments: [kdt]", 2, "frames are for Atari games"),
]
MISTAKES = [(KDT + text, line, phrase) for text, line, phrase in BELOW_KDT] + WHOLE


@pytest.mark.parametrize(("text", "line", "phrase"), MISTAKES, ids=lambda x: x[-40:] if isinstance(x, str) else "")
def test_a_mistake_is_one_sentence_that_names_file_and_line(text: str, line: int, phrase: str) -> None:
    with pytest.raises(BadInputError) as error:
        read(text)
    sentence = str(error.value)
    assert sentence.startswith(f"study.yaml, line {line}: ") and phrase in sentence
    assert "\n" not in sentence and sentence.endswith((".", "?"))


def test_cells_are_checked_with_the_seeds_that_train_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sail.presets.cores", lambda: 2)  # 16 emulators for one seed, 4 for each of four
    read(PONG + "seeds: 4\nsettings: {learning.num_pools: 8}")
    with pytest.raises(BadInputError, match=r"line 4: learning\.num_pools must divide"):
        read(PONG + "seeds: 4\nsettings: {learning.num_pools: 8}\ntogether: 4")


def test_a_grid_may_give_steps_where_all_others_have_frames() -> None:
    text = "agents: [dqn]\nframes: 400\ngrids:\n  - environments: [atari:Pong]\n  - {environments: [kdt], steps: 7}"
    assert [cell.settings["steps"] for cell in read(text)[1]] == [100, 7]


def test_a_study_too_large_to_be_meant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "MOST_CELLS", 5)
    assert len(read(PONG + "seeds: 5")[1]) == 5
    with pytest.raises(BadInputError, match="line 1: this is a study of more than 5 runs"):
        read(PONG + "seeds: 6")


WORDS = ["kdt", "dqn", "sail-dqn", "group:sparse", "atari:Pong", "paper", "2GB", "90min", "none", *FIGURES]
SETTINGS = ["rule.alpha", "rule", "alpha", "env.slip", "env", "name", "agent", "replay.n-step", "seed", "optimiser"]
SCALARS = st.none() | st.booleans() | st.integers() | st.integers(0, 9) | st.floats() | st.dates() | st.text(max_size=6)
LEAVES = SCALARS | st.sampled_from(WORDS)
WITHIN = st.sampled_from([*GRID_KEYS, *vars(Resources()), *SETTINGS, "first", "count", "show", "baseline", "curves"])
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WITHIN, inner, max_size=3), max_leaves=8
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), TREES, max_size=3), st.booleans())
def test_no_tree_gives_anything_but_cells_or_a_sentence(tree: dict[str, Any], sound: bool) -> None:
    begun = {"environments": ["kdt"], "agents": ["dqn"]} if sound else {}
    try:
        found = read(yaml.safe_dump({**begun, **tree}, sort_keys=False))[1]
    except BadInputError as error:
        assert str(error).startswith("study.yaml, line ")
    else:
        assert found and all(cell.config() for cell in found[:5])
