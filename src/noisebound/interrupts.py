"""How a command ends when it is interrupted, by Ctrl-C or by SIGTERM."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM came, and everything ends as it does on Ctrl-C."""


@contextmanager
def heeded() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C and Terminated on SIGTERM, unless they are ignored."""
    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
        yield
        return
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _terminate}
    before = {number: signal.getsignal(number) for number in handlers}
    for number, handler in handlers.items():
        if before[number] is signal.SIG_DFL:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt that an error came of, such as one raised while tidying up after it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code that a shell has for the signal."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
