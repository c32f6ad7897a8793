"""What a cell may use: whatever is read must read the same from the folder that it is written into."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sail.errors import BadInputError
from sail.studies import local, worker
from sail.studies.folder import StudyFolder, open_or_create
from sail.studies.marked import Marked, dump
from sail.studies.resources import Resources, read_resource, read_resources
from sail.studies.supervisor import environment_of
from sail.studies.worker import NEEDS_GPU

NUMBERS = st.integers(0, 10**20) | st.floats(0, 1e20).map(lambda number: round(number, 12))


def sizes(name: str, units: list[str]) -> st.SearchStrategy[tuple[str, Any]]:
    with_unit = st.builds(lambda number, unit: f"{number}{unit}", NUMBERS, st.sampled_from(units))
    return st.tuples(st.just(name), NUMBERS | with_unit)


@settings(deadline=None, derandomize=True, max_examples=400)
@given(
    sizes("memory", ["", "B", "kB", "MB", "GB", "TB", "KiB", " MiB", "GiB", "TiB"])
    | sizes("time_limit", ["", "s", "min", "m", "h", "d"])
)
@example(("memory", "1000TB"))
@example(("memory", "0.1B"))
@example(("time_limit", "0.00001 s"))
def test_whatever_is_accepted_reads_the_same_when_written(given_one: tuple[str, Any]) -> None:
    name, value = given_one
    try:
        found = Resources(**{name: read_resource(name, value)})
    except BadInputError as error:
        assert str(error).startswith(f"{name} must be ")
        return
    marked = Marked("study.yaml", dump({"resources": found.to_tree()}))
    assert read_resources(marked, marked.tree["resources"], ("resources",)) == found


@pytest.mark.parametrize(
    ("name", "value", "span"),
    [
        ("memory", 0, "from 1B to 1,000,000TB"),
        ("memory", "0.1B", "from 1B to 1,000,000TB"),
        ("memory", "2000000TB", "from 1B to 1,000,000TB"),
        ("time_limit", "0.1s", "from 1s to 10,000d"),
        ("time_limit", "10001d", "from 1s to 10,000d"),
    ],
)
def test_a_size_that_cannot_be_is_refused_with_those_that_can(name: str, value: Any, span: str) -> None:
    with pytest.raises(BadInputError) as error:
        read_resource(name, value)
    assert str(error.value) == f"{name} must be {span}, not {value!r}."


def test_a_study_of_much_memory_can_be_opened_again(tmp_path: Path) -> None:
    marked = Marked("x.yaml", "environments: [kdt]\nagents: [dqn]\nresources: {memory: 1000TB}\n")
    study = open_or_create(tmp_path / "study", marked, "x")
    assert StudyFolder(study.path).definition()[0].resources.memory == 10**15


def test_gpus_are_found_where_linux_says_so_and_cells_fail_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some containers have only the devices; and a cell that asked for a GPU must not take days on the CPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(local, "PROC_GPUS", tmp_path / "gpus")
    monkeypatch.setattr(local, "DEVICES", tmp_path / "dev")
    assert local.visible_gpus() == []
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / "dev" / name).touch()
    assert local.visible_gpus() == ["0", "1"]
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    assert local.visible_gpus() == ["0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert local.visible_gpus() == ["3", "5"]
    on_gpu = environment_of(Resources(gpus=0.5), ["3"])
    assert (on_gpu["CUDA_VISIBLE_DEVICES"], on_gpu[NEEDS_GPU]) == ("3", "1")
    without = environment_of(Resources(gpus=1.0), [])  # a machine without any
    assert without["JAX_PLATFORMS"] == "cpu" and NEEDS_GPU not in without
    assert environment_of(Resources(gpus=1.0))[NEEDS_GPU] == "1"  # a task of Ray's, which has chosen the GPU
    monkeypatch.setenv(NEEDS_GPU, "1")  # of a cell that this is started in
    assert NEEDS_GPU not in environment_of(Resources()) and NEEDS_GPU not in environment_of(Resources(gpus=1.0), [])
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # somebody wants it so
    assert NEEDS_GPU not in environment_of(Resources(gpus=1.0), ["3"])


def test_a_cell_that_was_given_a_gpu_does_not_train_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    cell = {"name": "kdt/dqn/seed0", "env": "kdt", "agent": "dqn", "preset": None, "settings": {"steps": 1000}}
    arguments = [
        str(os.getppid()),
        str(tmp_path / "run"),
        str(tmp_path / "progress"),
        json.dumps(cell | {"seed": 0, "seeds": 1}),
    ]
    monkeypatch.setattr(worker, "follow", lambda parent: None)
    monkeypatch.setattr(worker, "run_cell", lambda *_: None)
    monkeypatch.setattr(sys, "argv", [])
    assert worker.main(arguments) == 0
    monkeypatch.setenv(NEEDS_GPU, "1")
    assert worker.main(arguments) == 2
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert worker.main(arguments) == 0
