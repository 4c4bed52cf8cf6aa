"""The noise of a data set, without a training that it serves."""

from lightning_fabric import Fabric

from noisebound.data import Dataset, Normalization
from noisebound.estimation import EstimationMethod
from noisebound.models import create_model
from noisebound.training.config import TrainingConfig
from noisebound.training.cross_fit import CrossFit
from noisebound.training.loop import TrainingData
from noisebound.training.measured_noise import MeasuredNoise


def measure_noise(
    train: Dataset,
    config: TrainingConfig,
    *,
    method: EstimationMethod = "agreement",
    fabric: Fabric | None = None,
    show: bool = True,
) -> MeasuredNoise:
    """How noisy the labels are, by two networks that are trained on a half each.

    Args:
        train: the examples
        config: of a training whose ``"auto"`` this would be: the network, its learning rate, and
            the epochs, of which a quarter is done
        method: the estimator
        fabric: launched, for other devices than one
        show: draw the loss as it falls, if someone is looking
    """
    data = TrainingData(train, None, None, Normalization.of(train.inputs))
    shape = tuple(train.inputs.shape[1:])
    network = create_model(config.model, shape, train.num_classes, config.seed)
    fabric = fabric or Fabric(devices=1)
    held_out = CrossFit(data, config, network, fabric, show=show).held_out()
    return MeasuredNoise(held_out, train.labels, method)
