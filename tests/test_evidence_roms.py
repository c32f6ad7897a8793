"""What the files of two emulators are said to show and do otherwise."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from sail.envs.atari_roms import OF_ATARI_PY

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evidence import roms, tables  # noqa: E402

ale_roms = pytest.importorskip("ale_py.roms")


def played(height: int, rewards: list[int], ends: list[bool], grey: list[int]) -> roms.Played:
    return roms.Played(height, rewards, ends, np.stack([np.full((84, 84), one, np.uint8) for one in grey]))


def test_a_row_counts_up_to_what_is_not_the_same() -> None:
    usual = played(210, [0, 1, 0, 5], [False, False, True, False], [10, 20, 30, 40])
    row = roms.difference(usual, played(250, [0, 1, 0, 2], [False, False, True, False], [20, 10, 30, 0]))
    assert row == {
        "height_ale_py": 210,
        "height_atari_py": 250,
        "same_steps": 3,
        "score_ale_py": 6,
        "score_atari_py": 3,
        "grey_difference": pytest.approx((10 + 10 + 0) / 3),
    }
    ended = usual._replace(ends=[True, False, True, False])
    assert roms.difference(usual, ended)["same_steps"] == 0
    same = roms.difference(usual, usual)
    assert (same["same_steps"], same["grey_difference"]) == (4, 0.0)


def test_every_game_with_another_file_is_in_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = ale_roms.get_rom_path("pong").parent
    shutil.copytree(usual, tmp_path / "roms", ignore=lambda _, names: [n for n in names if not n.endswith(".bin")])
    carnival = (usual / "carnival.bin").read_bytes()
    (tmp_path / "roms" / "freeway.bin").write_bytes(carnival)
    monkeypatch.setitem(OF_ATARI_PY, "freeway", hashlib.md5(carnival).hexdigest())
    said = roms.collect(tmp_path / "roms", tmp_path / "roms.csv", tmp_path / "roms.png", steps=200)
    assert "1 of 60 games have another file" in said and said.endswith("roms.png: Freeway.")
    (row,) = tables.read(tmp_path / "roms.csv")
    assert (row["game"], row["height_ale_py"], row["height_atari_py"]) == ("Freeway", 210, 214)
    assert row["grey_difference"] is not None
    assert "59 games" in tables.about(tmp_path / "roms.csv")["not_here"]
    assert (tmp_path / "roms.png").stat().st_size > 1_000
