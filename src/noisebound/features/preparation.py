"""How an image is brought to the size and scale that an encoder was trained with."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Float32
from numpy.typing import NDArray
from PIL import Image, ImageOps
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
Three = tuple[float, float, float]
Deviations = tuple[
    Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]
]


class ImagePreparation(BaseModel):
    """Size, crop and scale of the images that an encoder takes.

    Attributes:
        size: height and width in pixels
        resize: ``"crop"`` scales the shorter side and crops the center; ``"squash"`` scales each
            side for itself
        interpolation: the filter of the scaling
        mean: subtracted from each channel, after pixels have been brought to 0 … 1
        std: divides each channel, after that
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    size: Annotated[int, Field(ge=1, le=4096)] = 224
    resize: Literal["crop", "squash"] = "crop"
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    mean: Three = IMAGENET_MEAN
    std: Deviations = IMAGENET_STD

    @property
    def fingerprint(self) -> str:
        """Hash of all attributes."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """Return the pixels ``[height, width, 3]`` at the encoder's size."""
        image = image.convert("RGB")
        wanted, method = (self.size, self.size), _FILTERS[self.interpolation]
        if image.size != wanted:
            if self.resize == "crop":
                image = ImageOps.fit(image, wanted, method)
            else:
                image = image.resize(wanted, method)
        return np.asarray(image)

    def batch(self, images: Sequence[NDArray[np.uint8]]) -> Float32[Tensor, "batch 3 height width"]:
        """Return scaled images with their channels first."""
        stacked = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
        mean, std = torch.tensor([self.mean, self.std]).view(2, 1, 3, 1, 1).unbind()
        return (stacked / 255 - mean) / std
