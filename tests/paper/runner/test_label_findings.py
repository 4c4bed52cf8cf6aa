"""Findings about labels rest on a file that may be damaged."""

import pytest

from noisebound.errors import DataError
from noisebound.paper.runner.label_findings import findings_of_run
from noisebound.runs import train_run
from noisebound.training import TrainingConfig
from training_data import noisy_clouds


@pytest.mark.parametrize("content", [None, b"damaged"])
def test_predictions_that_are_missing_or_damaged_are_named(tmp_path, content):
    config = TrainingConfig(loss="ce+b", noise_rate=0.3, epochs=1, batch_size=30)
    run = train_run(noisy_clouds(), config, tmp_path / "run")
    if content is not None:
        run.folder.cross_fit.mkdir()
        run.folder.out_of_fold().write_bytes(content)
    with pytest.raises(DataError, match=r"all\.safetensors is missing or damaged"):
        findings_of_run(run, noisy_clouds())
