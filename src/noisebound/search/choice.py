"""The choice of a recipe by the evidence of its trials; plain training is always a candidate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from noisebound.search.evidence import CERTAIN, Evidence, Hits, Judges
from noisebound.search.recipes import RECIPES, Recipe
from noisebound.search.trial import smooth, soonest_agreeing
from noisebound.training.config import RecipeName

_TOLERATED_SHORTFALL = 1.0  # standard errors; heuristic

_CLEARLY_BEHIND = 2.0
"""Standard errors behind the best after which a recipe gets no more trials."""


@dataclass(frozen=True)
class Choice:
    """The recipe that was chosen, and the evidence for all candidates.

    Args:
        chosen: the evidence of the recipe that trains
        tried: the evidence of all recipes, the best first; empty if the recipe was named
        finals: the evidence of the best recipes when they were trained on all examples, where the
            trials had a part of them; gains are over the first of these
        withdrawn: the recipe that the trials preferred, if training it on all examples failed
        regularize: True if regularized networks, with dropout and factors of their inputs,
            predicted more labels that they did not see: then all recipes but plain training have
            such networks
        untried_because: the reason if trials were asked for and none was made
    """

    chosen: Evidence
    tried: tuple[Evidence, ...] = ()
    finals: tuple[Evidence, ...] = ()
    withdrawn: Evidence | None = None
    regularize: bool = False
    untried_because: str | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe that trains."""
        return RECIPES[self.chosen.recipe]

    @property
    def label(self) -> str:
        """A description of the training."""
        is_said = self.recipe.is_regularized or self.recipe.name == "plain"
        network = ", with a regularized network" if self.regularize and not is_said else ""
        return f"{self.chosen.label}{network}"

    @property
    def reason(self) -> str:
        """Why this recipe was chosen, in words."""
        if not self.tried:
            return self.untried_because or "the recipe that was named"
        chosen, best = self.chosen, self.tried[0]
        if self.withdrawn is not None:
            return (
                f"{self.withdrawn.label}: its training accuracy was below the held-out accuracy of "
                "its trials, so that training failed"
            )
        if len(self.finals) > 1:
            first, other = self.finals
            return (
                f"trained on all examples, {first.label} predicts {first.agreement:.1%} of the "
                f"labels it did not see, and {other.label} {other.gain:+.1%} ± "
                f"{other.standard_error:.1%} more"
            )
        if not self.is_plain:
            return (
                f"it predicts {chosen.agreement:.1%} of the labels of examples it did not see, "
                f"{chosen.gain:+.1%} ± {chosen.standard_error:.1%} over plain training"
            )
        if best.gain <= 0:
            return "no recipe predicts more labels of examples that it did not see"
        if best.is_certain and best.favors_common_labels:
            alike = f"{best.balanced_gain:+.1%} ± {best.balanced_error:.1%}"
            return (
                f"{best.label} predicts {best.gain:.1%} more of the labels it did not see, but if "
                f"classes count alike {alike if best.beats_guessing else 'no more than a guess'}"
                ": it favors the more common labels, which is wrong if noise has made them common"
            )
        return (
            f"the best other recipe, {best.label}, predicts {best.gain:+.1%} ± "
            f"{best.standard_error:.1%} of the labels it did not see, which chance may explain"
        )

    @property
    def finalists(self) -> tuple[Evidence, ...]:
        """The chosen recipe and, if there is one, another that chance may have put behind it."""
        others = [
            each
            for each in self.tried
            if each.recipe != self.chosen.recipe
            and each.examples == self.chosen.examples
            and each.gain > 0
            and not each.favors_common_labels
            and self.chosen.gain - each.gain <= CERTAIN * each.standard_error
        ]
        return (self.chosen, *others[:1])

    def after_comparison(self, hits: Sequence[Hits], labels: Int64[Tensor, " n"]) -> "Choice":
        """Return the choice when all examples have shown which finalist is best, and its epochs.

        Args:
            hits: for each finalist, whether each epoch predicted each label that watched it
            labels: these labels
        """
        epochs = [
            soonest_agreeing(found) if each.stops_early else len(found)
            for each, found in zip(self.finalists, hits, strict=True)
        ]
        last = [found[count - 1] for found, count in zip(hits, epochs, strict=True)]
        judges = Judges(labels, [torch.arange(len(labels))])
        finals = tuple(
            judges.evidence(
                each.recipe, [found], last[:1], epochs=count, stops_early=each.stops_early
            )
            for each, found, count in zip(self.finalists, last, epochs, strict=True)
        )
        return replace(
            self, chosen=finals[-1] if finals[-1].is_convincing else finals[0], finals=finals
        )

    @property
    def is_plain(self) -> bool:
        """True if training is plain and goes on to the last epoch."""
        return self.chosen.recipe == "plain" and not self.chosen.stops_early

    def after_full_training(self, hits: Bool[Tensor, " n"]) -> "Choice":
        """Return the choice when the recipe was trained on all examples: itself, or plain training.

        If the training accuracy is below the trials' held-out accuracy, training failed: it stopped
        too soon, or the success of the trials was chance.

        Args:
            hits: whether each label of the training examples was predicted
        """
        least = self.chosen.agreement - _TOLERATED_SHORTFALL * self.chosen.agreement_error
        if hits.double().mean().item() >= least:
            return self
        return replace(self, chosen=_plain_among(self.tried), withdrawn=self.chosen)


