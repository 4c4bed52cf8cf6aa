"""The real data sets, if they are on this machine (see NOISEBOUND_DATA)."""

import subprocess
import sys

import pytest
import torch

import noisebound as nb
from noisebound.data import Normalization, load

pytestmark = pytest.mark.data

MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize(
    ("name", "train_counts", "test_counts", "mean", "std"),
    [
        ("mnist", MNIST_COUNTS, MNIST_TEST_COUNTS, 0.1307, 0.3081),
        ("fashion-mnist", [6000] * 10, [1000] * 10, 0.2860, 0.3530),
    ],
)
def test_mnist_and_fashion_mnist(shared_data, name, train_counts, test_counts, mean, std):
    splits = load(name, data_dir=shared_data)
    assert splits.train.inputs.shape == (60_000, 1, 28, 28)
    assert splits.test.inputs.shape == (10_000, 1, 28, 28)
    assert splits.train.inputs.dtype == torch.uint8
    assert splits.train.class_counts().tolist() == train_counts
    assert splits.test.class_counts().tolist() == test_counts
    # the constants that are copied from project to project
    normalization = Normalization.of(splits.train.inputs)
    assert normalization.mean[0] / 255 == pytest.approx(mean, abs=5e-5)
    assert normalization.std[0] / 255 == pytest.approx(std, abs=5e-5)


def test_truncated_copy_is_refused(shared_data, tmp_path):
    (tmp_path / "mnist").mkdir()
    for path in (shared_data / "mnist").iterdir():
        (tmp_path / "mnist" / path.name).write_bytes(path.read_bytes())
    cut = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    cut.write_bytes(cut.read_bytes()[:-1])
    with pytest.raises(nb.data.DataError, match=f"{cut} is not the file that was published"):
        load("mnist", data_dir=tmp_path)


def test_emnist_derived_is_not_taken_for_emnist(shared_data, tmp_path):
    """The files have the official names and layout, but not the official images."""
    (tmp_path / "emnist").symlink_to(shared_data / "emnist-derived")
    with pytest.raises(nb.data.DataError, match=r"28200 training .* 112800 and 18800"):
        load("emnist", data_dir=tmp_path)
    splits = load(shared_data / "emnist-derived")
    assert splits.train.class_counts().tolist() == [600] * 47
    assert splits.test.class_counts().tolist() == [150] * 47
    # Upright: a capital L is heavier at the bottom, a capital T at the top.
    rows = {
        letter: splits.train.inputs[splits.train.labels == splits.train.class_names.index(letter)]
        .float()
        .mean((0, 1, 3))
        for letter in "LT"
    }
    assert rows["L"][14:].sum() > 1.3 * rows["L"][:14].sum()
    assert rows["T"][:14].sum() > 1.3 * rows["T"][14:].sum()


@pytest.fixture(scope="module")
def cifar10_folder(shared_data, tmp_path_factory):
    """The folder of CIFAR-10's unpacked binary release."""
    folder = tmp_path_factory.mktemp("cifar10")
    subprocess.run([sys.executable, shared_data / "unpack_cifar10.py", folder], check=True)
    (folder / "cifar-10n").symlink_to(shared_data / "cifar-10n")
    return folder


def test_cifar10_and_its_human_labels(cifar10_folder):
    splits = load("cifar10", data_dir=cifar10_folder)
    assert splits.train.inputs.shape == (50_000, 3, 32, 32)
    assert splits.train.class_counts().tolist() == [5000] * 10
    assert splits.test.class_counts().tolist() == [1000] * 10
    assert splits.train.class_names[6] == "frog"
    assert splits.train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    normalization = Normalization.of(splits.train.inputs)
    assert normalization.mean == pytest.approx((125.306918, 122.950394, 113.865383), abs=1e-6)
    assert normalization.std == pytest.approx((62.993219, 62.088708, 66.704900), abs=1e-6)

    rates = {"aggregate": 9.0, "random1": 17.2, "random2": 18.1, "random3": 17.6, "worst": 40.2}
    for kind, percent in rates.items():
        human = load(f"cifar10n-{kind}", data_dir=cifar10_folder).train
        assert torch.equal(human.true_labels, splits.train.labels)
        noisy = nb.corrupt(splits.train.labels, "human", num_classes=10, human_labels=human.labels)
        assert 100 * noisy.noise_rate == pytest.approx(percent, abs=0.05)


def test_nonuniform_noise_of_the_paper(shared_data):
    """A linear classifier errs more on some letters than on others, so their noise rates differ."""
    data = load(shared_data / "emnist-derived").train.take(4700, seed=0)
    noisy = nb.corrupt(
        data.labels,
        "classifier",
        0.6,
        data.num_classes,
        inputs=data.dense_inputs,
        generator=torch.Generator().manual_seed(0),
    )
    assert 0 < noisy.noise_rate < 0.3
    rates = 1 - noisy.transition.diagonal()
    assert rates.max() > 3 * rates.mean()
