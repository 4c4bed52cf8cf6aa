"""Raw examples of any source: image files, images in memory, texts and rows of features."""

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool, Shaped
from PIL import Image
from torch import Tensor

from noisebound.data import Dataset, ReadingOptions, Splits
from noisebound.data.files import Files, Folder, cache_folder
from noisebound.data.image_splits import ImageSplits
from noisebound.data.images import done_ahead, open_image
from noisebound.data.load import read_undecoded
from noisebound.errors import DataError
from noisebound.system.files import fingerprint, fingerprint_of_texts, write_text
from noisebound.system.progress import track

Modality: TypeAlias = Literal["image", "text", "features"]
Example: TypeAlias = Image.Image | str | Tensor
PartName: TypeAlias = Literal["train", "test"]

_HASHES_AHEAD = 256  # enough to keep all threads busy
_SAMPLED = 1000  # texts; tokenized in less than a second


class Examples(ABC):
    """Raw examples of one kind, read one at a time; by default, their names are their positions."""

    modality: Modality
    noun: str

    def __init__(self, values: Any, names: Sequence[str] | None = None) -> None:
        self.values, self.names = values, names

    def __len__(self) -> int:
        return len(self.values)

    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the content of all examples, in order; their location does not count."""

    @abstractmethod
    def read(self, position: int) -> Example:
        """Return one example; a damaged one raises any exception."""

    def select(self, positions: list[int]) -> "Examples":
        """Return these examples, which keep their names."""
        found, values, names = copy.copy(self), self.values, self.names
        is_tensor = isinstance(values, Tensor)
        found.values = values[positions] if is_tensor else [values[place] for place in positions]
        found.names = [str(place) if names is None else names[place] for place in positions]
        return found

    def where(self, position: int) -> str:
        """Return the name of one example, for messages."""
        return f"{self.noun} {position if self.names is None else self.names[position]}"

    @property
    def counted(self) -> str:
        """The number of examples in words, such as "3 images"."""
        return f"{len(self):,} {self.noun}s"


class ImageFiles(Examples):
    """Images in files, by their names there; each is decoded when it is read."""

    modality, noun = "image", "image"

    def __init__(
        self, files: Files, files_names: Sequence[str], names: Sequence[str] | None = None
    ) -> None:
        super().__init__(files_names, names)
        self.files = files

    def read(self, position: int) -> Image.Image:
        return open_image(self.files.read(self.values[position]), "RGB")

    def where(self, position: int) -> str:
        return self.files.where(self.values[position])

    def fingerprint(self) -> str:
        """Hash of the bytes of every file.

        The cache folder stores the hash by the sizes and times of the files, so that unchanged
        files are not read again.
        """
        marks = self.files.fingerprint(self.values)
        note = cache_folder() / "contents" / f"{marks}.txt"
        if note.exists():
            return note.read_text(encoding="utf-8")
        digest = hashlib.sha256()
        hashes = done_ahead(self._hash, self.values, most=_HASHES_AHEAD)
        for each in track(hashes, "reading", total=len(self)):
            digest.update(each)
        write_text(note, digest.hexdigest())
        return digest.hexdigest()

    def _hash(self, name: str) -> bytes:
        try:
            return hashlib.sha256(self.files.read(name)).digest()
        except DataError as error:  # embedding reports it, with all other bad files
            return hashlib.sha256(str(error).encode()).digest()


def image_paths(values: object) -> list[str] | None:
    """Return the paths in a list, an array or a column, if it holds nothing else."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray | pl.Series):
        return None
    are_paths = len(values) > 0 and all(isinstance(each, str | PurePath) for each in values)
    return [str(each) for each in values] if are_paths else None


class PathFiles(Folder):
    """Files in any folders, each named by its path."""

    def __init__(self) -> None:
        super().__init__(Path())

    def read(self, name: str) -> bytes:
        try:
            return Path(name).read_bytes()
        except OSError as error:
            raise DataError(error.strerror or "it cannot be read") from error

    def where(self, name: str = "") -> str:
        return name


