"""Being asked to stop: once in order, and a second Ctrl-C at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_requests(asked: Callable[[], None]) -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a closed terminal set; `asked` hears of the first.

    A second Ctrl-C raises KeyboardInterrupt. A second signal of the others is one of several who ask for the same:
    SIGKILL is for those who cannot wait. Outside the main thread, which alone hears signals, the event is never set.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: object) -> None:
        if not stop.is_set():
            stop.set()
            asked()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
