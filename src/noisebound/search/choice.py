"""The choice among candidates by the evidence of their trials; plain training is always tried."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from noisebound.search.evidence import Evidence
from noisebound.search.recipes import RECIPES, Recipe
from noisebound.training.config import RecipeName


@dataclass(frozen=True)
class Choice:
    """The learners that train, each with its recipe, and the evidence for all candidates.

    Args:
        members: the evidence of the learners whose predictions are averaged, the best first
        tried: the evidence of all candidates, the best first; empty if nothing was tried
        regularize: True if regularized networks, with dropout and factors of their inputs,
            predicted more labels that they did not see: then all recipes but plain training have
            such networks
        untried_because: the reason if trials were asked for and none was made
        is_named: True if the user named the recipe, and trials only found its stage
    """

    members: tuple[Evidence, ...]
    tried: tuple[Evidence, ...] = ()
    regularize: bool = False
    untried_because: str | None = None
    is_named: bool = False

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
    def network(self) -> Evidence | None:
        """The member that is a network, if there is one."""
        return next((each for each in self.members if each.learner == "network"), None)

    @property
    def is_plain(self) -> bool:
        """True if a network is trained plainly, to the last epoch."""
        alone, chosen = len(self.members) == 1, self.chosen
        return alone and chosen.name == "plain"

    @property
    def label(self) -> str:
        """A description of what is trained."""
        members = [self._label(each) for each in self.members]
        return members[0] if len(members) == 1 else f"the average of {_listed(members)}"

    def _label(self, member: Evidence) -> str:
        is_said = RECIPES[member.recipe].is_regularized or member.recipe == "plain"
        is_regularized = self.regularize and member.learner == "network" and not is_said
        return f"{member.label}{', with a regularized network' if is_regularized else ''}"

    @property
    def reason(self) -> str:
        """Why this was chosen, in words."""
        if self.is_named or not self.tried:
            return self.untried_because or "the recipe that was named"
        chosen = self.chosen
        if len(self.members) > 1:
            return (
                f"each predicts about {chosen.agreement:.1%} of the labels of examples it did not "
                "see, and the differences may be chance"
            )
        if chosen.gain > 0:
            return (
                f"it predicts {chosen.agreement:.1%} of the labels of examples it did not see, "
                f"{chosen.gain:+.1%} ± {chosen.standard_error:.1%} over plain training"
            )
        best = self.tried[0]
        if best.gain <= 0:
            return "nothing else predicts more labels of examples that it did not see"
        if best.is_certain and best.favors_common_labels:
            alike = f"{best.balanced_gain:+.1%} ± {best.balanced_error:.1%}"
            return (
                f"{best.label} predicts {best.gain:.1%} more of the labels it did not see, but if "
                f"classes count alike {alike if best.beats_guessing else 'no more than a guess'}"
                ": it favors the more common labels, which is wrong if noise has made them common"
            )
        return (
            f"the best other candidate, {best.label}, predicts {best.gain:+.1%} ± "
            f"{best.standard_error:.1%} of the labels it did not see, which chance may explain"
        )

    def with_members(self, members: Sequence[Evidence]) -> "Choice":
        """Return the choice of other members."""
        return replace(self, members=tuple(members))


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
