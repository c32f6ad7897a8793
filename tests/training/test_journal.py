"""The replay ring kept on disk: what comes back is what was there, and what is damaged is known for it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from conftest import tiny_overrides

import sail
from sail import replay
from sail.config import Config, make_config
from sail.envs.host import Rows
from sail.errors import TrainingError
from sail.training import journal as journal_module
from sail.training.host import HostProgram
from sail.training.journal import DamagedJournalError, Journal
from sail.training.reporting import Silent

gymnasium = pytest.importorskip("gymnasium")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def config_of(**changes: Any) -> Config:
    checkpoint = {"seconds": 0, "replay": True}
    return make_config("gym:host_envs:Ragged", "sail-dqn", tiny_overrides(checkpoint=checkpoint, **changes))


def transitions(ring: replay.Ring, stack: int) -> set[tuple[Any, ...]]:
    """Everything that can be drawn from one seed's ring."""
    row, slot = np.nonzero(np.asarray(replay.eligible(ring, stack=stack)))
    places = replay.Slots(row, slot, np.array(True))
    batch = replay.gather(ring, places, discount=0.9, stack=stack, time_limit_is_terminal=True)
    columns = [np.asarray(column).reshape(len(row), -1) for column in (batch.states[0], batch.states[1])]
    columns += [np.asarray(x)[:, None] for x in (row, batch.action, batch.reward, batch.discount, batch.returns)]
    # Returns are summed up in another order when they are filled in all at once.
    return {tuple(line) for line in np.concatenate(columns, axis=1).round(3).tolist()}


@pytest.mark.parametrize("frames", ["device", "host"])
@pytest.mark.parametrize("seeds", [1, 2])
def test_the_ring_that_comes_back_is_the_one_that_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frames: str, seeds: int
) -> None:
    """Wrapped around, in many files, with the episodes that were running cut off at their last observation."""
    monkeypatch.setattr(journal_module, "FILE_BYTES", 1000)
    config = config_of(seeds=seeds, replay={"capacity": 400, "frames": frames}, env={"stack": 2})
    program = HostProgram(config)
    program.attach(tmp_path)
    advance = program.advance(program.init(), 0, 800)
    assert advance.failure is None
    state, meta = advance.state, program.checkpoint_meta() | {"step": 800}
    assert len(meta["replay"]) > 3
    learned = jax.tree.map(np.asarray, state.learner)
    before = [ring_of(program, state, seed) for seed in range(seeds)]
    program.close()

    again = HostProgram(config)
    again.attach(tmp_path)
    notes: list[str] = []
    restored = again.restore(program.saved(state), meta, notes.append)
    assert not notes
    for a, b in zip(jax.tree.leaves(learned), jax.tree.leaves(restored.learner), strict=True):
        np.testing.assert_array_equal(a, b)
    for seed in range(seeds):
        old, new = transitions(before[seed], 2), transitions(ring_of(again, restored, seed), 2)
        # The last rows were not answered yet, so each environment may have lost its newest step. Episodes that ran are
        # worth what they were: their ends are bootstrapped from, and their returns are still unknown.
        lost = old - new
        assert len(new) > 300 and len(lost) <= config.learning.num_envs
        # In their place each has kept one that was overwritten: a real one, of two frames that belong together.
        kept = new - old
        assert len(kept) <= config.learning.num_envs
        assert all(line[:2] == line[3:5] and line[5] == line[2] + 1 for line in kept if line[5] > 0)
    again.close()


