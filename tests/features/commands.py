"""Commands, run in this process."""

import pytest

from noisebound.cli import main


def command(*words):
    """Run a command, and return its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code
