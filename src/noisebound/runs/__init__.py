"""Runs: the folder that a training leaves, and all that can be done with it."""

from noisebound.runs.multi_label import (
    MultiLabelRun as MultiLabelRun,
    load_run as load_run,
    train_labels as train_labels,
)
from noisebound.runs.run import Run as Run
from noisebound.runs.saved_model import SavedModel as SavedModel
from noisebound.runs.train import train_run as train_run
