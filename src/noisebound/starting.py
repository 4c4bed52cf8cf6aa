"""Imported first: Ctrl-C ends a command that is still starting at once, without a traceback.

Importing torch takes a second or more, and Python would show where in it the interrupt came. A
process that imports noisebound as a library is left as it is.
"""

import signal
import sys
import threading
from pathlib import Path


def _is_command() -> bool:
    """True in ``noisebound`` and in ``python -m noisebound``, whose first word is still ``-m``."""
    if sys.argv[:1] == ["-m"]:
        return sys.orig_argv[sys.orig_argv.index("-m") + 1] == "noisebound"
    return Path(sys.argv[0] if sys.argv else "").stem == "noisebound"


if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    and _is_command()
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until noisebound.interrupts takes over
