import os
from pathlib import Path

import pytest
from hypothesis import settings

# Timing is never asserted; in CI the same examples are drawn each time.
settings.register_profile("noisebound", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("noisebound")

SHARED_DATA = os.environ.get("NOISEBOUND_DATA")


def pytest_collection_modifyitems(config, items):
    """Tests of the real data sets run wherever these are found."""
    if SHARED_DATA is None:
        absent = [item for item in items if item.get_closest_marker("data")]
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in absent]


@pytest.fixture(scope="session")
def shared_data():
    """The folder of the real data sets."""
    folder = Path(SHARED_DATA)
    assert folder.is_dir(), f"NOISEBOUND_DATA must be a folder, got {folder}"
    return folder


@pytest.fixture(autouse=True)
def private_folders(tmp_path, monkeypatch):
    """No test sees, or writes to, the data and the cache of whoever runs it."""
    monkeypatch.delenv("NOISEBOUND_DATA", raising=False)
    monkeypatch.setenv("NOISEBOUND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("noisebound.data.folders.DEBIAN_DATASETS", tmp_path / "debian")
