import ctypes
import platform
import subprocess
import sys

import pytest

from noisebound.training.devices import keep_freed_memory

FAULTS = """
import resource
from noisebound.training.devices import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        bytearray(2**26)[:] = bytes(2**26)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
before, is_set = faults(), keep_freed_memory()
faults()
print(is_set, faults() < before / 5)
"""


def test_large_buffers_are_used_again():
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    is_glibc = platform.libc_ver()[0] == "glibc"
    assert done.stdout.split()[0] == str(is_glibc)
    assert not is_glibc or done.stdout.split()[1] == "True"


@pytest.mark.parametrize("name", ["MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"])
def test_settings_of_the_user_stay(name, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("the settings were changed"))
    monkeypatch.setenv(name, "1048576")
    assert not keep_freed_memory()


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_another_c_library(error, monkeypatch):
    def library(name):
        raise error

    monkeypatch.setattr(ctypes, "CDLL", library)
    assert not keep_freed_memory()
