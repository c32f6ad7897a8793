"""Games that are played from files of one's own: which are taken, and that every way to play them plays those."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from sail.cli import main
from sail.config import make_config
from sail.envs.atari import AtariEnv, whole_screen
from sail.envs.atari_colours import palette, screens_as_they_are
from sail.envs.atari_roms import OF_ATARI_PY, rom_of, rom_path
from sail.envs.atari_screen import AtariScreen
from sail.envs.atari_settings import AtariSettings
from sail.envs.crew import Crew
from sail.envs.shrinking import shrink
from sail.envs.worker import bytes_of_tables, games, tables
from sail.errors import BadInputError, TrainingError

ale_py = pytest.importorskip("ale_py")
roms = pytest.importorskip("ale_py.roms")


def settings(**told: Any) -> AtariSettings:
    return AtariSettings(**{"name": "atari:Breakout", "sticky": 0.0, "processes": 0, **told})


@pytest.fixture
def carnival(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A folder whose file for Breakout is Carnival, whose screen is four lines higher, as if atari-py had it so."""
    data = roms.get_rom_path("carnival").read_bytes()
    (tmp_path / "breakout.bin").write_bytes(data)
    monkeypatch.setitem(OF_ATARI_PY, "breakout", hashlib.md5(data).hexdigest())
    return str(tmp_path)


def test_games_are_ale_pys_unless_a_folder_is_named(carnival: str) -> None:
    assert rom_path(settings()) == roms.get_rom_path("breakout")
    assert rom_path(settings(roms=carnival)) == Path(carnival) / "breakout.bin"
    assert make_config("atari:Breakout").host_env.roms is None
    config = make_config("atari:Breakout", overrides={"env": {"roms": carnival}})
    assert rom_path(config.host_env) == Path(carnival) / "breakout.bin"


def test_ale_pys_own_files_may_be_in_a_folder() -> None:
    usual = roms.get_rom_path("breakout")
    assert rom_path(settings(roms=str(usual.parent))) == usual


def test_sums_are_of_other_files_than_ale_pys() -> None:
    usual = roms._get_expected_bin_hashes()
    assert len(OF_ATARI_PY) == 31
    assert all(usual[f"{name}.bin"] != found for name, found in OF_ATARI_PY.items())
    # By md5sum over the folder atari_roms of atari-py 0.2.6.
    assert OF_ATARI_PY["bank_heist"] == "83b8c01c72306d60dd9b753332ebd276"
    together = "".join(f"{name} {found}\n" for name, found in sorted(OF_ATARI_PY.items()))
    assert hashlib.md5(together.encode()).hexdigest() == "e9fd49075a6f8b36342c95ecbdca95f0"


def test_what_is_not_the_game_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "breakout.bin"
    with pytest.raises(BadInputError) as refused:
        rom_path(settings(roms=str(tmp_path)))
    assert str(refused.value) == (
        f"env.roms: {path} cannot be read (No such file or directory): atari:Breakout is played from a file of that "
        "name."
    )
    path.write_bytes(b"not a game")
    with pytest.raises(BadInputError) as refused:
        rom_path(settings(roms=str(tmp_path)))
    assert str(refused.value) == (
        f"env.roms: {path} is neither ale-py's nor atari-py's file for atari:Breakout: its MD5 sum is "
        f"{hashlib.md5(b'not a game').hexdigest()}."
    )
    with pytest.raises(BadInputError):
        AtariEnv(settings(roms=str(tmp_path)), 1)


@pytest.mark.parametrize("folder", ["~nosuchuser/roms", "a\0b"])
def test_a_folder_that_cannot_be_is_refused(folder: str) -> None:
    with pytest.raises(BadInputError, match=r"breakout.bin cannot be read \(.+\): atari:Breakout is played"):
        rom_path(settings(roms=folder))


def test_the_command_refuses_it_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["train", "atari:Breakout", "--frames", "400", "--env.roms", str(tmp_path), "--out", str(tmp_path / "run")]
    assert main(told) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_processes_are_told_of_the_folder(carnival: str) -> None:
    """They know nothing of the fixture's sum, so they refuse its file."""
    own = settings(roms=carnival, processes=1)
    with pytest.raises(TrainingError, match="neither ale-py's nor atari-py's"):
        crew = Crew(own, 1, 1, screen=whole_screen(own))
        try:
            crew.pools[0].reset(1)
            crew.pools[0].recv(60)
        finally:
            crew.close()


def test_ale_py_finds_its_own_files_again(carnival: str) -> None:
    usual = roms.get_rom_path
    with rom_of(settings()):
        assert roms.get_rom_path is usual
    with pytest.raises(KeyError), rom_of(settings(roms=carnival)):
        assert roms.get_rom_path("breakout") == Path(carnival) / "breakout.bin"
        assert roms.get_rom_path("pong") == usual("pong")
        raise KeyError
    assert roms.get_rom_path is usual


def first_screens(own: AtariSettings, way: str) -> Any:
    """What is seen of a game before anything was done, in one of the ways that it can be played."""
    if way == "for videos":
        pytest.importorskip("cv2")
        screen = AtariScreen(own)
        screen.reset(7)
        return screen.recv().observation[0]
    if "process" in way:
        shape = screens_as_they_are(replace(own, processes=1)) if "colours" in way else (84, 84)
        (table,) = tables([1], shape, bytearray(bytes_of_tables([1], shape)))
        games(own, table, shape).reset()
        (seen,) = table["observation"]
        return palette(own)[seen].max(axis=0) if "colours" in way else seen
    env = AtariEnv(own, 1, whole_screen(own) if "whole" in way else (84, 84))
    env.reset(7)
    seen = env.recv().observation[0]
    env.close()
    return seen


@pytest.mark.parametrize(
    "way", ["threads", "whole, in threads", "a process", "a process, whole, in colours", "for videos"]
)
def test_every_way_to_play_plays_the_file(carnival: str, way: str) -> None:
    ale = ale_py.ALEInterface()
    ale.loadROM(Path(carnival) / "breakout.bin")
    ale.reset_game()
    screen = ale.getScreenGrayscale()
    assert screen.shape == (214, 160)  # Breakout has 210 lines
    expected = screen if "whole" in way else shrink(jnp.asarray(screen), 84, 84, jnp.int32(0))
    np.testing.assert_array_equal(first_screens(settings(roms=carnival), way), expected)
    assert not np.array_equal(first_screens(settings(), way), expected)
