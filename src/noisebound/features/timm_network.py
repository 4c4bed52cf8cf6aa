"""``timm:NAME``: an image encoder of timm's, where timm can be imported."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from noisebound.errors import DataError, InvalidValueError, MissingExtraError
from noisebound.features.backbone import Backbone
from noisebound.features.examples import Example, Modality
from noisebound.features.preparation import ImagePreparation
from noisebound.features.tunable import Tunable, trainable_copy
from noisebound.system.files import fingerprint


class TimmBackbone(Backbone):
    """A network of timm's without its classifier, with its own preprocessing.

    Args:
        model: the name, as ``timm.list_models`` has it
        options: ``weights``, a safetensors file to use in place of a download
    """

    modalities = frozenset[Modality]({"image"})

    def __init__(self, model: str, options: Mapping[str, Any] | None = None) -> None:
        unknown = set(options or {}) - {"weights"}
        if unknown:
            raise InvalidValueError(
                f"`backbone` timm:{model} has the option weights, got {', '.join(sorted(unknown))}"
            )
        self.model, self.weights = model, (options or {}).get("weights")
        self.name = f"timm:{model}" + (f"?weights={self.weights}" if self.weights else "")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights and of the preparation."""
        digest = hashlib.sha256(f"{self.model} {self.preparation.fingerprint}".encode())
        for name, value in self._network.state_dict().items():
            digest.update(f"{name} {fingerprint(value.cpu())}".encode())
        return digest.hexdigest()

    def describe(self, modality: Modality) -> str:
        """Return the size of the images, and how they are pooled."""
        size = self.preparation.size
        return f"images of {size}×{size} pixels, the network's own pooling"

    def prepare(self, example: Example) -> NDArray[np.uint8]:
        """Return the pixels at the encoder's size."""
        assert isinstance(example, Image.Image)
        return self.preparation.pixels(example)

    @torch.no_grad()
    def embed(self, prepared: Sequence[NDArray[np.uint8]]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared images."""
        device = next(self._network.parameters()).device
        vectors: Tensor = self._network(self.preparation.batch(prepared).to(device))
        return vectors.float().cpu()

    @property
    def untunable(self) -> None:
        """None: it can be trained."""

    def tunable(self, modality: Modality) -> Tunable:
        """Return the network to train; it gets images as it does here."""
        return Tunable(trainable_copy(self._network).cpu(), self._pixels)

    def _pixels(self, example: Example) -> Tensor:
        return self.preparation.batch([self.prepare(example)])[0]

    @cached_property
    def preparation(self) -> ImagePreparation:
        """How images are brought to the network's input."""
        network = self._network
        import timm.data

        found = timm.data.resolve_model_data_config(network)
        return ImagePreparation(
            size=found["input_size"][-1],
            resize="squash" if found.get("crop_mode") == "squash" else "crop",
            interpolation="bicubic" if found["interpolation"] == "bicubic" else "bilinear",
            mean=found["mean"],
            std=found["std"],
        )

    @cached_property
    def _network(self) -> nn.Module:
        try:
            import timm
        except (ImportError, RuntimeError) as error:  # torchvision of another torch raises the last
            raise MissingExtraError(f"the backbone {self.name}", "timm", "timm") from error
        overlay = {"file": self.weights} if self.weights else None
        try:
            network: nn.Module = timm.create_model(
                self.model, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay
            )
        except (
            Exception
        ) as error:  # timm's, the hub's and the network's errors have no common class
            raise DataError(
                f"timm:{self.model} cannot be had ({type(error).__name__}: {error}): without a "
                "network, name its safetensors file as timm:NAME?weights=FILE"
            ) from error
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return network.eval().to(device)
