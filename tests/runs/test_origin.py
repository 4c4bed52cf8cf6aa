"""Where data came from is written down, and leads back to it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from noisebound.data import DataOrigin, ReadingOptions, read
from noisebound.errors import DataError, RunError
from noisebound.runs.folder import RunFolder
from published_files import plain_image


def test_a_path_means_the_same_from_anywhere(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", X=np.eye(4), y=[0, 1, 0, 1])
    monkeypatch.chdir(tmp_path)
    origin = DataOrigin(data="a.npz")
    expected = read(origin.data, origin.options)
    RunFolder(tmp_path).save_origin(origin)
    monkeypatch.chdir("/")
    found = RunFolder(tmp_path).read_origin()
    assert Path(found.data) == tmp_path / "a.npz"
    assert torch.equal(read(found.data, found.options).train.inputs, expected.train.inputs)


def test_a_name_stays_a_name(tmp_path):
    RunFolder(tmp_path).save_origin(DataOrigin(data="digits"))
    assert RunFolder(tmp_path).read_origin().data == "digits"


def test_absent_or_damaged(tmp_path):
    with pytest.raises(RunError, match="name the `data`"):
        RunFolder(tmp_path).read_origin()
    (tmp_path / "data.json").write_text('{"data": 3')
    with pytest.raises(DataError, match="is damaged"):
        RunFolder(tmp_path).read_origin()


def test_images_are_named_by_their_files(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(plain_image(1, 8, "PNG"))
    (tmp_path / "cat" / "bad.png").write_bytes(b"bad")
    splits = read(tmp_path, ReadingOptions(skip_bad=True))
    assert splits.train_names == ("cat/x.png", "dog/x.png")


def test_rows_are_named_by_their_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("a,y\n1,u\n2,\n3,v\n")
    splits = read(tmp_path / "x.csv", ReadingOptions(target="y", skip_bad=True))
    assert splits.train_names == ("0", "2")
