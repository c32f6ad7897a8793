"""A run that is asked to stop, at any moment, has a checkpoint of the step that it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import tiny_overrides

import sail
from sail.training import loop


class AskedAfter:
    """Becomes set just after it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("looks", range(4))
def test_a_stop_that_comes_between_two_looks_is_not_without_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    @contextmanager
    def stop_requests(_: object) -> Iterator[AskedAfter]:
        yield AskedAfter(looks)

    monkeypatch.setattr(loop, "stop_requests", stop_requests)
    config = sail.make_config("kdt", "sail-dqn", tiny_overrides(checkpoint={"seconds": 1e6}))
    with pytest.raises(loop.InterruptedTrainingError) as error:
        sail.train_config(config, out=tmp_path / "run")
    assert f"at step {sail.load(tmp_path / 'run').step:,};" in str(error.value)
