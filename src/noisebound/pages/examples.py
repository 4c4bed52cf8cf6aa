"""Training examples as people see them: pictures, texts, the columns of a row, and neighbors."""

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
"""The sizes of pictures, with the largest width and height in pixels."""

_QUALITY = 85  # of JPEG, at which no loss is seen
_MOST_FEATURES = 40  # numbers of an example without columns
_SHORT = 160  # letters of an example in a list
_LONG = 50_000  # letters of a text that is shown whole, about twenty pages


class ShownExamples:
    """The training examples of a data set, as a page shows them.

    Args:
        splits: the data
    """

    def __init__(self, splits: Splits) -> None:
        self.splits = splits

    @cached_property
    def kind(self) -> Kind:
        """The kind of the examples."""
        if self.splits.has_pictures:
            return "image"
        return "row" if self._texts is None else "text"

    def name(self, position: int) -> str:
        """Return the example's id, its file or its position."""
        return self.splits.example_name(position)

    def text(self, position: int) -> str | None:
        """Return the example's text; None if it has none."""
        return None if self._texts is None else self._texts[position][:_LONG]

    def columns(self, position: int) -> list[tuple[str, str]]:
        """Return the name and the value of every column but the text, features or not."""
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
        """Return the example in one line, for lists."""
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
        """Return the first numbers of an example that came without columns."""
        numbers = self.splits.train.rows.dense(torch.tensor([position]))[0].flatten()
        shown = numbers[:_MOST_FEATURES].tolist()
        return [(f"feature {index}", f"{value:.4g}") for index, value in enumerate(shown)]


class Pictures:
    """The pictures of a data set's training examples, as files that a browser shows.

    Where the examples are files, the files are shown, and not the small images that a network was
    trained on. A file outside the data's folder, behind a link, is not opened. Each size of a file
    is made once and kept in the cache folder.

    Args:
        splits: the data, which has pictures
    """

    def __init__(self, splits: Splits) -> None:
        self.splits = splits
        self._files: Folder | None = None
        self._names: Sequence[str] = ()
        if splits.train_names is not None and image_folder(splits.source) is not None:
            self._files, self._names = find_trees(Path(splits.source))[0].files, splits.train_names

    def read(self, position: int, size: Size) -> tuple[bytes, str]:
        """Return a picture's file and its media type."""
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
        except OSError:  # it is not kept yet, or cannot be
            content = _scaled(path.read_bytes(), SIZES[size])
            with suppress(OSError), written_whole(kept, len(content)) as part:
                part.write_bytes(content)  # a full disk hides no picture
            return content, "image/jpeg"

    def _path(self, position: int) -> Path | None:
        """Return the example's own file, if it has one inside the data's folder."""
        if self._files is None:
            return None
        folder = self._files.path.resolve()
        path = (folder / self._names[position]).resolve()
        return path if path.is_relative_to(folder) and path.is_file() else None


def _scaled(content: bytes, longest_side: int) -> bytes:
    """Return an image as a JPEG file, upright and no larger than this."""
    image = open_image(content, "RGB", at_least=longest_side)
    image.thumbnail((longest_side, longest_side))
    stream = io.BytesIO()
    image.save(stream, format="JPEG", quality=_QUALITY)
    return stream.getvalue()


class Neighbors:
    """The nearest neighbors of examples, by the angle between vectors.

    These are the embeddings of a pretrained backbone, or else the model's probabilities, because
    pixels and columns hardly show likeness. A request reads all examples once; nothing is kept.

    Args:
        vectors: one row per example, in which similar examples point in similar directions
    """

    def __init__(self, vectors: Rows) -> None:
        self.vectors = vectors

    @classmethod
    def of(cls, splits: Splits, probs: Float[Tensor, "n classes"]) -> "Neighbors":
        """Return the neighbors of training examples.

        Args:
            splits: the data
            probs: the model's prediction for each training example
        """
        rows = splits.train.rows
        is_embedded = splits.embedded_by is not None and isinstance(rows, TensorRows)
        # The square roots of probabilities are vectors of length one.
        return cls(rows if is_embedded else TensorRows(probs.float().sqrt()))

    def nearest(self, position: int, count: int) -> Int64[Tensor, " m"]:
        """Return the positions of the `count` nearest other examples, the nearest first."""
        center = self.vectors.dense(torch.tensor([position]))[0].float()
        likeness = torch.cat([_cosine(block.float(), center) for block in self.vectors.blocks()])
        likeness[position] = -torch.inf
        nearest: Tensor = likeness.topk(min(count, len(likeness) - 1)).indices
        return nearest


def _cosine(rows: Float[Tensor, "m dim"], center: Float[Tensor, " dim"]) -> Float[Tensor, " m"]:
    lengths = rows.norm(dim=1) * center.norm()
    cosine: Tensor = rows @ center / lengths.clamp(min=torch.finfo(torch.float32).tiny)
    return cosine
