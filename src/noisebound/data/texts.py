"""A user's texts: a folder of .txt files per class, or a list of strings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import polars as pl

from noisebound.data.archives import Folder, is_hidden, known_encoding
from noisebound.data.class_folders import IMAGES, TEXTS, ClassTree, examples_among, find_trees
from noisebound.data.column_types import listed_names
from noisebound.data.dataset import Splits, refuse_unwritable
from noisebound.data.labels import encode_labels, is_missing
from noisebound.data.options import ReadingOptions
from noisebound.data.table_files import is_pandas, without_surrogates
from noisebound.data.tables import frame_splits
from noisebound.errors import DataError

TEXT_COLUMN = "text"
"""The name of the column of texts that came without a table."""

_LABEL_COLUMN = "label"
_MOST_LISTED = 5  # files in a message


def as_texts(data: object) -> list[str | None] | None:
    """Return the strings of a list, an array or a series, with None for missing ones.

    Returns None if the data is something else.

    Raises:
        DataError: some values are strings and others are not
    """
    if isinstance(data, pl.Series):
        return data.to_list() if data.dtype == pl.String else None
    if isinstance(data, str) or not (isinstance(data, Sequence) or _is_column(data)):
        return None
    values = [None if is_missing(value) else value for value in data]  # type: ignore[attr-defined]
    if not any(isinstance(value, str) for value in values):
        return None
    for place, value in enumerate(values):
        if not (value is None or isinstance(value, str)):
            raise DataError(
                f"expected texts, got {value!r} at position {place}: write it as a text"
            )
    return values


def texts_frame(texts: Any) -> pl.DataFrame:
    """Return strings as the table that a model of texts takes, without lone surrogates."""
    cleaned = [text and without_surrogates(text) for text in as_texts(texts) or ()]
    return pl.DataFrame({TEXT_COLUMN: pl.Series(cleaned, dtype=pl.String)})


def text_splits(texts: Any, labels: Any, options: ReadingOptions) -> Splits:
    """Return strings in memory as examples."""
    listed = list(labels)
    if len(texts) != len(listed):
        raise DataError(f"{len(texts)} texts but {len(listed)} labels: they must be as many")
    frame = texts_frame(texts).with_columns(pl.Series(_LABEL_COLUMN, _names(listed), pl.String))
    return frame_splits(frame, _of_texts(options), name="texts", source="the texts")


def _names(labels: list[Any]) -> list[str | None]:
    """Return labels as texts, with None for missing ones."""
    indices, class_names = encode_labels([label for label in labels if not is_missing(label)])
    refuse_unwritable(class_names, "class")
    names = iter([class_names[index] for index in indices])
    return [None if is_missing(label) else next(names) for label in labels]


def _of_texts(options: ReadingOptions) -> ReadingOptions:
    return options.model_copy(
        update={"target": _LABEL_COLUMN, "text": (TEXT_COLUMN,), "encoding": None}
    )


def _is_column(data: object) -> bool:
    """True for an array or a pandas series."""
    is_array = isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "OU"
    return is_array or is_pandas(data, "Series")


def is_text_file(path: Path) -> bool:
    """True if this is a .txt file."""
    return path.suffix.lower() == ".txt" and path.is_file()


def holds_texts(folder: Folder) -> bool:
    """True if most files in the folders below a folder are .txt files.

    Files directly in the folder count only if there are no others.
    """
    visible = [name for name in folder.names() if not is_hidden(PurePosixPath(name))]
    names = [name for name in visible if "/" in name] or visible
    return 2 * len(examples_among(names, TEXTS)) > len(names)


def has_more_texts(folder: Folder) -> bool:
    """True if a folder has more texts than images, at any depth."""
    names = folder.names()
    return len(examples_among(names, TEXTS)) > len(examples_among(names, IMAGES))


def read_text_folder(folder: Folder, options: ReadingOptions) -> Splits:
    """Return the .txt files of a folder as examples, labeled by the folder of their class."""
    train, test, notes = find_trees(folder, TEXTS)
    names, frame, bad_notes = _labeled(train, options)
    test_frame = None
    if test is not None:
        _, test_frame, test_notes = _labeled(test, options)
        bad_notes += test_notes
    name, source = folder.path.name, str(folder.path)
    splits = frame_splits(frame, _of_texts(options), name=name, source=source, test=test_frame)
    kept = range(len(names)) if splits.train_names is None else map(int, splits.train_names)
    return replace(
        splits,
        notes=(*notes, *bad_notes, *splits.notes),
        train_names=tuple(names[position] for position in kept),
    )


def _labeled(tree: ClassTree, options: ReadingOptions) -> tuple[list[str], pl.DataFrame, list[str]]:
    """Return the names of the files, a table of their texts and labels, and notes."""
    names, texts, notes = _read_texts(tree.files, tree.names, options)
    labels = [name.partition("/")[0] for name in names]
    refuse_unwritable(sorted(set(labels)), "class")
    return names, texts_frame(texts).with_columns(pl.Series(_LABEL_COLUMN, labels)), notes


def read_unlabeled_texts(path: Path, options: ReadingOptions) -> tuple[list[str], pl.DataFrame]:
    """Return the path of every .txt file below a folder, or of one, and their texts as a table."""
    folder = Folder(path.parent if path.is_file() else path)
    files = [path.name] if path.is_file() else examples_among(folder.names(), TEXTS)
    if not files:
        raise DataError(f"{path} has no .txt files")
    names, texts, _ = _read_texts(folder, files, options)
    return names, texts_frame(texts)


def _read_texts(
    folder: Folder, files: Sequence[str], options: ReadingOptions
) -> tuple[list[str], list[str], list[str]]:
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
            f"{len(bad)} files are not written in {encoding}: {listed_names(bad, _MOST_LISTED)}; "
            f"name their `encoding`, such as latin-1, or leave them out: `skip_bad`"
        )
    return names, texts, [f"{len(bad)} unreadable files were left out"] if bad else []
