"""Networks by name, made for the shape of the data.

To add a network, write its function, and add its name to :data:`ModelName` in ``names.py`` and to
:data:`MODELS` in ``networks.py``.
"""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.models.names import DEFAULT_HEAD, MODEL_NAMES, ModelName
    from noisebound.models.networks import MODELS, create_model, default_model, linear, mlp

import_when_used(__name__)

__all__ = [
    "DEFAULT_HEAD",
    "MODELS",
    "MODEL_NAMES",
    "ModelName",
    "create_model",
    "default_model",
    "linear",
    "mlp",
]
