"""The choice of a recipe by the evidence of its trials; plain training is always a candidate."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool
from torch import Tensor

from noisebound.training.best_epoch import smooth, soonest_agreeing
from noisebound.training.config import RecipeName
from noisebound.training.recipe import RECIPES, Recipe

Hits: TypeAlias = Bool[Tensor, "_ _"]
"""Whether each epoch of a trial predicted each label that judges it, one row per epoch."""

_CERTAIN = 2.0
"""A recipe takes the place of plain training if it is ahead by so many standard errors. The best of
sixteen that are no better than plain training is ahead by about one. On the tables of the dev half
of ``noisebound reproduce estimates``, one seed, nearly all that a choice gained was so certain. By
the same measure another recipe is abreast of the chosen one, and may be better on all examples."""

_ABOVE_GUESSING = 1.0  # standard errors of the share of the commonest label: a choice

_FALLS_SHORT = 1.0  # standard errors: a choice; most networks know their own labels better by more

_HOPELESS = 2.0
"""A recipe that is so many standard errors behind the best after one half is given up."""


@dataclass(frozen=True)
class Evidence:
    """What the trials of a recipe say of it.

    Args:
        recipe: the recipe
        stops_early: True if training ends at the epoch that agrees best with left-out labels
        epochs: the number of epochs that a training by it takes
        agreement: the share of the judged labels that it predicted
        gain: its agreement less that of plain training on the same examples
        standard_error: the standard error of the gain
        examples: how many labels judged it; 0 if the recipe was named and nothing was tried
    """

    recipe: RecipeName
    stops_early: bool
    epochs: int
    agreement: float
    gain: float
    standard_error: float
    examples: int

    @property
    def is_convincing(self) -> bool:
        """True if it is so far ahead of plain training that it should take its place."""
        return self.gain > _CERTAIN * self.standard_error

    @property
    def agreement_error(self) -> float:
        """The standard error of the agreement."""
        return math.sqrt(self.agreement * (1 - self.agreement) / max(1, self.examples))

    @property
    def name(self) -> str:
        """The recipe's name, for a plot or a table."""
        return f"{self.recipe}, stopped early" if self.stops_early else self.recipe

    @property
    def label(self) -> str:
        """What it does, for people."""
        text = RECIPES[self.recipe].label
        return f"{text}, stopped after epoch {self.epochs}" if self.stops_early else text


