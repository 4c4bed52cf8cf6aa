"""Runs: the folder that a training leaves, and all that can be done with it."""

from noisebound.runs.run import Run, load_run
from noisebound.runs.saved_model import SavedModel
from noisebound.runs.train import train_run

__all__ = ["Run", "SavedModel", "load_run", "train_run"]
