import itertools
import os

import pytest
import torch

from anonymous_memory import anonymous_bytes
from noisebound.data import DataError, Normalization, images, load
from noisebound.data.files import Folder, cache_folder
from published_files import plain_image


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("noisebound.data.images._WORTH_CACHING", 4)
    for shade, name in enumerate(("cat", "dog")):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(3):
            content = plain_image(100 * shade + i, 8, "PNG")
            (tmp_path / "pets" / name / f"{i}.png").write_bytes(content)
    return tmp_path / "pets"


@pytest.fixture
def decodings(monkeypatch):
    """Count the decoded images; the first one, which shows the form, counts twice."""
    counted, decode = [], images._decode
    monkeypatch.setattr(images, "_decode", lambda *args: counted.append(1) or decode(*args))
    return counted


def cache_file():
    (path,) = (cache_folder() / "decoded").iterdir()
    return path


def test_decoded_once(folder, decodings):
    first, second = load(folder).train, load(folder).train
    assert len(decodings) == 7
    assert torch.equal(first.dense_inputs, second.dense_inputs)
    assert first.dense_inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 100, 101, 102]


def test_changed_files_are_decoded_again(folder, decodings):
    load(folder)
    (folder / "cat" / "1.png").write_bytes(plain_image(55, 8, "PNG"))
    assert load(folder).train.dense_inputs[1, 0, 0, 0] == 55
    assert len(decodings) == 14
    cache_file()  # the old one was replaced


def test_changed_file_of_the_same_size(folder):
    load(folder)
    path = folder / "cat" / "1.png"
    old = path.stat()
    content = plain_image(2, 8, "PNG")
    assert len(content) == old.st_size
    path.write_bytes(content)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns + 1))
    assert load(folder).train.dense_inputs[1, 0, 0, 0] == 2


def test_folders_of_the_same_name_are_not_confused(tmp_path, monkeypatch):
    """Sizes and times of all files are equal, and so are the paths as typed."""
    monkeypatch.setattr("noisebound.data.images._WORTH_CACHING", 2)
    for shade, home in ((10, "A"), (20, "B")):
        for name in ("cat", "dog"):
            path = tmp_path / home / "pets" / name / "x.png"
            path.parent.mkdir(parents=True)
            path.write_bytes(plain_image(shade, 8, "PNG"))
            os.utime(path, ns=(0, 0))
    for shade, home in ((10, "A"), (20, "B")):
        monkeypatch.chdir(tmp_path / home)
        assert (load("pets").train.dense_inputs == shade).all()


def test_broken_link_among_many(folder):
    (folder / "cat" / "broken.png").symlink_to(folder / "nowhere")
    with pytest.raises(DataError, match=r"1 of 7 images cannot be read:\n.*broken\.png"):
        load(folder)
    assert len(load(folder, skip_bad=True).train) == 6


def test_other_size_has_its_own_cache(folder):
    load(folder)
    assert load(folder, image_size=4).train.dense_inputs.shape == (6, 1, 4, 4)
    assert load(folder).train.dense_inputs.shape == (6, 1, 8, 8)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_damaged_cache_is_made_anew(folder, decodings, keep):
    expected = load(folder).train.dense_inputs.clone()
    content = cache_file().read_bytes()
    cache_file().write_bytes(content[:keep])
    assert torch.equal(load(folder).train.dense_inputs, expected)
    assert len(decodings) == 14
    assert cache_file().read_bytes() == content


def test_skipped_images_stay_skipped(folder):
    (folder / "dog" / "0.png").write_bytes(b"no image")
    for _ in range(2):
        splits = load(folder, skip_bad=True)
        assert splits.train.labels.tolist() == [0, 0, 0, 1, 1]
        assert "1 unreadable images were left out" in splits.notes[0]
        assert str(folder / "dog" / "0.png") in splits.notes[0]


def test_cache_that_cannot_be_written(folder):
    cache_folder().parent.mkdir(exist_ok=True)
    cache_folder().write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"take 384 bytes, .* NOISEBOUND_CACHE.*`image_size`"):
        load(folder)


