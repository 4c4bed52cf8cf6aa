"""Runs: the folder that a training leaves, and all that can be done with it."""

from noisebound.runs.multi_label import MultiLabelRun, load_run, train_labels
from noisebound.runs.run import Run
from noisebound.runs.saved_model import SavedModel
from noisebound.runs.train import train_run

__all__ = ["MultiLabelRun", "Run", "SavedModel", "load_run", "train_labels", "train_run"]
