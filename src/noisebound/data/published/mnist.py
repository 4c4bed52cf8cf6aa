"""IDX files: MNIST, FashionMNIST, EMNIST and users' folders; and scikit-learn's digits.

An IDX file is two zero bytes, one byte for the type (8: unsigned byte), one byte for the number of
dimensions, the dimensions as big-endian 32-bit integers, and the values row by row.
"""

import math
import struct
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noisebound.data.archives import Files, Folder, Zip, as_data_error, gunzip
from noisebound.data.labels import check_label_range, encode_labels
from noisebound.data.published.releases import Part, Published, PublishedFile
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.dataset import Dataset, Splits

_IMAGES, _LABELS = "-images-idx3-ubyte", "-labels-idx1-ubyte"


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array in an uncompressed IDX file of unsigned bytes, named in messages."""
    if len(content) >= 4 and content[:3] != b"\0\0\x08":
        raise DataError(
            f"{name} is not an IDX file of unsigned bytes: it begins with {content[:4].hex()}, "
            "expected 0000 08 and the number of dimensions"
        )
    with as_data_error(name):  # a truncated header, and shapes that numpy refuses
        shape = struct.unpack_from(f">{content[3]}I", content, 4)
        found = len(content) - 4 - 4 * len(shape)
        if found != math.prod(shape):
            raise DataError(
                f"{name} holds {found} values, its header {list(shape)} says {math.prod(shape)}: "
                "it is truncated or damaged; fetch it again"
            )
        return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def read_idx(files: Files, name: str) -> NDArray[np.uint8]:
    """Return the array in an IDX file, which is compressed by gzip if its name ends with .gz."""
    content, where = files.read(name), files.where(name)
    return parse_idx(gunzip(content, where) if name.endswith(".gz") else content, where)


@dataclass(frozen=True)
class Characters:
    """The classes of published IDX files.

    Args:
        class_names: in the order of their labels
        counts: the numbers of training and test examples, one pair per edition of the files
        first_label: the label of the first class
        is_transposed: True if height and width are exchanged, as in EMNIST
    """

    class_names: tuple[str, ...]
    counts: tuple[tuple[int, int], ...] = ((60_000, 10_000),)
    first_label: int = 0
    is_transposed: bool = True


def read_idx_pair(
    files: Files,
    images: str,
    published: Characters | None = None,
    class_names: tuple[str, ...] | None = None,
) -> "Dataset":
    """Return the examples of a file of images and the file of labels beside it.

    The classes are those of a published file, ``class_names``, or the distinct labels.
    """
    import torch

    from noisebound.data.dataset import Dataset

    labels = images.replace(_IMAGES, _LABELS)
    pixels, marks = read_idx(files, images), read_idx(files, labels)
    if pixels.ndim != 3 or marks.ndim != 1:
        raise DataError(
            f"{files.where(images)} and {files.where(labels)} must have 3 dimensions and 1, "
            f"got {pixels.ndim} and {marks.ndim}"
        )
    if len(pixels) != len(marks):
        raise DataError(
            f"{files.where(images)} has {len(pixels)} images but {files.where(labels)} has "
            f"{len(marks)} labels"
        )
    indices = marks.astype(np.int64)
    if published is None:
        indices, class_names = encode_labels(indices, class_names)
    else:
        indices, class_names = indices - published.first_label, published.class_names
        check_label_range(indices, len(class_names), files.where(labels))
        pixels = pixels.transpose(0, 2, 1) if published.is_transposed else pixels
    inputs = torch.from_numpy(np.array(pixels, order="C"))[:, None]
    return Dataset(inputs, torch.from_numpy(indices), class_names)


def read_pairs(
    files: Files,
    train: str,
    test: str | None,
    published: Characters | None = None,
) -> "Splits":
    """Return the examples of a file of training images, and of a file of test images."""
    from noisebound.data.dataset import Splits

    data, test_data = read_idx_pair(files, train, published), None
    if test is not None:
        test_data = read_idx_pair(files, test, published, data.class_names)
    return Splits(files.path.name, data, test_data, source=files.where())


_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_CAPITALS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
# EMNIST merges small letters with their capitals, except for the last eleven, whose shapes differ.
_MERGED = (*_DIGITS, *_CAPITALS, *"abdefghnqrt")


EMNIST_SPLITS = {
    "balanced": Characters(_MERGED, ((112_800, 18_800),)),
    "byclass": Characters(
        (*_DIGITS, *_CAPITALS, *"abcdefghijklmnopqrstuvwxyz"), ((697_932, 116_323),)
    ),
    "bymerge": Characters(_MERGED, ((697_932, 116_323),)),
    # Labels begin at 1. The second edition of the files has more examples than the article says.
    "letters": Characters(_CAPITALS, ((124_800, 20_800), (88_800, 14_800)), first_label=1),
    "digits": Characters(_DIGITS, ((240_000, 40_000),)),
    "mnist": Characters(_DIGITS),
}


def _four_files(
    name: str,
    title: str,
    folders: tuple[str, ...],
    class_names: tuple[str, ...],
    url: str,
    hashes: dict[str, str],
) -> Published:
    """Return a data set in MNIST's form, with the md5 of every edition of each file."""
    files = tuple(
        PublishedFile(
            f"{file}-ubyte.gz",
            tuple(f"md5:{digest}" for digest in digests.split()),
            f"{url}{file}-ubyte.gz",
        )
        for file, digests in hashes.items()
    )
    characters = Characters(class_names, is_transposed=False)
    train, test = (f"{prefix}{_IMAGES}.gz" for prefix in ("train", "t10k"))
    read = partial(read_pairs, train=train, test=test, published=characters)
    return Published(name, title, (Part(folders, (files,), read),), counts=characters.counts)


