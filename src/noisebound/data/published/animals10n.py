"""Animals-10N: folders ``training`` and ``testing`` of images named ``LABEL_*.jpg``.

People gave the labels of ``training``; about 8 % of them are wrong. The labels of ``testing`` are
clean.
"""

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from noisebound.data.formats.archives import Files, Folder, Zip
from noisebound.data.labels import check_label_range
from noisebound.data.published.record import Part, Published, PublishedFile, Release, archived
from noisebound.errors import DataError

if TYPE_CHECKING:
    from noisebound.data.dataset import Dataset, Splits
    from noisebound.data.decoded import DecodedImages

CLASS_NAMES = (
    "cat", "lynx", "wolf", "coyote", "cheetah",
    "jaguar", "chimpanzee", "orangutan", "hamster", "guinea pig",
)  # fmt: skip


def read_animals10n(files: Files) -> "Splits":
    """Return training and test examples; their images are decoded once and cached."""
    from noisebound.data.dataset import Splits
    from noisebound.data.decoded import cache_notes

    (train, first), (test, second) = (_read_part(files, part) for part in ("training", "testing"))
    notes = cache_notes(first, second)
    return Splits("animals-10n", train, test, source=files.where(), notes=notes)


def _read_part(files: Files, part: str) -> "tuple[Dataset, DecodedImages]":
    """Return the examples in the folder named ``part``, wherever in the release it is."""
    import torch

    from noisebound.data.dataset import Dataset
    from noisebound.data.decoded import decode_once

    names = [
        name
        for name in files.names()
        if PurePosixPath(name).parent.name == part and name.lower().endswith(".jpg")
    ]
    if not names:
        raise DataError(f"{files.where()} has no folder {part!r} with .jpg files in it")
    labels = np.array([_label(name, files) for name in names], np.int64)
    check_label_range(labels, len(CLASS_NAMES), f"{files.where()}, folder {part!r}")
    decoded = decode_once(files, names, mode="RGB", size=(64, 64))
    return Dataset(decoded.images, torch.from_numpy(labels), CLASS_NAMES), decoded


def _label(name: str, files: Files) -> int:
    match = re.match(r"(\d{1,2})_", PurePosixPath(name).name)
    if match is None:
        raise DataError(f"{files.where(name)}: the name must begin with its label and '_'")
    return int(match[1])


_ZIP = PublishedFile("raw_image.zip")
_UNPACKED = Release((PublishedFile("training"), PublishedFile("testing")), Folder, read_animals10n)
ANIMALS_10N = Published(
    "animals-10n",
    "animals that look alike, 64×64",
    parts=(
        Part(
            folders=("animals-10n", "animal-10n", "animal10n", "animals10n"),
            releases=(
                _UNPACKED,
                archived(_ZIP, Zip, read_animals10n),
            ),
            how_to_obtain=(
                "Animals-10N is given on request: ask for the raw images at "
                "https://dm.kaist.ac.kr/datasets/animal-10n/ and put the folders 'training' and "
                "'testing', or the zip that holds them,"
            ),
        ),
    ),
    assemble=lambda splits: splits,
    counts=((50_000, 5_000),),
)
