"""Networks by name, made for the shape of the data.

To add a network, write its function, add its name to :data:`ModelName` in ``names.py`` and its
:class:`ModelSpec` to :data:`MODELS` in ``networks.py``.
"""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.models.architectures import (
        linear,
        mlp,
        mlp_head,
        small_cnn,
        small_mlp,
        strided_cnn,
        wide_head,
    )
    from noisebound.models.names import MODEL_NAMES, ModelName
    from noisebound.models.networks import (
        DEFAULT_HEAD,
        MODELS,
        ModelSpec,
        create_model,
        default_model,
    )
    from noisebound.models.resnet import ResNet, resnet18, resnet34

import_when_used(__name__)

__all__ = [
    "DEFAULT_HEAD",
    "MODELS",
    "MODEL_NAMES",
    "ModelName",
    "ModelSpec",
    "ResNet",
    "create_model",
    "default_model",
    "linear",
    "mlp",
    "mlp_head",
    "resnet18",
    "resnet34",
    "small_cnn",
    "small_mlp",
    "strided_cnn",
    "wide_head",
]
