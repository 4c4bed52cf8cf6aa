import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from noisebound.data import DataError, load
from published_files import EPS, encoded_image, plain_image, some_images


@pytest.fixture
def folder(tmp_path):
    """Two classes of three 8×6 images in PNG, which keeps every pixel."""
    for index, name in enumerate(("cat", "dog")):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i, pixels in enumerate(some_images(3, 8, 6, 3, seed=index)):
            (tmp_path / "pets" / name / f"{i}.png").write_bytes(encoded_image(pixels))
    return tmp_path / "pets"


def test_pixels_and_labels(folder):
    data = load(folder).train
    expected = np.concatenate([some_images(3, 8, 6, 3, seed=index) for index in (0, 1)])
    np.testing.assert_array_equal(data.inputs, expected.transpose(0, 3, 1, 2))
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.class_names == ("cat", "dog")


@pytest.mark.parametrize("kind", ["bmp", "gif", "jpeg", "png", "tiff", "webp"])
def test_formats(folder, kind):
    for name in ("cat", "dog"):
        (folder / name / f"more.{kind}").write_bytes(plain_image((10, 200, 10), 8, kind))
    data = load(folder, image_size=8).train
    assert len(data) == 8
    added = data.inputs[[3, 7]].float().mean((2, 3))
    torch.testing.assert_close(
        added, torch.tensor([[10.0, 200.0, 10.0]]).expand(2, 3), atol=6, rtol=0
    )


def test_no_image_starts_another_program(folder, fake_ghostscript):
    """Pillow looks at the content, and runs Ghostscript for EPS whatever the file's name."""
    (folder / "cat" / "1.png").write_bytes(EPS)
    (folder / "cat" / "drawing.eps").write_bytes(EPS)
    with pytest.raises(DataError, match=r"1\.png \(not an image\)"):
        load(folder)
    splits = load(folder, skip_bad=True)
    assert splits.train_names == ("cat/0.png", "cat/2.png", "dog/0.png", "dog/1.png", "dog/2.png")
    assert "1 files" in splits.notes[0]  # the drawing is not among the images
    assert not fake_ghostscript.exists()


def test_gray_images_keep_one_channel(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(plain_image(77, 5, "PNG"))
    data = load(tmp_path).train
    assert data.inputs.shape == (2, 1, 5, 5)
    assert (data.inputs == 77).all()


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 4), 0x8000, np.uint16)).save(tmp_path / name / "x.png")
    assert (load(tmp_path).train.inputs == 0x80).all()


def test_images_of_different_sizes_are_brought_to_one(folder):
    (folder / "dog" / "large.png").write_bytes(plain_image((9, 9, 9), 100, "PNG"))
    splits = load(folder)
    assert splits.train.inputs.shape == (7, 3, 64, 64)
    assert "brought to 64×64" in splits.notes[0]
    assert load(folder, image_size=16).train.inputs.shape == (7, 3, 16, 16)


def test_the_orientation_in_exif_is_applied(tmp_path):
    """The EXIF orientation is applied, as every viewer applies it."""
    pixels = np.zeros((4, 4), np.uint8)
    pixels[0, 0] = 255
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = 3  # turned by 180°
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        image.save(tmp_path / name / "x.png", exif=exif)
    assert load(tmp_path).train.inputs[0, 0, 3, 3] == 255


def damage(folder):
    (folder / "cat" / "0.png").write_bytes(b"not an image")
    path = folder / "dog" / "2.png"
    path.write_bytes(path.read_bytes()[:60])


def test_unreadable_files_are_all_listed(folder):
    damage(folder)
    with pytest.raises(DataError, match="2 of 6 images cannot be read") as caught:
        load(folder)
    assert str(folder / "cat" / "0.png") in str(caught.value)
    assert str(folder / "dog" / "2.png") in str(caught.value)
    assert "`skip_bad`" in str(caught.value)


def test_unreadable_files_are_left_out_on_request(folder):
    whole = load(folder).train
    damage(folder)
    splits = load(folder, skip_bad=True)
    assert torch.equal(splits.train.dense_inputs, whole.inputs[[1, 2, 3, 4]])
    assert splits.train.labels.tolist() == [0, 0, 1, 1]
    assert "2 unreadable images were left out" in splits.notes[0]


