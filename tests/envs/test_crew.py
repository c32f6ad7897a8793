"""A crew of processes plays what threads play, bit for bit, and nothing of it outlives the run."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

import sail
from sail.envs import make_pools
from sail.envs.atari_settings import AtariSettings
from sail.envs.crew import Crew
from sail.errors import BadInputError, TrainingError
from sail.training.host import HostProgram

pytest.importorskip("ale_py")

PONG = AtariSettings(name="atari:Pong", processes=2, give_way=False, time_limit=20)  # episodes end, and begin again


@pytest.fixture
def make_crew():
    """Crews that are closed at the end."""
    made = []

    def make(settings=PONG, num_pools=1, num_envs=2):
        made.append(Crew(settings, num_pools, num_envs))
        return made[-1]

    yield make
    for crew in made:
        crew.close()


def alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition, seconds=30.0):
    """Waits for a condition, at most so long."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def played(settings: AtariSettings, num_pools: int, num_envs: int, steps: int):
    """All rows of some pools that take turns."""
    pools, crew = make_pools(settings, num_pools, num_envs)
    try:
        for number, pool in enumerate(pools):
            pool.reset(number)
        rng = np.random.default_rng(0)
        rows = []
        for _ in range(steps):
            for pool in pools:
                rows.append(pool.recv())
                pool.send(rng.integers(pool.num_actions, size=num_envs))
        for pool in pools:
            rows.append(pool.recv())
            pool.close()
        return rows
    finally:
        if crew is not None:
            crew.close()


@pytest.mark.parametrize(
    "processes", [1, 3, 9]
)  # of 4 games: all in one, in uneven parts, and more processes than games
def test_processes_play_what_threads_play(processes: int) -> None:
    expected = played(replace(PONG, processes=0), num_pools=2, num_envs=4, steps=50)
    rows = played(replace(PONG, processes=processes), num_pools=2, num_envs=4, steps=50)
    assert sum(one.truncated.sum() for one in expected) >= 2 * 4 * 2
    assert len({one.observation.tobytes() for one in expected}) > 50
    assert len(rows) == len(expected)
    for one, other in zip(rows, expected, strict=True):
        for name in one._fields:
            column, wanted = getattr(one, name), getattr(other, name)
            assert (column is None) == (wanted is None)
            if column is not None:
                assert column.dtype == wanted.dtype
                np.testing.assert_array_equal(column, wanted, err_msg=name)


def test_rows_stay_as_they_are(make_crew) -> None:
    pool = make_crew().pools[0]
    pool.reset(0)
    rows = pool.recv()
    before = [np.copy(column) for column in rows if column is not None]
    for _ in range(25):
        pool.send(np.ones(2, int))
        pool.recv()
    for column, was in zip([column for column in rows if column is not None], before, strict=True):
        np.testing.assert_array_equal(column, was)


def test_training_is_the_same_with_processes() -> None:
    learned = []
    for processes in (0, 2):
        config = sail.make_config(
            "atari:Pong",
            "sail-dqn",
            {
                "env": {"processes": processes, "time_limit": 30, "give_way": False},
                "agent": {"network": "nature", "hidden": [16], "precision": "float32"},
                "replay": {"capacity": 400},
                "learning": {"num_envs": 4, "num_pools": 2, "starts": 40, "batch_size": 4, "max_block": 20},
                "seeds": 2,
            },
        )
        program = HostProgram(config)
        try:
            done = program.advance(program.init(), 0, 120)
            assert done.failure is None
            learned.append(jax.device_get((done.state.learner.params, done.episodes)))
        finally:
            program.close()
    assert learned[0][1] == learned[1][1] and len(learned[0][1]) >= 4
    for one, other in zip(jax.tree.leaves(learned[0][0]), jax.tree.leaves(learned[1][0]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_action_outside_the_set_is_refused(make_crew) -> None:
    pool = make_crew().pools[0]
    pool.reset(0)
    pool.recv()
    with pytest.raises(BadInputError, match="actions 0 to 5, not 6"):
        pool.send(np.array([0, 6]))


def test_a_process_that_is_killed_stops_the_run_with_its_exit_code(make_crew) -> None:
    crew = make_crew()
    pool = crew.pools[0]
    pool.reset(0)
    pool.recv()
    crew._processes[1].kill()
    crew._processes[1].wait()
    with pytest.raises(
        TrainingError, match="atari:Pong failed: a process of its emulators has ended with exit code -9"
    ):
        pool.send(np.zeros(2, int))
        pool.recv()


def test_what_goes_wrong_in_a_process_is_told(make_crew) -> None:
    pool = make_crew().pools[0]
    pool.reset(0)
    pool.recv()
    pool.send(np.zeros(2, int))
    pool.recv()
    pool._table["action"][:] = 17  # past the check on this side
    pool._crew.order(b"s", 0)
    with pytest.raises(TrainingError, match=r"atari:Pong failed: BadInputError: .*not 17"):
        pool.recv()


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="asks the system about processes")
def test_a_process_that_hangs_is_killed_in_the_end(make_crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sail.envs.crew.PATIENCE_SECONDS", 0.2)
    crew = make_crew()
    pids = [process.pid for process in crew._processes]
    os.kill(pids[0], signal.SIGSTOP)
    crew.close()
    assert not any(alive(pid) for pid in pids)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="asks the system about processes")
def test_processes_end_with_a_run_that_is_killed() -> None:
    script = (
        "import time; from sail.envs.crew import Crew; from sail.envs.atari_settings import AtariSettings\n"
        "crew = Crew(AtariSettings(name='atari:Pong', processes=2, give_way=False), 1, 2)\n"
        "crew.pools[0].reset(0); crew.pools[0].recv()\n"
        "print(*[process.pid for process in crew._processes], flush=True); time.sleep(60)"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pids = [int(pid) for pid in run.stdout.readline().split()]
    assert len(pids) == 2 and all(alive(pid) for pid in pids)
    run.kill()
    run.wait()
    assert until(lambda: not any(alive(pid) for pid in pids))


def test_ctrl_c_is_left_to_the_run(make_crew) -> None:
    crew = make_crew()
    pool = crew.pools[0]
    pool.reset(0)
    pool.recv()
    for process in crew._processes:
        process.send_signal(signal.SIGINT)
    pool.send(np.zeros(2, int))
    assert pool.recv().stepped.all()


def test_processes_need_not_find_sail_where_they_are(make_crew, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    pool = make_crew().pools[0]
    pool.reset(0)
    assert pool.recv().begins.all()
