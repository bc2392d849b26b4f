"""A wall-clock limit on a computation in the main thread."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TimeIsUpError(BaseException):
    """The limit has passed. Not an `Exception`, so that no handler for those swallows it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeIsUpError` in the block once it has run for this long.

    Unlimited in other threads and where there are no timers (Windows): only the main thread of a
    Unix process can be interrupted. Results that the block has cached are complete ones, because
    `functools.cache` stores nothing for a call that raises.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeIsUpError

    previous = signal.signal(signal.SIGALRM, stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.signal(signal.SIGALRM, previous)