def test_few_large_images_are_mapped_too(folder, monkeypatch):
    monkeypatch.setattr("noisebound.data.images._WORTH_CACHING", 1000)
    monkeypatch.setattr("noisebound.data.images._WORTH_MAPPING", 6 * 64)
    load(folder)
    assert cache_file().stat().st_size > 6 * 64


def test_images_are_written_as_they_are_decoded(tmp_path, monkeypatch):
    """Only a few of 80 MB of images are in memory at a time."""
    content = plain_image((9, 9, 9), 164, "PNG")
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(500):
            (tmp_path / "pets" / name / f"{i}.png").write_bytes(content)
    decoded = itertools.count()
    taken = []

    def watched_decode(*args):
        if next(decoded) % 100 == 0:
            taken.append(anonymous_bytes())
        return decode(*args)

    decode = images._decode
    monkeypatch.setattr(images, "_decode", watched_decode)
    splits = load(tmp_path / "pets")
    assert len(taken) == 11
    assert max(taken) - taken[0] < 0.3 * splits.train.rows.nbytes
    before = anonymous_bytes()
    Normalization.of(splits.train.subset(torch.arange(999)).rows)
    assert anonymous_bytes() - before < 0.3 * splits.train.rows.nbytes


def test_a_warm_cache_opens_no_source_file(folder, monkeypatch):
    expected = load(folder).train.dense_inputs
    monkeypatch.setattr(Folder, "read", lambda _, name: pytest.fail(f"{name} was read"))
    assert torch.equal(load(folder).train.dense_inputs, expected)


def test_damaged_sizes_in_the_cache_are_read_again(folder):
    load(folder)
    content = cache_file().read_bytes()
    cache_file().write_bytes(content.replace(b"8,8]", b"8,9]").replace(b"8, 8]", b"8, 9]"))
    assert cache_file().read_bytes() != content
    assert load(folder).train.input_shape == (1, 8, 8)
    assert cache_file().read_bytes() == content


@pytest.mark.parametrize(("shade", "side"), [((9, 9, 9), 8), (9, 5), ((9, 9, 9), 5)])
@pytest.mark.parametrize("worth_caching", [4, 1000])
def test_the_last_image_is_unlike_the_others(folder, monkeypatch, shade, side, worth_caching):
    """Decoding then starts again, and the cache holds the final form."""
    monkeypatch.setattr("noisebound.data.images._WORTH_CACHING", worth_caching)
    (folder / "dog" / "z.png").write_bytes(plain_image(shade, side, "PNG"))
    for _ in range(2):
        splits = load(folder)
        channels, size = 1 if shade == 9 else 3, 8 if side == 8 else 64
        assert splits.train.input_shape == (channels, size, size)
        assert splits.train.dense_inputs[:, 0, 2, 2].tolist() == [0, 1, 2, 100, 101, 102, 9]
        assert any("images of 2 sizes" in note for note in splits.notes) == (side == 5)


@pytest.mark.parametrize(
    ("shade", "side", "shape"), [((9, 9, 9), 8, (3, 8, 8)), (9, 5, (1, 64, 64))]
)
def test_test_images_unlike_those_to_train_on(folder, shade, side, shape):
    (folder / "train").mkdir()
    for name in ("cat", "dog"):
        (folder / name).rename(folder / "train" / name)
    (folder / "test" / "cat").mkdir(parents=True)
    (folder / "test" / "cat" / "x.png").write_bytes(plain_image(shade, side, "PNG"))
    for _ in range(2):
        splits = load(folder)
        assert splits.train.input_shape == splits.test.input_shape == shape
        assert splits.train.dense_inputs[:, 0, 2, 2].tolist() == [0, 1, 2, 100, 101, 102]


def test_the_note_on_the_cache_is_shown_once(folder):
    (note,) = load(folder).notes
    assert f" bytes in {cache_folder() / 'decoded'}; noisebound data cache" in note
    assert load(folder).notes == ()


def test_changes_of_a_mapped_tensor_stay_in_memory(folder):
    load(folder)
    load(folder).train.dense_inputs.zero_()
    assert load(folder).train.dense_inputs.max() > 0
