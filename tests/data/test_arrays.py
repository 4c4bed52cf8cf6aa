import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from anonymous_memory import anonymous_bytes
from noisebound.data import DataError, dataset_from_arrays, encode_labels, load
from published_files import some_images

FEATURES = np.arange(8, dtype=np.float64).reshape(4, 2)
NAMES = np.array(["dog", "cat", "dog", "cat"])


@pytest.mark.parametrize(
    "keys", [("X", "y"), ("images", "labels"), ("x_train", "y_train"), ("data", "target")]
)
def test_npz_by_the_usual_names(tmp_path, keys):
    np.savez(tmp_path / "a.npz", **dict(zip(keys, (FEATURES, NAMES), strict=True)))
    data = load(tmp_path / "a.npz").train
    assert data.inputs.dtype == torch.float32
    np.testing.assert_array_equal(data.inputs, FEATURES)
    assert data.class_names == ("cat", "dog")


def test_npz_with_a_test_set(tmp_path):
    images = some_images(4, 5, 5)
    np.savez(
        tmp_path / "a.npz",
        x_train=images,
        y_train=[0, 1, 2, 1],
        x_test=images[:2],
        y_test=[2, 2],
    )
    splits = load(tmp_path / "a.npz")
    assert splits.train.inputs.shape == (4, 1, 5, 5)
    assert splits.test.labels.tolist() == [2, 2]
    assert splits.test.num_classes == 3


def test_npz_with_a_named_target(tmp_path):
    np.savez(tmp_path / "a.npz", embeddings=FEATURES, species=NAMES)
    assert len(load(tmp_path / "a.npz", target="species").train) == 4
    with pytest.raises(DataError, match=r"\['embeddings', 'species'\].*`target`"):
        load(tmp_path / "a.npz")
    with pytest.raises(DataError, match="no array 'kind'"):
        load(tmp_path / "a.npz", target="kind")


def test_npy_with_labels_beside_it(tmp_path):
    np.save(tmp_path / "X.npy", FEATURES)
    np.save(tmp_path / "y.npy", NAMES)
    assert load(tmp_path / "X.npy", target="y.npy").train.labels.tolist() == [1, 0, 1, 0]
    with pytest.raises(DataError, match="`target`, such as y"):
        load(tmp_path / "X.npy")


def test_pickled_objects_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=FEATURES, y=np.array(["a", None, "b", "a"], object))
    with pytest.raises(DataError, match=r"a\.npz cannot be read: .*Python objects.* None is among"):
        load(tmp_path / "a.npz")
    np.save(tmp_path / "X.npy", FEATURES)
    np.save(tmp_path / "y.npy", np.array([0, None, 1, 0], object))
    with pytest.raises(DataError, match=r"y\.npy cannot be read: .*Python objects.* None is among"):
        load(tmp_path / "X.npy", target="y.npy")


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_truncated_npz(tmp_path, cut):
    np.savez(tmp_path / "a.npz", X=FEATURES, y=NAMES)
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-cut])
    with pytest.raises(DataError, match=r"a\.npz cannot be read"):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "inputs",
    [FEATURES, FEATURES.tolist(), torch.tensor(FEATURES), pl.DataFrame(FEATURES), FEATURES > 3],
    ids=["numpy", "list", "torch", "polars", "bool"],
)
def test_anything_array_like(inputs):
    data = dataset_from_arrays(inputs, pl.Series(NAMES.tolist()))
    assert data.inputs.shape == (4, 2)
    assert data.inputs.dtype == torch.float32
    assert data.labels.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((4, 6, 5), (1, 6, 5)), ((4, 6, 5, 3), (3, 6, 5)), ((4, 3, 6, 5), (3, 6, 5))],
)
def test_images_become_channels_first(shape, expected):
    images = some_images(*shape)
    data = dataset_from_arrays(images, [0, 1, 0, 1])
    assert data.inputs.shape[1:] == expected
    assert data.inputs.dtype == torch.uint8
    axes = (0, 3, 1, 2) if shape[-1] == 3 else tuple(range(len(shape)))
    np.testing.assert_array_equal(data.inputs.reshape(4, -1), images.transpose(axes).reshape(4, -1))


