"""CIFAR-10 and CIFAR-100, from the binary or the Python release, packed or unpacked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noisebound.data.formats.archives import Files, Folder, Tar
from noisebound.data.formats.cifar import (
    CifarPart,
    read_binary,
    read_name_lines,
    read_name_pickle,
    read_pickles,
)
from noisebound.data.published.record import Part, Published, PublishedFile, Release, archived

if TYPE_CHECKING:
    from noisebound.data.dataset import Dataset, Splits

_URL = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True, eq=False)
class Cifar:
    """A release of CIFAR.

    Args:
        train: the training images and labels
        test: the test images and labels
        class_names: the class names of each kind of label: fine, or coarse and fine
        source: where it was read from
    """

    train: CifarPart
    test: CifarPart
    class_names: tuple[tuple[str, ...], ...]
    source: str


def _read_cifar10_binary(files: Files) -> Cifar:
    folder = "cifar-10-batches-bin/"
    return Cifar(
        read_binary(files, [f"{folder}data_batch_{i}.bin" for i in range(1, 6)], [10]),
        read_binary(files, [f"{folder}test_batch.bin"], [10]),
        (read_name_lines(files, f"{folder}batches.meta.txt", 10),),
        files.where(),
    )


def _read_cifar10_pickles(files: Files) -> Cifar:
    folder = "cifar-10-batches-py/"
    read = partial(read_pickles, keys=["labels"], num_classes=[10])
    return Cifar(
        read(files, [f"{folder}data_batch_{i}" for i in range(1, 6)]),
        read(files, [f"{folder}test_batch"]),
        (read_name_pickle(files, f"{folder}batches.meta", "label_names", 10),),
        files.where(),
    )


# A record of CIFAR-100 has its coarse label first.
def _read_cifar100_binary(files: Files) -> Cifar:
    folder = "cifar-100-binary/"
    return Cifar(
        read_binary(files, [f"{folder}train.bin"], [20, 100]),
        read_binary(files, [f"{folder}test.bin"], [20, 100]),
        (
            read_name_lines(files, f"{folder}coarse_label_names.txt", 20),
            read_name_lines(files, f"{folder}fine_label_names.txt", 100),
        ),
        files.where(),
    )


def _read_cifar100_pickles(files: Files) -> Cifar:
    folder = "cifar-100-python/"
    read = partial(read_pickles, keys=["coarse_labels", "fine_labels"], num_classes=[20, 100])
    return Cifar(
        read(files, [f"{folder}train"]),
        read(files, [f"{folder}test"]),
        (
            read_name_pickle(files, f"{folder}meta", "coarse_label_names", 20),
            read_name_pickle(files, f"{folder}meta", "fine_label_names", 100),
        ),
        files.where(),
    )


def _archive(name: str, md5: str, read: Callable[[Files], Cifar]) -> Release:
    return archived(PublishedFile(name, (f"md5:{md5}",), _URL + name), Tar, read)


def _unpacked(folder: str, md5s: dict[str, str], read: Callable[[Files], Cifar]) -> Release:
    files = tuple(
        PublishedFile(f"{folder}/{name}", (f"md5:{md5}",) if md5 else ())
        for name, md5 in md5s.items()
    )
    return Release(files, Folder, read)


CIFAR10_PART = Part(
    folders=("cifar10", "", "cifar-10", "CIFAR10"),
    releases=(
        _archive(
            "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", _read_cifar10_binary
        ),
        _unpacked(
            "cifar-10-batches-bin",
            {
                "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
                "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
                "batches.meta.txt": "",
            },
            _read_cifar10_binary,
        ),
        _archive(
            "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", _read_cifar10_pickles
        ),
        _unpacked(
            "cifar-10-batches-py",
            {
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
                "test_batch": "40351d587109b95175f43aff81a1287e",
                "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
            },
            _read_cifar10_pickles,
        ),
    ),
)
CIFAR100_PART = Part(
    folders=("cifar100", "", "cifar-100", "CIFAR100"),
    releases=(
        _archive(
            "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", _read_cifar100_binary
        ),
        _unpacked(
            "cifar-100-binary",
            {
                "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
                "test.bin": "4499cfba6c016c1be1438163640a0898",
                "fine_label_names.txt": "",
                "coarse_label_names.txt": "",
            },
            _read_cifar100_binary,
        ),
        _archive(
            "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", _read_cifar100_pickles
        ),
        _unpacked(
            "cifar-100-python",
            {
                "train": "16019d7e3df5f24257cddd939b257f8d",
                "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
                "meta": "7973b15100ade9c7d40fb424638fde48",
            },
            _read_cifar100_pickles,
        ),
    ),
)


def cifar_splits(cifar: Cifar, name: str, kind: int) -> "Splits":
    """Return training and test examples with one kind of label.

    Args:
        cifar: the release
        name: name of the data set
        kind: index of the kind of label; the last kind is the finest
    """
    import torch

    from noisebound.data.dataset import Dataset, Splits

    def dataset(part: CifarPart) -> "Dataset":

        labels: NDArray[np.int64] = part.labels[kind]
        return Dataset(
            torch.from_numpy(part.images), torch.from_numpy(labels), cifar.class_names[kind]
        )

    return Splits(name, dataset(cifar.train), dataset(cifar.test), source=cifar.source)


def _published(name: str, title: str, part: Part, kind: int) -> Published:
    assemble = partial(cifar_splits, name=name, kind=kind)
    return Published(name, title, (part,), assemble, counts=((50_000, 10_000),))


CIFAR10 = _published("cifar10", "photographs, 32×32", CIFAR10_PART, kind=-1)
CIFAR100 = _published("cifar100", "photographs, 100 classes, 32×32", CIFAR100_PART, kind=-1)
CIFAR100_COARSE = _published("cifar100-coarse", "CIFAR-100, 20 superclasses", CIFAR100_PART, kind=0)
