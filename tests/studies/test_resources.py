"""What a cell may use: whatever is read must read the same from the folder that it is written into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sail.errors import BadInputError
from sail.studies.folder import StudyFolder, open_or_create
from sail.studies.marked import Marked, dump
from sail.studies.resources import Resources, read_resource, read_resources

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
