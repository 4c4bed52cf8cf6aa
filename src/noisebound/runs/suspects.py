"""The judgment of a run: its predictions for each label of its data, and the suspects."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.data import Splits
from noisebound.data.rows import Rows
from noisebound.errors import DataError
from noisebound.estimation import EstimatedNoise, Noise, Suspects, estimate_noise
from noisebound.estimation.model_suspects import suspects_by_models
from noisebound.estimation.noise import ClassWeightedNoise
from noisebound.runs.result import RunResult
from noisebound.runs.saved_model import SavedModel
from noisebound.search.fit import class_weights
from noisebound.training.config import TrainingConfig
from noisebound.training.objective import make_criterion

_LEAST_PROBABILITY = 1e-9  # log-odds of 20: no model knows more
_LONGEST_TEXT = 200  # characters of a text in a table


@dataclass(frozen=True, eq=False)
class Judgment:
    """Predictions and suspects for all training labels, those of the validation split included.

    Args:
        probabilities: of the observed label: out-of-fold predictions where they are kept, else the
            trained model's
        suspects: how suspect each label is
    """

    probabilities: Float64[Tensor, "n classes"]
    suspects: Suspects


def judgment(
    config: TrainingConfig,
    result: RunResult,
    noise: Noise,
    saved: SavedModel,
    splits: Splits,
    inputs: Rows,
) -> Judgment:
    """Return the judgment of a run, by one inference pass over its training data.

    Args:
        config: how the run was trained
        result: its result
        noise: the noise of its labels, with out-of-fold predictions where they are kept
        saved: the trained model
        splits: the data that it was given; labels may have been corrected since
        inputs: the training inputs as the trained model takes them
    """
    train = splits.train
    if train.class_names != saved.card.class_names:
        raise DataError("the run was trained on other classes: give it the same data")
    if result.inputs != splits.fingerprint():
        raise DataError(
            "the run was trained on other data, or in another order: give it the same examples; "
            "only their labels may differ"
        )
    probs = saved.probabilities(inputs).double()
    transition = _transition(noise, probs, train.labels)
    seen, seen_noise = transition, noise
    weights = class_weights(config, train)
    if weights is not None:
        shares = train.class_counts().double() / len(train)
        seen_noise = ClassWeightedNoise(noise, weights, shares)
        seen = seen_noise.transition
    loss = make_criterion(config, len(transition), len(probs), seen_noise)
    if not isinstance(noise, EstimatedNoise) or noise.out_of_fold is None:
        return Judgment(probs, suspects_by_models(probs, train.labels, loss, seen, None))
    found = suspects_by_models(probs, train.labels, loss, seen, noise.out_of_fold, noise.estimate)
    judged = noise.out_of_fold.with_validation
    probs[judged.positions] = judged.probabilities
    return Judgment(probs, found)


def label_surprise(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, " n"]:
    """Return the log-odds that each example has another label than it has, as it is predicted.

    Args:
        probs: predicted probabilities of the label of every example
        labels: the labels
    """
    own = probs.gather(1, labels[:, None]).squeeze(1)
    return -own.logit(eps=_LEAST_PROBABILITY)


def suspects_frame(suspects: Suspects, splits: Splits) -> pl.DataFrame:
    """Return one row per training example, the most suspect first."""
    train, names = splits.train, splits.train_names
    ranking = suspects.ranking

    def classes(indices: Tensor) -> list[str]:
        return [train.class_names[index] for index in indices[ranking].tolist()]

    positions = ranking.tolist()
    columns: dict[str, Sequence[object]] = {
        "example": positions if names is None else [names[place] for place in positions],
        **({} if splits.ids is None else {"id": [splits.ids[place] for place in positions]}),
        "label": classes(train.labels),
        "probability_wrong": suspects.probability[ranking].tolist(),
        "score": suspects.score[ranking].tolist(),
    }
    if suspects.suggested is not None:
        columns["suggested"] = classes(suspects.suggested)
    texts = splits.texts()
    if texts is not None:
        columns["text"] = [cut(texts[place], _LONGEST_TEXT) for place in positions]
    if train.true_labels is not None:
        columns["true_label"] = classes(train.true_labels)
    return pl.DataFrame(columns)


def cut(text: str, most: int) -> str:
    r"""Return a text in one line, and no longer than ``most`` letters.

    Example:
        >>> cut("One line,\nand another", 14)
        'One line, and…'
    """
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _transition(
    noise: Noise, probs: Float64[Tensor, "n classes"], labels: Tensor
) -> Float64[Tensor, "classes classes"]:
    """Return the matrix that the training used; if it used none, estimate it by its model."""
    is_unasked = not noise.is_known and not noise.warnings
    return estimate_noise(probs, labels).transition if is_unasked else noise.transition
