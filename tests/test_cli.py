"""The command: its contract, its exit codes, and one sentence for every kind of bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_flags

import sail
from sail.cli import main, split_settings
from sail.config import make_config
from sail.errors import BadInputError
from sail.training import api, run_folder


def refused(capsys: Any, *arguments: str) -> str:
    """Runs the command, asserts exit code 2 and one sentence on standard error, and returns the sentence."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("sail: ")
    return str(err)


BAD = [
    (["train", "kdtt"], "did you mean 'kdt'?"),
    (["train", "aple-kdt"], "did you mean 'apple-kdt'?"),
    (["train", "kdt", "--agent", "sial-dqn"], "did you mean 'sail-dqn'?"),
    (["train", "kdt", "--agent", "dqm"], "did you mean 'dqn'?"),
    (["train", "kdt", "--rule.name", "strsill"], "did you mean 'strsil'?"),
    (["train", "kdt", "--rule.alpha", "1"], "rule.alpha must be less than 1, not '1'."),
    (["train", "kdt", "--rule.alpha", "-0.5"], "rule.alpha must be"),
    (["train", "kdt", "--rule.alpha", "nan"], "rule.alpha must be"),
    (["train", "kdt", "--rule.clip", "-1"], "rule.clip must be"),
    (["train", "kdt", "--steps", "0"], "steps must be"),
    (["train", "kdt", "--steps", "many"], "steps must be"),
    (["train", "kdt", "--seed", "one"], "seed must be"),
    (["train", "kdt", "--seed", "1.5"], "seed must be"),
    (["train", "kdt", "--seed", "-1"], "seed must be"),
    (["train", "kdt", "--seeds", "0"], "seeds must be"),
    (["train", "kdt", "--seed", "2147483647", "--seeds", "2"], "together"),
    (["train", "kdt", "--env.slip", "--seeds", "2"], "env.slip must be"),
    (["train", "kdt", "--out", "x" * 300], "cannot be written"),
    (["train", "kdt", "--frames", "1000"], "use --steps"),
    (["train", "atari:Pong", "--frames", "²"], "--frames must be a whole number, not '²'"),
    (["train", "atari:Pong", "--seeds", "²"], "seeds must be a valid integer, not '²'"),
    (["watch", ".", "--port", "²"], "must be a whole number from 0 to 65535, not '²'"),
    (["train", "kdt", "--rule.alhpa", "0.5"], "did you mean 'rule.alpha'?"),
    (["train", "kdt", "--env.slip", "2"], "env.slip must be"),
    (["train", "kdt", "--env.apple-reward", "2"], "There is no setting 'env.apple_reward'"),
    (["train", "kdt", "--optimiser.name", "adamw"], "did you mean 'adam'?"),
    (["train", "kdt", "--replay.capacity", "10"], "replay.capacity must be at least"),
    (["train", "kdt", "--seed", "1", "--seed.x", "2"], "seed"),
    (["train", "kdt", "extra"], "extra"),
    (["train"], "Say which environment"),
    (["trian"], "trian"),
    (["eval", "no/such/run"], "is no run folder"),
    (["resume", "no/such/run"], "is no run folder"),
    (["eval"], "run"),
    (["train", "atari:Pong", "--frames", "4000", "--steps", "100"], "Give --steps or --frames, not both"),
    (["train", "kdt", "--alpha", "0.5"], "There is no setting 'alpha': did you mean 'rule.alpha'?"),
    (["train", "kdt", "--slip", "0.5"], "did you mean 'env.slip'?"),
    (["train", "kdt", "--learning-rate", "1"], "did you mean 'rnd.learning_rate' or 'optimiser.learning_rate'?"),
    (["trian", "kdt"], "There is no command 'sail trian': did you mean 'sail train'?"),
    (["study", "lst"], "did you mean 'sail study list'?"),
    (["eval", "x", "--jsno"], "There is no flag of sail eval '--jsno': did you mean '--json'?"),
    (["eval", "x", "--episdes=3"], "did you mean '--episodes'?"),
    (["study", "run", "x", "--wrokers", "3"], "did you mean '--workers'?"),
    (["--versoin"], "did you mean '--version'?"),
    (["eval", "x", "y"], "Unrecognized arguments: y; see 'sail --help'."),
    (["eval", "x", "--episodes", "0"], "at least 1"),
    (["eval", "x", "--epsilon", "2"], "from 0 to 1"),
    (["draw", "probe-chain"], "no map"),
    (["draw", "nothing-here"], "is no run folder"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(capsys, *arguments)
    assert not list(tmp_path.iterdir()), "nothing may be left behind"


def test_an_output_folder_that_exists_is_refused(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert "exists already" in refused(capsys, "train", "kdt", "--out", str(tmp_path / "run"))
    assert not list((tmp_path / "run").iterdir())


def test_an_output_folder_that_cannot_be_made_is_refused(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(capsys, "train", "kdt", "--out", str(tmp_path / "file" / "run"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_output_folder_without_permission_is_refused(capsys: Any, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "cannot be written" in refused(capsys, "train", "kdt", "--out", str(tmp_path / "run"))


@pytest.mark.parametrize("text", ["", "[1, 2]", "env: {name: kdt", "env: {name: nowhere}", "sail: 1", "\x00"])
def test_a_run_folder_that_is_none_is_refused(capsys: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    refused(capsys, "eval", str(tmp_path))
    refused(capsys, "resume", str(tmp_path))


@pytest.mark.parametrize(("seeds", "said"), [(1, "has seed 3 only, not 7."), (2, "has seeds 3 to 4, not 7.")])
def test_a_seed_that_a_run_does_not_have_is_refused(capsys: Any, tmp_path: Path, seeds: int, said: str) -> None:
    config = sail.make_config("kdt", "dqn", {"seed": 3, "seeds": seeds})
    run = sail.RunFolder.create(tmp_path / "run", config, {}).path
    assert said in refused(capsys, "play", str(run), "--seed", "7")


def test_the_contract_from_train_to_eval(capsys: Any, tmp_path: Path) -> None:
    run = tmp_path / "a" / "run"
    assert main(["train", "kdt", "--agent", "al-dqn", "--out", str(run), "--json", *tiny_flags(seeds=2)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["run"] == str(run) and summary["agent"] == "al-dqn" and summary["steps"] == 1600
    assert (run / "DONE").is_file() and (run / "summary.png").stat().st_size > 10_000
    assert main(["eval", str(run), "--json", "--episodes", "3"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["episodes"] == 6 and {"mean_return", "std_return"} <= result.keys()
    assert main(["eval", str(run)]) == 0
    assert "success" in capsys.readouterr().out
    assert main(["draw", str(run), "--out", str(tmp_path / "x.svg"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["picture"].endswith("x.svg")
    assert (tmp_path / "x.svg").read_text().lstrip().startswith("<?xml")
    assert "cannot be written" in refused(capsys, "draw", str(run), "--out", str(tmp_path / "x.doc"))
    assert "finished" in refused(capsys, "resume", str(run))


def test_a_person_gets_a_summary_and_a_picture(capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("kdt-sail-dqn-seed0", "kdt-sail-dqn-seed0-2"):
        assert main(["train", "kdt", *tiny_flags(steps=400)]) == 0
        out = capsys.readouterr().out
        assert "sail-dqn on kdt: not learned" in out
        assert f"files  runs/{name}" in out and f"look   runs/{name}/summary.png" in out
        assert "██" in out


def test_a_free_name_is_found_even_if_another_run_takes_it_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = make_config("gym:ale_py:ALE/Pong-v5", "dqn", {})
    first = api._new_folder(config, None)
    assert first.path == Path("runs/gym-ale_py-ALE-Pong-v5-dqn-seed0")
    monkeypatch.setattr(run_folder, "check_new", Path)  # nothing was there when it was looked for
    assert api._new_folder(config, None).path == first.path.with_name(f"{first.path.name}-2")
    with pytest.raises(BadInputError, match="exists already"):
        api._new_folder(config, first.path)
    assert len(list(Path("runs").iterdir())) == 2


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_terminal_without_some_letters_is_no_reason_to_fail(encoding: str) -> None:
    command = [sys.executable, "-m", "sail", "draw", "kdt"]
    drawn = subprocess.run(command, env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True, check=False)
    assert drawn.returncode == 0 and drawn.stderr == b""
    assert drawn.stdout.count(b"\n") >= 13


@pytest.mark.parametrize("wanted", ["abc", "0", "-1", "1.5", "²", "٣"])
def test_a_wrong_number_of_cores_is_refused(capsys: Any, monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setenv("SAIL_CORES", wanted)
    assert f"SAIL_CORES must be a whole number of at least 1, not '{wanted}'" in refused(capsys, "agents")


def test_settings_may_stand_anywhere_and_in_both_spellings() -> None:
    rest, tree = split_settings(["train", "--rule.alpha", "0.5", "kdt", "--steps=100", "--agent", "dqn", "--env.timed"])
    assert rest == ["train", "kdt", "--agent", "dqn"]
    assert tree == {"rule": {"alpha": "0.5"}, "steps": "100", "env": {"timed": "true"}}
    _, tree = split_settings(["train", "--agent.hidden", "32,16", "--rule.clip", "none", "--optimiser.eps", "1e-5"])
    assert tree == {"agent": {"hidden": "32,16"}, "rule": {"clip": None}, "optimiser": {"eps": "1e-5"}}
    config = sail.make_config("kdt", "sail-dqn", tree)
    assert config.optimiser.eps == 1e-5 and config.agent.hidden == (32, 16) and config.rule.clip is None


def test_help_names_every_setting(capsys: Any) -> None:
    assert main(["train", "--help"]) == 0
    out = capsys.readouterr().out
    for flag in (
        "--rule.alpha 0.9",
        "--env.time-limit 100",
        "--learning.batch-size 32",
        "--seeds 1",
        "--agent.hidden 64,64",
    ):
        assert flag in out
    assert main([]) == 0


def test_draw_shows_the_map(capsys: Any, tmp_path: Path) -> None:
    assert main(["draw", "apple-kdt", "--out", str(tmp_path / "map.png")]) == 0
    out = capsys.readouterr().out
    assert out.count("a ") == 2 and "K" in out and "T" in out
    assert (tmp_path / "map.png").stat().st_size > 5_000


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "sail", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"sail {sail.__version__}"


def test_a_video_without_a_name_goes_where_reports_find_it(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("PIL")
    run = tmp_path / "run"
    assert main(["train", "kdt", "--out", str(run), "--quiet", *tiny_flags()]) == 0
    capsys.readouterr()
    assert main(["play", str(run), "--json"]) == 0
    video = Path(json.loads(capsys.readouterr().out)["video"])
    assert video.parent == run / "video" and video.stem == "seed0-step1600" and video.is_file()
    page = tmp_path / "report.html"
    assert main(["report", str(run), "--out", str(page)]) == 0
    assert "data:video/mp4;base64," in page.read_text() or "data:image/webp;base64," in page.read_text()
