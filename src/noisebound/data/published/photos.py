"""TinyImageNet-200 and Animals-10N: images in folders or a zip file.

TinyImageNet has ``train/WNID/images/*.JPEG`` and ``val/images/*.JPEG``. ``wnids.txt`` lists the 200
WordNet ids in the order of the classes, and ``words.txt`` names them. Each line of
``val/val_annotations.txt`` has a file, its id and its box, separated by tabs. The published test
images have no labels, so ``val`` is the test set, as in the paper.

Animals-10N has folders ``training`` and ``testing`` of images named ``LABEL_*.jpg``. About 8 % of
the labels of ``training``, given by people, are wrong. The labels of ``testing`` are clean.
"""

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from noisebound.data.archives import Files
from noisebound.data.labels import check_label_range
from noisebound.data.published.releases import Part, Published, PublishedFile
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.dataset import Splits

_ROOT = "tiny-imagenet-200/"


def _decoded(files: Files, class_names: tuple[str, ...], *parts: list[tuple[str, int]]) -> "Splits":
    """Return training and test examples from the files and labels of both."""
    import torch

    from noisebound.data.dataset import Dataset, Splits
    from noisebound.data.images import cache_notes, decode_once

    if not all(parts):
        raise DataError(f"{files.where()} lacks the training or the test images; fetch it again")
    names, labels = zip(*(zip(*part, strict=True) for part in parts), strict=True)
    decoded = [decode_once(files, part, mode="RGB", size=(64, 64)) for part in names]
    train, test = (
        Dataset(found.images, torch.tensor(indices), class_names)
        for found, indices in zip(decoded, labels, strict=True)
    )
    notes = cache_notes(*decoded)
    return Splits(files.path.name, train, test, source=files.where(), notes=notes)


def read_tiny_imagenet(files: Files) -> "Splits":
    """Return training and test examples; their images are decoded once and cached."""
    wnids = _lines(files, "wnids.txt")
    index_of = {wnid: index for index, wnid in enumerate(wnids)}
    if len(index_of) != len(wnids) or not wnids:
        raise DataError(f"{files.where(_ROOT + 'wnids.txt')} must list distinct WordNet ids")
    words = dict(line.partition("\t")[::2] for line in _lines(files, "words.txt"))
    # The first of the comma-separated names of each id.
    class_names = tuple(words.get(wnid, wnid).partition(",")[0].strip() for wnid in wnids)
    return _decoded(files, class_names, _train(files, index_of), _val(files, index_of))


def _train(files: Files, index_of: dict[str, int]) -> list[tuple[str, int]]:
    start = f"{_ROOT}train/"
    return [
        (name, _index(name.removeprefix(start).partition("/")[0], index_of, files.where(name)))
        for name in files.names()
        if name.startswith(start) and name.endswith(".JPEG")
    ]


def _val(files: Files, index_of: dict[str, int]) -> list[tuple[str, int]]:
    annotations, present = "val/val_annotations.txt", set(files.names())
    labeled = []
    for number, line in enumerate(_lines(files, annotations), start=1):
        file, tab, rest = line.partition("\t")
        where = f"{files.where(_ROOT + annotations)}, line {number}"
        if not tab:
            raise DataError(f"{where}: expected a file, a tab and a WordNet id, got {line[:60]!r}")
        name = f"{_ROOT}val/images/{file}"
        if name not in present:
            raise DataError(f"{where} names {file}, which is not among the images")
        labeled.append((name, _index(rest.partition("\t")[0], index_of, where)))
    return labeled


def _index(wnid: str, index_of: dict[str, int], where: str) -> int:
    if wnid not in index_of:
        raise DataError(f"{where}: {wnid[:60]!r} is not in wnids.txt")
    return index_of[wnid]


def _lines(files: Files, name: str) -> list[str]:
    """Return the lines of a file, which must have some."""
    text = files.read(_ROOT + name).decode("utf-8", errors="replace")
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if not lines:
        raise DataError(f"{files.where(_ROOT + name)} is empty; fetch it again")
    return lines


_ZIP = PublishedFile(
    "tiny-imagenet-200.zip",
    ("md5:90528d7ca1a48142e341f4ef8d21d0de",),
    "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
)
_TEXTS = ("wnids.txt", "words.txt", "val/val_annotations.txt")
TINY_IMAGENET = Published(
    "tiny-imagenet",
    "photographs, 200 classes, 64×64",
    parts=(
        Part(
            folders=("tiny-imagenet", "", "tiny_imagenet", "TinyImageNet"),
            releases=((_ZIP,), tuple(PublishedFile(_ROOT + name) for name in _TEXTS)),
            read=read_tiny_imagenet,
        ),
    ),
    counts=((100_000, 10_000),),
)


CLASS_NAMES = (
    "cat", "lynx", "wolf", "coyote", "cheetah",
    "jaguar", "chimpanzee", "orangutan", "hamster", "guinea pig",
)  # fmt: skip


def read_animals10n(files: Files) -> "Splits":
    """Return training and test examples; their images are decoded once and cached."""
    train, test = (_labeled(files, part) for part in ("training", "testing"))
    return _decoded(files, CLASS_NAMES, train, test)


def _labeled(files: Files, part: str) -> list[tuple[str, int]]:
    """Return the images in the folder named ``part``, wherever in the release it is."""
    labeled = []
    for name in files.names():
        path = PurePosixPath(name)
        if path.parent.name == part and path.suffix.lower() == ".jpg":
            match = re.match(r"(\d{1,2})_", path.name)
            if match is None:
                raise DataError(f"{files.where(name)}: the name must begin with its label and '_'")
            labeled.append((name, int(match[1])))
    if not labeled:
        raise DataError(f"{files.where()} has no folder {part!r} with .jpg files in it")
    labels = np.array([label for _, label in labeled])
    check_label_range(labels, len(CLASS_NAMES), f"{files.where()}, folder {part!r}")
    return labeled


ANIMALS_10N = Published(
    "animals-10n",
    "animals that look alike, 64×64",
    parts=(
        Part(
            folders=("animals-10n", "animal-10n", "animal10n", "animals10n"),
            releases=(
                (PublishedFile("training"), PublishedFile("testing")),
                (PublishedFile("raw_image.zip"),),
            ),
            read=read_animals10n,
            how_to_obtain=(
                "Animals-10N is given on request: ask for the raw images at "
                "https://dm.kaist.ac.kr/datasets/animal-10n/ and put the folders 'training' and "
                "'testing', or the zip that holds them,"
            ),
        ),
    ),
    counts=((50_000, 5_000),),
)
