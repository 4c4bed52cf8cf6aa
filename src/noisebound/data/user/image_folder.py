"""A user's images: one folder per class, directly or below ``train`` and ``test``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.dataset import Dataset, Splits, check_classes_left
from noisebound.data.decoded import cache_notes, decode_once, probe_once
from noisebound.data.formats.archives import Folder, is_hidden, visible_folders
from noisebound.data.formats.images import Mode, image_extensions, listed
from noisebound.data.rows import TensorRows
from noisebound.errors import DataError

_TRAIN_NAMES = ("train", "training")
_TEST_NAMES = ("test", "testing", "val", "valid", "validation")  # in the order of preference
_DEFAULT_SIZE = 64  # of images of different sizes: a choice, TinyImageNet's


def read_image_folder(path: Path, image_size: int | None = None, skip_bad: bool = False) -> Splits:
    """Return training examples, and test examples if there are any, in any format of Pillow's.

    Args:
        path: a folder with one folder per class, or with folders ``train`` and ``test`` that have
            one folder per class each
        image_size: height and width in pixels; None for the size of the images if all have the
            same, else 64. An image of another size is scaled and cropped at its center
        skip_bad: leave out images that cannot be read
    """
    if image_size is not None:
        check_count("image_size", image_size)
    train, test, aside = find_trees(path)
    trees = [train, test] if test else [train]
    probes = [probe_once(tree.files, tree.names) for tree in trees]
    mode: Mode = "L" if all(mode == "L" for mode, _ in probes) else "RGB"
    sizes = set().union(*(sizes for _, sizes in probes))
    size = (image_size, image_size) if image_size else _common_size(sizes)
    notes = list(aside)
    if any(other != size for other in sizes):
        notes.append(f"images of {len(sizes)} sizes were brought to {size[0]}×{size[1]}")
    parts, names, everything = [], [], []
    for tree in trees:
        decoded = decode_once(tree.files, tree.names, mode=mode, size=size, skip_bad=skip_bad)
        everything.append(decoded)
        if decoded.bad:
            count = len(decoded.bad)
            notes.append(f"{count} unreadable images were left out:\n{listed(decoded.bad)}")
        labels = tree.labels[list(decoded.kept)]
        if tree is train:
            check_classes_left(tree.labels, labels, tree.class_names, "image")
        parts.append(Dataset(decoded.images, labels, tree.class_names))
        names.append(tuple(tree.names[position] for position in decoded.kept))
    return Splits(
        path.name,
        parts[0],
        parts[1] if test else None,
        source=str(path),
        notes=(*notes, *cache_notes(*everything)),
        train_names=names[0],
    )


def read_unlabeled(
    path: Path, shape: tuple[int, ...], skip_bad: bool = False
) -> tuple[list[str], Tensor | TensorRows]:
    """Return the path of every image below a folder, and the images in the shape of a model.

    Args:
        path: the folder, which the paths are relative to, or one image
        shape: ``(channels, height, width)`` of the model's inputs
        skip_bad: leave out images that cannot be read
    """
    files, names = unlabeled_names(path)
    mode: Mode = "L" if shape[0] == 1 else "RGB"
    size = (shape[1], shape[2])
    decoded = decode_once(files, names, mode=mode, size=size, skip_bad=skip_bad)
    return [names[position] for position in decoded.kept], decoded.images


def unlabeled_names(path: Path) -> tuple[Folder, list[str]]:
    """Return a folder's files, and the names of those that are images; or one image of its folder.

    One file is taken for an image whatever its name is.
    """
    if path.is_file():
        return Folder(path.parent), [path.name]
    files = Folder(path)
    names = [name.as_posix() for name in _images(files.names())]
    if not names:
        raise DataError(f"{path} has no images")
    return files, names


def is_image_file(path: Path) -> bool:
    """True if this is a file, and its name ends as that of an image."""
    return path.suffix.lower() in image_extensions() and path.is_file()


def _images(names: Sequence[str]) -> list[PurePosixPath]:
    """Return the files that are named as images, without hidden ones, which macOS leaves behind."""
    extensions = image_extensions()
    return [
        path
        for path in map(PurePosixPath, names)
        if path.suffix.lower() in extensions and not is_hidden(path)
    ]


def _common_size(sizes: set[tuple[int, int]]) -> tuple[int, int]:
    return next(iter(sizes)) if len(sizes) == 1 else (_DEFAULT_SIZE, _DEFAULT_SIZE)


@dataclass(frozen=True, eq=False)
class ImageTree:
    """Images in one folder per class.

    Args:
        files: the tree
        names: path of each image in the tree
        labels: class index of each image
        class_names: the class names
        ignored: number of files that are not among the images
    """

    files: Folder
    names: tuple[str, ...]
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    ignored: int


def find_trees(path: Path) -> tuple[ImageTree, ImageTree | None, tuple[str, ...]]:
    """Return the tree of training images, that of test images if there is one, and notes."""
    folders = {folder.name.lower(): folder for folder in visible_folders(path)}
    train = next((folders[name] for name in _TRAIN_NAMES if name in folders), None)
    if train is None or not visible_folders(train):
        tree = read_tree(path)
        return tree, None, _ignored_notes(tree)
    test = next((folders[name] for name in _TEST_NAMES if name in folders), None)
    tree = read_tree(train)
    test_tree = read_tree(test, tree.class_names) if test else None
    unused = [folder.name for folder in folders.values() if folder not in (train, test)]
    notes = (f"folders beside {train.name} were not used: {', '.join(unused)}",) if unused else ()
    return tree, test_tree, (*notes, *_ignored_notes(tree, test_tree))


def _ignored_notes(*trees: "ImageTree | None") -> tuple[str, ...]:
    return tuple(
        f"{tree.ignored} files in {tree.files.path} were ignored: they are not images, or not in "
        "the folder of a class"
        for tree in trees
        if tree is not None and tree.ignored
    )


def read_tree(path: Path, class_names: tuple[str, ...] | None = None) -> ImageTree:
    """Return the images below each class's folder; other files are counted, not read.

    Args:
        path: the folder that has one folder per class
        class_names: the classes that there may be; None for the names of the folders
    """
    found = tuple(folder.name for folder in visible_folders(path))
    if len(found) < 2 and class_names is None:
        raise DataError(
            f"{path} must have one folder for each class, at least two, with the images of the "
            f"class in it; it has {len(found)} folders"
        )
    classes = class_names or found
    unknown = set(found) - set(classes)
    if unknown:
        raise DataError(f"{path} has classes that the training images lack: {sorted(unknown)}")
    files = Folder(path)
    everything = files.names()
    images = [name for name in _images(everything) if len(name.parts) > 1]
    index_of = {name: index for index, name in enumerate(classes)}
    labels = [index_of[name.parts[0]] for name in images]
    empty = [name for name in found if index_of[name] not in set(labels)]
    if empty:
        raise DataError(f"{path} has no images in the folders of the classes {', '.join(empty)}")
    names = tuple(name.as_posix() for name in images)
    return ImageTree(files, names, torch.tensor(labels), classes, len(everything) - len(images))
