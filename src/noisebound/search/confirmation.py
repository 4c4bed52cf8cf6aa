"""Trainings on all examples that confirm or correct what trials on a part of them suggest.

If the trials had a part of the examples, the best recipes are trained on all of them and compared
by labels that none of them saw. If the trials had all examples, in halves, the chosen recipe is
trained on all of them once: if its training accuracy is below the trials' held-out accuracy, it
failed.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from noisebound.data import Dataset
from noisebound.data.dataset import stratified_indices
from noisebound.estimation import OutOfFold
from noisebound.search.evidence import Evidence
from noisebound.search.trial import Stop, Trial
from noisebound.training.config import TrainingConfig
from noisebound.training.data import TrainingData
from noisebound.training.objective import Objective
from noisebound.training.session import Session

_LEFT_OUT_SHARE = 0.1  # of the examples, without a validation split; heuristic


@dataclass(frozen=True, eq=False)
class Finalist:
    """A recipe that is ready to be trained on all examples.

    Args:
        evidence: the result of its trials on a part of the examples
        data: the examples with the weights and targets that it uses
        config: how it trains, with the largest number of epochs
        network: the network before training, of which a copy is trained
        make_objective: makes its objective for these examples, or for some of them
    """

    evidence: Evidence
    data: TrainingData
    config: TrainingConfig
    network: nn.Module
    make_objective: Callable[[TrainingData], Objective]

    def trial(
        self,
        data: TrainingData,
        judged: Dataset,
        session: Session,
        *,
        config: TrainingConfig,
        stops: Stop,
        title: str,
    ) -> Trial:
        """Return a trial of the recipe on some examples, judged by others."""
        return Trial(
            replace(data, validation=None),
            judged,
            config,
            self.make_objective(data),
            copy.deepcopy(self.network),
            session,
            stops=stops,
            title=title,
        )


def hits_on_held_out(
    whole: TrainingData, finalist: Finalist, session: Session
) -> Bool[Tensor, "epochs n"]:
    """Return which of the held-out labels a finalist predicts after each epoch.

    It is trained on all other examples. `held_out_labels` returns these labels.
    """
    evidence, config = finalist.evidence, finalist.config
    data, held_out = held_out_split(whole, finalist.data, config.seed)
    trial = finalist.trial(
        data,
        held_out,
        session,
        config=config,
        stops="well past the most hits" if evidence.stops_early else "never",
        title=f"all examples: {evidence.recipe}",
    )
    run = partial(trial.run, torch.arange(len(held_out)))
    return _hits(session.once(f"final-{evidence.recipe}", run))


def held_out_labels(whole: TrainingData, seed: int) -> Int64[Tensor, " n"]:
    """Return the labels that no finalist is trained on."""
    if whole.validation is not None:
        return whole.validation.labels
    return whole.train.labels[_held_out_positions(whole, seed)]


def hits_on_own(whole: TrainingData, finalist: Finalist, session: Session) -> Bool[Tensor, " n"]:
    """Return which labels of all examples a finalist predicts when it was trained on them."""
    config = finalist.config.model_copy(update={"epochs": finalist.evidence.epochs})
    trial = finalist.trial(
        finalist.data, whole.train, session, config=config, stops="never", title="rehearsal"
    )
    run = partial(trial.run, torch.arange(len(whole.train)), keeps_best_epoch=False)
    return _hits(session.once("rehearsal", run))[-1]


def _hits(found: OutOfFold) -> Bool[Tensor, "epochs n"]:
    assert found.hits is not None
    return found.hits


def held_out_split(
    whole: TrainingData, prepared: TrainingData, seed: int
) -> tuple[TrainingData, Dataset]:
    """Return the examples to train on, and others: the validation split, or a tenth of the whole.

    Args:
        whole: all examples as given
        prepared: the examples with the weights and targets that a recipe uses
        seed: decides the tenth
    """
    if whole.validation is not None:
        return prepared, whole.validation
    assert whole.positions is not None
    assert prepared.positions is not None
    chosen = _held_out_positions(whole, seed)
    is_kept = ~torch.isin(prepared.positions, whole.positions[chosen])
    return prepared.subset(is_kept), whole.train.subset(chosen)


def _held_out_positions(whole: TrainingData, seed: int) -> Int64[Tensor, " m"]:
    count = round(_LEFT_OUT_SHARE * len(whole.train))
    return stratified_indices(whole.train.labels, count, seed)