@pytest.mark.parametrize(
    ("inputs", "labels", "complaint"),
    [
        (FEATURES, [0, 1], "4 inputs but 2 labels"),
        (FEATURES, [0, 0, 0, 0], "all labels are '0'"),
        (FEATURES, [0.5, 1, 0, 1], "got numbers like 0.5"),
        (FEATURES, [0, 1, None, 1], "1 of 4 labels are missing"),
        (FEATURES, [0, 1, float("nan"), 1], "1 of 4 labels are missing"),
        (FEATURES, np.array([0, 1, np.inf, 1]), "1 of 4 labels are not finite"),
        (FEATURES, ["a", "b", float("nan"), "b"], "1 of 4 labels are missing"),
        (FEATURES, np.array([0, 1, np.nan, 1]), "1 of 4 labels are missing"),
        (FEATURES, ["a", "b", pd.NA, "b"], "1 of 4 labels are missing"),
        (FEATURES, pd.Series([0, None, 1, 0], dtype="Int64"), "1 of 4 labels are missing"),
        (FEATURES, pl.Series([0, None, 1, 0]), "1 of 4 labels are missing"),
        (FEATURES, np.ma.masked_equal([0, 1, 7, 1], 7), "1 of 4 labels are missing"),
        (FEATURES, [[0, 1], [1, 0], [0, 1], [1, 0]], "these are one-hot"),
        (FEATURES[0], [0, 1], "at least two dimensions"),
        (FEATURES * np.nan, [0, 1, 0, 1], "8 values of the inputs are NaN"),
        ([["a"], ["b"]], [0, 1], "must be numbers"),
        (np.zeros((4, 5, 6, 7)), [0, 1, 0, 1], "channels; got"),
        (np.zeros((4, 3, 6, 3)), [0, 1, 0, 1], "channels; got"),
        (np.zeros((0, 2)), [], "no examples"),
        ([], [], "no examples: give at least one"),
        (map(list, FEATURES), [0, 1, 0, 1], "got map of object: make a list"),
        (np.zeros((4, 0, 5), int), [0, 1, 0, 1], "must have a height and a width"),
    ],
)
def test_bad_arrays(inputs, labels, complaint):
    with pytest.raises(DataError, match=complaint):
        dataset_from_arrays(inputs, labels)


def test_labels_of_a_trained_model():
    indices, names = encode_labels(["dog", "cat"], ("cat", "dog", "fox"))
    assert indices.tolist() == [1, 0]
    assert names == ("cat", "dog", "fox")
    with pytest.raises(DataError, match="unknown labels 'owl'; the classes are 'cat', 'dog'"):
        encode_labels(["dog", "owl"], ("cat", "dog"))
    with pytest.raises(DataError, match="must be distinct"):
        encode_labels(["dog", "cat"], ("cat", "dog", "dog"))


def test_whole_numbers_are_indices_where_classes_have_names():
    data = dataset_from_arrays(FEATURES, [0, 1, 0, 1], class_names=["cat", "dog", "fox"])
    assert data.labels.tolist() == [0, 1, 0, 1]
    assert data.num_classes == 3
    with pytest.raises(DataError, match="class 3 at example 1"):
        encode_labels([0, 3], ("cat", "dog", "fox"))
    assert encode_labels([7, 9], ("9", "7"))[0].tolist() == [1, 0]


def test_splits_that_do_not_belong_together(tmp_path):
    np.savez(
        tmp_path / "a.npz",
        x_train=np.eye(4),
        y_train=[0, 1, 0, 1],
        x_test=np.zeros((2, 9)),
        y_test=[0, 1],
    )
    with pytest.raises(DataError, match=r"shape \[4\], test inputs \[9\]"):
        load(tmp_path / "a.npz")


def test_extension_in_capitals(tmp_path):
    np.savez(tmp_path / "a.npz", X=FEATURES, y=NAMES)
    (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    assert len(load(tmp_path / "A.NPZ").train) == 4


def test_labels_of_every_type():
    assert encode_labels([True, False])[1] == ("False", "True")
    assert encode_labels(np.array([b"u", b"v"]))[1] == ("u", "v")
    assert encode_labels(np.array([[2], [1]]))[0].tolist() == [1, 0]
    assert encode_labels([2.0, 1.0])[1] == ("1", "2")
    assert encode_labels(np.array([10, 9], object))[1] == ("9", "10")


@pytest.mark.parametrize("shape", [(4000, 3, 64, 64), (4000, 64, 64, 3), (4000, 3072)])
def test_an_npy_file_is_mapped_and_not_read(tmp_path, shape):
    dtype = np.uint8 if len(shape) == 4 else np.float32
    np.lib.format.open_memmap(tmp_path / "X.npy", "w+", dtype, shape).flush()
    np.save(tmp_path / "y.npy", np.arange(4000) % 2)
    before = anonymous_bytes()
    data = load(tmp_path / "X.npy", target="y.npy").train
    assert anonymous_bytes() - before < 0.3 * data.rows.nbytes
    data.dense_inputs[0] = 1
    assert not load(tmp_path / "X.npy", target="y.npy").train.dense_inputs[0].any()


def test_arrays_of_the_right_type_are_shared():
    images = some_images(4, 3, 5, 5)
    assert dataset_from_arrays(images, [0, 1, 0, 1]).inputs.data_ptr() == images.ctypes.data
    for unusual in (images[::-1], np.broadcast_to(images, images.shape)):  # reversed; read-only
        data = dataset_from_arrays(unusual, [0, 1, 0, 1])
        np.testing.assert_array_equal(data.inputs, unusual)