def test_a_class_that_loses_all_its_images_is_refused(folder):
    for path in (folder / "dog").iterdir():
        path.write_bytes(b"not an image")
    with pytest.raises(DataError, match=r"no readable image is left of the class dog: "):
        load(folder, skip_bad=True)


def test_other_files_are_counted(folder):
    (folder / "cat" / "notes.txt").write_text("x")
    (folder / "cat" / ".hidden.png").write_bytes(b"x")
    splits = load(folder)
    assert len(splits.train) == 6
    (note,) = splits.notes
    assert note.startswith(f"1 files in {folder} were ignored")  # a hidden one is not counted


def test_a_folder_that_macos_leaves_behind_is_no_class(folder):
    (folder / "__MACOSX").mkdir()
    (folder / "__MACOSX" / "x.png").write_bytes(b"x")
    assert load(folder).train.num_classes == 2


def test_train_and_test_folders(folder, tmp_path):
    root = tmp_path / "both"
    root.mkdir()
    folder.rename(root / "train")
    (root / "val" / "dog").mkdir(parents=True)
    (root / "val" / "dog" / "x.png").write_bytes(plain_image((1, 1, 1), 8, "PNG"))
    splits = load(root, image_size=8)
    assert len(splits.train) == 6
    assert splits.test.labels.tolist() == [1]
    assert splits.test.class_names == ("cat", "dog")


def test_three_folders_are_not_three_classes(folder, tmp_path):
    root = tmp_path / "all"
    root.mkdir()
    shutil.copytree(folder, root / "val")
    shutil.copytree(folder, root / "test")
    shutil.rmtree(root / "test" / "cat")
    folder.rename(root / "train")
    splits = load(root)
    assert splits.train.class_names == ("cat", "dog")
    assert splits.test.labels.tolist() == [1, 1, 1]  # test is preferred to val
    assert splits.notes == ("folders beside train were not used: val",)


def test_class_that_is_called_train(tmp_path):
    for name in ("bus", "train"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(plain_image(1, 8, "PNG"))
    assert load(tmp_path).train.class_names == ("bus", "train")


def test_folder_that_contains_itself(folder):
    (folder / "cat" / "loop").symlink_to(folder)
    assert load(folder).train.class_counts().tolist() == [3, 3]


def test_one_bit(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("1", (4, 4), 1).save(tmp_path / name / "x.tiff")
    assert (load(tmp_path).train.inputs == 255).all()


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_gray_values_of_32_bits_are_not_clipped(tmp_path, kind):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 4), 200, kind)).save(tmp_path / name / "x.tiff")
    with pytest.raises(DataError, match=r"x\.tiff \(gray values of 32 bits; save it with 8"):
        load(tmp_path)


def test_colors_with_transparency(tmp_path):
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 200, 10, 20])
    for name, image in (("a", palette), ("b", Image.new("RGBA", (4, 4), (200, 10, 20, 9)))):
        (tmp_path / name).mkdir()
        image.save(tmp_path / name / "x.png", **({"transparency": b"\0\7"} if name == "a" else {}))
    colors = load(tmp_path).train.inputs[:, :, 0, 0]
    assert colors.tolist() == [[200, 10, 20]] * 2


def test_test_folder_with_an_unknown_class(folder, tmp_path):
    root = tmp_path / "both"
    root.mkdir()
    folder.rename(root / "train")
    for name in ("dog", "fox"):
        (root / "test" / name).mkdir(parents=True)
    with pytest.raises(DataError, match=r"lack: \['fox'\]"):
        load(root)


def test_empty_class(folder):
    (folder / "fox").mkdir()
    with pytest.raises(DataError, match="no images in the folders of the classes fox"):
        load(folder)


def test_folder_without_classes(tmp_path):
    (tmp_path / "x.png").write_bytes(plain_image(1))
    with pytest.raises(DataError, match="one folder for each class, at least two"):
        load(tmp_path)


def test_target_does_not_apply(folder):
    with pytest.raises(DataError, match=r"target.* does not apply to a folder of images"):
        load(folder, target="x")


def test_a_class_whose_name_is_not_utf_8(folder):
    """Its name cannot be written to a model, which would fail only after training."""
    (folder / "cat").rename(folder / os.fsdecode(b"caf\xe9"))
    with pytest.raises(DataError, match=r"the class b'caf\\xe9' is not written in UTF-8: rename"):
        load(folder)
