"""What a study of games has yet to run, by the files that are there."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import remaining, tables  # noqa: E402

from sail.studies.cells import expand  # noqa: E402
from sail.studies.definition import read_definition  # noqa: E402
from sail.studies.library import find  # noqa: E402

STUDY = """
title: Two games
environments: [atari:Pong, atari:Venture]
agents: [dqn, sail-dqn]
seeds: 2
frames: 2_000_000
settings: {learning.num_envs: 16}
grids:
  - {}
  - {environments: [atari:Pong], agents: [iqn], preset: dopamine, settings: {rule.alpha: 0.5}}
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
    assert remaining.write(study, to, results) == f"10 of 10 cells of two are missing: {to}"
    assert names(str(to)) == names(study)
    has_run(results, "Pong_dqn_seed0")
    has_run(results, "Pong_dqn_seed1", frames=1_000_000)
    has_run(results, "Venture_sail-dqn_seed1", emulators=64)
    has_run(results, "Venture_dqn_seed0")
    has_run(results, "Pong_iqn@dopamine_seed0")  # without the other alpha
    assert remaining.write(study, to, results).startswith("8 of 10 ")
    gone = {"atari-Pong/dqn/seed0", "atari-Venture/dqn/seed0"}
    assert names(str(to)) == [name for name in names(study) if name not in gone]
    name, marked = find(str(to))
    rest = read_definition(marked, name)
    cells = {cell.name: cell for cell in expand(rest, marked)}
    name, marked = find(study)
    for cell in expand(read_definition(marked, name), marked):
        if cell.name not in gone:
            assert cells[cell.name].config() == cell.config()
    assert rest.resources.cores == 3


def test_nothing_is_written_where_nothing_remains(tmp_path: Path) -> None:
    settings = "settings: {learning.num_envs: 16}"
    (tmp_path / "one.yaml").write_text(
        f"environments: [atari:Pong]\nagents: [dqn]\nseeds: 1\nframes: 1_000_000\n{settings}\n"
    )
    has_run(tmp_path / "results", "Pong_dqn_seed0", emulators=16)
    said = remaining.write(str(tmp_path / "one.yaml"), tmp_path / "rest.yaml", tmp_path / "results")
    assert said == "0 of 1 cells of one are missing" and not (tmp_path / "rest.yaml").exists()
