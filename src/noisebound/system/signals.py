"""Interruption of a command by Ctrl-C or SIGTERM."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, which is handled like Ctrl-C."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C and Terminated on SIGTERM, unless they are ignored."""
    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, usual in before.items():
        if usual is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt that caused an error, such as one raised during cleanup."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code that a shell has for the signal."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def _interrupt(number: int, frame: FrameType | None) -> None:
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    if getattr(spec, "_initializing", False):
        # torch is being imported, and its C++ code would turn an exception into another error.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
