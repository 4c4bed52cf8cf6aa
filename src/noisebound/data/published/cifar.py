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
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from noisebound.data.archives import Files, as_data_error, check_unpacked
from noisebound.data.labels import check_label_range
from noisebound.data.published.releases import Part, Published, PublishedFile
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.dataset import Splits

Labels = NDArray[np.int64]
_PIXELS = 3 * 32 * 32
_URL = "https://www.cs.toronto.edu/~kriz/"


def read_binary(
    files: Files, names: Sequence[str], num_classes: Sequence[int]
) -> tuple[NDArray[np.uint8], Labels]:
    """Return the images ``[n, 3, 32, 32]`` and the labels ``[n, kinds]`` of several files.

    ``num_classes`` has one number per kind of label: fine, or coarse and fine.
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
class _Cifar:
    """A binary release, with the md5 of its files and its archive.

    The last file of images holds the test images. ``class_names`` are the files of class names and
    their number, for each kind of label.
    """

    folders: tuple[str, ...]
    root: str
    images: dict[str, str]
    class_names: dict[str, int]
    archive: tuple[str, str]

    def part(self, kind: int = -1) -> Part:
        """Return the release with one kind of label; the last kind is the finest."""
        name, md5 = self.archive
        packed = PublishedFile(name, (f"md5:{md5}",), _URL + name)
        known: dict[str, tuple[str, ...]]
        known = {name: (f"md5:{md5}",) for name, md5 in self.images.items()}
        known |= dict.fromkeys(self.class_names, ())
        unpacked = tuple(PublishedFile(f"{self.root}/{name}", md5) for name, md5 in known.items())
        return Part(self.folders, ((packed,), unpacked), partial(self.read, kind=kind))

    def read(self, files: Files, kind: int) -> "Splits":
        """Return training and test examples with one kind of label."""
        import torch

        from noisebound.data.dataset import Dataset, Splits

        name, count = list(self.class_names.items())[kind]
        class_names = read_name_lines(files, f"{self.root}/{name}", count)
        paths = [f"{self.root}/{name}" for name in self.images]

        def dataset(names: Sequence[str]) -> "Dataset":
            images, labels = read_binary(files, names, list(self.class_names.values()))
            chosen = torch.from_numpy(np.ascontiguousarray(labels[:, kind]))
            return Dataset(torch.from_numpy(images), chosen, class_names)

        return Splits(self.root, dataset(paths[:-1]), dataset(paths[-1:]), source=files.where())


_CIFAR10 = _Cifar(
    folders=("cifar10", "", "cifar-10", "CIFAR10"),
    root="cifar-10-batches-bin",
    images={
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    class_names={"batches.meta.txt": 10},
    archive=("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
)
_CIFAR100 = _Cifar(
    folders=("cifar100", "", "cifar-100", "CIFAR100"),
    root="cifar-100-binary",
    images={
        "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
        "test.bin": "4499cfba6c016c1be1438163640a0898",
    },
    class_names={"coarse_label_names.txt": 20, "fine_label_names.txt": 100},
    archive=("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
)
_COUNTS = ((50_000, 10_000),)
CIFAR10_PART, CIFAR100_PART = _CIFAR10.part(), _CIFAR100.part()
CIFAR10 = Published("cifar10", "photographs, 32×32", (CIFAR10_PART,), _COUNTS)
CIFAR100 = Published("cifar100", "photographs, 100 classes, 32×32", (CIFAR100_PART,), _COUNTS)
CIFAR100_COARSE = Published(
    "cifar100-coarse", "CIFAR-100, 20 superclasses", (_CIFAR100.part(kind=0),), _COUNTS
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


class HumanLabels(NamedTuple):
    """The labels of CIFAR's training images, in their order: by people, and the true ones."""

    noisy: Labels
    clean: Labels
    source: str


def read_human_labels(files: Files, *, name: str, key: str, num_classes: int) -> HumanLabels:
    """Return the noisy labels under ``key`` and the clean labels."""
    where = files.where(name)
    arrays = _saved_arrays(files.read(name), where)
    found = []
    for column in (key, "clean_label"):
        labels = arrays.get(column)
        if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise DataError(f"{where} must hold a vector of whole numbers {column!r}")
        found.append(labels.astype(np.int64))
        check_label_range(found[-1], num_classes, where)
    noisy, clean = found
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


def _with_human_labels(splits: "Splits", human: HumanLabels) -> "Splits":
    import torch

    if not torch.equal(torch.from_numpy(human.clean), splits.train.labels):
        raise DataError(
            f"{human.source} belongs to other images than those in {splits.source}, or to the same "
            "images in another order: the true labels differ"
        )
    train = splits.train.with_labels(torch.from_numpy(human.noisy))
    return replace(splits, train=train, source=f"{splits.source}, labels from {human.source}")


_HUMAN_URL = "https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/main/data/"
_HUMAN_SHA256 = {
    10: "873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",
    100: "bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",
}


def _human(name: str, title: str, num_classes: int, key: str) -> Published:
    file = f"CIFAR-{num_classes}_human.pt"
    known = PublishedFile(file, (f"sha256:{_HUMAN_SHA256[num_classes]}",), _HUMAN_URL + file)
    labels = Part(
        folders=("cifar-n", "", "cifar-10n", "cifar-100n", "cifar10n", "cifar100n"),
        releases=((known,),),
        read=partial(read_human_labels, name=file, key=key, num_classes=num_classes),
    )
    images = CIFAR10_PART if num_classes == 10 else CIFAR100_PART
    return Published(name, title, (images, labels), _COUNTS, _with_human_labels)


CIFAR10N = tuple(
    _human(f"cifar10n-{kind}", f"CIFAR-10 labels: {title}", 10, key)
    for kind, key, title in (
        ("aggregate", "aggre_label", "majority of three people"),
        ("random1", "random_label1", "first of three people"),
        ("random2", "random_label2", "second of three people"),
        ("random3", "random_label3", "third of three people"),
        ("worst", "worse_label", "wrong if one of three people was"),
    )
)
CIFAR100N = _human("cifar100n", "CIFAR-100 labels by people", 100, "noisy_label")
