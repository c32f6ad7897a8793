"""What a phase sums up, and that rounds of updates for which there was nothing to draw are not counted as learning."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import tiny_overrides

import sail
from sail.config import Config, make_config
from sail.training import checkpoint
from sail.training.learner import Diagnostics
from sail.training.loop import InterruptedTrainingError
from sail.training.metrics import Phase
from sail.training.program import make_program
from sail.training.reporting import Silent

NAN = np.nan


def config_of(name: str = "kdt", **changes: Any) -> Config:
    """Blocks of 40 steps, updates of 10 from step 80 on, phases of 200 steps."""
    learning = {"starts": 80, "target_period": 40, "max_block": 40}
    evaluation = {"period": 200, "episodes": 0}
    config = make_config(name, "sail-dqn", tiny_overrides(learning=learning, evaluation=evaluation, **changes))
    assert config.block_steps == 40
    return config


def found(loss: list[list[float]], known_share: list[list[float]]) -> Diagnostics:
    """Diagnostics [seeds, blocks] of which the others do not matter."""
    other = np.where(np.isnan(known_share), NAN, 0.5)
    columns = [np.array(column, np.float32) for column in (loss, known_share)]
    return Diagnostics(*[other] * len(Diagnostics._fields))._replace(loss=columns[0], known_share=columns[1])


def rows_of(phase: Phase) -> list[tuple[int, Any, Any]]:
    return [(row["updates"], row["loss"], row["known_share"]) for row in phase.metric_rows(None, 0.1, 0.0)]


def test_rounds_in_vain_are_no_updates_and_not_in_the_means() -> None:
    """Of the blocks up to steps 40, 80, 120, 160 and 200 all but the first have a round; the first seed's are all made.

    The second seed had nothing to draw in two: its means are over the losses 4 and 5 and the shares 0.25 and 0.75.
    """
    phase = Phase(config_of(seeds=2), 0)
    phase.add(found([[NAN, 1, 2], [NAN, NAN, NAN]], [[NAN, 0, 0.5], [NAN, NAN, NAN]]), [], 120)
    assert rows_of(phase) == [(20, 1.5, 0.25), (0, None, None)]
    phase.add(found([[3, 6], [4, 5]], [[0.5, 1], [0.25, 0.75]]), [], 80)
    assert rows_of(phase) == [(40, 3.0, 0.5), (20, 4.5, 0.5)]
    after = phase.next()
    after.add(found([[1], [1]], [[1], [1]]), [], 40)
    assert after.first_step == 200 and rows_of(after) == [(50, 1.0, 1.0), (30, 1.0, 1.0)]


def test_a_phase_comes_back_from_a_checkpoint_with_what_was_in_vain() -> None:
    config = config_of(seeds=2)
    phase = Phase(config, 0)
    phase.add(found([[NAN, 1, 2], [NAN, NAN, 7]], [[NAN, 0, 0.5], [NAN, NAN, 0]]), [], 120)
    again = Phase.from_json(config, json.loads(json.dumps(phase.to_json())))
    assert rows_of(again) == rows_of(phase) == [(20, 1.5, 0.25), (10, 7.0, 0.0)]
    assert Phase.from_json(config, json.loads(json.dumps(phase.next().to_json()))).to_json() == phase.next().to_json()


def test_what_an_episode_does_not_say_is_no_nan_in_a_checkpoint() -> None:
    """Most environments do not say whether an episode was a success. JSON has no NaN."""
    phase = Phase(config_of(), 0)
    phase.add(found([[1]], [[1]]), [{"seed": 0, "step": 30, "return": 2.0, "length": 30}], 40)
    text = json.dumps(phase.to_json(), allow_nan=False)
    again = Phase.from_json(phase.config, json.loads(text))
    (before,), (after,) = (one.metric_rows(None, 0.1, 0.0) for one in (phase, again))
    assert before == after and (after["train_return"], after["train_success"]) == (2.0, None)


def test_a_checkpoint_of_before_rounds_in_vain_were_counted_can_be_read() -> None:
    """It has one number of blocks for all seeds: here 2, over which the losses 1 + 2 and 3 + 4 were summed up."""
    config = config_of(seeds=2)
    kept = Phase(config, 0).to_json() | {"step": 120, "blocks_learned": 2}
    kept["sums"] = {name: [3.0, 7.0] for name in Diagnostics._fields}
    del kept["in_vain"]
    assert rows_of(Phase.from_json(config, kept)) == [(20, 1.5, 1.5), (20, 3.5, 3.5)]


def test_a_bad_loss_is_told_from_a_round_in_vain() -> None:
    """Seed 3, in the third block of a slice that begins at step 200."""
    phase = Phase(config_of(seeds=2, seed=2), 200)
    shares = [[NAN, 1.0, 1.0], [NAN, NAN, 0.0]]
    assert phase.first_bad_step(found([[NAN, 1, 1], [NAN, NAN, 2]], shares)) is None
    for bad in (NAN, np.inf):
        assert phase.first_bad_step(found([[NAN, 1, 1], [NAN, NAN, bad]], shares)) == (3, 320)


# Runs of finished episodes only ---------------------------------------------------------------------------------------

ENVS: dict[str, dict[str, Any]] = {
    "kdt": {"time_limit": 57},
    "gym:host_envs:Counter": {"kwargs": {"lengths": [57]}},
}
"""Four environments whose first episodes end with steps 225 to 228. So the rounds at steps 80 to 200 are in vain."""


def run_of_finished_episodes(name: str, **changes: Any) -> Config:
    return config_of(name, env=ENVS[name], steps=600, replay={"finished_only": True}, **changes)


def assert_honest(run: sail.RunFolder) -> None:
    """No update by step 200, then a round of 10 at each of the steps 240, 280, ..., 600. Adam keeps a count too."""
    rows = run.metrics()
    assert [(row["step"], row["updates"]) for row in rows if row["seed"] == 0] == [(200, 0), (400, 50), (600, 100)]
    for row in rows:
        learned = row["updates"] > 0
        assert (row["loss"] is not None) == (row["max_q"] is not None) == learned
        assert row["known_share"] == (1.0 if learned else None)
    saved, _, _ = checkpoint.load_newest(run.checkpoints, make_program(run.config).saved_like())
    counts = np.asarray(saved.learner.optimiser[0].count).tolist()
    assert counts == [row["updates"] for row in rows[-run.config.seeds :]]


@pytest.mark.parametrize("name", ENVS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environment
def test_updates_begin_with_the_first_finished_episode(name: str, tmp_path: Path) -> None:
    if name.startswith("gym:"):
        pytest.importorskip("gymnasium")
    assert_honest(sail.train_config(run_of_finished_episodes(name), out=tmp_path / "run"))


@pytest.mark.parametrize("stop_at", [200, 400])
def test_a_resumed_run_knows_what_was_in_vain(stop_at: int, tmp_path: Path) -> None:
    with pytest.raises(InterruptedTrainingError):
        sail.train_config(run_of_finished_episodes("kdt", seeds=2), out=tmp_path / "run", reporter=StopAt(stop_at))
    assert_honest(sail.resume(tmp_path / "run"))


class StopAt(Silent):
    """Interrupts its own process (as Ctrl-C would) once a phase is logged."""

    def __init__(self, step: int) -> None:
        self.at = step

    def phase(self, rows: list[dict[str, Any]]) -> None:
        if rows[0]["step"] == self.at:
            os.kill(os.getpid(), signal.SIGINT)
