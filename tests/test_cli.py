"""The command as a user runs it: a process of its own."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from noisebound.data import DATASETS
from published_files import plain_image


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "noisebound", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"} | environment,
    )


def test_list_names_every_data_set():
    result = run("data", "list")
    assert result.returncode == 0, result.stderr
    assert {line.split()[0] for line in result.stdout.splitlines()[1:]} >= set(DATASETS)


def test_info():
    result = run("data", "info", "digits")
    assert result.returncode == 0, result.stderr
    assert "1,257 examples of 1×8×8 uint8" in result.stdout
    assert result.stderr == ""  # no progress bars where nobody looks


def test_info_as_json(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(4), y=["u", "v", "u", "u"])
    result = run("data", "info", tmp_path / "a.npz", "--json")
    summary = json.loads(result.stdout)
    assert summary["train"]["class_counts"] == {"u": 3, "v": 1}
    assert summary["train"]["imbalance"] == 3
    assert summary["source"] == str(tmp_path / "a.npz")


def test_info_of_a_table(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n1,u\n,[bold]v\n3,u\n4,[bold]v\n")
    result = run("data", "info", tmp_path / "x.csv", "--target", "y")
    assert "1 missing numbers became the mean" in result.stdout
    assert "[bold]v" in result.stdout  # what comes from the data is never markup


def test_skip_bad(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "x.png").write_bytes(plain_image(1, 8, "PNG"))
    (tmp_path / "pets" / "cat" / "bad.png").write_bytes(b"bad")
    result = run("data", "info", tmp_path / "pets")
    assert result.returncode == 2
    assert "bad.png" in result.stderr
    assert run("data", "info", tmp_path / "pets", "--skip-bad").returncode == 0


@pytest.mark.parametrize("command", ["info", "fetch"])
def test_errors_come_without_a_traceback(command):
    result = run("data", command, "imagenet")
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_fetch_without_network(tmp_path):
    """What cannot be downloaded is named, with its hash and the folder to put it in."""
    # nobody listens on port 9: there is no way out, whatever network this machine has
    proxy = {"https_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    result = run("data", "fetch", "mnist", NOISEBOUND_CACHE=str(tmp_path), **proxy)
    assert result.returncode == 2
    for part in (
        "train-images-idx3-ubyte.gz",
        "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
        str(tmp_path / "mnist"),
    ):
        assert part in result.stderr


def test_fetch_what_needs_no_fetching():
    assert "scikit-learn" in run("data", "fetch", "digits").stdout


def test_bad_option():
    result = run("data", "info", "digits", "--image-size", "0")
    assert result.returncode == 2
    assert "image-size" in result.stdout + result.stderr
