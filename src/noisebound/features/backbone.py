"""What every backbone is: a frozen encoder from raw examples to vectors."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jaxtyping import Float32
from torch import Tensor

from noisebound.data.dataset import EmbeddedBy
from noisebound.errors import DataError, InvalidValueError
from noisebound.features.examples import Example, Modality
from noisebound.features.text_counts import TextCounts

if TYPE_CHECKING:
    from noisebound.features.tunable import Tunable


class Backbone(ABC):
    """A pretrained encoder, whose weights are read when the first batch is embedded.

    Attributes:
        name: what parse_backbone makes the same backbone from, such as ``"hf:folder"``
        modalities: the kinds of examples that it takes
        batch_size: the number of examples that are embedded at once
        image_size: height and width to which images are brought, if the user had to give it
    """

    name: str
    modalities: frozenset[Modality]
    batch_size: int = 32
    image_size: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs; weights that were read here are read there again."""
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }

    def as_maker(self, modality: Modality, text_columns: tuple[str, ...] = ()) -> EmbeddedBy:
        """Return what embeddings remember of the backbone that made them.

        Args:
            modality: what it embedded
            text_columns: the columns of a table whose texts it embedded
        """
        return EmbeddedBy(self.name, self.fingerprint, modality, text_columns, self.image_size)

    @property
    @abstractmethod
    def fingerprint(self) -> str | None:
        """Hash of the weights and of all that is done to an example before and after them.

        None if there is no way to tell one encoder from another; its embeddings are not cached.
        """

    @abstractmethod
    def describe(self, modality: Modality) -> str:
        """Return how an example becomes a vector, for the log."""

    @abstractmethod
    def prepare(self, example: Example) -> Any:
        """Return what :meth:`embed` takes of one example; several threads call it at once."""

    @abstractmethod
    def embed(self, prepared: Sequence[Any]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared examples."""

    def count_texts(self, texts: Sequence[str]) -> TextCounts | None:
        """Return how many texts suit the encoder badly; None if that cannot be told."""
        return None

    @property
    def untunable(self) -> str | None:
        """The reason why the encoder cannot be trained; None if it can."""
        return "it is not a network of torch's and has no gradients"

    def check_tunable(self) -> None:
        """Refuse to train an encoder that cannot be trained."""
        if self.untunable is not None:
            raise InvalidValueError(
                f"`unfreeze` cannot train the encoder {self.name}: {self.untunable}; leave it out, "
                "or choose a `backbone` of the kinds hf or timm, or an nn.Module"
            )

    def tunable(self, modality: Modality) -> "Tunable":
        """Return the encoder as a network to train, a copy of this one.

        Args:
            modality: the kind of examples to train on
        """
        self.check_tunable()
        raise NotImplementedError

    def check_modality(self, modality: Modality) -> None:
        """Refuse examples of a kind that this encoder was not made for."""
        if modality not in self.modalities:
            takes = " or ".join(f"{_KINDS[kind]}" for kind in sorted(self.modalities))
            remedy = _REMEDIES.get(modality, "")
            raise DataError(
                f"the backbone {self.name} takes {takes}, and these examples are "
                f"{_KINDS[modality]}: choose another `backbone`{remedy}"
            )


_REMEDIES = {
    "features": ", or name the columns that hold texts: `text`",
    "text": "; if they are paths of images, give the folder that the images are in",
}
_KINDS = {"image": "images", "text": "texts", "features": "rows of numbers"}
