"""A backbone of the user's own: any ``nn.Module``, or a function from a batch to vectors."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Int32
from PIL import Image, ImageOps
from torch import Tensor, nn

from noisebound.errors import DataError
from noisebound.features.backbone import Backbone
from noisebound.features.examples import Example, Modality
from noisebound.features.module_content import hash_of_module
from noisebound.features.tunable import Tunable, trainable_copy


class OwnBackbone(Backbone):
    """Calls a module or a function with each batch.

    It gets images as float32 ``[batch, channels, height, width]`` from 0 to 1, texts as a list of
    strings, and rows of features as float32; it returns one vector per example.

    Args:
        encoder: the module, which is put in evaluation mode while it works, or the function
        image_size: height and width, in pixels, to which images are brought; None to leave images
            as they are, which must then be of one size
    """

    modalities = frozenset[Modality]({"image", "text", "features"})

    def __init__(
        self, encoder: nn.Module | Callable[[Any], Any], image_size: int | None = None
    ) -> None:
        self.encoder, self.image_size = encoder, image_size
        kind = encoder if hasattr(encoder, "__qualname__") else type(encoder)
        self.name = f"own:{kind.__module__}.{kind.__qualname__}"

    @cached_property
    def fingerprint(self) -> str | None:
        """Hash of a module's weights, settings and code; None for a function.

        What else a function does can depend on anything, so that its vectors are not kept.
        """
        if not isinstance(self.encoder, nn.Module):
            return None
        return hash_of_module(self.encoder, self.image_size)

    def describe(self, modality: Modality) -> str:
        """Return what is called."""
        return f"what {self.name.removeprefix('own:')} returns"

    def prepare(self, example: Example) -> Tensor | str:
        """Return bytes ``[channels, height, width]`` of an image; anything else as it is."""
        if not isinstance(example, Image.Image):
            return example
        size = self.image_size
        if size is not None and example.size != (size, size):
            example = ImageOps.fit(example, (size, size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(example))
        return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)

    @torch.no_grad()
    def embed(self, prepared: Sequence[Any]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared examples."""
        vectors = torch.as_tensor(self._call(_batch(prepared)))
        if vectors.ndim != 2 or len(vectors) != len(prepared):
            raise DataError(
                f"the backbone {self.name} must return one vector per example, of shape "
                f"[{len(prepared)}, dimension]; got {list(vectors.shape)}"
            )
        return vectors.detach().cpu().to(torch.float32)

    @property
    def untunable(self) -> str | None:
        """The reason why a function cannot be trained."""
        is_module = isinstance(self.encoder, nn.Module)
        return None if is_module else "a function has no weights that could be trained"

    def tunable(self, modality: Modality) -> Tunable:
        """Return a copy of the module to train, which gets what the module gets."""
        self.check_tunable()
        assert isinstance(self.encoder, nn.Module)
        network = trainable_copy(self.encoder)
        if modality == "text":
            return Tunable(_OfTexts(network), self._input, _letters)
        return Tunable(network, self._input)

    def _input(self, example: Example) -> Tensor:
        prepared = self.prepare(example)
        assert isinstance(prepared, Tensor)
        return prepared / 255 if prepared.dtype == torch.uint8 else prepared

    def _call(self, batch: Any) -> Any:
        if not isinstance(self.encoder, nn.Module):
            return self.encoder(batch)
        first = next(self.encoder.parameters(), None)
        if first is not None and isinstance(batch, Tensor):
            batch = batch.to(first.device, first.dtype)
        was_training = self.encoder.training
        self.encoder.eval()
        try:
            return self.encoder(batch)
        finally:
            self.encoder.train(was_training)


class _OfTexts(nn.Module):
    """A module that takes a list of strings, which reach it as the numbers of their letters."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, letters: Int32[Tensor, "batch length"]) -> Float[Tensor, "batch dimension"]:
        rows = ([chr(letter) for letter in row if letter >= 0] for row in letters.tolist())
        vectors: Tensor = self.module(["".join(row) for row in rows])
        return vectors


def _letters(texts: Sequence[str]) -> list[list[int]]:
    return [list(map(ord, text)) for text in texts]


def _batch(prepared: Sequence[Any]) -> Any:
    if isinstance(prepared[0], str):
        return list(prepared)
    shapes = {tuple(each.shape) for each in prepared}
    if len(shapes) > 1:
        raise DataError(
            f"the images have {len(shapes)} sizes, such as {sorted(shapes)[:2]}: bring them to one "
            "with `image_size`"
        )
    stacked = torch.stack(list(prepared))
    return stacked / 255 if stacked.dtype == torch.uint8 else stacked
