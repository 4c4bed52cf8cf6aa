"""A peer: cleanlab finds wrong labels by cross-validation, and their examples are left out."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor

from noisebound.data import Dataset
from noisebound.estimation import OutOfFold
from noisebound.runs.folder import RunFolder
from noisebound.runs.keeper import FolderKeeper
from noisebound.runs.train import run_identity
from noisebound.training import TrainingConfig
from noisebound.training.cross_fit import CrossFit, CrossFitPlan, plain_config, random_folds
from noisebound.training.data import TrainingData
from noisebound.training.fit import network_for

FOLDS = 5  # cleanlab's own default


@dataclass(frozen=True, eq=False)
class Pruned:
    """What cleanlab found, and the examples that are left.

    Args:
        train: the examples whose labels cleanlab finds right
        noise_rate: the noise rate that cleanlab estimates
        score: one per label; the higher it is, the likelier the label is wrong
    """

    train: Dataset
    noise_rate: float
    score: Float[Tensor, " n"]


def prune(train: Dataset, training: TrainingConfig, folder: RunFolder) -> Pruned:
    """Return the examples without those whose labels cleanlab finds wrong.

    Args:
        train: the examples
        training: how to train each of the five networks; the network on the rest is trained alike
        folder: the run's, which keeps finished folds, so that an interrupted run can continue
    """
    from cleanlab.count import compute_confident_joint, estimate_latent
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    labels = train.labels.numpy()
    probs = _out_of_fold(train, training, folder).logits.softmax(1).numpy()
    issues = find_label_issues(labels, probs, n_jobs=1)
    prior, noise_matrix, _ = estimate_latent(compute_confident_joint(labels, probs), labels)
    return Pruned(
        train.subset(torch.from_numpy(~issues)),
        noise_rate=float(1 - (prior * noise_matrix.diagonal()).sum()),
        score=-torch.from_numpy(get_label_quality_scores(labels, probs)),
    )


def _out_of_fold(train: Dataset, training: TrainingConfig, folder: RunFolder) -> OutOfFold:
    """Return out-of-fold predictions after full trainings, as cleanlab's users make them."""
    data = TrainingData.unsplit(replace(train, true_labels=None))
    config = plain_config(training).model_copy(update={"measure_every": training.epochs})
    folds = random_folds(len(train), FOLDS, training.seed)
    plan = CrossFitPlan(folds, config, keeps_best_epoch=False, title="pruning")
    network, fabric = network_for(train, config), Fabric(devices=1)
    identity = run_identity(config, data, network)
    keeper = FolderKeeper(RunFolder(folder.folds), config, identity, fabric, 0.0)
    return CrossFit(data, plan, network, fabric, keeper=keeper, show=False).out_of_fold()
