"""Files that the tests of several folders use, as fixtures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

EXPORT = Path(__file__).parents[1] / "examples" / "export_efficientnet.py"


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
