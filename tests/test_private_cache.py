"""No test writes into the user's cache folder: not in fixtures, and not in other processes."""

import subprocess
import sys
from pathlib import Path

import pooch
import pytest

from noisebound.data.files import cache_folder
from processes import environment

USERS = Path(pooch.os_cache("noisebound"))
PRINT = "from noisebound.data.files import cache_folder; print(cache_folder())"


def folder_of_a_process():
    command = [sys.executable, "-c", PRINT]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    return Path(result.stdout.strip())


@pytest.fixture(scope="module")
def before_any_test():
    """Return the folders that a fixture uses whose tests are yet to come."""
    return cache_folder(), folder_of_a_process()


def test_every_cache_is_private(before_any_test):
    for folder in (*before_any_test, cache_folder(), folder_of_a_process()):
        assert folder != USERS
        assert not folder.is_relative_to(USERS)
