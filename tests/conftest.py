import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import jaxtyping
import pytest
import torch
from filelock import FileLock
from hypothesis import settings
from playwright.sync_api import sync_playwright
from xdist.scheduler import LoadGroupScheduling

from shape_checks import jaxtyped_where_shaped
from watched_page import CHROMIUM, NO_CHROMIUM, watch

# The tests check the shapes in the signatures of these modules, with each call. This must come
# before anything imports them; a process that a test starts does without.
CHECKED = (
    "averaging",
    "bayes_risk",
    "bounded",
    "bounds",
    "checks",
    "corruption",
    "data",
    "estimation",
    "paper",
    "features",
    "integrations",
    "losses",
    "models",
    "monitor",
    "noise_models",
    "pages",
    "report",
    "review",
    "runs",
    "search",
    "training",
)
jaxtyping.jaxtyped = jaxtyped_where_shaped  # by which the hook decorates
jaxtyping.install_import_hook(
    [f"noisebound.{module}" for module in CHECKED], "shape_checks.check_shapes"
)

# No test depends on timing. In CI, hypothesis draws the same examples each time.
settings.register_profile("noisebound", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("noisebound")

SHARED_DATA = os.environ.get("NOISEBOUND_DATA")
# They train or start processes. They come first, because short modules even out the workers' end.
LONG_MODULES = tuple(
    f"tests/{place}"
    for place in (
        *(
            "benchmarks",
            "browser",
            "examples",
            "paper",
            "features",
            "integrations",
            "review",
            "runs",
            "search",
        ),
        *("test_cli", "test_entry", "system/test_signals", "training"),
    )
)
EXPORT = Path(__file__).parents[1] / "examples" / "export_efficientnet.py"


def pytest_configure(config):
    # Set this early: fixtures of modules and doctests run before or without those of functions.
    folder = tempfile.TemporaryDirectory(prefix="noisebound-tests-")
    config.add_cleanup(folder.cleanup)
    os.environ["NOISEBOUND_CACHE"] = folder.name
    if CHROMIUM is None and config.option.markexpr == "browser":
        raise pytest.UsageError(f"the browser tests were selected, but {NO_CHROMIUM}")


def pytest_collection_modifyitems(config, items):
    """Deselect the tests that need real data sets or a browser if there are none; sort the rest."""
    found = {"data": SHARED_DATA, "browser": CHROMIUM}
    missing = [marker for marker, place in found.items() if place is None]
    absent = [item for item in items if any(map(item.get_closest_marker, missing))]
    config.hook.pytest_deselected(items=absent)
    items[:] = [item for item in items if item not in absent]
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_MODULES))


class ByModule(LoadGroupScheduling):
    """Give the tests of a module to one worker, so that what its fixtures train is trained once.

    A test with a mark ``xdist_group`` goes with its group instead.
    """

    def _split_scope(self, nodeid):
        scope = super()._split_scope(nodeid)
        return scope.partition("::")[0] if scope == nodeid else scope


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByModule(config, log) if config.getvalue("dist") == "loadgroup" else None


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
    monkeypatch.setattr("noisebound.data.cache.DEBIAN_DATASETS", tmp_path / "debian")


@pytest.fixture
def fake_ghostscript(tmp_path, monkeypatch):
    """Put a program called gs on the path; return the file that it leaves when it runs."""
    trace, program = tmp_path / "trace", tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{trace}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # what Pillow found before
    return trace


@pytest.fixture(autouse=True)
def same_threads():
    """Keep a test that sets torch's threads from slowing down those after it."""
    before = torch.get_num_threads()
    yield
    if torch.get_num_threads() != before:
        torch.set_num_threads(before)


@pytest.fixture
def unchecked_shapes(monkeypatch):
    """Turn the checks of shapes off, for what must see the bare library, such as a compiler."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def heeds_interrupts():
    """Make this process and its children react to Ctrl-C, which background jobs ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def onnx_file(tmp_path_factory):
    """Return a real encoder as an ONNX file: an example writes it, once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    path = shared / "efficientnet.onnx"
    with FileLock(shared / "efficientnet.lock"):
        if not path.exists():
            part = path.with_suffix(".part")
            command = [sys.executable, EXPORT, part, "--size", "64"]  # small, so embedding is quick
            subprocess.run(command, check=True, capture_output=True, timeout=300)
            part.rename(path)
    return path


@pytest.fixture(scope="session")
def reviewed_images(tmp_path_factory):
    """Return a run on images in folders, to be copied before anything is decided."""
    from reviewed_runs import image_run  # imports noisebound, whose shapes are to be checked

    return image_run(tmp_path_factory.mktemp("images"))


# While Playwright runs its event loop, no other test can start one. So the browser lives only as
# long as the tests of one module, which run one after the other.
@pytest.fixture(scope="module")
def browser():
    """Start the system's Chromium without a window."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # its sandbox refuses to run as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Return a function that opens a local file and returns Playwright's page.

    Its arguments are ``(path, fragment="", width=1280, color_scheme="light", scripts=True)``.
    The test fails if the page logs an error or requests anything else.
    """
    opened = []

    def open_page(path, fragment="", width=1280, color_scheme="light", scripts=True):
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme=color_scheme,
            java_script_enabled=scripts,
        )
        address = path.resolve().as_uri()
        opened.append((page, watch(page, address)))
        page.goto(address + fragment)
        return page

    yield open_page
    problems = []
    for page, found in opened:
        problems += found
        page.close()
    assert not problems
