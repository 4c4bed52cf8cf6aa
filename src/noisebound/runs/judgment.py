"""The judgment of a run: its predictions for each label of its data, and the suspects.

The judgment is kept in the run folder, so that the report, the review and the list of suspects need
one inference pass between them.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

import polars as pl
from jaxtyping import Float64, Int64
from torch import Tensor

from noisebound.data import Dataset, Splits
from noisebound.data.rows import Rows
from noisebound.errors import DataError, NoRoomError
from noisebound.estimation import EstimatedNoise, Noise, Suspects, estimate_noise
from noisebound.estimation.model_suspects import suspects_by_models
from noisebound.estimation.noise import ClassWeightedNoise
from noisebound.estimation.predictions import of_label
from noisebound.features.backbone import hash_of_file
from noisebound.features.load import examples_fingerprint
from noisebound.runs.folder import RunFolder
from noisebound.runs.result import RunResult
from noisebound.runs.saved_model import SavedModel
from noisebound.search.problem import class_weights
from noisebound.system.files import fingerprint, load_tensors, save_tensors
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


def judgment_once(folder: RunFolder, splits: Splits, infer: Callable[[], Judgment]) -> Judgment:
    """Return the judgment that the run folder keeps; infer it if it is absent or outdated.

    A folder that cannot be written is not an error.
    """
    digest = hashlib.sha256(version("noisebound").encode())
    digest.update(fingerprint(splits.train.labels).encode())
    for path in (folder.config, folder.result, folder.card, folder.weights, folder.encoder):
        if path.exists():
            digest.update(bytes.fromhex(hash_of_file(path)))
    key = digest.hexdigest()
    with suppress(OSError, DataError):
        tensors, about = load_tensors(folder.judgment)
        if about.get("key") == key:
            suspects = Suspects(tensors["score"], tensors["suggested"])
            return Judgment(tensors["probabilities"], suspects)
    found = infer()
    assert found.suspects.suggested is not None
    tensors = {
        "probabilities": found.probabilities,
        "score": found.suspects.score,
        "suggested": found.suspects.suggested,
    }
    with suppress(OSError, NoRoomError):
        save_tensors(folder.judgment, tensors, {"key": key})
    return found


def infer_judgment(
    config: TrainingConfig, noise: Noise, saved: SavedModel, train: Dataset, inputs: Rows
) -> Judgment:
    """Return the judgment of a run, by one inference pass over its training data.

    Args:
        config: how the run was trained
        noise: the noise of its labels, with out-of-fold predictions where they are kept
        saved: the trained model
        train: the data that it was given; labels may have been corrected since
        inputs: the training inputs as the trained model takes them
    """
    probs = saved.probabilities(inputs).double()
    # Without any knowledge of the noise, the model itself estimates the matrix.
    is_unasked = not noise.is_known and not noise.warnings
    seen = estimate_noise(probs, train.labels).transition if is_unasked else noise.transition
    seen_noise, weights = noise, class_weights(config, train)
    if weights is not None:
        shares = train.class_counts().double() / len(train)
        seen_noise = ClassWeightedNoise(noise, weights, shares)
        seen = seen_noise.transition
    loss = make_criterion(config, len(seen), len(probs), seen_noise)
    if not isinstance(noise, EstimatedNoise) or noise.out_of_fold is None:
        return Judgment(probs, suspects_by_models(probs, train.labels, loss, seen, None))
    found = suspects_by_models(probs, train.labels, loss, seen, noise.out_of_fold, noise.estimate)
    judged = noise.out_of_fold.with_validation
    probs[judged.positions] = judged.probabilities
    return Judgment(probs, found)


def label_surprise(
    probs: Float64[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> Float64[Tensor, " n"]:
    """Return the predicted log-odds that each example has another label than its own."""
    return -of_label(probs, labels).logit(eps=_LEAST_PROBABILITY)


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
