"""Training examples for display: pictures, texts, the columns of a row, and neighbors."""

import io
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, TypeAlias

import polars as pl
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from noisebound.data import Splits
from noisebound.data.images import open_image
from noisebound.data.rows import Rows, TensorRows
from noisebound.errors import DataError
from noisebound.pages.page import Thumbnail, as_picture, png, thumbnail
from noisebound.runs.judgment import shortened

Kind: TypeAlias = Literal["image", "text", "row"]
Size: TypeAlias = Literal["thumbnail", "large"]
SIZES: dict[str, int] = {"thumbnail": 256, "large": 1600}
"""The largest width and height of pictures, in pixels."""

_QUALITY = 85  # of JPEG: no visible loss
_MOST_FEATURES = 40  # shown for an example without columns
_SHORT = 160  # characters per example in a list
_LONG = 50_000  # characters per text, about twenty pages


class ShownExamples:
    """The training examples of a data set, as texts and pictures for a page."""

    def __init__(self, splits: Splits) -> None:
        self.splits = splits

    @cached_property
    def kind(self) -> Kind:
        if self.splits.has_pictures:
            return "image"
        return "row" if self._texts is None else "text"

    def text(self, position: int) -> str | None:
        return None if self._texts is None else self._texts[position][:_LONG]

    def columns(self, position: int) -> list[tuple[str, str]]:
        """Return the name and value of every column except the text, features or not."""
        if self.kind == "image":
            return []
        if self._table is None:
            numbers = self.splits.train.rows.dense(torch.tensor([position]))[0].flatten()
            shown = enumerate(numbers[:_MOST_FEATURES].tolist())
            return [(f"feature {index}", f"{value:.4g}") for index, value in shown]
        row = self._table.row(position, named=True)
        return [
            (name, "" if value is None else str(value)[:_LONG])
            for name, value in row.items()
            if name not in self._text_columns
        ]

    def short(self, position: int) -> str:
        """Return the example on one line, for lists; nothing for an image."""
        text = self.text(position)
        if text is None:
            text = " · ".join(f"{name} {value}" for name, value in self.columns(position))
        return shortened(text, _SHORT)

    def picture(self, position: int, size: Size) -> tuple[bytes, str]:
        """Return the content of a picture file and its media type.

        If the examples are files, these are shown instead of the small images for the network.
        Links to files outside the data's folder are not followed.
        """
        if self.splits.train_names is not None and self.splits.folder is not None:
            folder = self.splits.folder.resolve()
            path = (folder / self.splits.train_names[position]).resolve()
            if path.is_relative_to(folder) and path.is_file():
                return _scaled(path.read_bytes(), SIZES[size]), "image/jpeg"
        image = self.splits.picture(position)
        if image is None:
            raise DataError("these examples are not images")
        return png(as_picture(image)), "image/png"

    def thumbnail(self, position: int, lines: Sequence[str]) -> Thumbnail:
        """Return a small image with the example's name and some lines below it."""
        image, name = self.splits.picture(position), self.splits.example_name(position)
        assert image is not None
        return thumbnail(image, f"Example {name}", [name, *lines])

    @cached_property
    def _texts(self) -> list[str] | None:
        return self.splits.texts()

    @cached_property
    def _table(self) -> pl.DataFrame | None:
        return self.splits.frame if self.splits.table is None else self.splits.table

    @cached_property
    def _text_columns(self) -> tuple[str, ...]:
        if self.splits.embedded_by is not None:
            return self.splits.embedded_by.text_columns
        return () if self.splits.encoder is None else self.splits.encoder.text_columns


def _scaled(content: bytes, longest_side: int) -> bytes:
    image = open_image(content, "RGB", at_least=longest_side)
    image.thumbnail((longest_side, longest_side))
    stream = io.BytesIO()
    image.save(stream, format="JPEG", quality=_QUALITY)
    return stream.getvalue()


def comparable_vectors(splits: Splits, probs: Float[Tensor, "n classes"]) -> Rows:
    """Return the vectors by which training examples are similar.

    These are the embeddings of a pretrained backbone, or else the model's probabilities, because
    distances between pixels or columns mean little.
    """
    rows = splits.train.rows
    is_embedded = splits.embedded_by is not None and isinstance(rows, TensorRows)
    # Square roots of probabilities are unit vectors.
    return rows if is_embedded else TensorRows(probs.float().sqrt())


def nearest(vectors: Rows, position: int, count: int) -> Int64[Tensor, " m"]:
    """Return the positions of the ``count`` most similar other examples, by cosine similarity."""
    center = vectors.dense(torch.tensor([position]))[0].float()
    blocks = (F.cosine_similarity(each.float(), center) for each in vectors.blocks())
    similarity = torch.cat([*blocks])
    similarity[position] = -torch.inf
    found: Tensor = similarity.topk(min(count, len(similarity) - 1)).indices
    return found
