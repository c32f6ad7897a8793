"""What a study of games has yet to run, by the files that are there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import remaining, tables  # noqa: E402
from evidence.__main__ import main  # noqa: E402

from sail.errors import BadInputError  # noqa: E402
from sail.studies.cells import expand  # noqa: E402
from sail.studies.definition import read_definition  # noqa: E402
from sail.studies.library import find  # noqa: E402

STUDY = """
title: Two games
environments: [atari:Pong, atari:Venture]
agents: [dqn, sail-dqn]
seeds: 2
frames: 2_000_000
settings: {learning.num_envs: 16, agent.network: dopamine}
grids:
  - {}
  - {environments: [atari:Pong], agents: [iqn], preset: dopamine, settings: {rule.alpha: 0.5, agent.network: nature}}
  - {environments: [atari:Hero], agents: [sail-dqn], seeds: 1, vary: {learning.num_envs: [8]}}
resources: {cores: 3}
report: {baseline: dqn}
"""


def has_run(folder: Path, name: str, frames: int = 2_000_000, emulators: int = 16) -> None:
    rows = [{"frames": frames, "mean_return": 1.0, "episodes": 3}]
    tables.write(folder / f"{name}.csv", {"commit": "abc", "emulators": emulators}, rows)


def names(study: str) -> list[str]:
    name, marked = find(study)
    return [cell.name for cell in expand(read_definition(marked, name), marked)]


def test_only_what_is_not_there_to_its_end_remains(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(STUDY)
    study, to, results = str(tmp_path / "two.yaml"), tmp_path / "rest.yaml", tmp_path / "results"
    results.mkdir()
    assert remaining.write(study, to, results) == f"11 of 11 cells of two are missing: {to}"
    assert names(str(to)) == names(study)
    has_run(results, "Pong_dqn_seed0")
    has_run(results, "Pong_dqn_seed1", frames=1_000_000)
    has_run(results, "Venture_dqn_seed0")
    has_run(results, "Hero_sail-dqn_seed0", emulators=8)
    has_run(results, "Pong_iqn@dopamine_seed0")  # without the other alpha
    assert remaining.write(study, to, results).startswith("8 of 11 ")
    gone = {"atari-Pong/dqn/seed0", "atari-Venture/dqn/seed0", "atari-Hero/sail-dqn,learning.num_envs=8/seed0"}
    assert names(str(to)) == [name for name in names(study) if name not in gone]
    name, marked = find(str(to))
    rest = read_definition(marked, name)
    cells = {cell.name: cell for cell in expand(rest, marked)}
    name, marked = find(study)
    for cell in expand(read_definition(marked, name), marked):
        if cell.name not in gone:
            assert cells[cell.name].config() == cell.config()
    assert rest.resources.cores == 3


def test_a_file_of_a_run_with_other_emulators_is_in_the_way(tmp_path: Path) -> None:
    """Its name is that of the run that is asked for, which could not be kept."""
    study, to, results = one_game(tmp_path, 1), tmp_path / "rest.yaml", tmp_path / "results"
    has_run(results, "Pong_dqn_seed0", emulators=64)
    with pytest.raises(BadInputError, match="has 16 emulators, and there is a file of Pong, dqn, seed 0 with 64: move"):
        remaining.write(study, to, results)
    assert not to.exists()


def one_game(folder: Path, seeds: int) -> str:
    more = f"seeds: {seeds}\ntogether: {seeds}\nsettings: {{learning.num_envs: 16}}\n"
    (folder / "one.yaml").write_text("environments: [atari:Pong]\nagents: [dqn]\nframes: 1_000_000\n" + more)
    return str(folder / "one.yaml")


def test_seeds_that_train_together_must_all_be_there(tmp_path: Path) -> None:
    study, to, results = one_game(tmp_path, 2), tmp_path / "rest.yaml", tmp_path / "results"
    has_run(results, "Pong_dqn_seed0")
    assert remaining.write(study, to, results).startswith("1 of 1 ") and names(str(to)) == ["atari-Pong/dqn/seeds0-1"]
    has_run(results, "Pong_dqn_seed1")
    to.unlink()
    assert remaining.write(study, to, results) == "Nothing of one is missing: no file was written."
    assert not to.exists()


def test_runs_on_other_files_of_the_games_are_looked_for_elsewhere(tmp_path: Path) -> None:
    study, to, results = one_game(tmp_path, 1), tmp_path / "rest.yaml", tmp_path / "results"
    text = Path(study).read_text()
    Path(study).write_text(text.replace("16}", "16, env.roms: some/folder}"))
    has_run(results, "Pong_dqn_seed0")
    assert remaining.write(study, to, results).startswith("1 of 1 ")
    has_run(results / "atari_py_roms", "Pong_dqn_seed0")
    assert remaining.write(study, to, results).startswith("Nothing ")
    Path(study).write_text(text)
    (results / "Pong_dqn_seed0.csv").unlink()
    assert remaining.write(study, to, results).startswith("1 of 1 ")


def test_what_cannot_be_answered_is_one_sentence_and_exit_code_2(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    there = tmp_path / "results"
    there.mkdir()
    for study, to, results, sentence in (
        ("evidence/atri", "rest.yaml", there, "did you mean 'evidence/atari'?"),
        ("evidence/deep-sea", "rest.yaml", there, "only runs of Atari games"),
        ("evidence/atari", "rest.yaml", tmp_path / "none", "There is no folder"),
        ("evidence/atari", "none/rest.yaml", there, "No such file or directory"),
    ):
        arguments = ["evidence", "remaining", study, str(tmp_path / to), "--results", str(results)]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
        error = capsys.readouterr().err
        assert ended.value.code == 2 and sentence in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [there]
