"""A scikit-learn estimator, and a transformer that embeds texts and images."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from noisebound.errors import MissingExtraError, packages_of
from noisebound.estimation import UnknownNoiseWarning as UnknownNoiseWarning

# Most of these packages are imported when they are used. If one is missing, say so now.
for _module, _package in packages_of("sklearn").items():
    if find_spec(_module) is None:
        raise MissingExtraError("noisebound.integrations.sklearn", _package, "sklearn")

from noisebound.integrations.sklearn.classifier import (  # noqa: E402 (after the check)
    InterruptedTrainingWarning as InterruptedTrainingWarning,
    NoiseBoundedClassifier as NoiseBoundedClassifier,
)
from noisebound.integrations.sklearn.multi_label import (  # noqa: E402
    ConstantLabelWarning as ConstantLabelWarning,
)

if TYPE_CHECKING:
    from noisebound.integrations.sklearn.embedder import Embedder as Embedder


def __getattr__(name: str) -> Any:
    """Import `Embedder` when it is used: it reads files, and the classifier does not."""
    if name != "Embedder":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from noisebound.integrations.sklearn.embedder import Embedder

    return Embedder
