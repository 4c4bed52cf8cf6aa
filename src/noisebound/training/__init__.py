"""One training loop (Algorithm 1), its state and its checkpoints; `fit` and what it leaves."""

from noisebound.training.config import TrainingConfig
from noisebound.training.fit import fit
from noisebound.training.objective import METHOD_NAMES
from noisebound.training.run_folder import FitResult
from noisebound.training.saved_model import SavedModel

__all__ = ["METHOD_NAMES", "FitResult", "SavedModel", "TrainingConfig", "fit"]
