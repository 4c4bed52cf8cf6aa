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

Labels = NDArray[np.int64]
_PIXELS = 3 * 32 * 32
_URL = "https://www.cs.toronto.edu/~kriz/"


def read_binary(
    files: Files, names: Sequence[str], num_classes: Sequence[int]
) -> tuple[NDArray[np.uint8], Labels]:
    """Return the images ``[n, 3, 32, 32]`` and the labels ``[n, kinds]`` of several files.

    Args:
        files: the folder or archive
        names: the files
        num_classes: one number per kind of label: fine, or coarse and fine
    """
    kinds, width = len(num_classes), len(num_classes) + _PIXELS
    parts = []
    for name in names:
        content, where = files.read(name), files.where(name)
        if not content or len(content) % width:
            raise DataError(
                f"{where} has {len(content)} bytes, not a whole number of records of {width}: it "
                "is truncated or damaged; fetch it again"
            )
        records = np.frombuffer(content, np.uint8).reshape(-1, width)
        for kind, count in enumerate(num_classes):
            check_label_range(records[:, kind].astype(np.int64), count, where)
        parts.append(records)
    records = np.concatenate(parts)
    images = np.ascontiguousarray(records[:, kinds:]).reshape(-1, 3, 32, 32)
    return images, records[:, :kinds].astype(np.int64)


def read_name_lines(files: Files, name: str, num_classes: int) -> tuple[str, ...]:
    """Return the class names of a text file with one name per line."""
    lines = files.read(name).decode("utf-8", errors="replace").split("\n")
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) != num_classes:
        raise DataError(f"{files.where(name)} must name {num_classes} classes, got {len(names)}")
    return names


@dataclass(frozen=True)
class _Release:
    """The files of a binary release, the class names of each kind of label, and their hashes."""

    parents: tuple[str, ...]
    folder: str
    train: tuple[str, ...]
    test: str
    class_names: dict[str, int]
    md5s: tuple[str, ...]
    archive: str
    archive_md5: str

    def part(self, kind: int = -1) -> Part:
        """Return the release with one kind of label, packed or not; the last kind is the finest."""
        read = partial(read_cifar, release=self, kind=kind)
        archive = PublishedFile(self.archive, (f"md5:{self.archive_md5}",), _URL + self.archive)
        images = zip((*self.train, self.test), self.md5s, strict=True)
        unpacked = (
            *(PublishedFile(f"{self.folder}/{name}", (f"md5:{md5}",)) for name, md5 in images),
            *(PublishedFile(f"{self.folder}/{name}") for name in self.class_names),
        )
        releases = (archived(archive, Tar, read), Release(unpacked, Folder, read))
        return Part(self.parents, releases)


_CIFAR10 = _Release(
    parents=("cifar10", "", "cifar-10", "CIFAR10"),
    folder="cifar-10-batches-bin",
    train=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    test="test_batch.bin",
    class_names={"batches.meta.txt": 10},
    md5s=(
        "5dd7e06a14cb22eb9f671a540d1b7c25",
        "5ea93a67294ea407fff1d09f752e9692",
        "942cd6a4bcdd0dd3c604fbe906cb4421",
        "ae636b3ba5c66a11e91e8cb52e771fcb",
        "53f37980c15c3d472c316c40844f3f0d",
        "803d5f7f4d78ea53de84dbe85f74fb6d",
    ),
    archive="cifar-10-binary.tar.gz",
    archive_md5="c32a1d4ab5d03f1284b67883e8d87530",
)
_CIFAR100 = _Release(
    parents=("cifar100", "", "cifar-100", "CIFAR100"),
    folder="cifar-100-binary",
    train=("train.bin",),
    test="test.bin",
    class_names={"coarse_label_names.txt": 20, "fine_label_names.txt": 100},
    md5s=("6172c7755cfe09b2fe270c85cebc1b15", "4499cfba6c016c1be1438163640a0898"),
    archive="cifar-100-binary.tar.gz",
    archive_md5="03b5dce01913d631647c71ecec9e9cb8",
)


def read_cifar(files: Files, release: _Release, kind: int) -> "Splits":
    """Return training and test examples with one kind of label."""
    import torch

    from noisebound.data.dataset import Dataset, Splits

    name, count = list(release.class_names.items())[kind]
    class_names = read_name_lines(files, f"{release.folder}/{name}", count)

    def dataset(names: Sequence[str]) -> "Dataset":
        paths = [f"{release.folder}/{name}" for name in names]
        images, labels = read_binary(files, paths, list(release.class_names.values()))
        chosen = np.ascontiguousarray(labels[:, kind])
        return Dataset(torch.from_numpy(images), torch.from_numpy(chosen), class_names)

    train, test = dataset(release.train), dataset([release.test])
    return Splits(release.folder, train, test, source=files.where())


def _published(name: str, title: str, part: Part) -> Published:
    return Published(name, title, (part,), _COUNTS, lambda splits: replace(splits, name=name))


_COUNTS = ((50_000, 10_000),)
CIFAR10_PART, CIFAR100_PART = _CIFAR10.part(), _CIFAR100.part()
CIFAR10 = _published("cifar10", "photographs, 32×32", CIFAR10_PART)
CIFAR100 = _published("cifar100", "photographs, 100 classes, 32×32", CIFAR100_PART)
CIFAR100_COARSE = _published(
    "cifar100-coarse", "CIFAR-100, 20 superclasses", _CIFAR100.part(kind=0)
)


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


def _with_human_labels(splits: "Splits", human: HumanLabels, *, name: str) -> "Splits":
    import torch

    if not torch.equal(torch.from_numpy(human.clean), splits.train.labels):
        raise DataError(
            f"{human.source} belongs to other images than those in {splits.source}, or to the same "
            "images in another order: the true labels differ"
        )
    return replace(
        splits,
        name=name,
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
    assemble = partial(_with_human_labels, name=name)
    return Published(name, title, (images, labels), _COUNTS, assemble)


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
