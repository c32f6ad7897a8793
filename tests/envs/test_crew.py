"""A crew of processes plays what threads play, bit for bit, and nothing of it outlives the run."""

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import until
from hypothesis import given
from hypothesis import strategies as st

import sail
from sail.envs import make_pools
from sail.envs.atari_settings import AtariSettings
from sail.envs.crew import Crew, _environment, _has_something, shares
from sail.envs.worker import STEP
from sail.errors import BadInputError, TrainingError
from sail.machine import cores_to_share
from sail.training.emulators import CrewEmulators, Pools
from sail.training.run_folder import RunFolder

pytest.importorskip("ale_py")

PONG = AtariSettings(name="atari:Pong", processes=2, give_way=False, time_limit=20)
BREAKOUT = AtariSettings(name="atari:Breakout", give_way=False, time_limit=60, noop_max=30, life_loss_ends=True)


@pytest.fixture
def make_crew():
    """Crews that are closed at the end."""
    made = []

    def make(settings=PONG, num_pools=1, num_envs=2, **screen):
        made.append(Crew(settings, num_pools, num_envs, **screen))
        return made[-1]

    yield make
    for crew in made:
        crew.close()


def state_of(pid: int) -> str:
    """As Linux says it; Z for one that has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    return state_of(pid) != "Z"


def stopped(pid: int) -> bool:
    """Waits until it has taken notice of a SIGSTOP: on a busy machine its threads go on for a moment."""
    return until(lambda: state_of(pid) in "TZ")


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


@pytest.fixture(scope="module")
def by_threads() -> list[Any]:
    return played(BREAKOUT, num_pools=2, num_envs=4, steps=100)


# Of 4 games: all in one process, in uneven parts, and in fewer processes than were asked for.
@pytest.mark.parametrize("processes", [1, 3, 9])
def test_processes_play_what_threads_play(processes: int, by_threads: list[Any]) -> None:
    expected = by_threads
    rows = played(replace(BREAKOUT, processes=processes), num_pools=2, num_envs=4, steps=100)
    for column in ("reward", "terminated", "truncated", "begins"):
        assert sum(np.count_nonzero(getattr(one, column)) for one in expected) >= 2
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


def test_an_action_outside_the_set_is_refused(make_crew) -> None:
    pool = make_crew().pools[0]
    pool.reset(0)
    pool.recv()
    with pytest.raises(BadInputError, match="actions 0 to 5, not 6"):
        pool.send(np.array([0, 6]))


@pytest.mark.parametrize("waiting", [False, True], ids=["between steps", "while it is waited for"])
def test_a_process_that_is_killed_stops_the_run_with_its_exit_code(make_crew, waiting: bool) -> None:
    crew = make_crew()
    pool = crew.pools[0]
    pool.reset(0)
    pool.recv()
    if waiting:
        os.kill(crew._processes[1].pid, signal.SIGSTOP)
        assert stopped(crew._processes[1].pid)
        pool.send(np.zeros(2, int))
        threading.Timer(0.3, crew._processes[1].kill).start()
    else:
        crew._processes[1].kill()
        crew._processes[1].wait()
        pool.send(np.zeros(2, int))
    with pytest.raises(
        TrainingError, match="atari:Pong failed: a process of its emulators has ended with exit code -9"
    ):
        pool.recv()


def test_what_goes_wrong_in_a_process_is_told_to_every_pool(make_crew, capfd: Any) -> None:
    one, other = make_crew(num_pools=2).pools
    for pool in (one, other):
        pool.reset(0)
        pool.recv()
    one._table["action"][:] = 17  # past the check on this side
    one._tell(STEP)
    with pytest.raises(TrainingError, match=r"atari:Pong failed: BadInputError: .*not 17"):
        one.recv()
    one._crew._processes[0].wait()
    other.send(np.zeros(2, int))
    with pytest.raises(TrainingError, match=r"atari:Pong failed: BadInputError: .*not 17"):
        other.recv()
    assert "Traceback" in capfd.readouterr().err


def test_what_goes_wrong_in_a_game_that_a_process_plays_itself_is_told(make_crew) -> None:
    pool = make_crew(screen=(2, 210, 160)).pools[0]
    pool.reset(0)
    pool.recv()
    pool._table["action"][:] = 17
    pool._tell(STEP)
    with pytest.raises(TrainingError, match=r"atari:Pong failed: IndexError"):
        pool.recv(10.0)


def test_a_pool_is_played_by_those_who_have_games_of_it(make_crew) -> None:
    crew = make_crew(num_pools=2, num_envs=1)
    for pool in crew.pools:
        pool.reset(0)
        pool.recv()
    (other,) = crew._players[1]
    os.kill(crew.processes[other], signal.SIGSTOP)
    crew.pools[0].send(np.zeros(1, int))
    crew.pools[0].recv(10.0)


def test_threads_are_for_games_without_processes() -> None:
    with pytest.raises(BadInputError, match=r"^env\.threads is for games without processes: leave it at 0, or set"):
        Crew(replace(PONG, threads=2), 1, 2)


def test_what_goes_wrong_is_told_even_where_it_cannot_be_printed(make_crew, monkeypatch: Any) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # like the error output of `sail train ... 2>&1 | head`
    started = subprocess.Popen.__init__
    monkeypatch.setattr(subprocess.Popen, "__init__", lambda *a, **k: started(*a, **{**k, "stderr": writing}))
    one, other = make_crew(num_pools=2).pools
    os.close(writing)
    for pool in (one, other):
        pool.reset(0)
        pool.recv()
    one._table["action"][:] = 17
    one._tell(STEP)
    with pytest.raises(TrainingError, match=r"atari:Pong failed: BadInputError: .*not 17"):
        one.recv(10.0)
    assert all(process.wait(10) == 1 for process in one._crew._processes)


def test_a_pool_at_work_cannot_be_reset(make_crew) -> None:
    pool = make_crew().pools[0]
    pool.reset(0)
    with pytest.raises(RuntimeError, match="at work"):
        pool.reset(1)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="asks the system about files")
def test_more_processes_than_there_can_be_files_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    make, made = os.pipe, 0

    def pipe() -> tuple[int, int]:
        nonlocal made
        made += 1
        if made > 9:  # in the midst of the third process
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return make()

    gc.collect()  # files of crews before this one
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe", pipe)
        patched.setattr(subprocess.Popen, "__init__", _started_without_a_pipe(make))
        with pytest.raises(
            BadInputError, match=r"env\.processes 4 cannot be had here, with 3 pools: Too many open files"
        ):
            Crew(replace(PONG, processes=4), 3, 4)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def _started_without_a_pipe(make: Any) -> Any:
    """Popen has a pipe of its own, which is not what the test is about."""
    init = subprocess.Popen.__init__

    def start(*args: Any, **kwargs: Any) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "pipe", make)
            init(*args, **kwargs)

    return start


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


@pytest.mark.parametrize("doing", ["starting", "playing"])
def test_processes_end_with_a_run_that_is_killed_while_they_work(doing: str) -> None:
    """Within a second or two, where their games would have taken minutes to start; and without a word."""
    script = (
        "import time; from sail.envs.crew import Crew; from sail.envs.atari_settings import AtariSettings\n"
        f"games = {2000 if doing == 'starting' else 8}\n"
        "crew = Crew(AtariSettings(name='atari:Pong', processes=2, give_way=False), 1, games, (2, 210, 160))\n"
        "pool = crew.pools[0]; pool.reset(0)\n"
        f"first = {doing == 'playing'} and pool.recv()\n"
        "print(*[process.pid for process in crew._processes], flush=True)\n"
        "while first: pool.send([0] * games); pool.recv()\n"
        "time.sleep(60)"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stderr is not None
    pids = [int(pid) for pid in run.stdout.readline().split()]
    assert len(pids) == 2 and all(alive(pid) for pid in pids)
    time.sleep(1.0)
    run.kill()
    run.wait()
    assert until(lambda: not any(alive(pid) for pid in pids))
    assert run.stderr.read() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_what_stops_a_run_is_left_to_the_run(make_crew, number: signal.Signals) -> None:
    crew = make_crew()
    for process in crew._processes:
        process.send_signal(number)  # at once, while they start
    pool = crew.pools[0]
    pool.reset(0)
    assert pool.recv().begins.all()
    for process in crew._processes:
        process.send_signal(number)
    pool.send(np.zeros(2, int))
    assert pool.recv().stepped.all()


def test_processes_find_sail_where_this_one_did_and_nothing_else(make_crew, monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert _environment()["PYTHONPATH"] == str(Path(sail.__file__).parents[1])
    pool = make_crew().pools[0]
    pool.reset(0)
    assert pool.recv().begins.all()


def test_what_goes_wrong_with_actions_ends_the_run_with_one_sentence(make_crew) -> None:
    emulators = CrewEmulators(make_crew().pools[0], 0)
    emulators.rows()

    def lost() -> None:
        raise ValueError("no such device")

    emulators.act(lost)
    with pytest.raises(TrainingError, match="atari:Pong failed: ValueError: no such device"):
        emulators.deliver()
    emulators.act(np.array([0, 9]))
    with pytest.raises(BadInputError, match="actions 0 to 5, not 9"):
        emulators.deliver()


def test_a_process_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"env": {"processes": 2, "time_limit": 20}, "learning": {"num_envs": 4, "num_pools": 1}}
    pools = Pools(sail.make_config("atari:Pong", "dqn", settings), 0)
    try:
        asked, _ = pools.rows(np.arange(1))
        assert pools._crew is not None
        pid = pools._crew._processes[1].pid
        os.kill(pid, signal.SIGSTOP)
        assert stopped(pid)
        asked[0].act(lambda: np.zeros(4, int))
        monkeypatch.setattr("sail.training.emulators.PATIENCE_SECONDS", 0.5)
        with pytest.raises(TrainingError, match=r"atari:Pong has not answered for 0\.5 s, so the run stops"):
            pools.rows(np.arange(1))
    finally:
        monkeypatch.setattr("sail.envs.crew.PATIENCE_SECONDS", 0.2)
        pools.close()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes cannot be held to some cores")
@pytest.mark.parametrize("give_way", [False, True])
def test_emulators_that_give_way_leave_two_cores_alone(make_crew, give_way: bool) -> None:
    crew = make_crew(replace(PONG, give_way=give_way))
    crew.pools[0].reset(0)
    crew.pools[0].recv()
    expected = cores_to_share() if give_way else sorted(os.sched_getaffinity(0))
    used = [os.sched_getaffinity(process.pid) for process in crew._processes]
    assert sorted(set().union(*used)) == expected


def test_pools_are_played_in_the_order_in_which_they_are_told_to(make_crew) -> None:
    crew = make_crew(replace(PONG, processes=1), num_pools=3, num_envs=12)
    for pool in crew.pools:
        pool.reset(0)
    for pool in crew.pools:
        pool.recv()
    for number, pool in enumerate((2, 0, 1, 0, 2)):
        others = [other for other in range(3) if other != pool]
        for other in [*others, pool]:
            crew.pools[other].send(np.zeros(12, int))
        crew.pools[pool].recv()
        assert all(_has_something(crew._answers[0][other], 0.0) for other in others), number
        for other in others:
            crew.pools[other].recv()


@pytest.mark.parametrize(
    ("processes", "num_pools", "num_envs", "expected"),
    [
        (2, 2, 3, [[(1, 3), (0, 1)], [(0, 1), (1, 3)]]),  # three games each, and not four and two
        (3, 1, 2, [[(0, 1)], [(1, 2)]]),
        (5, 2, 2, [[(0, 1), (0, 0)], [(1, 2), (1, 1)], [(0, 0), (0, 1)], [(1, 1), (1, 2)]]),
    ],
)
def test_shares(processes: int, num_pools: int, num_envs: int, expected: list[list[tuple[int, int]]]) -> None:
    assert shares(processes, num_pools, num_envs) == expected


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 100))
def test_every_game_has_one_process_and_no_process_has_two_more_than_another(
    processes: int, num_pools: int, num_envs: int
) -> None:
    found = shares(processes, num_pools, num_envs)
    assert len(found) == min(processes, num_pools * num_envs)
    for pool in range(num_pools):
        games = [game for own in found for game in range(*own[pool])]
        assert sorted(games) == list(range(num_envs))
    totals = [sum(end - begin for begin, end in own) for own in found]
    assert min(totals) >= 1 and max(totals) - min(totals) <= 1


@pytest.mark.parametrize(
    ("given", "wanted", "shared"),
    [(16, None, 14), (16, "8", 12), (64, "8", 48), (2, None, 1), (1, None, 1)],  # two for each of 1, 2, 8 runs
)
def test_two_cores_are_left_to_each_run(monkeypatch: Any, given: int, wanted: str | None, shared: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(given)), raising=False)
    monkeypatch.delenv("SAIL_CORES", raising=False)
    if wanted is not None:
        monkeypatch.setenv("SAIL_CORES", wanted)
    assert cores_to_share() == list(range(shared))


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="asks the system about processes")
def test_memory_of_all_processes(make_crew) -> None:
    crew = make_crew()
    crew.pools[0].reset(0)
    crew.pools[0].recv()
    assert 2 * 20e6 < crew.peak_memory() < 2 * 200e6  # numpy and the emulator, without jax


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="asks the system about processes")
def test_processes_that_hang_do_not_keep_a_run_from_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sail.training.emulators.CLOSING_SECONDS", 0.5)
    monkeypatch.setattr("sail.envs.crew.PATIENCE_SECONDS", 0.2)
    settings = {"env": {"processes": 2, "time_limit": 20}, "learning": {"num_envs": 8, "num_pools": 4}}
    pools = Pools(sail.make_config("atari:Pong", "dqn", settings), 0)
    asked, _ = pools.rows(np.arange(1))
    assert pools._crew is not None
    pids = [process.pid for process in pools._crew._processes]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    asked[0].act(np.zeros(2, int))
    pools.close()
    assert not any(alive(pid) for pid in pids)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="asks the system about processes")
def test_a_run_that_cannot_begin_leaves_no_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[Crew] = []
    order = Crew.order

    def noticed(crew: Crew, what: bytes, pool: int) -> None:
        begun.append(crew)
        order(crew, what, pool)

    def no_folder(*arguments: Any) -> None:
        raise BadInputError("no folder")

    monkeypatch.setattr(Crew, "order", noticed)
    monkeypatch.setattr(RunFolder, "create", no_folder)
    settings = {"env": {"processes": 1}, "agent": {"network": "mlp", "hidden": (4,)}, "replay": {"capacity": 200}}
    config = sail.make_config("atari:Pong", "dqn", {**settings, "learning": {"num_envs": 2, "batch_size": 2}})
    with pytest.raises(BadInputError, match="no folder"):
        sail.train_config(config, out=tmp_path / "run")
    assert begun and not alive(begun[0]._processes[0].pid)
