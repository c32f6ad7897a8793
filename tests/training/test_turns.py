"""In which order the host loop takes rows, sends actions and asks for updates, where games are in processes."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from conftest import until

import sail
from sail.envs.crew import CrewPool
from sail.training.emulators import Pools
from sail.training.host import HostProgram
from sail.training.learner_thread import LearnerThread
from sail.training.parcels import Chosen

pytest.importorskip("ale_py")


def small_pong(frames: str) -> sail.Config:
    """Two pools of four games, in blocks of two rounds."""
    return sail.make_config(
        "atari:Pong",
        "dqn",
        {
            "env": {"processes": 1, "time_limit": 20, "give_way": False},
            "agent": {"network": "mlp", "hidden": [4]},
            "replay": {"capacity": 100, "frames": frames},
            "learning": {"num_envs": 8, "num_pools": 2, "starts": 40, "batch_size": 2, "max_block": 8},
        },
    )


def orders(monkeypatch: pytest.MonkeyPatch, asked_for: Callable[[Future[Any]], None]) -> list[str]:
    """What the loop will do: "learn" where it asks for updates, which are shown to `asked_for`, "send" for actions."""
    told: list[str] = []
    learn, send = LearnerThread.learn, CrewPool.send

    def learned(self: LearnerThread, step: int) -> Any:
        told.append("learn")
        updates = learn(self, step)
        asked_for(updates)
        return updates

    def sent(self: CrewPool, actions: Any) -> None:
        told.append("send")
        send(self, actions)

    monkeypatch.setattr(LearnerThread, "learn", learned)
    monkeypatch.setattr(CrewPool, "send", sent)
    return told


@pytest.mark.parametrize(("frames", "on_time"), [("device", True), ("device", False), ("host", True)])
def test_updates_are_asked_for_before_the_last_actions_are_waited_for(
    frames: str, on_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the device would wait for the host in every block.

    But actions come first with frames on the host, where asking for updates is waiting for them, and those that are
    there where the updates of the block before are late.
    """
    program = HostProgram(small_pong(frames))

    def asked_for(updates: Future[Any]) -> None:
        if on_time:
            updates.exception()  # waits
        else:
            monkeypatch.setattr(updates, "done", lambda: False)

    told = orders(monkeypatch, asked_for)
    monkeypatch.setattr("sail.training.parcels.Chosen.ready", lambda self: True)  # or rows may come first: see below
    try:
        done = program.advance(program.init(), 0, 24)
    finally:
        program.close()
    # The first row of each game is no step, so the first block takes a round of both pools more.
    first = last = ["learn", "send"]
    if frames == "host":
        first = last = ["send", "learn"]
    elif not on_time:
        last = ["send", "learn"]
    assert done.failure is None and told == ["send"] * 3 + first + 2 * ["send", *last]


@pytest.mark.parametrize("chosen", ["after the next updates are asked for", "while the last ones are late"])
def test_where_updates_are_late_actions_go_out_as_they_come_and_are_not_waited_for(
    chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device chooses them only after the updates before, so to wait for them would keep the next ones waiting."""
    program = HostProgram(small_pong("device"))
    looks = [0]  # at whether the last updates have been handed over

    def asked_for(updates: Future[Any]) -> None:
        looks[0] = 0

        def done() -> bool:
            looks[0] += 1
            return looks[0] > 3

        monkeypatch.setattr(updates, "done", done)

    told = orders(monkeypatch, asked_for)
    begin, chosen_after = Chosen.__init__, {}

    def begun(self: Chosen, *arguments: Any) -> None:
        begin(self, *arguments)
        chosen_after[self] = told.count("learn")

    def ready(self: Chosen) -> bool:
        """Before the first updates, at once."""
        number = told.count("learn")
        is_late = chosen.startswith("after") or looks[0] < 2
        return number == 0 or number > chosen_after[self] or not is_late

    monkeypatch.setattr(Chosen, "__init__", begun)
    monkeypatch.setattr(Chosen, "ready", ready)
    try:
        done = program.advance(program.init(), 0, 24)
        assert program.pools is not None and program.pools.waited.for_updates > 0
    finally:
        program.close()
    # Two actions for each block, of which the first block's last is sent in the second.
    in_rounds = ["send"] * 3 + ["learn"] + ["send", "learn"] + ["send", "send", "learn"] + ["send", "send"]
    if chosen.startswith("while"):
        in_rounds = ["send"] * 3 + ["learn"] + ["send", "send", "send", "learn"] + ["send", "send", "learn"]
    assert done.failure is None and told == in_rounds


def test_rows_that_are_there_come_before_actions_that_are_not() -> None:
    """Or emulators and device would wait for each other's way to the host and back."""
    settings = {"env": {"processes": 1, "time_limit": 20}, "learning": {"num_envs": 6, "num_pools": 3}}
    pools = Pools(sail.make_config("atari:Pong", "dqn", settings), 0)
    sent: list[int] = []

    class Late:
        """Actions that are there when they have been asked for so often."""

        def __init__(self, number: int, after: int) -> None:
            self.number, self.after, self.asked = number, after, 0

        def ready(self) -> bool:
            self.asked += 1
            return self.asked > self.after

        def __call__(self) -> Any:
            sent.append(self.number)
            return np.zeros(2, int)

    def rows_of(pool: int) -> Any:
        asked, answers = pools.rows(np.arange(1))
        assert answers[0] is not None and answers[0].env.tolist() == [2 * pool, 2 * pool + 1]
        return asked[0]

    try:
        for pool in pools._pools[0]:
            assert until(pool.answered)
        rows_of(0).act(Late(0, after=0))
        rows_of(1).act(Late(1, after=4))
        assert sent == [0]  # what is there goes at once
        rows_of(2).act(Late(2, after=0))
        assert sent == [0]  # what is not there is asked for once
        assert until(pools._pools[0][0].answered)
        rows_of(0).act(Late(3, after=0))
        assert sent == [0]  # and what comes after it waits, as the device chooses in that order
        rows_of(1)  # whose actions are to be waited for
        assert sent == [0, 1, 2, 3]
    finally:
        pools.close()
