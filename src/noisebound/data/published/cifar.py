"""CIFAR-10 and CIFAR-100 from their binary releases, and CIFAR-N's human labels.

A binary record is one byte for the label (CIFAR-100: the coarse label, then the fine one) and 3,072
bytes for the pixels: the red, the green and the blue plane, each row by row. CIFAR-N's labels are
numpy arrays in a file of ``torch.save``.
"""

import codecs
import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from noisebound.data.archives import Files, Folder, Tar, as_data_error, check_unpacked
from noisebound.data.labels import check_label_range
from noisebound.data.published.releases import Part, Published, PublishedFile, Release, archived
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.dataset import Dataset, Splits

_PIXELS = 3 * 32 * 32
_URL = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True, eq=False)
class CifarPart:
    """Images ``[n, 3, 32, 32]``, and one array per kind of label: fine, or coarse and fine."""

    images: NDArray[np.uint8]
    labels: tuple[NDArray[np.int64], ...]


def read_binary(files: Files, names: Sequence[str], num_classes: Sequence[int]) -> CifarPart:
    """Return the records of several files; ``num_classes`` has one number per kind of label."""
    width = len(num_classes) + _PIXELS
    parts = []
    for name in names:
        content, where = files.read(name), files.where(name)
        if not content or len(content) % width:
            raise DataError(
                f"{where} has {len(content)} bytes, not a whole number of records of {width}: it "
                "is truncated or damaged; fetch it again"
            )
        records = np.frombuffer(content, np.uint8).reshape(-1, width)
        labels = records[:, : len(num_classes)].astype(np.int64)
        for kind, count in enumerate(num_classes):
            check_label_range(labels[:, kind], count, where)
        parts.append((records[:, len(num_classes) :], labels))
    labels = np.concatenate([labels for _, labels in parts])
    return CifarPart(
        images=np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, 32, 32),
        labels=tuple(np.ascontiguousarray(column) for column in labels.T),
    )


def read_name_lines(files: Files, name: str, num_classes: int) -> tuple[str, ...]:
    """Return the class names of a text file with one name per line."""
    lines = files.read(name).decode("utf-8", errors="replace").split("\n")
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) != num_classes:
        raise DataError(f"{files.where(name)} must name {num_classes} classes, got {len(names)}")
    return names


@dataclass(frozen=True, eq=False)
class Cifar:
    """A release of CIFAR, with the class names of each kind of label."""

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
    ),
)


def cifar_splits(cifar: Cifar, name: str, kind: int) -> "Splits":
    """Return training and test examples with one kind of label; the last kind is the finest."""
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


Labels = NDArray[np.int64]
_RECONSTRUCT = cast(Callable[..., Any], np.empty(0).__reduce__()[0])
_NUMPY_GLOBALS: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    np.ndarray,
    np.dtype,
    np.dtypes.Int64DType,
    np.dtypes.Float64DType,
    codecs.encode,
    _RECONSTRUCT,
    # The published files have the name of numpy's module from before numpy 2.
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
]


@dataclass(frozen=True, eq=False)
class HumanLabels:
    """The labels of CIFAR's training images, in their order: by people, and the true ones."""

    noisy: Labels
    clean: Labels
    source: str


def read_human_labels(files: Files, *, name: str, key: str, num_classes: int) -> HumanLabels:
    """Return the noisy labels under ``key`` and the clean labels."""
    where = files.where(name)
    arrays = _saved_arrays(files.read(name), where)
    noisy, clean = (
        _labels(arrays.get(column), column, num_classes, where) for column in (key, "clean_label")
    )
    if len(noisy) != len(clean):
        raise DataError(f"{where} has {len(noisy)} labels {key!r}, {len(clean)} 'clean_label'")
    return HumanLabels(noisy, clean, where)


def _saved_arrays(content: bytes, where: str) -> dict[str, object]:
    """Return the arrays in a file of ``torch.save``; no code in it is run."""
    import torch

    with as_data_error(where):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            check_unpacked(where, len(content), unpacked)
        try:
            with torch.serialization.safe_globals(_NUMPY_GLOBALS):
                arrays = torch.load(io.BytesIO(content), weights_only=True)
        except UnpicklingError as error:  # whose message suggests to run the code
            raise DataError(
                f"{where} is refused: it holds more than arrays of numbers; fetch it again"
            ) from error
    if not isinstance(arrays, dict):
        raise DataError(f"{where} must hold arrays by name; fetch it again")
    return arrays


def _labels(value: object, key: str, num_classes: int, where: str) -> Labels:
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "iu":
        raise DataError(f"{where} must hold a vector of whole numbers {key!r}")
    labels = value.astype(np.int64)
    check_label_range(labels, num_classes, where)
    return labels


def _assemble(cifar: Cifar, human: HumanLabels, *, name: str) -> "Splits":
    import torch

    splits = cifar_splits(cifar, name, kind=-1)
    if not torch.equal(torch.from_numpy(human.clean), splits.train.labels):
        raise DataError(
            f"{human.source} belongs to other images than those in {splits.source}, or to the same "
            "images in another order: the true labels differ"
        )
    return replace(
        splits,
        train=splits.train.with_labels(torch.from_numpy(human.noisy)),
        source=f"{splits.source}, labels from {human.source}",
    )


def _human(name: str, title: str, images: Part, file: PublishedFile, key: str) -> Published:
    num_classes = 10 if images is CIFAR10_PART else 100
    read = partial(read_human_labels, name=file.name, key=key, num_classes=num_classes)
    labels = Part(
        folders=("cifar-n", "", "cifar-10n", "cifar-100n", "cifar10n", "cifar100n"),
        releases=(Release((file,), Folder, read),),
    )
    return Published(
        name,
        title,
        (images, labels),
        partial(_assemble, name=name),
        counts=((50_000, 10_000),),
    )


_HUMAN_URL = "https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/main/data/"
_CIFAR10N_FILE = PublishedFile(
    "CIFAR-10_human.pt",
    ("sha256:873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",),
    f"{_HUMAN_URL}CIFAR-10_human.pt",
)
_CIFAR100N_FILE = PublishedFile(
    "CIFAR-100_human.pt",
    ("sha256:bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",),
    f"{_HUMAN_URL}CIFAR-100_human.pt",
)
_CIFAR10N_KEYS = {
    "aggregate": ("aggre_label", "majority of three people"),
    "random1": ("random_label1", "first of three people"),
    "random2": ("random_label2", "second of three people"),
    "random3": ("random_label3", "third of three people"),
    "worst": ("worse_label", "wrong if one of three people was"),
}
CIFAR10N = tuple(
    _human(
        f"cifar10n-{kind}",
        f"CIFAR-10 labels: {title}",
        CIFAR10_PART,
        _CIFAR10N_FILE,
        key,
    )
    for kind, (key, title) in _CIFAR10N_KEYS.items()
)
CIFAR100N = _human(
    "cifar100n",
    "CIFAR-100 labels by people",
    CIFAR100_PART,
    _CIFAR100N_FILE,
    "noisy_label",
)