def test_a_ring_that_comes_back_twice_has_no_episode_that_runs_on_into_another(tmp_path: Path) -> None:
    """Three sessions: the episodes that ran when each ended are cut off there, in every later one."""
    config = config_of(replay={"capacity": 1600})
    program = HostProgram(config)
    program.attach(tmp_path)
    state = program.advance(program.init(), 0, 200).state
    for step in (200, 400):
        meta, saved = program.checkpoint_meta() | {"step": step}, program.saved(state)
        program.close()
        program = HostProgram(config)
        program.attach(tmp_path)
        state = program.restore(saved, meta, lambda sentence: pytest.fail(sentence))
        state = program.advance(state, step, 200).state
    ring = ring_of(program, state, 0)
    program.close()
    for row in range(config.learning.num_envs):
        size = int(ring.size[row])
        age, end = np.asarray(ring.age[row])[:size], np.asarray(ring.end[row])[:size]
        begins = np.flatnonzero(age[1:] == 0)  # the slot before a first observation is an episode's last one
        assert len(begins) >= 3 and (end[begins] == replay.CLOSING).all()
        going_on = np.flatnonzero(end[:-1] == replay.GOES_ON)
        assert (age[going_on + 1] == age[going_on] + 1).all()
        # Twice it was interrupted, and has gone on to other ends since: what these episodes came to is still unknown.
        returns, ended = np.asarray(ring.returns[row])[:size], np.isin(end, (replay.TERMINATED, replay.TRUNCATED))
        interrupted = np.flatnonzero(end == replay.INTERRUPTED)
        assert 1 <= len(interrupted) <= 2 and interrupted[-1] < np.flatnonzero(ended)[-1]
        assert (returns[interrupted] == replay.UNKNOWN_RETURN).all() and np.isfinite(returns[ended]).all()


def ring_of(program: HostProgram, state: Any, seed: int) -> replay.Ring:
    """One seed's ring, with its frames wherever they are."""
    ring = jax.tree.map(lambda x: np.asarray(x[seed]), state.ring)
    if program._host_frames:
        ring = ring._replace(observation=program._host_frames[seed].frames.copy())
    return jax.tree.map(jax.numpy.asarray, ring)


def test_a_run_with_its_ring_goes_on_without_filling_it(tmp_path: Path) -> None:
    config = config_of(steps=800)
    run = sail.train_config(config, out=tmp_path / "run")
    assert list((run.path / "replay").glob("*.safetensors"))
    (run.path / "DONE").unlink()
    newest = sorted((run.path / "checkpoints").iterdir())[-1]
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()
    notes: list[str] = []

    class Listener(Silent):
        def note(self, sentence: str) -> None:
            notes.append(sentence)

    assert sail.resume(run.path, reporter=Listener()).done
    assert notes == ["Resuming at step 400."]


def round_of(number: int, num_envs: int = 3, ended: bool = False) -> tuple[Rows, Any]:
    yes, no = np.ones((1, num_envs), bool), np.zeros((1, num_envs), bool)
    observation = np.full((1, num_envs, 4), number, np.uint8)
    env = np.arange(num_envs, dtype=np.int32)[None]
    return Rows(env, observation, np.zeros((1, num_envs), np.float32), yes if ended else no, no, yes, no), env


