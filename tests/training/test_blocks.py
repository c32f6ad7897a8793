"""What is said about small blocks of updates."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from conftest import tiny_overrides

import sail
from sail.config import make_config
from sail.training.blocks import small_block_note
from sail.training.loop import InterruptedTrainingError
from sail.training.reporting import Silent


def note_of(env: str, target: int, evaluation: int, **learning: Any) -> str | None:
    learning |= {"target_period": target}
    return small_block_note(make_config(env, overrides={"learning": learning, "evaluation": {"period": evaluation}}))


@pytest.mark.parametrize("env", ["kdt", "deep-sea", "atari:Pong", "gym:CartPole-v1"])
@pytest.mark.parametrize("preset", [None, "paper", "dopamine", "small"])
def test_defaults_have_large_blocks(env: str, preset: str | None) -> None:
    assert small_block_note(make_config(env, preset=preset)) is None


def test_the_nearest_target_period_is_named() -> None:
    # Periods are rounded up to whole steps of 8 environments: 500 to 504 = 8 * 63, beside 25,000 = 8 * 5^5. The largest
    # multiple of 8 up to 256 that divides 25,000 is 200, and 600 is nearer to 504 than 400.
    assert note_of("kdt", 500, 25_000) == (
        "Updates come in blocks of 8 steps, since that is what divides the target period (504) and the evaluation "
        "period (25,000). Larger blocks are faster: a target period of 600 would allow 200."
    )
    assert make_config("kdt", overrides={"learning": {"target_period": 600}}).block_steps == 200
    # One of Atari: 10,008 = 8 * 9 * 139 and 250,000 = 2^4 * 5^6.
    note = note_of("atari:Pong", 10_007, 250_000, num_envs=16, max_block=80)
    assert note is not None and note.startswith("Updates come in blocks of 8 steps")
    assert note.endswith("a target period of 10,000 would allow 80.")


def test_the_evaluation_period_is_named_where_that_helps_more() -> None:
    # 10,008 = 8 * 3^2 * 139: blocks of 72 at most, with a target period of 432. 400 allows 200.
    note = note_of("kdt", 400, 10_007)
    assert note is not None and note.endswith("an evaluation period of 10,000 would allow 200.")


def test_two_odd_periods_and_a_short_one() -> None:
    # 10,024 = 8 * 7 * 179 allows 56, 10,072 = 8 * 1,259 nothing but 8.
    note = note_of("kdt", 8 * 1_259, 8 * 7 * 179)
    assert note is not None and note.endswith("a target period of 10,080 would allow 56.")
    note = note_of("kdt", 8 * 1_259, 8 * 1_277)
    assert note is not None and note.endswith("rounder periods would allow more.")
    assert note_of("kdt", 16, 25_000) is None  # 8 of 16: the period is short, and a longer one would be another agent
    # A quarter is enough: 40 of 160 steps, which divide 280 and 40 * 1,009, and not of 168.
    assert note_of("kdt", 280, 40_360, max_block=160) is None
    assert note_of("kdt", 280, 40_360, max_block=168) is not None


class Heard(Silent):
    """Keeps what is said, and stops after the first phase."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def phase(self, rows: list[dict[str, Any]]) -> None:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("env", ["kdt", "gym:CartPole-v1"])
def test_a_run_says_it_when_it_begins_and_when_it_goes_on(env: str, tmp_path: Any) -> None:
    if env.startswith("gym"):
        pytest.importorskip("gymnasium")
    # 212 = 4 * 53 and 400: the one allows 212 itself, the other 200.
    overrides = tiny_overrides(steps=1200, learning={"target_period": 212}, agent={"network": "mlp"})
    config = make_config(env, overrides=overrides)
    assert config.block_steps == 4
    heard = Heard()
    with pytest.raises(InterruptedTrainingError):
        sail.train_config(config, out=tmp_path / "run", reporter=heard)
    assert heard.notes[0].endswith("an evaluation period of 424 would allow 212.")
    again = Heard()
    with pytest.raises(InterruptedTrainingError):
        sail.resume(tmp_path / "run", reporter=again)
    assert heard.notes[0] in again.notes


def test_a_run_with_large_blocks_says_nothing(train_tiny: Callable[..., Any], tmp_path: Any) -> None:
    heard = Heard()
    with pytest.raises(InterruptedTrainingError):
        sail.train_config(make_config("kdt", overrides=tiny_overrides()), out=tmp_path / "run", reporter=heard)
    assert not any("blocks" in note for note in heard.notes)
