"""A user's folder of images or .txt files: one folder per class, or ``train`` and ``test`` of them.

Examples to predict need no folders of classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import polars as pl
import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.data.column_types import check_named, is_string, listed_names
from noisebound.data.dataset import Dataset, refuse_unwritable
from noisebound.data.files import Folder, is_hidden, known_encoding
from noisebound.data.image_splits import ImageSplits
from noisebound.data.images import image_extensions
from noisebound.data.input_columns import IMAGE
from noisebound.data.options import ReadingOptions
from noisebound.data.splits import Splits
from noisebound.data.table_files import is_table, read_table_file
from noisebound.data.tables import LABEL_COLUMN, frame_splits, texts_as_splits
from noisebound.errors import DataError

_TRAIN_NAMES = ("train", "training")
_TEST_NAMES = ("test", "testing", "val", "valid", "validation")  # in the order of preference
IMAGES, TEXTS = "images", ".txt files"
"""The kinds of files in a tree, as messages call them."""


@dataclass(frozen=True, eq=False)
class ClassTree:
    """Images or texts in one folder per class, with their paths and the sorted class names."""

    files: Folder
    names: tuple[str, ...]
    class_names: tuple[str, ...]
    ignored: int  # the number of files that are not examples

    @property
    def labels(self) -> Int64[Tensor, " n"]:
        index_of = {name: index for index, name in enumerate(self.class_names)}
        return torch.tensor([index_of[name.partition("/")[0]] for name in self.names])


def find_trees(
    path: Path | Folder, kind: str = IMAGES
) -> tuple[ClassTree, ClassTree | None, tuple[str, ...]]:
    """Return the tree of training examples, that of test examples if there is one, and notes.

    The folder has one folder per class, or folders ``train`` and ``test`` with one per class each.
    The kind of the examples is `IMAGES` or `TEXTS`.
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
    found, path = tuple(files.folders()), files.path
    if len(found) < 2 and not known:
        raise DataError(
            f"{path} must have one folder for each class, at least two, with the {kind} of the "
            f"class in it; it has {len(found)} folders"
        )
    unknown = set(found) - set(known)
    if unknown and known and kind == IMAGES:  # classes of texts may be merged or renamed
        raise DataError(f"{path} has classes that the training {kind} lack: {sorted(unknown)}")
    names = tuple(name for name in _examples(files, kind) if "/" in name)
    filled = {name.partition("/")[0] for name in names}
    empty = [name for name in found if name not in filled]
    if empty:
        raise DataError(
            f"{path} has no {kind} in the folders of the classes {', '.join(empty)}: add some, or "
            "remove the folders"
        )
    visible = sum(not is_hidden(name) for name in files.names())
    return ClassTree(files, names, known or found, visible - len(names))


def _examples(files: Folder, kind: str) -> list[str]:
    """Return the visible images, or texts, below a folder, by their extension."""
    extensions = image_extensions() if kind == IMAGES else {".txt"}
    return [
        name
        for name in files.names()
        if PurePosixPath(name).suffix.lower() in extensions and not is_hidden(name)
    ]


def unlabeled_files(path: Path) -> tuple[Folder, list[str], str] | None:
    """Return one image or text, or those of a folder, the more frequent kind; None for others."""
    if path.is_file():
        suffix = path.suffix.lower()
        kind = TEXTS if suffix == ".txt" else IMAGES if suffix in image_extensions() else None
        return None if kind is None else (Folder(path.parent), [path.name], kind)
    files = Folder(path)
    images, texts = _examples(files, IMAGES), _examples(files, TEXTS)
    if not images and not texts:
        raise DataError(f"{path} has no {IMAGES}")
    return (files, texts, TEXTS) if len(texts) > len(images) else (files, images, IMAGES)


def holds_texts(folder: Folder) -> bool:
    """True if most files in the folders below a folder are .txt files.

    Files directly in the folder count only if there are no others.
    """
    visible = [name for name in folder.names() if not is_hidden(name)]
    names = [name for name in visible if "/" in name] or visible
    return 2 * sum(name.lower().endswith(".txt") for name in names) > len(names)


def image_splits(folder: Folder) -> ImageSplits:
    """Return the images of a folder, which are not decoded yet."""
    train, test, notes = find_trees(folder)

    def names(tree: ClassTree) -> list[str]:
        return [str(tree.files.path.relative_to(folder.path) / name) for name in tree.names]

    def data(tree: ClassTree) -> Dataset:
        return Dataset(torch.empty(len(tree.names), 0), tree.labels, train.class_names)

    return ImageSplits(
        folder.path.name,
        data(train),
        None if test is None else data(test),
        source=str(folder.path),
        notes=notes,
        train_names=train.names,
        folder=train.files.path,
        files=folder,
        images={"train": names(train)} | ({} if test is None else {"test": names(test)}),
    )