class TensorExamples(Examples):
    """Images ``[n, channels, height, width]`` or rows of features, in memory or a mapped file.

    Images are bytes, or numbers from 0 to 1.
    """

    def __init__(self, values: Shaped[Tensor, "n ..."], names: Sequence[str] | None = None) -> None:
        super().__init__(values, names)
        is_images = values.ndim == 4
        self.modality, self.noun = ("image", "image") if is_images else ("features", "row")
        if is_images and values.is_floating_point() and len(values):
            low, high = (float(extreme) for extreme in values.aminmax())
            if low < 0 or high > 1:
                raise DataError(
                    "a backbone takes images of whole numbers from 0 to 255, or of fractions from "
                    f"0 to 1; got values from {low:g} to {high:g}: scale them"
                )

    def fingerprint(self) -> str:
        return fingerprint(self.values)

    def read(self, position: int) -> Image.Image | Tensor:
        """Return the row, or the image: gray if it has one channel, else RGB."""
        value: Tensor = self.values[position]
        if self.modality == "features":
            return value
        if value.is_floating_point():
            value = (value * 255).round().to(torch.uint8)
        pixels = value.numpy()
        if len(pixels) == 1:
            return Image.fromarray(pixels[0])
        return Image.fromarray(np.ascontiguousarray(pixels[:3].transpose(1, 2, 0)))


class Texts(Examples):
    """Texts in memory; one that is None or blank counts as unreadable."""

    modality, noun = "text", "text"

    def fingerprint(self) -> str:
        return fingerprint_of_texts(self.values)

    def read(self, position: int) -> str:
        text: str | None = self.values[position]
        if text is None or not text.strip():
            raise DataError("the text is empty")
        return text

    def sample(self) -> list[str]:
        """Return up to 1,000 texts at regular distances, without empty ones."""
        step = max(1, -(-len(self) // _SAMPLED))
        return [text for text in self.values[::step] if text and text.strip()]


@dataclass(frozen=True, eq=False)
class ExampleSplits(Splits):
    """A data set with its raw examples, and the columns of a table that hold its texts.

    Before it is embedded, its inputs are not used. Afterwards, unreadable examples are left out.
    """

    examples: Mapping[PartName, Examples] = field(kw_only=True)
    text_columns: tuple[str, ...] = ()

    def subset(self, part: PartName, kept: Bool[Tensor, " n"]) -> "ExampleSplits":
        found = super().subset(part, kept)
        assert isinstance(found, ExampleSplits)
        if found is self or part not in self.examples:
            return found
        chosen = self.examples[part].select(kept.nonzero().flatten().tolist())
        return replace(found, examples={**self.examples, part: chosen})

    def part(self, name: PartName) -> Dataset:
        data = self.train if name == "train" else self.test
        assert data is not None
        return data


def load_raw(source: Any, options: ReadingOptions | None = None) -> ExampleSplits:
    """Return the raw examples of a data set; the pixels of image files are not read."""
    return raw_splits(read_undecoded(source, options or ReadingOptions()))


def raw_splits(splits: Splits) -> ExampleSplits:
    """Return the raw examples of a data set that was read and not encoded."""
    if splits.embedded_by is not None:
        raise DataError(
            f"{splits.source} holds embeddings already, by {splits.embedded_by.name}: leave "
            "`backbone` out"
        )
    encoder = splits.encoder
    columns = () if encoder is None else encoder.text_columns
    has_others = encoder is not None and 0 < len(columns) < len(encoder.columns)

    def examples(name: PartName, data: Dataset, names: Sequence[str] | None) -> Examples:
        if isinstance(splits, ImageSplits):
            return ImageFiles(splits.files, splits.images[name], names)
        texts = splits.texts(name)
        return TensorExamples(data.dense_inputs, names) if texts is None else Texts(texts, names)

    parts: dict[PartName, Examples] = {"train": examples("train", splits.train, splits.train_names)}
    if splits.test is not None:
        parts["test"] = examples("test", splits.test, None)
    described = replace(
        splits,
        encoder=encoder.beside_texts() if encoder is not None and has_others else None,
        frame=splits.frame if columns else None,
        test_frame=splits.test_frame if columns else None,
    )
    given = {each.name: getattr(described, each.name) for each in fields(Splits)}
    return ExampleSplits(**given, examples=parts, text_columns=columns)