@dataclass(frozen=True)
class Choice:
    """The recipe that was chosen, and what it was chosen from.

    Args:
        chosen: the evidence of the recipe that trains
        tried: the evidence of all recipes, the best first; empty if the recipe was named
        finals: the evidence of the best recipes when they were trained on all examples, where the
            trials had a part of them; gains are over the first of these
        withdrawn: the recipe that trials preferred and a rehearsal spoke against; None if none
    """

    chosen: Evidence
    tried: tuple[Evidence, ...] = ()
    finals: tuple[Evidence, ...] = ()
    withdrawn: Evidence | None = None

    @property
    def recipe(self) -> Recipe:
        """The recipe that trains."""
        return RECIPES[self.chosen.recipe]

    @property
    def reason(self) -> str:
        """Why this recipe was chosen, in words."""
        if not self.tried:
            return "the recipe that was named"
        chosen, best = self.chosen, self.tried[0]
        if self.withdrawn is not None:
            return (
                f"{self.withdrawn.label} predicts fewer of the labels that it was trained on than "
                "its trials did of labels that they had not seen"
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
        return (
            f"the best other recipe, {best.label}, predicts {best.gain:+.1%} ± "
            f"{best.standard_error:.1%} of the labels it did not see: too little to tell them apart"
        )

    @property
    def finalists(self) -> tuple[Evidence, ...]:
        """The chosen recipe and, where there is one, another that is abreast of it."""
        others = [
            each
            for each in self.tried
            if each.recipe != self.chosen.recipe
            and each.examples == self.chosen.examples
            and each.gain > 0
            and self.chosen.gain - each.gain <= _CERTAIN * each.standard_error
        ]
        return (self.chosen, *others[:1])

    def after_finals(self, hits: Sequence[Hits]) -> "Choice":
        """Return the choice when all examples have shown which finalist is best, and its epochs.

        Args:
            hits: for each finalist, whether each epoch predicted each label that watched it
        """
        epochs = [
            soonest_agreeing(found) if each.stops_early else len(found)
            for each, found in zip(self.finalists, hits, strict=True)
        ]
        last = [found[count - 1] for found, count in zip(hits, epochs, strict=True)]
        finals = tuple(
            _evidence(each.recipe, [found], last[:1], count, each.stops_early)
            for each, found, count in zip(self.finalists, last, epochs, strict=True)
        )
        return replace(
            self, chosen=finals[-1] if finals[-1].is_convincing else finals[0], finals=finals
        )

    @property
    def is_plain(self) -> bool:
        """True if training is plain and goes on to the last epoch."""
        return self.chosen.recipe == "plain" and not self.chosen.stops_early

    def after_rehearsal(self, hits: Bool[Tensor, " n"]) -> "Choice":
        """Return the choice when the recipe was trained on all examples: itself, or plain training.

        A network knows the labels that it was trained on at least as well as labels that it has
        not seen. One that knows them worse has not learned what its trials had learned: it stopped
        too soon, or their success was chance.

        Args:
            hits: whether each label of the training examples was predicted
        """
        least = self.chosen.agreement - _FALLS_SHORT * self.chosen.agreement_error
        if hits.double().mean().item() >= least:
            return self
        return replace(self, chosen=_plain_among(self.tried), withdrawn=self.chosen)

    def record(self) -> dict[str, Any]:
        """Return everything, as JSON can hold it."""
        return {
            "chosen": vars(self.chosen),
            "tried": [vars(each) for each in self.tried],
            "finals": [vars(each) for each in self.finals],
            "withdrawn": None if self.withdrawn is None else vars(self.withdrawn),
        }

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> "Choice":
        """Return the choice that :meth:`record` wrote."""
        tried, finals = (
            tuple(Evidence(**each) for each in record.get(name, ())) for name in ("tried", "finals")
        )
        withdrawn = record.get("withdrawn")
        return cls(
            Evidence(**record["chosen"]),
            tried,
            finals,
            None if withdrawn is None else Evidence(**withdrawn),
        )


def named_choice(name: RecipeName, epochs: int) -> Choice:
    """Return the choice of a recipe that the user named."""
    return Choice(Evidence(name, False, epochs, 0.0, 0.0, 0.0, 0))


def choice_by(trials: Mapping[RecipeName, Sequence[Hits]], commonest: float = 0.0) -> Choice:
    """Return the choice that these trials justify.

    Args:
        trials: for each recipe and half, whether each epoch predicted each judged label; a recipe
            that was given up has one half only, and one that memorizes may have fewer epochs than
            plain training
        commonest: the share of the commonest label. A recipe that predicts hardly more labels has
            learned nothing, even if plain training has memorized and predicts fewer
    """
    plain = [hits[-1] for hits in trials["plain"]]
    epochs = len(trials["plain"][0])
    tried = []
    for name, halves in trials.items():
        is_whole = all(len(hits) == epochs for hits in halves)
        if is_whole or len(halves) == 1:
            last = [hits[-1] for hits in halves]
            tried.append(_evidence(name, last, plain, len(halves[0]), not is_whole))
        if len(halves) == 2:
            tried.append(_stopped(name, halves, plain))
    tried.sort(key=lambda each: -each.gain)  # stable: of equals the plainer first
    baseline = _plain_among(tried)
    examples = baseline.examples
    guessed = commonest + _ABOVE_GUESSING * math.sqrt(commonest * (1 - commonest) / examples)
    eligible = [each for each in tried if each.examples == examples and each.agreement > guessed]
    is_found = bool(eligible) and eligible[0].is_convincing
    return Choice(eligible[0] if is_found else baseline, tuple(tried))


def _stopped(
    name: RecipeName,
    halves: Sequence[Hits],
    plain: Sequence[Bool[Tensor, " _"]],
) -> Evidence:
    """Return the evidence of a recipe that stops at the epoch that predicts most labels."""
    shared = min(len(hits) for hits in halves)
    first, second = (hits[:shared] for hits in halves)
    curves = [smooth(hits.double().mean(1)) for hits in (first, second)]
    # Each half is judged at the epoch that the other half prefers.
    judged = [first[curves[1].argmax()], second[curves[0].argmax()]]
    both = first.shape[1] * curves[0] + second.shape[1] * curves[1]
    return _evidence(name, judged, plain, int(both.argmax()) + 1, True)


def _plain_among(tried: Sequence[Evidence]) -> Evidence:
    return next(each for each in tried if each.recipe == "plain" and not each.stops_early)


def _evidence(
    name: RecipeName,
    hits: Sequence[Bool[Tensor, " _"]],
    plain: Sequence[Bool[Tensor, " _"]],
    epochs: int,
    stops_early: bool,
) -> Evidence:
    found = torch.cat(list(hits)).double()
    difference = found - torch.cat(list(plain[: len(hits)])).double()
    error = difference.std(correction=0).item() / math.sqrt(len(found))
    return Evidence(
        name,
        stops_early,
        epochs,
        found.mean().item(),
        difference.mean().item(),
        error,
        len(found),
    )


def hopeful(trials: Mapping[RecipeName, Sequence[Hits]]) -> list[Recipe]:
    """Return the recipes that may still turn out best: at first all, then all but clear losers."""
    last = {name: halves[0].double() for name, halves in trials.items() if halves}
    if not last:
        return list(RECIPES.values())
    best = max((hits[smooth(hits.mean(1)).argmax()] for hits in last.values()), key=torch.mean)
    hopeful = []
    for name, hits in last.items():
        behind = best - hits[smooth(hits.mean(1)).argmax()]
        error = behind.std(correction=0) / math.sqrt(len(behind))
        if name == "plain" or behind.mean() <= _HOPELESS * error:
            hopeful.append(RECIPES[name])
    return hopeful
