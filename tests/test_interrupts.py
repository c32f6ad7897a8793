"""Being asked to stop: once in order, a second Ctrl-C at once, and not at all where nohup says so."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from sail.interrupts import stop_requests


def ask(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def with_a_terminal():
    """Whatever these tests are started with, such as nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_is_heard_once_and_handlers_come_back(number: int) -> None:
    before, heard = signal.getsignal(number), []
    with stop_requests(lambda: heard.append(1)) as stop:
        assert not stop.is_set()
        ask(number)
        assert stop.is_set() and heard == [1]
        ask(signal.SIGTERM)  # someone else who asks for the same
        assert heard == [1]
        with pytest.raises(KeyboardInterrupt):
            ask(signal.SIGINT)
    assert signal.getsignal(number) is before


def test_a_closed_terminal_means_nothing_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requests(lambda: None) as stop:
            ask(signal.SIGHUP)
            assert not stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_hear_nothing() -> None:
    seen = []

    def work() -> None:
        with stop_requests(lambda: None) as stop:
            seen.append(stop.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
