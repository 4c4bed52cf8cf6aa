"""FiftyOne's export of a classification data set: images in ``data``, their labels as JSON."""

import json
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from noisebound.data.files import Folder, as_data_error
from noisebound.data.input_columns import IMAGE

_LABELS, _IMAGES = "labels.json", "data"


def is_export(folder: Folder) -> bool:
    """True for a folder with ``labels.json`` and a folder ``data``."""
    return _LABELS in folder.names() and folder.folders() == [_IMAGES]


def table_of_export(folder: Folder) -> pl.DataFrame:
    """Return one row per image: its name, the image, and the label, null for images without one."""
    with as_data_error(folder.where(_LABELS), remedy="export the data set again"):
        record = json.loads(folder.read(_LABELS))
        images = {
            PurePosixPath(name).stem: name
            for name in folder.names()
            if name.startswith(f"{_IMAGES}/")
        }
        known = {image: record["labels"].get(image) for image in images}
        rows = {
            "example": list(images.values()),
            "image": [{"bytes": None, "path": folder.where(name)} for name in images.values()],
            "label": [_label(given, record.get("classes")) for given in known.values()],
        }
        return pl.DataFrame(rows, schema_overrides={"image": IMAGE})


def _label(given: Any, classes: list[str] | None) -> str | None:
    """Return the label in words; some exports have its confidence beside it."""
    found = given["label"] if isinstance(given, dict) else given
    return classes[found] if classes and isinstance(found, int) else found
