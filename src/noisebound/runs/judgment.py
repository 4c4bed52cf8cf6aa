"""The judgment of a run: its predictions for each label of its data, and the suspects."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from jaxtyping import Float64
from torch import Tensor

from noisebound.data import Dataset, Splits
from noisebound.data.rows import Rows
from noisebound.errors import DataError
from noisebound.estimation import (
    AnnotatorEstimate,
    EstimatedNoise,
    Noise,
    Suspects,
    estimate_annotators,
    estimate_noise,
)
from noisebound.estimation.noise import class_weighted
from noisebound.estimation.suspects import suspects_by_consensus, suspects_by_models
from noisebound.features.load import examples_fingerprint
from noisebound.runs.result import RunResult
from noisebound.runs.saved_model import SavedModel
from noisebound.search.problem import class_weights
from noisebound.training.config import TrainingConfig
from noisebound.training.objective import make_criterion

_LONGEST_TEXT = 200  # characters of a text in a table


@dataclass(frozen=True, eq=False)
class Judgment:
    """Predictions and suspects for all training labels, including those of the validation split.

    The probabilities of the observed labels are out-of-fold where they are kept, else the model's.
    ``annotators`` has the consensus of several labels per example.
    """

    probabilities: Float64[Tensor, "n classes"]
    suspects: Suspects
    annotators: AnnotatorEstimate | None = None


def check_same_data(result: RunResult, class_names: tuple[str, ...], splits: Splits) -> None:
    """Refuse other data than the run's; only its labels may have been corrected since."""
    if splits.train.class_names != class_names:
        raise DataError("the run was trained on other classes: give it the same data")
    if result.inputs == splits.fingerprint():
        return
    if result.examples is None or result.examples != examples_fingerprint(splits):
        raise DataError(
            "the run was trained on other data, or in another order: give it the same examples; "
            "only their labels may differ"
        )


def judge(
    config: TrainingConfig, noise: Noise, saved: SavedModel, train: Dataset, inputs: Rows
) -> Judgment:
    """Return the judgment of a run, by one inference pass over its training data.

    The labels of ``train`` may have been corrected since the run. The ``inputs`` are those of the
    same examples as the model takes them.
    """
    probs = saved.probabilities(inputs).double()
    # Without any knowledge of the noise, the model itself estimates the matrix.
    is_unasked = not noise.is_known and not noise.warnings
    seen = estimate_noise(probs, train.labels).transition if is_unasked else noise.transition
    seen_noise, weights = noise, class_weights(config, train)
    if weights is not None:
        shares = train.class_counts().double() / len(train)
        seen_noise = class_weighted(noise, weights, shares)
        seen = seen_noise.transition
    loss = make_criterion(config, len(seen), len(probs), seen_noise)
    out_of_fold = noise.out_of_fold if isinstance(noise, EstimatedNoise) else None
    found = suspects_by_models(
        probs,
        train.labels,
        loss,
        seen,
        out_of_fold,
        noise.of_labels if isinstance(noise, EstimatedNoise) else None,
        is_network=saved.card.estimators is None,
    )
    if out_of_fold is not None:
        judged = out_of_fold.with_validation
        probs[judged.positions] = judged.probabilities
    if train.votes is None or not isinstance(noise, EstimatedNoise) or noise.annotators is None:
        return Judgment(probs, found)
    annotators = estimate_annotators(train.votes, probs, names=train.annotators or None)
    by_votes = suspects_by_consensus(annotators.consensus, train.labels)
    return Judgment(probs, by_votes, annotators)


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
        columns["text"] = [shortened(texts[place], _LONGEST_TEXT) for place in positions]
    if train.true_labels is not None:
        columns["true_label"] = classes(train.true_labels)
    return pl.DataFrame(columns)


def shortened(text: str, most: int) -> str:
    r"""Return a text in one line, of at most ``most`` characters.

    Example:
        >>> shortened("One line,\nand another", 14)
        'One line, and…'
    """
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
