"""Interface of backbones: frozen encoders from raw examples to vectors."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float32
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from noisebound.data.dataset import EmbeddedBy
from noisebound.errors import DataError, InvalidValueError
from noisebound.features.examples import Example, Modality
from noisebound.system.files import fingerprint

if TYPE_CHECKING:
    from noisebound.features.tunable import Tunable


def hash_of_file(path: Path) -> str:
    """Return a hash of every byte of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_of_weights(weights: Mapping[str, Tensor], about: str = "") -> str:
    """Return a hash of every weight with its name, after a description of the network."""
    digest = hashlib.sha256(about.encode())
    for name, value in weights.items():
        digest.update(f"{name} {fingerprint(value.detach().cpu())}".encode())
    return digest.hexdigest()


_SUMMED = ("texts", "cut", "unknown")


class TextCounts(BaseModel):
    """Counts of texts that suit an encoder badly.

    Attributes:
        texts: number of all texts
        cut: number of texts with more than ``limit`` tokens
        unknown: number of texts that consist mostly of words unknown to the encoder
        limit: number of tokens that the encoder takes
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    texts: int
    cut: int
    unknown: int
    limit: int

    def __add__(self, other: "TextCounts") -> "TextCounts":
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        return self.model_copy(update=sums)

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each count above zero."""
        found = []
        if self.cut:
            found.append(
                f"{self.cut} of {self.texts} texts are longer than the {self.limit} tokens that "
                "the encoder takes, and were cut"
            )
        if self.unknown:
            found.append(
                f"{self.unknown} of {self.texts} texts consist mostly of words that the encoder "
                "does not know: it was made for another language or script; choose a "
                "multilingual `backbone` if there are many"
            )
        return tuple(found)


class Backbone(ABC):
    """A pretrained encoder. Its weights are read when the first batch is embedded.

    Attributes:
        name: the argument of `parse_backbone` that makes the same backbone, such as ``"hf:folder"``
        modalities: the kinds of examples that it takes
        batch_size: number of examples per batch
        image_size: height and width that images are scaled to, if the user gave it
    """

    name: str
    modalities: frozenset[Modality]
    batch_size: int = 32
    image_size: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave cached properties out: another process reads the weights again."""
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    def as_maker(self, modality: Modality, text_columns: tuple[str, ...] = ()) -> EmbeddedBy:
        """Return the record of this backbone that is stored with its embeddings."""
        return EmbeddedBy(self.name, self.fingerprint, modality, text_columns, self.image_size)

    @property
    @abstractmethod
    def fingerprint(self) -> str | None:
        """Hash of the weights, the preprocessing and the pooling.

        Without a hash (None) the embeddings are not cached.
        """

    @abstractmethod
    def describe(self, modality: Modality) -> str:
        """Return how an example becomes a vector, for the log."""

    @abstractmethod
    def prepare(self, example: Example) -> Any:
        """Return one example as :meth:`embed` takes it; called from several threads."""

    @abstractmethod
    def embed(self, prepared: Sequence[Any]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared examples."""

    def count_texts(self, texts: Sequence[str]) -> TextCounts | None:
        """Return how many texts suit the encoder badly, if that is known."""
        return None

    @property
    def untunable(self) -> str | None:
        """The reason why the encoder cannot be trained, if it cannot."""
        return "it is not a network of torch's and has no gradients"

    def check_tunable(self) -> None:
        """Raise an error if the encoder cannot be trained."""
        if self.untunable is not None:
            raise InvalidValueError(
                f"`unfreeze` cannot train the encoder {self.name}: {self.untunable}; leave it out, "
                "or choose a `backbone` of the kinds hf or timm, or an nn.Module"
            )

    def tunable(self, modality: Modality) -> "Tunable":
        """Return a copy of the encoder as a trainable network, for examples of this kind."""
        self.check_tunable()
        raise NotImplementedError

    def check_modality(self, modality: Modality) -> None:
        """Raise an error if the encoder does not take examples of this kind."""
        if modality not in self.modalities:
            takes = " or ".join(_KINDS[kind] for kind in sorted(self.modalities))
            raise DataError(
                f"the backbone {self.name} takes {takes}, and these examples are "
                f"{_KINDS[modality]}: choose another `backbone`{_REMEDIES.get(modality, '')}"
            )


_REMEDIES = {
    "features": ", or name the columns that hold texts: `text`",
    "text": "; if they are paths of images, give the folder that the images are in",
}
_KINDS = {"image": "images", "text": "texts", "features": "rows of numbers"}
