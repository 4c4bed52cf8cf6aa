"""CIFAR-10 and CIFAR-100 from their binary releases, and TinyImageNet-200.

A record of CIFAR is one byte for the label (CIFAR-100: the coarse label, then the fine one) and
3,072 bytes for the pixels: the red, the green and the blue plane, each row by row.

TinyImageNet has ``train/WNID/images/*.JPEG`` and ``val/images/*.JPEG``. ``wnids.txt`` lists the 200
WordNet ids in the order of the classes, and ``words.txt`` names them. Each line of
``val/val_annotations.txt`` has a file, its id and its box, separated by tabs. The published test
images have no labels, so ``val`` is the test set, as in the paper.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noisebound.data.files import Files
from noisebound.data.labels import check_label_range
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.splits import Splits

_PIXELS = 3 * 32 * 32


def read_binary(
    files: Files, names: Sequence[str], num_classes: int, label_bytes: int = 1
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images ``[n, 3, 32, 32]`` and the labels of several files.

    The label is the last of the ``label_bytes``.
    """
    width, parts = label_bytes + _PIXELS, []
    for name in names:
        content, where = files.read(name), files.where(name)
        if not content or len(content) % width:
            raise DataError(
                f"{where} has {len(content)} bytes, not a whole number of records of {width}: it "
                "is truncated or damaged; fetch it again"
            )
        parts.append(np.frombuffer(content, np.uint8).reshape(-1, width))
        check_label_range(parts[-1][:, label_bytes - 1].astype(np.int64), num_classes, where)
    records = np.concatenate(parts)
    images = np.ascontiguousarray(records[:, label_bytes:]).reshape(-1, 3, 32, 32)
    return images, records[:, label_bytes - 1].astype(np.int64)


def read_lines(files: Files, name: str, count: int | None = None) -> list[str]:
    """Return the lines of a text file that are not empty, at least one, or ``count`` of them."""
    text = files.read(name).decode("utf-8", errors="replace")
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if not lines or len(lines) != (count or len(lines)):
        raise DataError(
            f"{files.where(name)} must have {count or 'some'} lines, got {len(lines)}; fetch it "
            "again"
        )
    return lines


def read_cifar(files: Files, classes: int) -> "Splits":
    """Return the training and test examples of CIFAR-10 or CIFAR-100."""
    import torch

    from noisebound.data.dataset import Dataset
    from noisebound.data.splits import Splits

    if classes == 10:
        root, named, images = "cifar-10-batches-bin", "batches.meta.txt", ["test_batch.bin"]
        images += [f"data_batch_{number}.bin" for number in range(1, 6)]
    else:
        root, named, images = "cifar-100-binary", "fine_label_names.txt", ["test.bin", "train.bin"]
    names = tuple(line.strip() for line in read_lines(files, f"{root}/{named}", classes))

    def dataset(batches: Sequence[str]) -> Dataset:
        paths = [f"{root}/{name}" for name in batches]
        pixels, labels = read_binary(files, paths, classes, 1 if classes == 10 else 2)
        return Dataset(torch.from_numpy(pixels), torch.from_numpy(labels), names)

    return Splits(root, dataset(images[1:]), dataset(images[:1]), source=files.where())


def decoded(files: Files, class_names: tuple[str, ...], *parts: list[tuple[str, int]]) -> "Splits":
    """Return training and test examples from the files and labels of both.

    Their images are decoded once and cached.
    """
    import torch

    from noisebound.data.dataset import Dataset
    from noisebound.data.images import decode_once
    from noisebound.data.splits import Splits

    if not all(parts):
        raise DataError(f"{files.where()} lacks the training or the test images; fetch it again")
    names, labels = zip(*(each for part in parts for each in part), strict=True)
    found = decode_once(files, names, mode="RGB", size=(64, 64))
    middle = len(parts[0])
    train, test = (
        Dataset(found.part(start, stop), torch.tensor(labels[start:stop]), class_names)
        for start, stop in ((0, middle), (middle, len(names)))
    )
    return Splits(files.path.name, train, test, source=files.where(), notes=found.notes)


_ROOT = "tiny-imagenet-200/"
_WNIDS, _WORDS, _ANNOTATIONS = (
    f"{_ROOT}{name}" for name in ("wnids.txt", "words.txt", "val/val_annotations.txt")
)


def read_tiny_imagenet(files: Files) -> "Splits":
    """Return training and test examples."""
    wnids = read_lines(files, _WNIDS)
    index_of = {wnid: index for index, wnid in enumerate(wnids)}
    if len(index_of) != len(wnids):
        raise DataError(f"{files.where(_WNIDS)} must list distinct WordNet ids")
    words = dict(line.partition("\t")[::2] for line in read_lines(files, _WORDS))
    # The first of the comma-separated names of each id.
    class_names = tuple(words.get(wnid, wnid).partition(",")[0].strip() for wnid in wnids)
    start = f"{_ROOT}train/"
    train = [
        (name, _index(name.removeprefix(start).partition("/")[0], index_of, files.where(name)))
        for name in files.names()
        if name.startswith(start) and name.endswith(".JPEG")
    ]
    return decoded(files, class_names, train, _val(files, index_of))


def _val(files: Files, index_of: dict[str, int]) -> list[tuple[str, int]]:
    present, labeled = set(files.names()), []
    for number, line in enumerate(read_lines(files, _ANNOTATIONS), start=1):
        file, wnid, *_ = (*line.split("\t"), "")
        where, name = f"{files.where(_ANNOTATIONS)}, line {number}", f"{_ROOT}val/images/{file}"
        if name not in present:
            raise DataError(f"{where} names {file[:60]!r}, which is not among the images")
        labeled.append((name, _index(wnid, index_of, where)))
    return labeled


def _index(wnid: str, index_of: dict[str, int], where: str) -> int:
    if wnid not in index_of:
        raise DataError(f"{where}: {wnid[:60]!r} is not in wnids.txt")
    return index_of[wnid]
