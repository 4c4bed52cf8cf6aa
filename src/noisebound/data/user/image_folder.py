"""A user's images: one folder a class, or such trees below ``train/`` and ``test/``."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.dataset import Dataset, Splits
from noisebound.data.decoded import decode_once
from noisebound.data.formats.archives import Folder
from noisebound.data.formats.images import Mode, image_extensions, listed, probe_images
from noisebound.errors import DataError

_TRAIN_NAMES = ("train", "training")
_TEST_NAMES = ("test", "testing", "val", "valid", "validation")  # the first that is there


_DEFAULT_SIZE = 64  # for images of different sizes


def read_image_folder(path: Path, image_size: int | None = None, skip_bad: bool = False) -> Splits:
    """Images of every format that Pillow reads, as one tensor.

    Args:
        path: has one folder for each class, or ``train`` and ``test`` that have
        image_size: height and width; by default the images' own where all have the same, else 64.
            Others are scaled, and cut about the center
        skip_bad: leave out images that cannot be read
    """
    if image_size is not None:
        check_count("image_size", image_size)
    train, test, aside = find_trees(path)
    trees = [train, test] if test else [train]
    probes = [probe_images(tree.files, tree.names) for tree in trees]
    mode: Mode = "L" if all(mode == "L" for mode, _ in probes) else "RGB"
    sizes = set().union(*(sizes for _, sizes in probes))
    size = (image_size, image_size) if image_size else _common_size(sizes)
    notes = list(aside)
    if any(other != size for other in sizes):
        notes.append(f"images of {len(sizes)} sizes were brought to {size[0]}×{size[1]}")
    parts, names = [], []
    for tree in trees:
        decoded = decode_once(tree.files, tree.names, mode=mode, size=size, skip_bad=skip_bad)
        if tree.ignored:
            notes.append(
                f"{tree.ignored} files in {tree.files.path} were ignored: not images, or not in a "
                "class's folder"
            )
        if decoded.bad:
            count = len(decoded.bad)
            notes.append(f"{count} unreadable images were left out:\n{listed(decoded.bad)}")
        labels = tree.labels[list(decoded.kept)]
        parts.append(Dataset(decoded.images, labels, tree.class_names))
        names.append(tuple(tree.names[position] for position in decoded.kept))
    return Splits(
        path.name,
        parts[0],
        parts[1] if test else None,
        source=str(path),
        notes=tuple(notes),
        train_names=names[0],
    )


def read_unlabeled(
    path: Path, shape: tuple[int, ...], skip_bad: bool = False
) -> tuple[list[str], Tensor]:
    """Every image below a folder, by its path there, in the shape that a model takes."""
    files, extensions = Folder(path), image_extensions()
    names = [name for name in files.names() if PurePosixPath(name).suffix.lower() in extensions]
    if not names:
        raise DataError(f"{path} has no images")
    mode: Mode = "L" if shape[0] == 1 else "RGB"
    size = (shape[1], shape[2])
    decoded = decode_once(files, names, mode=mode, size=size, skip_bad=skip_bad)
    return [names[position] for position in decoded.kept], decoded.images


def _common_size(sizes: set[tuple[int, int]]) -> tuple[int, int]:
    return next(iter(sizes)) if len(sizes) == 1 else (_DEFAULT_SIZE, _DEFAULT_SIZE)


@dataclass(frozen=True, eq=False)
class ImageTree:
    """The images of one tree by path, the index of their class, and how many other files."""

    files: Folder
    names: tuple[str, ...]
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    ignored: int


def find_trees(path: Path) -> tuple[ImageTree, ImageTree | None, tuple[str, ...]]:
    """The training tree, the test tree where the folder is so divided, and what is left aside."""
    folders = {folder.name.lower(): folder for folder in _subfolders(path)}
    train = next((folders[name] for name in _TRAIN_NAMES if name in folders), None)
    if train is None or not _subfolders(train):
        return read_tree(path), None, ()
    test = next((folders[name] for name in _TEST_NAMES if name in folders), None)
    tree = read_tree(train)
    held_out = read_tree(test, tree.class_names) if test else None
    unused = [folder.name for folder in folders.values() if folder not in (train, test)]
    notes = (f"folders beside {train.name} were not used: {', '.join(unused)}",) if unused else ()
    return tree, held_out, notes


def read_tree(path: Path, class_names: tuple[str, ...] | None = None) -> ImageTree:
    """Every image below each class's folder; other files are counted, not read."""
    found = tuple(folder.name for folder in _subfolders(path))
    if len(found) < 2 and class_names is None:
        raise DataError(
            f"{path} must have one folder for each class, at least two, with that class's images "
            f"in it; it has {len(found)} folders"
        )
    classes = class_names or found
    unknown = set(found) - set(classes)
    if unknown:
        raise DataError(f"{path} has classes that the training images lack: {sorted(unknown)}")
    files, extensions = Folder(path), image_extensions()
    everything = [PurePosixPath(name) for name in files.names()]
    images = [
        name
        for name in everything
        if len(name.parts) > 1
        and name.suffix.lower() in extensions
        and not any(part.startswith(".") for part in name.parts)
    ]
    index_of = {name: index for index, name in enumerate(classes)}
    labels = [index_of[name.parts[0]] for name in images]
    empty = [name for name in found if index_of[name] not in set(labels)]
    if empty:
        raise DataError(f"{path}: no images in the folders of the classes {', '.join(empty)}")
    names = tuple(name.as_posix() for name in images)
    return ImageTree(files, names, torch.tensor(labels), classes, len(everything) - len(images))


def _subfolders(path: Path) -> list[Path]:
    return sorted(
        folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(".")
    )
