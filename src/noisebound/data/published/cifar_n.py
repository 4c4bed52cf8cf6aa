"""CIFAR-10N and CIFAR-100N: the labels that people gave to CIFAR's training images.

A ``.pt`` file is a zip file that holds a pickle; the arrays are in the pickle itself.
"""

import io
import zipfile
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noisebound.data.formats.archives import Files, Folder
from noisebound.data.formats.safe_pickle import parse_pickle
from noisebound.data.labels import check_label_range
from noisebound.data.limits import check_unpacked
from noisebound.data.published.cifar import CIFAR10_PART, CIFAR100_PART, Cifar, cifar_splits
from noisebound.data.published.record import Part, Published, PublishedFile, Release
from noisebound.data.reading import reading
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.dataset import Splits

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HumanLabels:
    """The labels of CIFAR's training images, in their order.

    Args:
        noisy: the labels that people gave
        clean: the true labels
        source: where they were read from
    """

    noisy: Labels
    clean: Labels
    source: str


def read_human_labels(files: Files, *, name: str, key: str, num_classes: int) -> HumanLabels:
    """Return the noisy labels under ``key`` and the clean labels.

    Args:
        files: where the file is
        name: name of the file
        key: key of the noisy labels
        num_classes: number of classes
    """
    where = files.where(name)
    arrays = parse_pickle(_pickle_of(files.read(name), where), where)
    noisy, clean = (
        _labels(arrays.get(column), column, num_classes, where) for column in (key, "clean_label")
    )
    if len(noisy) != len(clean):
        raise DataError(f"{where} has {len(noisy)} labels {key!r}, {len(clean)} 'clean_label'")
    return HumanLabels(noisy, clean, where)


def _pickle_of(content: bytes, where: str) -> bytes:
    with reading(where), zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [name for name in archive.namelist() if name.endswith("data.pkl")]
        if len(members) != 1:
            raise DataError(f"{where} must hold one data.pkl, as torch.save writes; fetch it again")
        check_unpacked(where, len(content), archive.getinfo(members[0]).file_size)
        return archive.read(members[0])


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


_URL = "https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/main/data/"
_CIFAR10N_FILE = PublishedFile(
    "CIFAR-10_human.pt",
    ("sha256:873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",),
    f"{_URL}CIFAR-10_human.pt",
)
_CIFAR100N_FILE = PublishedFile(
    "CIFAR-100_human.pt",
    ("sha256:bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",),
    f"{_URL}CIFAR-100_human.pt",
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
