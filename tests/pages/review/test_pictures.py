"""Pictures are shown from the data's own files, and from nowhere else."""

import io

import numpy as np
import pytest
import torch
from PIL import Image, UnidentifiedImageError

from noisebound.data import load
from noisebound.errors import DataError
from noisebound.pages.examples import ShownExamples
from published_files import EPS
from training_data import noisy_clouds, noisy_images


def write_image(path, size=(900, 600), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(256, size=(*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)


@pytest.fixture
def folder(tmp_path):
    for name in ("a/1.jpg", "a/2.png", "b/3.jpg"):
        write_image(tmp_path / "data" / name)
    return tmp_path / "data"


def size_of(content):
    return Image.open(io.BytesIO(content)).size


def test_a_file_is_shown_and_not_what_the_network_sees(folder):
    pictures = ShownExamples(load(folder, image_size=8))
    content, media_type = pictures.picture(0, "large")
    assert (size_of(content), media_type) == ((900, 600), "image/jpeg")
    assert size_of(pictures.picture(1, "thumbnail")[0]) == (256, 171)


@pytest.mark.parametrize("size", ["thumbnail", "large"])
def test_no_picture_starts_another_program(folder, fake_ghostscript, size):
    pictures = ShownExamples(load(folder, image_size=8))
    (folder / "a" / "1.jpg").write_bytes(EPS)  # after it was trained on
    with pytest.raises(UnidentifiedImageError):
        pictures.picture(0, size)
    assert not fake_ghostscript.exists()


def test_an_image_that_lies_on_its_side_is_turned(folder):
    exif = Image.Exif()
    exif[0x0112] = 6
    write_image(folder / "a" / "1.jpg", exif=exif)
    assert size_of(ShownExamples(load(folder, image_size=8)).picture(0, "large")[0]) == (600, 900)


def test_a_link_does_not_lead_out_of_the_folder(folder, tmp_path):
    """The image that the loader read for the network is shown instead."""
    write_image(tmp_path / "elsewhere.jpg")
    (folder / "a" / "1.jpg").unlink()
    (folder / "a" / "1.jpg").symlink_to(tmp_path / "elsewhere.jpg")
    content, media_type = ShownExamples(load(folder, image_size=8)).picture(0, "large")
    assert (size_of(content), media_type) == ((8, 8), "image/png")


def test_a_link_within_the_folder_is_followed(folder):
    (folder / "b" / "4.jpg").symlink_to(folder / "a" / "1.jpg")
    splits = load(folder, image_size=8)
    place = splits.train_names.index("b/4.jpg")
    assert size_of(ShownExamples(splits).picture(place, "large")[0]) == (900, 600)


def test_images_in_memory_are_shown_pixel_by_pixel():
    splits = noisy_images()
    content, media_type = ShownExamples(splits).picture(5, "thumbnail")
    assert media_type == "image/png"
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    assert (pixels == splits.train.rows.dense(torch.tensor([5]))[0, 0].numpy()).all()


def test_other_data_has_no_pictures():
    with pytest.raises(DataError, match="not images"):
        ShownExamples(noisy_clouds()).picture(0, "large")
