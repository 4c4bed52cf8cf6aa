"""Columns of a table that are inputs by themselves: images, or vectors such as embeddings."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import polars as pl
from torch import Tensor

from noisebound.data.arrays import inputs_from_array
from noisebound.data.column_types import listed_names
from noisebound.data.files import Files
from noisebound.data.image_splits import ImageSplits
from noisebound.data.splits import Splits
from noisebound.errors import DataError

IMAGE = pl.Struct({"bytes": pl.Binary, "path": pl.String})  # as Hugging Face stores images


def input_column(features: pl.DataFrame) -> str | None:
    """Return the column of images, or that of vectors if there is no other; None for features."""
    return image_column(features) or (vector_column(features) if features.width == 1 else None)


def vector_column(frame: pl.DataFrame) -> str | None:
    """Return the only column of lists of floats; None without one, or with several."""
    found = [column.name for column in frame if is_vectors(column)]
    return found[0] if len(found) == 1 else None


def with_inputs(splits: Splits, features: pl.DataFrame, name: str) -> Splits:
    """Return a table's examples with the images or vectors of one column as their inputs."""
    train, test = features[name], None
    if splits.test_frame is not None:
        test = splits.test_frame[name]
    others = [each for each in features.columns if each != name]
    note = f"columns beside the images in {name!r} were left out: {listed_names(others)}"
    changes: dict[str, Any] = {
        "notes": (*splits.notes, *([note] if others else [])),
        "test_frame": None,
        "table": None if splits.table is None else splits.table.drop(name),
    }
    if is_vectors(train):
        changes["train"] = replace(splits.train, inputs=vectors_of(train))
        if splits.test is not None and test is not None:
            changes["test"] = replace(splits.test, inputs=vectors_of(test))
        return replace(splits, **changes)
    files = ImageColumn(train if test is None else pl.concat([train, test]))
    names, count = files.names(), len(train)
    images = {"train": names[:count]} | ({} if test is None else {"test": names[count:]})
    known = {each.name: getattr(splits, each.name) for each in fields(Splits)}
    return ImageSplits(**(known | changes), files=files, images=images)


def is_vectors(column: pl.Series) -> bool:
    """True for a column of lists of floats."""
    dtype = column.dtype
    return isinstance(dtype, pl.List | pl.Array) and dtype.inner in (pl.Float32, pl.Float64)


def vectors_of(column: pl.Series) -> Tensor:
    """Return the lists of floats as rows, all of one length."""
    lengths = column.list.len() if isinstance(column.dtype, pl.List) else column.arr.len()
    if lengths.null_count() or lengths.n_unique() != 1:
        raise DataError(
            f"the lists of column {column.name!r} must have one length, got "
            f"{listed_names([str(each) for each in lengths.unique()], most=5)}: fill or drop rows, "
            "or leave the column out: `exclude`"
        )
    return inputs_from_array(column.explode().to_numpy().reshape(len(column), -1))


class ImageColumn(Files):
    """Images in a column of a table, as bytes or by their paths; each is named by its row."""

    def __init__(self, column: pl.Series) -> None:
        super().__init__(Path(column.name))
        self.column = column

    def read(self, name: str) -> bytes:
        image = self.column[int(name)] or {}
        if image.get("bytes") is not None:
            return bytes(image["bytes"])
        if image.get("path") is None:
            raise DataError("there is no image")
        try:
            return Path(image["path"]).read_bytes()
        except OSError as error:
            raise DataError(error.strerror or "it cannot be read") from error

    def names(self) -> list[str]:
        return [str(row) for row in range(len(self.column))]

    def where(self, name: str = "") -> str:
        column = f"column {self.column.name!r}"
        return f"row {name} of {column}" if name else column

    def fingerprint(self, names: Sequence[str]) -> str:
        """Return a hash of the images in the table, and of the paths and times of the others."""
        digest = hashlib.sha256()
        for name in names:
            image = self.column[int(name)] or {}
            if image.get("bytes") is not None:
                digest.update(hashlib.sha256(image["bytes"]).digest())
            elif image.get("path") is not None:
                path = Path(image["path"])
                digest.update(os.fsencode(path))
                digest.update(str(path.stat().st_mtime_ns if path.exists() else 0).encode())
            digest.update(b"|")
        return digest.hexdigest()


def image_column(frame: pl.DataFrame) -> str | None:
    """Return the name of the column of images, or None without one."""
    found = [name for name, dtype in frame.schema.items() if dtype == IMAGE]
    if len(found) > 1:
        raise DataError(
            f"the columns {', '.join(found)} all hold images: leave out all but one, in training "
            "by `exclude`"
        )
    return found[0] if found else None
