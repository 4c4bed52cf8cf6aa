"""A user's texts: a folder of .txt files per class, or a list of strings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from noisebound.data.dataset import Splits, refuse_unwritable
from noisebound.data.formats.archives import is_hidden, visible_folders
from noisebound.data.formats.text_files import known_encoding
from noisebound.data.labels import encode_labels
from noisebound.data.letters import whole_letters
from noisebound.data.options import ReadingOptions
from noisebound.data.user.tables import frame_splits
from noisebound.errors import DataError

TEXT_COLUMN = "text"
"""The name of the column that texts without a table have."""

_LABEL_COLUMN = "label"
_MOST_LISTED = 5  # of files that cannot be read
_TRAIN_NAMES = ("train", "training")
_TEST_NAMES = ("test", "testing", "val", "valid", "validation")  # in the order of preference


def as_texts(data: object) -> list[str | None] | None:
    """Return the strings of a list, an array or a series, None where one is missing.

    None in place of the list if the data is something else.

    Raises:
        DataError: there are strings, and something else among them
    """
    if isinstance(data, pl.Series):
        return data.to_list() if data.dtype == pl.String else None
    if isinstance(data, str) or not (isinstance(data, Sequence) or _is_column(data)):
        return None
    values = [None if _is_missing(value) else value for value in data]  # type: ignore[attr-defined]
    if not any(isinstance(value, str) for value in values):
        return None
    for place, value in enumerate(values):
        if not (value is None or isinstance(value, str)):
            raise DataError(
                f"expected texts, got {value!r} at position {place}: write it as a text"
            )
    return values


def text_splits(texts: Any, labels: Any, options: ReadingOptions) -> Splits:
    """Return strings in memory as examples."""
    listed = list(labels)
    if len(texts) != len(listed):
        raise DataError(f"{len(texts)} texts but {len(listed)} labels: they must be as many")
    frame = texts_frame(texts).with_columns(pl.Series(_LABEL_COLUMN, _names(listed), pl.String))
    return frame_splits(frame, _of_texts(options), name="texts", source="the texts")


def _names(labels: list[Any]) -> list[str | None]:
    """Return labels as texts, None where one is missing."""
    indices, class_names = encode_labels([label for label in labels if not _is_missing(label)])
    refuse_unwritable(class_names, "class")
    names = iter([class_names[index] for index in indices])
    return [None if _is_missing(label) else next(names) for label in labels]


def texts_frame(texts: Any) -> pl.DataFrame:
    """Return strings as the table that a model of texts takes."""
    return pl.DataFrame({TEXT_COLUMN: pl.Series(whole_texts(as_texts(texts)), dtype=pl.String)})


def whole_texts(texts: list[str | None] | None) -> list[str | None]:
    """Return texts without halves of letters, which no table holds."""
    return [None if text is None else whole_letters(text) for text in texts or ()]


def holds_texts(path: Path) -> bool:
    """True if most files in the folders below a folder are .txt files, or most of its own files.

    Its own count only if there are no others: then the labels lack, and the error speaks of texts.
    """
    files = _visible_files(path, "*/**/*") or _visible_files(path, "*")
    return 2 * sum(map(_is_text, files)) > len(files)


def read_text_folder(path: Path, options: ReadingOptions) -> Splits:
    """Return the files of a folder as examples, labeled by the folder of their class.

    Args:
        path: a folder with one folder of .txt files per class, or with folders ``train`` and
            ``test`` that have one folder per class each
        options: the encoding of the files, and whether to leave out those that cannot be read
    """
    train, test, notes = _find_parts(path)
    _check_classes(train, fewest=2)
    files, frame, train_notes = _read_files(train, options)
    notes += train_notes
    test_frame = None
    if test is not None:
        _check_classes(test)
        _, test_frame, test_notes = _read_files(test, options)
        notes += test_notes
    splits = frame_splits(
        frame,
        _of_texts(options),
        name=path.name,
        source=str(path),
        test=test_frame,
    )
    kept = range(len(files)) if splits.train_names is None else map(int, splits.train_names)
    names = tuple(files[position] for position in kept)
    return replace(splits, notes=(*notes, *splits.notes), train_names=names)


def _find_parts(path: Path) -> tuple[Path, Path | None, list[str]]:
    """Return the folder of the training classes, that of the test classes if any, and notes."""
    folders = {folder.name.lower(): folder for folder in visible_folders(path)}
    train = next((folders[name] for name in _TRAIN_NAMES if name in folders), None)
    if train is None or not visible_folders(train):
        return path, None, []
    test = next((folders[name] for name in _TEST_NAMES if name in folders), None)
    unused = [folder.name for folder in folders.values() if folder not in (train, test)]
    note = f"folders beside {train.name} were not used: {', '.join(unused)}"
    return train, test, [note] if unused else []


def _check_classes(path: Path, fewest: int = 1) -> None:
    """Refuse a folder with fewer than so many classes, or with a class that has no texts."""
    folders = visible_folders(path)
    if len(folders) < fewest:
        raise DataError(
            f"{path} must have one folder for each class, at least two, with the .txt files of the "
            f"class in it; it has {len(folders)} folders"
        )
    empty = [folder.name for folder in folders if not _text_files(folder, "**/*")]
    if empty:
        raise DataError(
            f"{path} has no .txt files in the folders of the classes {', '.join(empty)}: add some, "
            "or remove the folders"
        )


def read_unlabeled_texts(path: Path, options: ReadingOptions) -> tuple[list[str], pl.DataFrame]:
    """Return the path of every .txt file below a folder, and their texts as a table."""
    files = _text_files(path, "**/*")
    if not files:
        raise DataError(f"{path} has no .txt files")
    names, texts, _ = _read_texts(path, files, options)
    return names, texts_frame(texts)


def _of_texts(options: ReadingOptions) -> ReadingOptions:
    return options.model_copy(
        update={"target": _LABEL_COLUMN, "text": (TEXT_COLUMN,), "encoding": None}
    )


def _read_files(path: Path, options: ReadingOptions) -> tuple[list[str], pl.DataFrame, list[str]]:
    """Return the names of the files, a table of their texts and labels, and notes."""
    files = _text_files(path, "*/**/*")
    names, texts, notes = _read_texts(path, files, options)
    ignored = len(_visible_files(path, "**/*")) - len(files)
    if ignored:
        notes.append(
            f"{ignored} files in {path} were ignored: they are not .txt files, or not in the "
            "folder of a class"
        )
    labels = [Path(name).parts[0] for name in names]
    refuse_unwritable(sorted(set(labels)), "class")
    return names, texts_frame(texts).with_columns(pl.Series(_LABEL_COLUMN, labels)), notes


def _text_files(path: Path, pattern: str) -> list[Path]:
    """Return the .txt files of a pattern, whether their ending is in capitals or not."""
    return [file for file in _visible_files(path, pattern) if _is_text(file)]


def _visible_files(path: Path, pattern: str) -> list[Path]:
    return sorted(
        file
        for file in path.glob(pattern)
        if not is_hidden(file.relative_to(path)) and file.is_file()
    )


def _is_text(file: Path) -> bool:
    return file.suffix.lower() == ".txt"


def _read_texts(
    path: Path, files: list[Path], options: ReadingOptions
) -> tuple[list[str], list[str], list[str]]:
    encoding = known_encoding(options.encoding or "utf-8")
    names, texts, bad = [], [], []
    for file in files:
        try:
            text = file.read_text(encoding=encoding).removeprefix("\ufeff")
        except UnicodeDecodeError:
            bad.append(str(file))
            continue
        names.append(file.relative_to(path).as_posix())
        texts.append(text)
    if bad and not options.skip_bad:
        more = f" and {len(bad) - _MOST_LISTED} more" if len(bad) > _MOST_LISTED else ""
        raise DataError(
            f"{len(bad)} files are not written in {encoding}: {', '.join(bad[:_MOST_LISTED])}"
            f"{more}; name their `encoding`, such as latin-1, or leave them out: `skip_bad`"
        )
    return names, texts, [f"{len(bad)} unreadable files were left out"] if bad else []


def _is_missing(value: object) -> bool:
    """True for None, NaN and what pandas has for them, known by its name so as not to import it."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _is_column(data: object) -> bool:
    """True for an array or a pandas series."""
    if isinstance(data, np.ndarray):
        return data.ndim == 1 and data.dtype.kind in "OU"
    kind = type(data)
    return kind.__name__ == "Series" and kind.__module__.partition(".")[0] == "pandas"