def images_of_table(folder: Folder, options: ReadingOptions) -> Splits:
    """Return the images of a folder whose labels are in a table beside them."""
    tables = [path for path in folder.path.iterdir() if path.is_file() and is_table(path)]
    of_test = None if options.test is None else options.test.resolve()
    tables = sorted(path for path in tables if path.resolve() != of_test)
    if not tables:
        raise DataError(
            f"`{'targets' if options.targets else 'target'}` does not apply to a folder of images "
            f"without a table: put one with their names and labels, such as labels.csv, into "
            f"{folder.path}"
        )
    if len(tables) > 1:
        names = ", ".join(path.name for path in tables)
        raise DataError(f"{folder.path} must have one table of labels, and it has {names}")
    name, frame = _with_images(folder, tables[0], options)
    test = None if options.test is None else _with_images(folder, options.test, options)[1]
    unused = len(_examples(folder, IMAGES)) - len(frame) - (0 if test is None else len(test))
    notes = (f"{unused} images are in no table and were left out",) if unused else ()
    options = options.model_copy(update={"id": name, "test": None})
    of_table = {"name": folder.path.name, "source": str(tables[0])}
    splits = frame_splits(frame, options, **of_table, test=test)
    files = tuple(splits.ids or ())
    notes = (*notes, *splits.notes)
    return replace(splits, notes=notes, train_names=files, folder=folder.path)


def _with_images(folder: Folder, path: Path, options: ReadingOptions) -> tuple[str, pl.DataFrame]:
    """Return a table with its images, and the column that names them."""
    frame, images = read_table_file(path, options.encoding), set(_examples(folder, IMAGES))
    targets = options.target or options.targets
    check_named(frame.columns, targets, str(path))
    texts = [each for each in frame if is_string(each.dtype) and each.name not in targets]
    named = [each.name for each in texts if images.intersection(each.to_list())]
    column = options.id or next(iter(named), None)
    if column is None or column not in frame.columns:
        raise DataError(f"{path} must have a column of names of images in {folder.path}: `id`")
    names = frame[column].cast(pl.String).fill_null("").to_list()
    absent = [name for name in names if name not in images]
    if absent or len(set(names)) < len(names):
        wrong = f"are not there: {listed_names(absent, 5)}" if absent else "are named twice"
        raise DataError(f"images in column {column!r} of {path} {wrong}")
    paths = [{"bytes": None, "path": str(folder.path / name)} for name in names]
    kept = {column, *targets, *([options.groups] if options.groups else [])}
    return column, frame.select(each for each in frame if each.name in kept).with_columns(
        pl.Series("image", paths, dtype=IMAGE)
    )


def read_text_folder(folder: Folder, options: ReadingOptions) -> Splits:
    """Return the .txt files of a folder as examples, labeled by the folder of their class."""
    train, test, notes = find_trees(folder, TEXTS)
    names, texts, bad_notes = read_texts(train.files, train.names, options)
    test_part = None
    if test is not None:
        test_names, test_texts, test_notes = read_texts(test.files, test.names, options)
        test_part = (test_texts, {LABEL_COLUMN: _classes(test_names)})
        bad_notes += test_notes
    splits = texts_as_splits(
        texts,
        {LABEL_COLUMN: _classes(names)},
        options,
        name=folder.path.name,
        source=str(folder.path),
        test=test_part,
    )
    kept = range(len(names)) if splits.train_names is None else map(int, splits.train_names)
    return replace(
        splits,
        notes=(*notes, *bad_notes, *splits.notes),
        train_names=tuple(names[position] for position in kept),
    )


def _classes(names: Sequence[str]) -> list[str]:
    labels = [name.partition("/")[0] for name in names]
    refuse_unwritable(sorted(set(labels)), "class")
    return labels


def read_texts(
    folder: Folder, files: Sequence[str], options: ReadingOptions
) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the readable files, their texts, and notes."""
    encoding = known_encoding(options.encoding or "utf-8")
    names, texts, bad = [], [], []
    for name in files:
        try:
            text = folder.read(name).decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError:
            bad.append(folder.where(name))
            continue
        names.append(name)
        texts.append(text.replace("\r\n", "\n").replace("\r", "\n"))
    if bad and not options.skip_bad:
        raise DataError(
            f"{len(bad)} files are not written in {encoding}: {listed_names(bad, most=5)}; name "
            "their `encoding`, such as latin-1, or leave them out: `skip_bad`"
        )
    return names, texts, [f"{len(bad)} unreadable files were left out"] if bad else []
