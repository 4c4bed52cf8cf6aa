"""``scores.json``: the scores of a run's model on true labels, from its validation split."""

from contextlib import suppress
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from noisebound.errors import InvalidValueError
from noisebound.estimation import CleanScore, Noise, NoiseEstimate, clean_score
from noisebound.estimation.trusted import Trusted
from noisebound.review import Audit

_ENOUGH = 50  # checked validation labels; the standard error is then at most 0.07; heuristic
NO_SPLIT = "there is no validation split; train with a positive `validation_share`"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The model's predictions for the validation split, with the noisy labels."""

    probs: Float[Tensor, "m classes"]
    labels: Int64[Tensor, " m"]
    positions: Int64[Tensor, " m"]  # among all training examples, in ascending order


class RunScores(BaseModel):
    """The scores of a run's model on true labels."""

    model_config = ConfigDict(frozen=True)

    validation: CleanScore | None = None  # by the validation split, whose labels are noisy
    test: CleanScore | None = None  # by the test set, whose labels count as right
    unknown_because: str | None = None  # why there are no scores by the validation split

    @property
    def words(self) -> str:
        found = self.validation
        if found is None:
            return f"unknown: {self.unknown_because}"
        notes = "".join(f"; {each}" for each in found.warnings)
        return f"{found.summary}; by {found.examples:,} validation labels{notes}"


def validation_scores(held_out: HeldOut, noise: Noise, audit: Audit | None) -> RunScores:
    """Return the scores by a validation split, with the noise of an audit if there is one."""
    if not len(held_out.labels):
        return RunScores(unknown_because=NO_SPLIT)
    known: Noise | NoiseEstimate | None = asked_noise(noise)
    trusted = None
    if audit is not None and (estimate := audit.result().estimate) is not None:
        known, trusted = estimate, _trusted(audit, held_out.positions)
    if isinstance(known, Noise) and known.rate is None:
        return RunScores(unknown_because=known.unknown_because)
    try:
        found = clean_score(held_out.probs, held_out.labels, noise=known, trusted=trusted)
    except InvalidValueError as error:  # such as too few examples
        return RunScores(unknown_because=str(error))
    return RunScores(validation=found)


def asked_noise(noise: Noise) -> Noise | None:
    """Return the noise; None if nobody asked for it, so that held-out predictions estimate it."""
    return None if noise.rate is None and noise.unknown_because is None else noise


def test_scores(
    probs: Float[Tensor, "n classes"], labels: Int64[Tensor, " n"]
) -> CleanScore | None:
    """Return the scores by a test set with clean labels, unless it is too small."""
    with suppress(InvalidValueError):
        return clean_score(probs, labels, noise=torch.eye(probs.shape[1]))
    return None


def _trusted(audit: Audit, validation: Int64[Tensor, " m"]) -> Trusted | None:
    """Return the answers of an audit that are in the validation split, if they are enough."""
    settled = [each for each in audit.answers if each.is_trusted]
    positions = torch.tensor([each.position for each in settled])
    inside = torch.isin(positions, validation)
    if int(inside.sum()) < _ENOUGH:
        return None
    positions, weights = positions[inside], audit.weights(settled)[inside]
    at = torch.searchsorted(validation, positions)
    return Trusted(at, audit.decisions.corrected()[positions], weights)
