"""Training examples for display: pictures, texts, the columns of a row, and neighbors."""

import io
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import polars as pl
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from noisebound.data import Splits
from noisebound.data.archives import Folder, files_fingerprint
from noisebound.data.cache import cache_folder
from noisebound.data.class_folders import find_trees
from noisebound.data.images import open_image
from noisebound.data.load import image_folder
from noisebound.data.rows import Rows, TensorRows
from noisebound.errors import DataError
from noisebound.report.images import as_picture, png
from noisebound.runs.judgment import shortened
from noisebound.system.files import written_whole

Kind: TypeAlias = Literal["image", "text", "row"]
Size: TypeAlias = Literal["thumbnail", "large"]
SIZES: dict[Size, int] = {"thumbnail": 256, "large": 1600}
"""The largest width and height of pictures, in pixels."""

_QUALITY = 85  # of JPEG: no visible loss
_MOST_FEATURES = 40  # shown for an example without columns
_SHORT = 160  # characters per example in a list
_LONG = 50_000  # characters per text, about twenty pages


class ShownExamples:
    """The training examples of a data set, as text for a page."""

    def __init__(self, splits: Splits) -> None:
        self.splits = splits

    @cached_property
    def kind(self) -> Kind:
        """The kind of content that every example has."""
        if self.splits.has_pictures:
            return "image"
        return "row" if self._texts is None else "text"

    def name(self, position: int) -> str:
        """Return the example's id, file or position."""
        return self.splits.example_name(position)

    def text(self, position: int) -> str | None:
        """Return the example's text, if it has one."""
        return None if self._texts is None else self._texts[position][:_LONG]

    def columns(self, position: int) -> list[tuple[str, str]]:
        """Return the name and value of every column except the text, features or not."""
        if self.kind == "image":
            return []
        if self._table is None:
            return self._features(position)
        row = self._table.row(position, named=True)
        return [
            (name, "" if value is None else str(value)[:_LONG])
            for name, value in row.items()
            if name not in self._text_columns
        ]

    def short(self, position: int) -> str:
        """Return the example on one line, for lists."""
        text = self.text(position)
        if text is None:
            text = " · ".join(f"{name} {value}" for name, value in self.columns(position))
        return shortened(text, _SHORT)

    @cached_property
    def _texts(self) -> list[str] | None:
        return self.splits.texts()

    @cached_property
    def _table(self) -> pl.DataFrame | None:
        table = self.splits.frame if self.splits.table is None else self.splits.table
        return None if table is None else table.collect()

    @cached_property
    def _text_columns(self) -> tuple[str, ...]:
        if self.splits.embedded_by is not None:
            return self.splits.embedded_by.text_columns
        return () if self.splits.encoder is None else self.splits.encoder.text_columns

    def _features(self, position: int) -> list[tuple[str, str]]:
        """Return the first features of an example without columns."""
        numbers = self.splits.train.rows.dense(torch.tensor([position]))[0].flatten()
        shown = numbers[:_MOST_FEATURES].tolist()
        return [(f"feature {index}", f"{value:.4g}") for index, value in enumerate(shown)]


class Pictures:
    """The pictures of a data set's training examples, as files for a browser.

    If the examples are files, these are shown instead of the small images for the network. Links
    to files outside the data's folder are not followed. Each size of a file is made once and
    cached.

    Args:
        splits: a data set with pictures
    """

    def __init__(self, splits: Splits) -> None:
        self.splits = splits
        self._files: Folder | None = None
        self._names: Sequence[str] = ()
        if splits.train_names is not None and image_folder(splits.source) is not None:
            self._files, self._names = find_trees(Path(splits.source))[0].files, splits.train_names

    def read(self, position: int, size: Size) -> tuple[bytes, str]:
        """Return the content of a picture file and its media type."""
        path = self._path(position)
        if path is None:
            image = self.splits.picture(position)
            if image is None:
                raise DataError("these examples are not images")
            return png(as_picture(image)), "image/png"
        mark = files_fingerprint([path])[:32]
        kept = cache_folder() / "thumbnails" / mark[:2] / f"{mark}-{size}.jpg"
        try:
            return kept.read_bytes(), "image/jpeg"
        except OSError:  # not cached yet
            content = _scaled(path.read_bytes(), SIZES[size])
            with suppress(OSError), written_whole(kept, len(content)) as part:
                part.write_bytes(content)  # the picture is shown even if the disk is full
            return content, "image/jpeg"

    def _path(self, position: int) -> Path | None:
        """Return the example's file, if it is inside the data's folder."""
        if self._files is None:
            return None
        folder = self._files.path.resolve()
        path = (folder / self._names[position]).resolve()
        return path if path.is_relative_to(folder) and path.is_file() else None


def _scaled(content: bytes, longest_side: int) -> bytes:
    """Return an image as a JPEG file, upright and at most this large."""
    image = open_image(content, "RGB", at_least=longest_side)
    image.thumbnail((longest_side, longest_side))
    stream = io.BytesIO()
    image.save(stream, format="JPEG", quality=_QUALITY)
    return stream.getvalue()


class Neighbors:
    """The nearest neighbors of examples, by cosine similarity.

    The vectors are the embeddings of a pretrained backbone, or else the model's probabilities,
    because distances between pixels or columns mean little. A request reads all examples once.

    Args:
        vectors: one row per example
    """

    def __init__(self, vectors: Rows) -> None:
        self.vectors = vectors

    @classmethod
    def of(cls, splits: Splits, probs: Float[Tensor, "n classes"]) -> "Neighbors":
        """Return the neighbors of training examples with these predicted probabilities."""
        rows = splits.train.rows
        is_embedded = splits.embedded_by is not None and isinstance(rows, TensorRows)
        # Square roots of probabilities are unit vectors.
        return cls(rows if is_embedded else TensorRows(probs.float().sqrt()))

    def nearest(self, position: int, count: int) -> Int64[Tensor, " m"]:
        """Return the positions of the `count` nearest other examples, the nearest first."""
        center = self.vectors.dense(torch.tensor([position]))[0].float()
        blocks = self.vectors.blocks()
        similarity = torch.cat([F.cosine_similarity(each.float(), center) for each in blocks])
        similarity[position] = -torch.inf
        nearest: Tensor = similarity.topk(min(count, len(similarity) - 1)).indices
        return nearest
