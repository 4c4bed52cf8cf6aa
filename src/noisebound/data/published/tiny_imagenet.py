"""TinyImageNet-200: ``train/WNID/images/*.JPEG``, ``val/images/*.JPEG`` with an annotation file.

``wnids.txt`` lists the 200 WordNet ids, whose order numbers the classes; ``words.txt`` names them;
``val/val_annotations.txt`` gives, tab-separated, the file, its id and its box. The published test
images have no labels, so ``val`` serves as the test set, as in the paper.
"""

import torch

from noisebound.data.dataset import Dataset, Splits
from noisebound.data.decoded import decode_once
from noisebound.data.formats.archives import Files, Folder, Zip
from noisebound.data.published.record import Part, Published, PublishedFile, Release, archived
from noisebound.errors import DataError

_ROOT = "tiny-imagenet-200/"


def read_tiny_imagenet(files: Files) -> Splits:
    """Both parts, their images decoded once and cached."""
    wnids = _lines(files, f"{_ROOT}wnids.txt")
    index_of = {wnid: index for index, wnid in enumerate(wnids)}
    if len(index_of) != len(wnids) or not wnids:
        raise DataError(f"{files.where(_ROOT + 'wnids.txt')} must list distinct WordNet ids")
    words = _words(files, f"{_ROOT}words.txt")
    class_names = tuple(words.get(wnid, wnid) for wnid in wnids)

    def decode(labelled: list[tuple[str, int]]) -> Dataset:
        names, labels = zip(*labelled, strict=True)
        decoded = decode_once(files, names, mode="RGB", size=(64, 64))
        return Dataset(decoded.images, torch.tensor(labels), class_names)

    train, val = _train(files, index_of), _val(files, index_of)
    return Splits("tiny-imagenet", decode(train), decode(val), source=files.where())


def _train(files: Files, index_of: dict[str, int]) -> list[tuple[str, int]]:
    start = f"{_ROOT}train/"
    labelled = [
        (name, _index(name.removeprefix(start).partition("/")[0], index_of, files.where(name)))
        for name in files.names()
        if name.startswith(start) and name.endswith(".JPEG")
    ]
    if not labelled:
        raise DataError(f"{files.where(start)} has no images; fetch it again")
    return labelled


def _val(files: Files, index_of: dict[str, int]) -> list[tuple[str, int]]:
    annotations = f"{_ROOT}val/val_annotations.txt"
    present = set(files.names())
    labelled = []
    for number, line in enumerate(_lines(files, annotations), start=1):
        file, tab, rest = line.partition("\t")
        where = f"{files.where(annotations)}, line {number}"
        if not tab:
            raise DataError(f"{where}: expected a file, a tab and a WordNet id, got {line[:60]!r}")
        name = f"{_ROOT}val/images/{file}"
        if name not in present:
            raise DataError(f"{where} names {file}, which is not among the images")
        labelled.append((name, _index(rest.partition("\t")[0], index_of, where)))
    if not labelled:
        raise DataError(f"{files.where(annotations)} is empty; fetch it again")
    return labelled


def _words(files: Files, name: str) -> dict[str, str]:
    """The first of the comma-separated names of each id."""
    pairs = (line.partition("\t") for line in _lines(files, name))
    return {wnid: words.partition(",")[0].strip() for wnid, tab, words in pairs if tab}


def _index(wnid: str, index_of: dict[str, int], where: str) -> int:
    if wnid not in index_of:
        raise DataError(f"{where}: {wnid[:60]!r} is not in wnids.txt")
    return index_of[wnid]


def _lines(files: Files, name: str) -> list[str]:
    text = files.read(name).decode("utf-8", errors="replace")
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]


_ZIP = PublishedFile(
    "tiny-imagenet-200.zip",
    ("md5:90528d7ca1a48142e341f4ef8d21d0de",),
    "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
)
_UNPACKED = tuple(
    PublishedFile(_ROOT + name) for name in ("wnids.txt", "words.txt", "val/val_annotations.txt")
)
TINY_IMAGENET = Published(
    "tiny-imagenet",
    "photographs, 200 classes, 64×64",
    parts=(
        Part(
            folders=("tiny-imagenet", "", "tiny_imagenet", "TinyImageNet"),
            releases=(
                archived(_ZIP, Zip, read_tiny_imagenet),
                Release(_UNPACKED, Folder, read_tiny_imagenet),
            ),
        ),
    ),
    assemble=lambda splits: splits,
    counts=((100_000, 10_000),),
)
