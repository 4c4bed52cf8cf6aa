"""The ``noisebound`` command, and ``python -m noisebound``."""

import signal
import sys

from noisebound.errors import missing_extra


def main() -> None:
    """Run the command line, or say in one line which extra has to be installed for it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C during the imports ends the command without a traceback. noisebound.system.signals
        # takes over before the command begins its work.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from noisebound.cli import main as run
    except ModuleNotFoundError as error:
        missing = missing_extra("the noisebound command", error)
        if missing is None:
            raise
        print(f"error: {missing}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
