"""Processes that tests start, which import the tests' modules and the same noisebound."""

import os
from pathlib import Path

import noisebound

TESTS = Path(__file__).parent
SOURCES = Path(noisebound.__file__).parents[1]


def environment() -> dict[str, str]:
    """Return this process's environment, with the tests and noisebound first on the path."""
    paths = [str(TESTS), str(SOURCES), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
