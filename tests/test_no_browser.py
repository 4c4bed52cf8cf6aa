"""Where there is no Chromium the tests that need one are left out, and it is said."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BROWSER_TEST = "tests/browser/test_watched_page.py"


def pytest_without_chromium(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", BROWSER_TEST, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path)},
    )


def test_left_out_in_one_line(tmp_path):
    result = pytest_without_chromium(tmp_path)
    assert "5 deselected" in result.stdout
    said = [line for line in result.stdout.splitlines() if "Chromium" in line]
    assert said == [
        "browser tests left out: no Chromium found; install it, on Debian with  "
        "apt-get install chromium"
    ]


def test_asked_for_by_name_it_fails(tmp_path):
    result = pytest_without_chromium(tmp_path, "-m", "browser")
    assert result.returncode == 4
    assert "the browser tests were selected, but no Chromium found" in result.stderr
