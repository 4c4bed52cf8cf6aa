"""Networks by name, made for the shape of the data.

To add a network, write its function, and add its name to :data:`ModelName` in ``names.py`` and to
:data:`MODELS` in ``networks.py``.
"""

from typing import TYPE_CHECKING

from noisebound.lazy import import_when_used

if TYPE_CHECKING:
    from noisebound.models.names import (
        DEFAULT_HEAD as DEFAULT_HEAD,
        MODEL_NAMES as MODEL_NAMES,
        ModelName as ModelName,
    )
    from noisebound.models.networks import (
        MODELS as MODELS,
        create_model as create_model,
        default_model as default_model,
        linear as linear,
        mlp as mlp,
    )

import_when_used(__name__)
