import gc
import os
import signal
import tempfile
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import settings

from shape_checks import jaxtyped_where_shaped
from watched_page import CHROMIUM, NO_CHROMIUM

# The tests check the shapes in the library's signatures, with each call. This must come before
# anything imports the library; a process that a test starts does without.
jaxtyping.jaxtyped = jaxtyped_where_shaped  # by which the hook decorates
jaxtyping.install_import_hook("noisebound", "shape_checks.check_shapes")

# No test depends on timing. In CI, hypothesis draws the same examples each time.
settings.register_profile("noisebound", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("noisebound")

pytest_plugins = ["chromium", "shared_files"]
SHARED_DATA = os.environ.get("NOISEBOUND_DATA")


def pytest_configure(config):
    # Set this early: fixtures of modules and doctests run before or without those of functions.
    folder = tempfile.TemporaryDirectory(prefix="noisebound-tests-")
    config.add_cleanup(folder.cleanup)
    os.environ["NOISEBOUND_CACHE"] = folder.name
    if CHROMIUM is None and config.option.markexpr == "browser":
        raise pytest.UsageError(f"the browser tests were selected, but {NO_CHROMIUM}")


def pytest_collection_modifyitems(config, items):
    """Deselect the tests that need real data sets or a browser if there are none."""
    found = {"data": SHARED_DATA, "browser": CHROMIUM}
    missing = [marker for marker, place in found.items() if place is None]
    absent = [item for item in items if any(map(item.get_closest_marker, missing))]
    config.hook.pytest_deselected(items=absent)
    items[:] = [item for item in items if item not in absent]


def pytest_collection_finish():
    """Leave imported modules out of garbage collections, which took a tenth of the time."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    if CHROMIUM is None:
        terminalreporter.write_line(f"browser tests left out: {NO_CHROMIUM}")


@pytest.fixture(scope="session")
def shared_data():
    """Return the folder of the real data sets."""
    folder = Path(SHARED_DATA)
    assert folder.is_dir(), f"NOISEBOUND_DATA must be a folder, got {folder}"
    return folder


@pytest.fixture(autouse=True)
def private_folders(tmp_path, monkeypatch):
    """Keep each test from reading or writing the user's data and cache."""
    monkeypatch.delenv("NOISEBOUND_DATA", raising=False)
    monkeypatch.setenv("NOISEBOUND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("noisebound.data.files.DEBIAN_DATASETS", tmp_path / "debian")


@pytest.fixture(autouse=True)
def same_threads():
    """Keep a test that sets torch's threads from slowing down those after it."""
    before = torch.get_num_threads()
    yield
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)


@pytest.fixture
def unchecked_shapes(monkeypatch):
    """Turn the checks of shapes off, for tests of the bare library, such as by a compiler."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def heeds_interrupts():
    """Make this process and its children react to Ctrl-C, which background jobs ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