MNIST = _four_files(
    "mnist",
    "handwritten digits, 28×28",
    folders=("mnist", "MNIST", "MNIST/raw"),
    class_names=_DIGITS,
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    hashes={
        "train-images-idx3": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)
# The second hash of each pair is that of Debian's package: the same content, compressed again.
FASHION_MNIST = _four_files(
    "fashion-mnist",
    "clothes, 28×28",
    folders=("fashion-mnist", "FashionMNIST", "FashionMNIST/raw"),
    class_names=_CLOTHES,
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    hashes={
        "train-images-idx3": "8d4fb7e6c68d591d4c3dfef9ec88bf0d cf8536b0aa1a6ac5fa3f23001093305c",
        "train-labels-idx1": "25c81989df183df01b3e8a0aad5dffbe 10bea18fdb374794d4bb42e356e600c9",
        "t10k-images-idx3": "bef4ecab320f06d8554ea6380940ec79 f78720b4224f21cce2f2ccf2d7a94c9a",
        "t10k-labels-idx1": "bb300cfdad3c16e7a12a480ee83cd310 0d30e22e447f3c33dab9ed536400ac01",
    },
)

_EMNIST_ZIP = PublishedFile(
    "gzip.zip",
    ("md5:58c8d27c78d21e728a6bc7b3cc06412e",),
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
)


def _emnist(split: str, characters: Characters) -> Published:
    images = [f"emnist-{split}-{part}{_IMAGES}.gz" for part in ("train", "test")]

    def read(files: Files) -> "Splits":
        train, test = (f"gzip/{name}" if isinstance(files, Zip) else name for name in images)
        return read_pairs(files, train, test, characters)

    unpacked = [*images, *(name.replace(_IMAGES, _LABELS) for name in images)]
    folders = ("emnist", "EMNIST", "EMNIST/raw", "emnist/gzip")
    return Published(
        "emnist" if split == "balanced" else f"emnist-{split}",
        f"handwritten, {len(characters.class_names)} classes, 28×28",
        (Part(folders, ((_EMNIST_ZIP,), tuple(map(PublishedFile, unpacked))), read),),
        characters.counts,
    )


EMNIST = tuple(_emnist(split, characters) for split, characters in EMNIST_SPLITS.items())


def holds_idx(folder: Folder) -> bool:
    """True if the folder has IDX images directly in it."""
    return bool(_image_files(folder))


def _image_files(folder: Folder) -> list[str]:
    return [name for name in folder.names() if _IMAGES in name and "/" not in name]


def read_idx_folder(folder: Folder) -> "Splits":
    """Return training examples, and test examples if there are any.

    The images are in ``*train-images-idx3-ubyte`` and in ``*test-images-idx3-ubyte`` or
    ``*t10k-images-idx3-ubyte``, with or without ``.gz``; the labels are in the files beside them.
    Files whose names begin with ``emnist-`` are read as EMNIST's: transposed, with its class names.
    """
    names, path = _image_files(folder), folder.path
    train = [name for name in names if name.partition(_IMAGES)[0].endswith("train")]
    test = [name for name in names if name.partition(_IMAGES)[0].endswith(("test", "t10k"))]
    if len(train) != 1 or len(test) > 1:
        raise DataError(
            f"{path} must have one file *train{_IMAGES}[.gz] and at most one *test{_IMAGES}[.gz]; "
            f"it has {names}"
        )
    start, _, split = train[0].partition(_IMAGES)[0].rpartition("-")[0].partition("-")
    published = EMNIST_SPLITS.get(split) if start == "emnist" else None
    return read_pairs(folder, train[0], test[0] if test else None, published)


_TRAIN = 1257  # 70 % of the 1,797 images
_SPLIT_SEED = 0  # fixed, so that everyone has the same test examples


def _read_digits() -> "Splits":
    """Return the digits with pixels scaled to bytes; 30 % are drawn as test examples."""
    import torch

    from noisebound.data.dataset import Dataset, Splits, stratified_indices

    # `sklearn.datasets.load_digits` reads this file too, after a second of imports.
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
    rows = np.loadtxt(Path(spec.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    pixels = np.rint(rows[:, :-1] * (255 / 16)).astype(np.uint8)
    inputs = torch.from_numpy(pixels.reshape(-1, 1, 8, 8))
    labels = torch.from_numpy(rows[:, -1].astype(np.int64))
    chosen = stratified_indices(labels, _TRAIN, _SPLIT_SEED)
    is_train = torch.zeros(len(labels), dtype=torch.bool).index_fill_(0, chosen, True)
    train, test = (Dataset(inputs[part], labels[part], _DIGITS) for part in (is_train, ~is_train))
    return Splits("digits", train, test, source="scikit-learn")


DIGITS = Published(
    "digits",
    "handwritten digits, 8×8",
    parts=(),
    counts=((_TRAIN, 1797 - _TRAIN),),
    assemble=_read_digits,
)
