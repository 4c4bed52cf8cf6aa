"""The choice among candidates by the evidence of their trials; plain training is always tried."""

from collections.abc import Sequence

from pydantic.dataclasses import dataclass

from noisebound.search.evidence import Evidence
from noisebound.search.recipes import LEARNER_LABELS, RECIPES, Recipe
from noisebound.training.config import RecipeName


@dataclass(frozen=True)
class Choice:
    """The learners that train, each with its recipe, and the evidence for all candidates.

    If regularized networks, with dropout and factors of their inputs, predict more held-out labels,
    all recipes but plain training have such networks.
    """

    members: tuple[Evidence, ...]  # the learners whose predictions are averaged, the best first
    tried: tuple[Evidence, ...] = ()  # all candidates, the best first
    regularize: bool = False
    agreement: float = 0.0  # the share of the held-out labels that their average predicts
    untried_because: str | None = None  # the reason if trials were asked for and none was made
    is_named: bool = False  # the user named the recipe, and trials only found its stage

    @classmethod
    def named(cls, recipe: RecipeName, epochs: int, untried_because: str | None = None) -> "Choice":
        """Return the choice of a network with the recipe that the user named."""
        evidence = Evidence(recipe, False, epochs, 0.0, 0.0, 0.0, 0)
        return cls((evidence,), untried_because=untried_because)

    @property
    def chosen(self) -> Evidence:
        """The best of the members."""
        return self.members[0]

    @property
    def recipe(self) -> Recipe:
        """The recipe of the best member."""
        return RECIPES[self.chosen.recipe]

    @property
    def share_as_given(self) -> float:
        """The share of the members that learned the labels as they are."""
        uses = [RECIPES[each.recipe].labels for each in self.members]
        return uses.count("as they are") / len(uses)

    @property
    def network(self) -> Evidence | None:
        """The member that is a network, if there is one."""
        return next((each for each in self.members if each.learner == "network"), None)

    @property
    def is_plain(self) -> bool:
        """True if a network is trained plainly, to the last epoch."""
        alone, chosen = len(self.members) == 1, self.chosen
        return alone and chosen.name == "plain"

    @property
    def is_network(self) -> bool:
        """True if a network is trained and nothing else."""
        return len(self.members) == 1 and self.network is not None

    @property
    def name(self) -> str:
        """A short name, for a plot or a table."""
        if len(self.members) == 1:
            return self.chosen.name
        return f"average of {listed(list(dict.fromkeys(each.learner for each in self.members)))}"

    @property
    def label(self) -> str:
        """A description of what is trained."""
        members = [self.described(each) for each in self.members]
        return members[0] if len(members) == 1 else f"the average of {listed(members)}"

    def described(self, member: Evidence) -> str:
        """Return a description of one of the members."""
        recipe = RECIPES[member.recipe]
        is_network = member.learner == "network"
        is_regularized = is_network and self.regularize and recipe.name != "plain"
        words = member.described(recipe.is_regularized or is_regularized)
        return f"{words} ({member.setting})" if member.setting else words

    def is_member(self, evidence: Evidence) -> bool:
        """True if the evidence is that of a member, whose stage may have changed since."""
        return any(
            (each.candidate, each.agreement) == (evidence.candidate, evidence.agreement)
            for each in self.members
        )

    @property
    def baseline(self) -> Evidence | None:
        """The candidate that all gains are over: plain training by the first learner."""
        return next(
            (
                each
                for each in self.tried
                if each.recipe == "plain" and each.gain == each.standard_error == 0
            ),
            None,
        )

    @property
    def reason(self) -> str:
        """Why this was chosen, in words."""
        if self.is_named or not self.tried:
            return self.untried_because or "this recipe was named"
        chosen = self.chosen
        if len(self.members) > 1:
            shares = listed([f"{each.agreement:.1%}" for each in self.members])
            average = f"their average {self.agreement:.1%}"
            return f"they predict {shares} of the held-out labels, and {average}"
        if chosen.gain > 0:
            return (
                f"it predicts {chosen.agreement:.1%} of the held-out labels, {_points(chosen)} "
                f"more than {self._plain}"
            )
        best = self.tried[0]
        if best.gain <= 0:
            return "nothing else predicts more held-out labels"
        if best.is_certain and best.favors_common_labels:
            alike = f"{100 * best.balanced_gain:+.1f} ± {100 * best.balanced_error:.1f} points"
            return (
                f"{best.label} predicts {_points(best)} more of the held-out labels, but "
                f"{alike if best.beats_guessing else 'no more than a guess'} if classes count "
                "alike: it favors the more common labels, which noise may have made common"
            )
        if best.is_certain:
            return "nothing else predicted more held-out labels in all trials"
        return (
            f"{best.label} predicts {_points(best)} more of the held-out labels, which chance may "
            "explain"
        )

    @property
    def _plain(self) -> str:
        """The baseline in words."""
        learner = "network" if self.baseline is None else self.baseline.learner
        if self.chosen.learner == learner:
            return "plain training"
        return "a plain network" if learner == "network" else LEARNER_LABELS[learner]


def listed(names: Sequence[str]) -> str:
    """Return names in one phrase.

    Example:
        >>> listed(["linear", "trees", "network"])
        'linear, trees and network'
    """
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])


def _points(evidence: Evidence) -> str:
    return f"{100 * evidence.gain:.1f} ± {100 * evidence.standard_error:.1f} points"
