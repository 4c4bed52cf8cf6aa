"""MNIST, FashionMNIST and the six splits of EMNIST: pairs of IDX files."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from noisebound.data.formats.archives import Files, Folder, Zip
from noisebound.data.formats.idx import read_idx_pair
from noisebound.data.published.record import Part, Published, PublishedFile, Release, archived

if TYPE_CHECKING:
    from noisebound.data.dataset import Dataset, Splits

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_CAPITALS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
# EMNIST merges small letters with their capitals, except for the last eleven, whose shapes differ.
_MERGED = (*DIGITS, *_CAPITALS, *"abdefghnqrt")


@dataclass(frozen=True)
class EmnistSplit:
    """One of EMNIST's divisions into classes and into training and test examples.

    Args:
        class_names: the characters, in the order of their labels
        counts: the numbers of training and test examples, one pair per edition of the files
        first_label: the label of the first class
    """

    class_names: tuple[str, ...]
    counts: tuple[tuple[int, int], ...]
    first_label: int = 0


EMNIST_SPLITS = {
    "balanced": EmnistSplit(_MERGED, ((112_800, 18_800),)),
    "byclass": EmnistSplit(
        (*DIGITS, *_CAPITALS, *"abcdefghijklmnopqrstuvwxyz"), ((697_932, 116_323),)
    ),
    "bymerge": EmnistSplit(_MERGED, ((697_932, 116_323),)),
    # Labels begin at 1. The second edition of the files has more examples than the article says.
    "letters": EmnistSplit(_CAPITALS, ((124_800, 20_800), (88_800, 14_800)), first_label=1),
    "digits": EmnistSplit(DIGITS, ((240_000, 40_000),)),
    "mnist": EmnistSplit(DIGITS, ((60_000, 10_000),)),
}


def read_pairs(
    files: Files,
    *,
    name: str,
    prefixes: tuple[str, str],
    class_names: tuple[str, ...],
    first_label: int = 0,
    transposed: bool = False,
) -> "Splits":
    """Return training and test examples from four IDX files.

    Args:
        files: where the files are
        name: name of the data set
        prefixes: how the names of the training files and of the test files begin
        class_names: the class names, in the order of their labels
        first_label: the label of the first class
        transposed: True if the files have height and width exchanged
    """
    import torch

    from noisebound.data.dataset import Dataset, Splits

    def read(prefix: str) -> "Dataset":

        images, labels = read_idx_pair(
            files,
            f"{prefix}-images-idx3-ubyte.gz",
            f"{prefix}-labels-idx1-ubyte.gz",
            num_classes=len(class_names),
            first_label=first_label,
            transposed=transposed,
        )
        return Dataset(torch.tensor(images), torch.from_numpy(labels), class_names)

    train, test = (read(prefix) for prefix in prefixes)
    return Splits(name, train, test, source=files.where())


def _four_files(
    name: str,
    title: str,
    folders: tuple[str, ...],
    class_names: tuple[str, ...],
    url: str,
    hashes: dict[str, tuple[str, ...]],
) -> Published:
    files = tuple(
        PublishedFile(
            f"{file}-ubyte.gz",
            tuple(f"md5:{digest}" for digest in digests),
            f"{url}{file}-ubyte.gz",
        )
        for file, digests in hashes.items()
    )
    read = partial(read_pairs, name=name, prefixes=("train", "t10k"), class_names=class_names)
    return Published(
        name,
        title,
        parts=(Part(folders, (Release(files, Folder, read),)),),
        assemble=lambda splits: splits,
        counts=((60_000, 10_000),),
    )


MNIST = _four_files(
    "mnist",
    "handwritten digits, 28×28",
    folders=("mnist", "MNIST", "MNIST/raw"),
    class_names=DIGITS,
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    hashes={
        "train-images-idx3": ("f68b3c2dcbeaaa9fbdd348bbdeb94873",),
        "train-labels-idx1": ("d53e105ee54ea40749a09fcbcd1e9432",),
        "t10k-images-idx3": ("9fb629c4189551a2d022fa330f9573f3",),
        "t10k-labels-idx1": ("ec29112dd5afa0611ce80d1b7f02629c",),
    },
)
# The second hash of each pair is that of Debian's package: the same content, compressed again.
FASHION_MNIST = _four_files(
    "fashion-mnist",
    "clothes, 28×28",
    folders=("fashion-mnist", "FashionMNIST", "FashionMNIST/raw"),
    class_names=CLOTHES,
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    hashes={
        "train-images-idx3": (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "cf8536b0aa1a6ac5fa3f23001093305c",
        ),
        "train-labels-idx1": (
            "25c81989df183df01b3e8a0aad5dffbe",
            "10bea18fdb374794d4bb42e356e600c9",
        ),
        "t10k-images-idx3": (
            "bef4ecab320f06d8554ea6380940ec79",
            "f78720b4224f21cce2f2ccf2d7a94c9a",
        ),
        "t10k-labels-idx1": (
            "bb300cfdad3c16e7a12a480ee83cd310",
            "0d30e22e447f3c33dab9ed536400ac01",
        ),
    },
)

_EMNIST_ZIP = PublishedFile(
    "gzip.zip",
    ("md5:58c8d27c78d21e728a6bc7b3cc06412e",),
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
)


def _emnist(split: str) -> Published:

    record = EMNIST_SPLITS[split]
    name = "emnist" if split == "balanced" else f"emnist-{split}"
    prefixes = (f"emnist-{split}-train", f"emnist-{split}-test")

    def read(files: Files, folder: str) -> "Splits":
        return read_pairs(
            files,
            name=name,
            prefixes=(f"{folder}{prefixes[0]}", f"{folder}{prefixes[1]}"),
            class_names=record.class_names,
            first_label=record.first_label,
            transposed=True,
        )

    unpacked = tuple(
        PublishedFile(f"{prefix}-{kind}-ubyte.gz")
        for prefix in prefixes
        for kind in ("images-idx3", "labels-idx1")
    )
    releases = (
        archived(_EMNIST_ZIP, Zip, partial(read, folder="gzip/")),
        Release(unpacked, Folder, partial(read, folder="")),
    )
    title = f"handwritten, {len(record.class_names)} classes, 28×28"
    folders = ("emnist", "EMNIST", "EMNIST/raw", "emnist/gzip")
    return Published(
        name, title, (Part(folders, releases),), lambda splits: splits, counts=record.counts
    )


EMNIST = tuple(_emnist(split) for split in EMNIST_SPLITS)
