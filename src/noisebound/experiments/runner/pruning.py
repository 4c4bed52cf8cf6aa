"""A peer: cleanlab finds wrong labels by cross-validation in five folds, and they are left out."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from noisebound.data import Dataset, Splits
from noisebound.training import SavedModel, TrainingConfig, fit

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Pruned:
    """What cleanlab leaves.

    Args:
        train: the examples that it does not find fault with
        noise_rate: as cleanlab estimates it
        score: of every label, the higher the worse
    """

    train: Dataset
    noise_rate: float
    score: Float[Tensor, " n"]


def prune(splits: Splits, training: TrainingConfig, folder: Path) -> Pruned:
    """By the labels that five networks find issues with, each trained without a fifth.

    Args:
        splits: of which the training examples are pruned
        training: of each network, as of the one that is trained afterwards
        folder: keeps the networks, so that an interrupted run goes on
    """
    from cleanlab.count import compute_confident_joint, estimate_latent
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    train = splits.train
    labels = train.labels.numpy()
    probs = _held_out_probabilities(splits, training, folder).numpy()
    issues = find_label_issues(labels, probs, n_jobs=1)
    prior, noise_matrix, _ = estimate_latent(compute_confident_joint(labels, probs), labels)
    return Pruned(
        train.subset(torch.from_numpy(~issues)),
        noise_rate=float(1 - (prior * noise_matrix.diagonal()).sum()),
        score=-torch.from_numpy(get_label_quality_scores(labels, probs)),
    )


def _held_out_probabilities(
    splits: Splits, training: TrainingConfig, folder: Path
) -> Float[Tensor, "n classes"]:
    train = splits.train
    plain = training.model_copy(
        update={"validation_share": 0.0, "measure_every": training.epochs}  # nothing to look at
    )
    order = torch.randperm(len(train), generator=Generator().manual_seed(training.seed))
    probs = torch.empty(len(train), train.num_classes)
    for number, held_out in enumerate(order.tensor_split(FOLDS), start=1):
        is_trained_on = torch.ones(len(train), dtype=torch.bool).index_fill_(0, held_out, False)
        fold = replace(splits, train=_unseen(train.subset(is_trained_on)), test=None)
        fit(fold, plain, folder / f"fold-{number}", resume=True, show=False)
        model = SavedModel.load(folder / f"fold-{number}")
        probs[held_out] = model.probabilities(train.inputs[held_out])
    return probs


def _unseen(data: Dataset) -> Dataset:
    """Without the true labels, of which nothing is to be measured."""
    return replace(data, true_labels=None)
