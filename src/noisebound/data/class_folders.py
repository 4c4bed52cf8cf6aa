"""A user's folder with one folder per class, directly or below ``train`` and ``test``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.archives import Folder, is_hidden
from noisebound.data.dataset import Dataset, Splits, check_classes_left
from noisebound.data.images import (
    DEFAULT_SIZE,
    DecodedImages,
    Mode,
    Size,
    cache_notes,
    decode_once,
    image_extensions,
    listed,
)
from noisebound.data.options import ReadingOptions
from noisebound.errors import DataError

_TRAIN_NAMES = ("train", "training")
_TEST_NAMES = ("test", "testing", "val", "valid", "validation")  # in the order of preference
IMAGES, TEXTS = "images", ".txt files"
"""The kinds of files in a tree, as messages call them."""


@dataclass(frozen=True, eq=False)
class ClassTree:
    """Images or texts in one folder per class: their paths, and the names of the folders, sorted.

    ``ignored`` is the number of files that are not examples.
    """

    files: Folder
    names: tuple[str, ...]
    class_names: tuple[str, ...]
    ignored: int

    @property
    def labels(self) -> Int64[Tensor, " n"]:
        """The class index of each example."""
        index_of = {name: index for index, name in enumerate(self.class_names)}
        return torch.tensor([index_of[name.partition("/")[0]] for name in self.names])


def find_trees(
    path: Path | Folder, kind: str = IMAGES
) -> tuple[ClassTree, ClassTree | None, tuple[str, ...]]:
    """Return the tree of training examples, that of test examples if there is one, and notes.

    Args:
        path: a folder with one folder per class, or with folders ``train`` and ``test`` that have
            one folder per class each
        kind: the kind of the examples, `IMAGES` or `TEXTS`
    """
    files = path if isinstance(path, Folder) else Folder(path)
    folders = {folder.lower(): folder for folder in files.folders()}
    name, test_name = (
        next((folders[name] for name in names if name in folders), None)
        for names in (_TRAIN_NAMES, _TEST_NAMES)
    )
    notes, test = [], None
    if name is None or not files.below(name).folders():
        train = _tree(files, kind)
    else:
        train = _tree(files.below(name), kind)
        if test_name is not None:
            test = _tree(files.below(test_name), kind, train.class_names)
        unused = [folder for folder in folders.values() if folder not in (name, test_name)]
        if unused:
            notes.append(f"folders beside {name} were not used: {', '.join(unused)}")
    notes += [
        f"{tree.ignored} files in {tree.files.path} were ignored: they are not {kind}, or not in "
        "the folder of a class"
        for tree in (train, test)
        if tree is not None and tree.ignored
    ]
    return train, test, tuple(notes)


def _tree(files: Folder, kind: str, known: tuple[str, ...] = ()) -> ClassTree:
    """Return the examples below each class's folder; other files are counted, not read."""
    found, path = tuple(files.folders()), files.path
    if len(found) < 2 and not known:
        raise DataError(
            f"{path} must have one folder for each class, at least two, with the {kind} of the "
            f"class in it; it has {len(found)} folders"
        )
    unknown = set(found) - set(known)
    if unknown and known and kind == IMAGES:  # classes of texts may be merged or renamed
        raise DataError(f"{path} has classes that the training {kind} lack: {sorted(unknown)}")
    names = tuple(name for name in examples_among(files.names(), kind) if "/" in name)
    filled = {name.partition("/")[0] for name in names}
    empty = [name for name in found if name not in filled]
    if empty:
        raise DataError(
            f"{path} has no {kind} in the folders of the classes {', '.join(empty)}: add some, or "
            "remove the folders"
        )
    visible = [name for name in files.names() if not is_hidden(PurePosixPath(name))]
    return ClassTree(files, names, known or found, len(visible) - len(names))


def examples_among(names: Sequence[str], kind: str) -> list[str]:
    """Return the images, or the texts, among files by their extension, without hidden ones."""
    extensions = image_extensions() if kind == IMAGES else {".txt"}
    paths = map(PurePosixPath, names)
    return [
        str(path) for path in paths if path.suffix.lower() in extensions and not is_hidden(path)
    ]


def read_image_folder(folder: Folder, options: ReadingOptions) -> Splits:
    """Return training examples, and test examples if there are any."""
    size = None
    if options.image_size is not None:
        check_count("image_size", options.image_size)
        size = (options.image_size, options.image_size)
    train, test, notes = find_trees(folder)
    trees = [train, test] if test else [train]

    def decoded_as(mode: Mode | None, size: Size | None) -> list[DecodedImages]:
        return [
            decode_once(tree.files, tree.names, mode=mode, size=size, skip_bad=options.skip_bad)
            for tree in trees
        ]

    decoded = decoded_as(None, size)
    sizes = frozenset().union(*(found.sizes for found in decoded))
    if len({found.images.shape[1:] for found in decoded}) > 1:
        is_gray = all(found.images.shape[1] == 1 for found in decoded)
        common = next(iter(sizes)) if len(sizes) == 1 else DEFAULT_SIZE
        decoded = decoded_as("L" if is_gray else "RGB", size or common)
    height, width = decoded[0].images.shape[2:]
    if sizes != {(height, width)}:
        notes += (f"images of {len(sizes)} sizes were brought to {height}×{width}",)
    parts = []
    for tree, found in zip(trees, decoded, strict=True):
        if found.bad:
            notes += (f"{len(found.bad)} unreadable images were left out:\n{listed(found.bad)}",)
        labels = tree.labels[list(found.kept)]
        if tree is train:
            check_classes_left(tree.labels, labels, tree.class_names, "image")
        parts.append(Dataset(found.images, labels, tree.class_names))
    return Splits(
        folder.path.name,
        parts[0],
        parts[1] if test else None,
        source=str(folder.path),
        notes=(*notes, *cache_notes(*decoded)),
        train_names=tuple(train.names[place] for place in decoded[0].kept),
    )


def is_image_file(path: Path) -> bool:
    """True if this is a file with the extension of an image."""
    return path.suffix.lower() in image_extensions() and path.is_file()


def unlabeled_names(path: Path) -> tuple[Folder, list[str]]:
    """Return the files of a folder and the names of its images; or one image and its folder."""
    if path.is_file():
        return Folder(path.parent), [path.name]
    files = Folder(path)
    names = examples_among(files.names(), IMAGES)
    if not names:
        raise DataError(f"{path} has no images")
    return files, names
