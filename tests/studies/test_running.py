"""Studies that really run: cells in processes of their own, killed, failing, out of bounds, on Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from sail.cli import main
from sail.studies.folder import StudyFolder, open_or_create
from sail.studies.marked import Marked
from sail.studies.records import STALE_SECONDS
from sail.studies.status import study_status
from sail.training.run_folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import study_torture

TINY: dict[str, Any] = {
    "environments": ["probe-chain", "probe-action"],
    "agents": ["dqn", "sail-dqn"],
    "seeds": 1,
    "steps": 2_000,
    "settings": {
        "agent.hidden": [8],
        "replay.capacity": 1_600,
        "learning": {"starts": 200, "target_period": 200},
        "evaluation": {"period": 1_000, "episodes": 2},
        "checkpoint.seconds": 0,
    },
}


def write(folder: Path, **changes: Any) -> Path:
    file = folder / "tiny.yaml"
    file.write_text(yaml.safe_dump({**TINY, **changes}))
    return file


def run(*arguments: Any) -> int:
    return main(["study", "run", *map(str, arguments), "--quiet"])


def starts(folder: Path) -> dict[str, list[int]]:
    """From which steps each cell was started."""
    study = StudyFolder(folder)
    return {cell.name: [start["from_step"] for start in study.record(cell).starts] for cell in study.cells}


def test_from_file_to_run_folders_and_more_seeds(tmp_path: Path, capsys: Any) -> None:
    file, out = write(tmp_path, environments=["probe-chain"]), tmp_path / "out"
    assert run(file, "--out", out, "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["total"], status["done"], status["running"], status["failed"]) == (2, 2, 0, 0)
    names = {"probe-chain/dqn", "probe-chain/sail-dqn"}
    assert starts(out) == {f"{name}/seed0": [0] for name in names}

    # A cell is the run that `sail train` makes.
    cell = RunFolder(out / "cells" / "probe-chain" / "sail-dqn" / "seed0")
    alone = tmp_path / "alone"
    command = yaml.safe_load((cell.path / "config.yaml").read_text())["provenance"]["command"].split()
    assert command[:5] == ["sail", "train", "probe-chain", "--agent", "sail-dqn"]
    assert main([*command[1:], "--out", str(alone), "--quiet"]) == 0
    assert RunFolder(alone).config == cell.config
    assert without_times(RunFolder(alone).metrics()) == without_times(cell.metrics())
    assert RunFolder(alone).episodes() == cell.episodes()

    # Nothing is missing, so nothing runs; more seeds run alone.
    assert run(out) == 0 and all(steps == [0] for steps in starts(out).values())
    capsys.readouterr()
    assert main(["study", "extend", str(out), "--seeds", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["new"] == [f"{name}/seed1" for name in dict.fromkeys(order(out))]
    assert run(out) == 0
    assert starts(out) == {f"{name}/seed{seed}": [0] for name in names for seed in (0, 1)}
    assert main(["study", "status", str(out)]) == 0
    assert "4 of 4 cells done" in capsys.readouterr().out

    # The file has fewer seeds than the folder now: that is a change under results, and is shown as one.
    assert run(file, "--out", out) == 2
    sentence = capsys.readouterr().err
    assert "has changed since" in sentence and "-    count: 2" in sentence and "+    count: 1" in sentence


def order(folder: Path) -> list[str]:
    return [cell.group for cell in StudyFolder(folder).cells]


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def test_a_study_that_is_killed_ends_as_one_that_is_not(tmp_path: Path) -> None:
    # Cells of one agent: what one has compiled the others find in the cache.
    file = write(tmp_path, steps=10_000, environments=["probe-chain"], agents=["sail-dqn"], seeds=4, together=1)
    result = study_torture.torture(str(file), tmp_path, kills=3, seed=1, pause=1.2)
    assert result["same_logs"] and result["done_twice"] == [] and result["killed"] == ["driver", "worker", "driver"]
    assert result["starts"] > result["cells"] == 4


def test_two_raylets_one_of_which_dies(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    file = write(tmp_path, steps=4_000, environments=["probe-chain"], agents=["sail-dqn"], seeds=4, together=1)
    study_torture.finish(study_torture.start(str(file), tmp_path / "alone"))
    result = study_torture.on_ray(str(file), tmp_path)
    assert result["same_logs"] and result["raylets_left"] == 1
    assert len(study_torture.logs(tmp_path / "ray")) == 8
    assert StudyFolder(tmp_path / "ray").driver_age() > STALE_SECONDS  # nobody drives it any more


FRAGILE = '''
import os, time
import gymnasium, numpy as np
from gymnasium import spaces

class Fragile(gymnasium.Env):
    """Raises at its 900th step, as long as the file ILL is there; hangs for good where HANG is."""
    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    taken = 0
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}
    def step(self, action):
        self.taken += 1
        self.time += 1
        if self.taken == 900 and os.path.exists(os.environ["ILL"]):
            raise ValueError("the emulator is on fire")
        return np.zeros(2, np.float32), float(action), self.time == 10, False, {}
'''


def test_a_cell_that_fails_is_tried_again_and_says_why(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gymnasium")
    (tmp_path / "fragile_env.py").write_text(FRAGILE)
    (tmp_path / "ill").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("ILL", str(tmp_path / "ill"))
    settings = {**TINY["settings"], "learning": {"starts": 200, "target_period": 200, "num_envs": 1}}
    settings["evaluation"] = {"period": 400, "episodes": 0}
    file = write(
        tmp_path,
        grids=[
            {"environments": ["gym:fragile_env:Fragile"], "agents": ["dqn"]},
            {"environments": ["probe-chain"], "agents": ["dqn"]},
        ],
        resources={"retries": 1},
        settings=settings,
        environments=[],
        agents=[],
    )
    out = tmp_path / "out"
    assert run(file, "--out", out) == 1
    table = capsys.readouterr().out
    assert "1 of 2 cells done" in table and "on fire" in "".join(table.split("\n")).replace("  ", " ")
    assert main(["study", "status", str(out), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["total"], status["done"], status["failed"], status["waiting"]) == (2, 1, 1, 0)
    failed = next(row for row in status["cells"] if row["state"] == "failed")
    assert "Fragile" in failed["error"] and "on fire" in failed["error"] and failed["step"] > 0
    first, second = starts(out)["gym-fragile_env-Fragile/dqn/seed0"]
    assert first == 0 and second > 0  # the second try went on from the first one's checkpoint
    (tmp_path / "ill").unlink()
    assert run(out) == 0
    assert starts(out)["gym-fragile_env-Fragile/dqn/seed0"][2] >= second


def test_a_driver_that_dies_costs_no_checkpoint(tmp_path: Path) -> None:
    """Neither here nor on Ray, which would kill the processes that its workers have started."""
    pytest.importorskip("ray")
    settings = {**TINY["settings"], "checkpoint.seconds": 3600}  # nothing but the end writes one
    file = write(tmp_path, steps=500_000_000, environments=["probe-chain"], agents=["dqn"], settings=settings)
    for name, more in (("local", ()), ("ray", ("--executor", "ray"))):
        out = tmp_path / name
        driver = study_torture.start(str(file), out, *more)
        wait_for(lambda out=out: (out / "study.json").is_file() and status_of(out)["steps_per_second"])
        driver.kill()
        driver.wait()
        wait_for(lambda out=out: status_of(out)["cells"][0]["step"] and checkpoints(out))


def checkpoints(folder: Path) -> list[Path]:
    return list((folder / "cells").glob("*/*/*/checkpoints/[0-9]*"))


def test_a_task_that_breaks_is_not_tried_for_ever(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("ray")
    out = tmp_path / "out"
    file = write(tmp_path, environments=["probe-chain"], agents=["dqn"], resources={"retries": 2})
    study = open_or_create(out, Marked.from_file(file), "tiny")
    (out / "state").write_text("in the way")
    assert run(study.path, "--executor", "ray") == 1
    assert "Not a directory" in capsys.readouterr().err


def test_what_cannot_be_read_is_not_thrown_away(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(write(tmp_path, environments=["probe-chain"], agents=["dqn"]), "--out", out) == 0
    cell = out / "cells" / "probe-chain" / "dqn" / "seed0"
    (cell / "DONE").unlink()
    for checkpoint in checkpoints(out):
        (checkpoint / "state.safetensors").write_bytes(b"damaged")
    assert run(out) == 0
    assert (cell / "DONE").is_file() and len(list(cell.parent.glob(".seed0.damaged-*/metrics.jsonl"))) == 1


def test_ctrl_c_leaves_checkpoints_a_second_driver_is_sent_away_and_limits_hold(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    file = write(tmp_path, steps=500_000_000, environments=["probe-chain"])
    driver = study_torture.start(str(file), out)
    wait_for(lambda: (out / "study.json").is_file() and all(row["steps_per_second"] for row in status_of(out)["cells"]))
    status = status_of(out)
    assert status["running"] == 2 and status["driver"] and status["steps_per_second"] and status["seconds_left"] > 0
    assert run(out) == 2
    assert f"is being run by process {driver.pid} on" in capsys.readouterr().err
    assert main(["study", "extend", str(out), "--seeds", "2"]) == 2
    capsys.readouterr()
    driver.send_signal(signal.SIGINT)
    assert driver.wait(60) == 130
    status = status_of(out)
    assert status["waiting"] == 2 and not status["driver"] and all(row["step"] > 0 for row in status["cells"])
    assert not any(cell["error"] for cell in status["cells"])

    # Limits: two hours are on the clock by now, and no Python is that small.
    study = StudyFolder(out)
    for cell in study.cells:
        record = study.record(cell)
        record.seconds += 7200
        study.write_record(cell, record)
    assert run(out, "--time-limit", "2h", "--json") == 1
    rows = json.loads(capsys.readouterr().out)["cells"]
    assert [(row["state"], row["error"]) for row in rows] == 2 * [
        ("failed", "The cell took longer than its time limit of 2.0 h (--time-limit sets another).")
    ]
    assert run(out, "--memory", "20MB", "--time-limit", "9h", "--json") == 1
    rows = json.loads(capsys.readouterr().out)["cells"]
    assert all("of memory, and resources.memory allows 20 MB." in row["error"] for row in rows)
    assert all(len(steps) == 3 and steps[1] > 0 for steps in starts(out).values())


def status_of(folder: Path) -> dict[str, Any]:
    return study_status(StudyFolder(folder))


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)


def test_a_full_disk_stops_the_study(tmp_path: Path, capsys: Any) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine lets us mount nothing")
    try:
        assert run(write(tmp_path), "--out", disk / "out") == 1
        err = capsys.readouterr().err
        assert os.strerror(28) in err and "o on with 'sail study run" in err
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


BAD = [
    (["run", "kdt/smok"], "did you mean 'kdt/smoke'?"),
    (["run", "no.yaml"], "There is no study file no.yaml."),
    (["run", "."], "is a folder without a study.json"),
    (["run", "kdt/smoke", "--executor", "rya"], "did you mean 'ray'?"),
    (["run", "kdt/smoke", "--executor", "local", "--address", "auto"], "--address is for"),
    (["run", "kdt/smoke", "--executor", "ray", "--workers", "2"], "--workers is for"),
    (["run", "kdt/smoke", "--workers", "0"], "at least 1"),
    (["run", "kdt/smoke", "--memory", "lots"], "memory must be such as 2GB, not 'lots'."),
    (["run", "kdt/smoke", "--out", "x" * 300], "cannot be written"),
    (["run", "kdt/smoke", "--memory", "1000TB", "--out", "{tmp}/a"], "needs 1000 TB of memory"),
    (["run", "kdt/smoke", "--memory", "1000TB"], "needs 1000 TB of memory"),
    (["run", "kdt/smoke", "--address", "nowhere", "--out", "{tmp}/b"], "A Ray address is auto, HOST:PORT"),
    (["run", "kdt/smoke", "--address", "127.0.0.1:1", "--out", "{tmp}/c"], "no Ray cluster to be reached"),
    (["status", "no/such"], "is no study folder"),
    (["extend", "no/such", "--seeds", "3"], "is no study folder"),
    (["show", "paper/dqm"], "did you mean 'paper/dqn'?"),
    (["plan", "kdt/smoke", "--bench", "no.json"], "cannot be read"),
    (["plan", "kdt/smoke", "--devices", "none"], "must be a whole number"),
    (["frobnicate"], "frobnicate"),
]


@pytest.mark.parametrize("arguments, phrase", BAD, ids=[" ".join(bad[0])[:60] for bad in BAD])
def test_bad_input_is_answered_in_one_sentence(
    arguments: list[str], phrase: str, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["study", *(argument.replace("{tmp}", str(tmp_path)) for argument in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and phrase in err and err.startswith("sail: ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [], "nothing may be left behind"


def test_the_library_is_listed_and_shown(capsys: Any) -> None:
    assert main(["study", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["paper/dqn"]["runs"] == 3 * (59 * 3 + 16 * 3) and rows["kdt/smoke"]["cells"] == 24
    assert main(["study", "list"]) == 0
    assert "kdt/smoke" in capsys.readouterr().out
    assert main(["study", "show", "paper/rnd"]) == 0
    shown = capsys.readouterr().out
    assert "replay.n_step: 3" in shown and "357 cells" in shown
    assert yaml.safe_load(shown)["grids"][1]["environments"] == ["atari:MontezumaRevenge"]
