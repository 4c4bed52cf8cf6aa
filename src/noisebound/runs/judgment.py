"""The judgment of a run: predictions, suspects and annotators, and their tables."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import torch
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
from noisebound.estimation.multi_label import suspects_of_label
from noisebound.estimation.noise import class_weighted
from noisebound.estimation.suspects import suspects_by_consensus, suspects_by_models
from noisebound.features.load import examples_fingerprint
from noisebound.runs.result import RunResult
from noisebound.runs.saved_model import SavedModel
from noisebound.search.problem import class_weights
from noisebound.training.config import TrainingConfig
from noisebound.training.objective import make_criterion

LONGEST_TEXT = 200  # characters of a text in a table
_RARE = 0.005  # rarer confusions would be rounded to 0 %


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
        if train.counts_alike:  # one of several labels
            found = suspects_of_label(probs[:, 1], train.labels, noise.transition)
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
        **({} if names is None else {"position": positions}),  # as `Run.decide` takes it
        "label": classes(train.labels),
        "probability_wrong": suspects.probability[ranking].tolist(),
        "score": suspects.score[ranking].tolist(),
    }
    if suspects.suggested is not None:
        columns["suggested"] = classes(suspects.suggested)
    texts = splits.texts()
    if texts is not None:
        columns["text"] = [shortened(texts[place], LONGEST_TEXT) for place in positions]
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


def annotators_frame(found: AnnotatorEstimate, class_names: Sequence[str]) -> pl.DataFrame:
    """Return one row per annotator; null for an agreement that is not known.

    Labels by unknown people have one row.
    """
    names = found.names if found.are_named else ("all annotators",)
    counts, rows = found.counts if found.are_named else found.counts.sum()[None], len(names)
    return pl.DataFrame(
        {
            "annotator": names,
            "labels": counts.tolist(),
            "error_rate": found.error_rates[:rows].tolist(),
            "low": found.intervals[:rows, 0].tolist(),
            "high": found.intervals[:rows, 1].tolist(),
            "agreement": found.agreement[:rows].tolist(),
            "most_frequent_mistake": [_worst(found, row, class_names) for row in range(rows)],
        }
    ).with_columns(pl.col("agreement").fill_nan(None))


def _worst(found: AnnotatorEstimate, row: int, class_names: Sequence[str]) -> str | None:
    joint = (found.transitions[row] * found.class_prior).fill_diagonal_(0)
    noisy, true = divmod(int(joint.argmax()), len(joint))
    if joint[noisy, true] < _RARE:
        return None
    share = float(found.transitions[row, noisy, true])
    return f"{share:.0%} of {class_names[true]} labeled {class_names[noisy]}"


def labels_of(train: Dataset, position: int) -> list[tuple[str, str]]:
    """Return all labels of an example, each with its annotator; empty without several labels."""
    if train.votes is None:
        return []
    votes = train.votes[position]
    at = (votes >= 0).nonzero().flatten().tolist()
    names = train.annotators or [f"label {place + 1}" for place in range(len(votes))]
    return [(names[place], train.class_names[int(votes[place])]) for place in at]


def consensus_columns(found: AnnotatorEstimate, train: Dataset) -> dict[str, list[object]]:
    """Return the consensus label of each example, its probability, and the number of labels."""
    assert train.votes is not None
    sureness, chosen = torch.max(found.consensus, dim=1)
    return {
        "consensus": [train.class_names[index] for index in chosen.tolist()],
        "probability_consensus": sureness.tolist(),
        "labels": (train.votes >= 0).sum(1).tolist(),
    }