def named_choice(name: RecipeName, epochs: int) -> Choice:
    """Return the choice of a recipe that the user named."""
    return Choice(Evidence(name, False, epochs, 0.0, 0.0, 0.0, 0))


def choice_by(trials: Mapping[RecipeName, Sequence[Hits]], judges: Judges) -> Choice:
    """Return the choice that these trials justify.

    Args:
        trials: for each recipe and half, whether each epoch predicted each judged label; a recipe
            that was given up has fewer halves, and one that memorizes may have fewer epochs than
            plain training
        judges: the labels
    """
    found = {name: _evidence(name, trials, judges) for name in trials}
    tried = [each for evidence in found.values() for each in evidence]
    tried.sort(key=lambda each: -each.gain)  # stable: of equals the plainer first
    eligible = [
        each
        for name, evidence in found.items()
        if len(trials[name]) == len(trials["plain"])
        for each in evidence
        if each.is_convincing
    ]
    best = max(eligible, key=lambda each: each.gain, default=_plain_among(tried))
    return Choice(best, tuple(tried))


def _evidence(
    name: RecipeName, trials: Mapping[RecipeName, Sequence[Hits]], judges: Judges
) -> list[Evidence]:
    """Return the evidence for a recipe: for all epochs, if it had them, and stopped early."""
    halves, plain = trials[name], [hits[-1] for hits in trials["plain"]]
    is_whole = all(len(hits) == len(trials["plain"][0]) for hits in halves)
    found = []
    if is_whole or len(halves) == 1:
        last, count = [hits[-1] for hits in halves], len(halves[0])
        found.append(judges.evidence(name, last, plain, epochs=count, stops_early=not is_whole))
    if len(halves) > 1:
        found.append(_stopped(name, halves, plain, judges))
    return found


def _stopped(
    name: RecipeName,
    halves: Sequence[Hits],
    plain: Sequence[Bool[Tensor, " _"]],
    judges: Judges,
) -> Evidence:
    """Return the evidence of a recipe that stops at the epoch that predicts most labels."""
    halves = halves[: len(halves) // 2 * 2]  # whole divisions
    curves = [smooth(hits.double().mean(1)) for hits in halves]
    # Each half is judged at the epoch that the other half of its division prefers.
    preferred = [int(curves[number ^ 1].argmax()) for number in range(len(halves))]
    judged = [hits[min(at, len(hits) - 1)] for hits, at in zip(halves, preferred, strict=True)]
    # A trial that ended sooner was past its best, and is taken to have stayed where it was.
    longest = max(map(len, curves))
    total = sum(
        hits.shape[1] * torch.cat([curve, curve[-1:].expand(longest - len(curve))])
        for hits, curve in zip(halves, curves, strict=True)
    )
    assert isinstance(total, Tensor)
    return judges.evidence(name, judged, plain, epochs=int(total.argmax()) + 1, stops_early=True)


def _plain_among(tried: Sequence[Evidence]) -> Evidence:
    return next(each for each in tried if each.recipe == "plain" and not each.stops_early)


def worth_another_trial(
    trials: Mapping[RecipeName, Sequence[Hits]], judges: Judges
) -> list[Recipe]:
    """Return the recipes that are worth another trial: at first all.

    A recipe is dropped if it is clearly behind the best, both at their best epochs; the best must
    not favor the more common labels. After a whole division, a recipe is also dropped if it is not
    ahead of plain training. If none is ahead, the search ends.

    Args:
        trials: for each recipe and half, whether each epoch predicted each judged label
        judges: the labels
    """
    done = len(trials["plain"])
    if not done:
        return [RECIPES[name] for name in trials]
    plain = [hits[-1] for hits in trials["plain"]]
    peaks = {
        name: [hits[smooth(hits.double().mean(1)).argmax()] for hits in halves]
        for name, halves in trials.items()
        if len(halves) == done
    }
    found = {
        name: judges.evidence(name, hits, plain, epochs=1, stops_early=True)
        for name, hits in peaks.items()
    }
    shares = {name: judges.shares(hits) for name, hits in peaks.items()}
    leaders = [name for name in found if name == "plain" or not found[name].favors_common_labels]
    best = shares[max(leaders, key=lambda name: found[name].agreement)]
    kept = [name for name in found if not _is_clearly_behind(shares[name], best)]
    if done > 1:
        kept = [
            name for name in kept if any(each.gain > 0 for each in _evidence(name, trials, judges))
        ]
    return [RECIPES[name] for name in found if name in kept or (kept and name == "plain")]


def _is_clearly_behind(shares: Float64[Tensor, " m"], best: Float64[Tensor, " m"]) -> bool:
    behind = best - shares
    error = behind.std(correction=0) / math.sqrt(len(behind))
    return bool(behind.mean() > _CLEARLY_BEHIND * error)