def test_files_that_nobody_needs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of 6 slots and files of one round: 6 rounds without an end fill it, or 3 with one."""
    monkeypatch.setattr(journal_module, "FILE_BYTES", 1)
    journal = Journal(tmp_path / "replay", 1, 3, needed=6, keep=1)
    for number in range(20):
        journal.add(*round_of(number))
    assert [entry["name"][:8] for entry in journal.flush()] == [f"{number:08d}" for number in range(14, 20)]
    assert len(list((tmp_path / "replay").iterdir())) == 6
    for number in range(20, 23):
        journal.add(*round_of(number, ended=True))
    kept = journal.flush()
    assert [entry["name"][:8] for entry in kept] == ["00000020", "00000021", "00000022"]
    journal.close()
    again = Journal(tmp_path / "replay", 1, 3, needed=6, keep=1)
    assert [int(rows.observation[0, 0, 0]) for rows, _, _ in again.read(kept)] == [20, 21, 22]
    again.add(*round_of(23))
    assert [entry["name"][:8] for entry in again.flush()] == ["00000020", "00000021", "00000022", "00000023"]
    again.close()


@pytest.mark.parametrize("damage", ["cut", "gone", "other"])
def test_damage_is_seen_and_the_ring_is_filled_instead(tmp_path: Path, damage: str) -> None:
    config = config_of()
    program = HostProgram(config)
    program.attach(tmp_path)
    state = program.advance(program.init(), 0, 400).state
    meta = program.checkpoint_meta() | {"step": 400}
    program.close()
    file = tmp_path / "replay" / meta["replay"][0]["name"]
    if damage == "gone":
        file.unlink()
    else:
        content = file.read_bytes()
        file.write_bytes(content[:-5] if damage == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    again = HostProgram(config)
    again.attach(tmp_path)
    notes: list[str] = []
    again.restore(program.saved(state), meta, notes.append)
    again.close()
    assert notes[0].startswith("The replay ring that was kept cannot be read (")
    assert notes[1] == "The replay ring is not there: filling it with 400 new steps first, which do not count."


def test_a_full_disk_stops_the_run_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "replay", 1, 3, needed=6, keep=1)

    def full(source: Any, target: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module.os, "replace", full)
    journal.add(*round_of(0))
    with pytest.raises(TrainingError, match=r"cannot be kept in .*: No space left on device"):
        journal.flush()
    assert not list((tmp_path / "replay").iterdir())
    journal.close()


class Broken:
    """Actions that never came: the device has failed. Or there is no memory left for them."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self.error


FAILURES = {
    "device": (
        RuntimeError("INTERNAL: the device is lost.\nAnd much more."),
        "RuntimeError: INTERNAL: the device is lost",
    ),
    "memory": (MemoryError(), "MemoryError"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_no_failure_of_the_writing_thread_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A round is lost: then no list of files is given out that lacks it, and nobody waits for a queue that is full."""
    monkeypatch.setattr(journal_module, "FILE_BYTES", 1)
    error, reason = FAILURES[kind]
    sentence = f"The replay ring cannot be kept in {tmp_path / 'replay'}: {reason}."
    journal = Journal(tmp_path / "replay", 1, 3, needed=6, keep=1)
    journal.add(*round_of(0))
    journal.flush()
    heard: list[str] = []

    def go_on() -> None:
        try:
            journal.add(round_of(1)[0], Broken(error))
            for number in range(2, 5 + journal_module.WAITING_FILES):
                journal.add(*round_of(number))
        except TrainingError as failure:
            heard.append(str(failure))
        try:
            heard.append(str(journal.flush()))
        except TrainingError as failure:
            heard.append(str(failure))

    run = threading.Thread(target=go_on, daemon=True)
    run.start()
    run.join(timeout=30)
    assert not run.is_alive(), "it waits for ever"
    assert heard == [sentence, sentence]
    journal.close()
    assert [file.name for file in (tmp_path / "replay").iterdir()] == ["00000000.safetensors"]


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    """A file of the journal, and nothing else that is there."""
    folder = tmp_path / "replay"
    journal = Journal(folder, 1, 3, needed=6, keep=1)
    journal.add(*round_of(0))
    kept = journal.flush()
    journal.close()
    (folder / ".00000001.safetensors.writing").write_bytes(b"half of a fi")
    (folder / "notes.txt").write_text("somebody's own")
    again = Journal(folder, 1, 3, needed=6, keep=1)
    assert sorted(file.name for file in folder.iterdir()) == ["00000000.safetensors", "notes.txt"]
    assert len(list(again.read(kept))) == 1
    again.close()


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.safetensors").write_bytes(b"x")
    journal = Journal(tmp_path / "replay", 1, 3, needed=6, keep=1)
    with pytest.raises(DamagedJournalError):
        list(journal.read([{"name": "../secret.safetensors", "sha256": "", "begins": True}]))
    journal.close()
