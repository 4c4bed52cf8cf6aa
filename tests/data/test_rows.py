import gc

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from anonymous_memory import anonymous_bytes
from noisebound.data import Dataset, Normalization, Splits
from noisebound.data.rows import Rows, SparseRows, TensorRows, as_rows, in_memory_if_small
from noisebound.search.cross_fit import half_folds
from noisebound.system.files import fingerprint
from noisebound.training.config import TrainingConfig
from noisebound.training.data import split_validation
from published_files import some_images

IMAGES = torch.from_numpy(some_images(40, 3, 4, 4))


@pytest.fixture
def small_blocks(monkeypatch):
    """Five images of ``IMAGES`` per block."""
    monkeypatch.setattr("noisebound.data.rows._BLOCK_BYTES", 5 * 48)


@pytest.fixture
def mapped_images(tmp_path):
    """147 MB of mapped images, many times the size of a block."""
    shape = (12_000, 3, 64, 64)
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.uint8, shape).flush()
    images = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    return Dataset(images, torch.arange(12_000) % 10, tuple("0123456789"))


def test_a_subset_shares_the_memory_of_the_whole():
    whole = Dataset(IMAGES, torch.arange(40) % 2, ("a", "b"))
    part = whole.subset(torch.arange(40) % 3 == 0).subset(torch.tensor([3, 0, 3]))
    assert isinstance(part.inputs, TensorRows)
    assert part.inputs.tensor is IMAGES
    assert part.inputs.shape == (3, 3, 4, 4)
    assert torch.equal(part.dense_inputs, IMAGES[[9, 0, 9]])
    assert whole.dense_inputs is IMAGES


def test_data_is_split_hashed_and_scaled_without_copies(mapped_images):
    """Validation, both halves of a cross-fit and the wrong labels share the memory."""
    noisy = mapped_images.with_labels(mapped_images.labels.roll(1))
    config = TrainingConfig(loss="fce+b", epochs=1)
    gc.collect()
    before = anonymous_bytes()
    data, _ = split_validation(Splits("x", noisy, None, "memory"), config)
    halves = [data.train.subset(half) for half in half_folds(data.train.labels, 0)]
    wrong = data.train.subset(data.train.labels != data.train.true_labels)
    kept = [data, halves, wrong, data.train.rows.fingerprint()]
    taken = anonymous_bytes() - before
    assert taken < 0.3 * mapped_images.rows.nbytes
    assert len(kept) == 4


@pytest.mark.parametrize(
    "rows",
    [
        TensorRows(IMAGES),
        TensorRows(IMAGES, torch.arange(39, -1, -1)),
        SparseRows(csr_matrix(np.eye(40, 48, dtype=np.float32))),
    ],
    ids=["all", "reversed", "sparse"],
)
def test_blocks_are_all_rows_in_order(small_blocks, rows):
    assert isinstance(rows, Rows)
    expected = rows.dense(torch.arange(40))
    blocks = list(rows.blocks())
    assert len(blocks) > 5
    assert torch.equal(torch.cat(blocks), expected)
    assert [len(block) for block in rows.blocks(17)] == [17, 17, 6]
    if isinstance(rows, SparseRows):  # hashed without being made dense
        assert rows.fingerprint() == SparseRows(csr_matrix(expected.numpy())).fingerprint()
        assert rows.fingerprint() != rows.select(torch.arange(39)).fingerprint()
    else:
        assert rows.fingerprint() == fingerprint(expected)


def test_rows_of_a_subset_of_sparse_rows():
    rows = SparseRows(csr_matrix(np.eye(4, dtype=np.float32)))
    assert rows.select(torch.tensor([2])).dense(torch.tensor([0])).tolist() == [[0, 0, 1, 0]]


def test_no_rows_have_no_blocks():
    assert list(as_rows(torch.empty(0, 3)).blocks()) == []


@pytest.mark.parametrize("weights", [None, torch.rand(40), (torch.arange(40) >= 30).float()])
def test_constants_of_features_do_not_depend_on_the_blocks(monkeypatch, weights):
    features = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)) * 5 + 100
    whole = Normalization.of(features, weights)
    monkeypatch.setattr("noisebound.data.rows._BLOCK_BYTES", 7 * 12)
    parts = Normalization.of(features, weights)
    assert parts.mean == pytest.approx(whole.mean, rel=1e-14)
    assert parts.std == pytest.approx(whole.std, rel=1e-12)


def test_constants_of_bytes_do_not_depend_on_the_blocks(monkeypatch):
    whole = Normalization.of(IMAGES)
    monkeypatch.setattr("noisebound.data.rows._BLOCK_BYTES", 100)
    assert Normalization.of(IMAGES) == whole


def test_rows_go_to_a_device_at_once_only_if_they_are_few(monkeypatch):
    meta = torch.device("meta")
    assert TensorRows(IMAGES).on(meta).tensor.device == meta
    monkeypatch.setattr("noisebound.data.rows._MOST_ON_DEVICE", 100)
    assert TensorRows(IMAGES).on(meta).tensor is IMAGES


def test_mapped_features_are_held_in_memory_only_if_they_are_few(monkeypatch):
    assert torch.equal(in_memory_if_small(IMAGES), IMAGES)
    assert in_memory_if_small(IMAGES).data_ptr() != IMAGES.data_ptr()
    monkeypatch.setattr("noisebound.data.rows.HELD_IN_MEMORY", 100)
    assert in_memory_if_small(IMAGES) is IMAGES
