"""Raw examples, read one at a time: image files, images in memory, texts, rows of features."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePath
from typing import Literal, TypeAlias

import numpy as np
import polars as pl
import torch
from jaxtyping import Shaped
from PIL import Image
from torch import Tensor

from noisebound.data.archives import Files, Folder
from noisebound.data.cache import cache_folder
from noisebound.data.images import done_ahead, limited_pixels, open_image
from noisebound.errors import DataError
from noisebound.system.files import fingerprint, fingerprint_of_texts, write_text
from noisebound.system.progress import track

Modality: TypeAlias = Literal["image", "text", "features"]
Example: TypeAlias = Image.Image | str | Tensor
_HASHES_AHEAD = 256  # enough to keep all threads busy


class Examples(ABC):
    """A sequence of raw examples of one kind, read one at a time."""

    modality: Modality

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the content of all examples, in order; their location does not count."""

    def reading(self) -> AbstractContextManager[None]:
        """Return the context manager that encloses all reading, also by threads."""
        return nullcontext()

    @abstractmethod
    def read(self, position: int) -> Example:
        """Return one example; a damaged one raises any exception."""

    def where(self, position: int) -> str:
        """Return the name of one example, for messages."""
        return f"example {position}"


class ImageFiles(Examples):
    """Images in files; each is decoded when it is read.

    Args:
        files: where the files are
        names: the names of the files, in the order of the examples
    """

    modality: Modality = "image"

    def __init__(self, files: Files, names: Sequence[str]) -> None:
        self.files, self.names = files, tuple(names)

    def __len__(self) -> int:
        return len(self.names)

    def reading(self) -> AbstractContextManager[None]:
        """Return the context in which images over the limit of pixels are refused."""
        return limited_pixels()

    def read(self, position: int) -> Image.Image:
        """Return the image in RGB, upright."""
        return open_image(self.files.read(self.names[position]), "RGB")

    def where(self, position: int) -> str:
        """Return the path."""
        return self.files.where(self.names[position])

    def fingerprint(self) -> str:
        """Hash of the bytes of every file.

        The cache folder stores the hash by the sizes and times of the files, so that unchanged
        files are not read again.
        """
        marks = self.files.fingerprint(self.names)
        note = cache_folder() / "contents" / f"{marks}.txt"
        if note.exists():
            return note.read_text(encoding="utf-8")
        digest = hashlib.sha256()
        hashes = done_ahead(self._hash, self.names, most=_HASHES_AHEAD)
        for each in track(hashes, "reading", total=len(self.names)):
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
        """Return the whole content of one file."""
        try:
            return Path(name).read_bytes()
        except OSError as error:
            raise DataError(error.strerror or "it cannot be read") from error

    def where(self, name: str = "") -> str:
        """Return the path as it was given."""
        return name


class _TensorExamples(Examples):
    """Examples in memory or in a mapped file, in one tensor."""

    def __init__(self, values: Shaped[Tensor, "n ..."]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def fingerprint(self) -> str:
        """Hash of every number."""
        return fingerprint(self.values)


class ImageTensor(_TensorExamples):
    """Images in memory or in a mapped file.

    Args:
        images: bytes, or numbers from 0 to 1
    """

    modality: Modality = "image"

    def __init__(self, images: Shaped[Tensor, "n channels height width"]) -> None:
        if images.is_floating_point() and len(images):
            low, high = (float(extreme) for extreme in images.aminmax())
            if low < 0 or high > 1:
                raise DataError(
                    "a backbone takes images of whole numbers from 0 to 255, or of fractions from "
                    f"0 to 1; got values from {low:g} to {high:g}: scale them"
                )
        super().__init__(images)

    def read(self, position: int) -> Image.Image:
        """Return the image, gray if it has one channel, else RGB."""
        image = self.values[position]
        if image.is_floating_point():
            image = (image * 255).round().to(torch.uint8)
        pixels = image.numpy()
        if len(pixels) == 1:
            return Image.fromarray(pixels[0])
        return Image.fromarray(np.ascontiguousarray(pixels[:3].transpose(1, 2, 0)))


class Texts(Examples):
    """Texts in memory.

    Args:
        texts: the texts; one that is None or blank counts as unreadable
        names: how messages name each text; by default its position
    """

    modality: Modality = "text"

    def __init__(self, texts: Sequence[str | None], names: Sequence[str] | None = None) -> None:
        self.texts, self.names = texts, names

    def __len__(self) -> int:
        return len(self.texts)

    def fingerprint(self) -> str:
        """Hash of every text."""
        return fingerprint_of_texts(self.texts)

    def read(self, position: int) -> str:
        """Return the text, or an error if there is nothing in it."""
        text = self.texts[position]
        if text is None or not text.strip():
            raise DataError("the text is empty")
        return text

    def where(self, position: int) -> str:
        """Return the text's name."""
        return f"text {position if self.names is None else self.names[position]}"


class Rows(_TensorExamples):
    """Rows of features, for a backbone of the user's own."""

    modality: Modality = "features"

    def read(self, position: int) -> Tensor:
        """Return the row."""
        return self.values[position]
