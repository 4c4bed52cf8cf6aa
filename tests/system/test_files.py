"""Files are whole or absent, also on a full disk, and abandoned parts are removed."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from noisebound.system.files import save_tensors, write_text, written_whole
from processes import environment

DAY = 24 * 3600


def little_room(folder: str) -> None:
    """In a process of its own: write files that exceed the limit of 100,000 bytes per file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    path = Path(folder, "kept")
    for write in (
        lambda: save_tensors(path, {"a": torch.zeros(10**6)}, {}),
        lambda: write_text(path, "a" * 10**6),
    ):
        with pytest.raises(OSError, match=r"File too large: .*kept"):
            write()


def test_a_full_disk_leaves_the_file_unchanged(tmp_path):
    write_text(tmp_path / "kept", "before")
    script = "import sys, test_files; test_files.little_room(sys.argv[1])"
    command = [sys.executable, "-c", script, tmp_path]
    here = Path(__file__).parent  # from which a new process can import this module
    result = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=here)
    assert result.returncode == 0, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "before"


def test_abandoned_part_files_are_removed(tmp_path):
    old, new, other = (tmp_path / f".{name}.part" for name in ("a.0a1b2c3d", "a.1a1b2c3d", "b.2a"))
    for part in (old, new, other):
        part.write_text("half")
    for part in (old, other):
        os.utime(part, (0, part.stat().st_mtime - 2 * DAY))
    write_text(tmp_path / "a", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a", new.name, other.name}


def test_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")

    def write_half():
        with written_whole(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
