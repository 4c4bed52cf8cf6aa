"""The rows of the tables beyond the paper: methods with what they are told of the noise."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from noisebound.catalog import SPECS, LossName
from noisebound.errors import InvalidValueError
from noisebound.paper.protocol.methods import BOUNDED, label_of
from noisebound.training.config import DEFAULT_LOSS

Granularity: TypeAlias = Literal["batch", "example", "class", "running"]
"""Over what the mean loss is taken that is held at the bound: over a batch, one example, the
examples of one class in a batch, or about ten batches."""

Knowledge: TypeAlias = Literal["noise rate", "true rate", "true transition", "nothing"]
"""What a method is told: the column's noise rate, the realized noise rate, the realized transition
matrix, or nothing."""


Learner: TypeAlias = Literal["network", "logistic", "neighbors", "cleanlab"]
"""What learns: the preset's network; or on the same inputs a logistic regression, the nearest
neighbors' vote, or cleanlab's CleanLearning around a logistic regression."""


class Contender(BaseModel):
    """A method that its loss alone does not describe.

    Attributes:
        label: the name in tables
        loss: the loss, as in `TrainingConfig`
        knows: what the method is told of the noise
        granularity: over what the mean loss is taken that is held at the bound
        prunes: True if the examples whose labels cleanlab finds wrong are left out of training
        best_epoch: True if the epoch is chosen by the accuracy on validation, whose labels are
            noisy
        recipe: ``"auto"`` if the recipe is chosen by trials, in place of the loss
        learner: what learns
        only_right: True if the examples whose labels are wrong are left out, which takes the truth
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str
    loss: str
    knows: Knowledge = "nothing"
    granularity: Granularity = "batch"
    prunes: bool = False
    best_epoch: bool = False
    recipe: Literal["auto"] | None = None
    learner: Learner = "network"
    only_right: bool = False

    @property
    def is_simple(self) -> bool:
        """True if users could train so without noisebound, knowing nothing of the noise."""
        return self.recipe is None and self.knows == "nothing" and not self.only_right

    @property
    def needs_every_epoch(self) -> bool:
        """True if the run also serves early stopping, which chooses among epochs."""
        is_plain = self.learner == "network" and self.loss == "ce" and self.recipe is None
        return is_plain and not self.only_right and self.knows == "nothing"


_RATE: Knowledge = "true rate"
_MATRIX: Knowledge = "true transition"
_GRANULARITIES: tuple[Granularity, ...] = ("batch", "running", "class", "example")

_BY_TRIALS = Contender(
    label="auto: a recipe by trials, nothing given", loss=DEFAULT_LOSS, recipe="auto"
)

PEERS = {
    "auto": _BY_TRIALS,
    "fce+auto": Contender(label="FCE+B, estimated", loss="fce+b"),
    "fce+matrix": Contender(label="FCE+B, true transition", loss="fce+b", knows=_MATRIX),
    "ce+rate": Contender(label="CE+B, true rate", loss="ce+b", knows=_RATE),
    "sce+rate": Contender(label="SCE+B, true rate", loss="sce+b", knows=_RATE),
    "plain": Contender(label="CE", loss="ce"),
    "early": Contender(label="CE, stopped early", loss="ce", best_epoch=True),
    "prune": Contender(label="CE, pruned by cleanlab", loss="ce", prunes=True),
    "elr": Contender(label="ELR", loss="elr"),
    "nce-mae": Contender(label="NCE-MAE", loss="nce-mae"),
    "gce": Contender(label="GCE", loss="gce"),
    "mae": Contender(label="MAE", loss="mae"),
}
"""Our methods, the same with the true noise given, and the methods of others."""

GRANULARITIES = {
    f"{loss}:{granularity}": Contender(
        label=f"{loss.upper()}+B, {granularity}", loss=f"{loss}+b", granularity=granularity
    )
    for loss in ("ce", "fce")
    for granularity in _GRANULARITIES
}
"""Bounds on means over other groups; the noise is estimated."""

BACKWARD = {
    "fce-matrix": Contender(label="FCE, true transition", loss="fce", knows=_MATRIX),
    "fce+matrix": PEERS["fce+matrix"],
    "backward-matrix": Contender(label="backward, true transition", loss="backward", knows=_MATRIX),
    "backward+matrix": Contender(
        label="backward+B, true transition", loss="backward+b", knows=_MATRIX
    ),
    "backward-auto": Contender(label="backward, estimated", loss="backward"),
    "backward+auto": Contender(label="backward+B, estimated", loss="backward+b"),
    "fce+auto": PEERS["fce+auto"],
}
"""The paper's open question: the backward correction beside the forward one, plain and bounded."""

PRETRAINED_CONTENDERS = {
    "auto": _BY_TRIALS,
    "plain": PEERS["plain"],
    "early": PEERS["early"],
    "logistic": Contender(label="logistic regression", loss="ce", learner="logistic"),
    "neighbors": Contender(label="nearest neighbors", loss="ce", learner="neighbors"),
    "cleanlab": Contender(label="cleanlab's CleanLearning", loss="ce", learner="cleanlab"),
    "mae": PEERS["mae"],
    "gce": PEERS["gce"],
    "nce-mae": PEERS["nce-mae"],
    "elr": PEERS["elr"],
    **{
        f"{loss}+rate": Contender(
            label=f"{label_of(loss)}+B, true rate", loss=f"{loss}+b", knows=_RATE
        )
        for loss in BOUNDED
    },
    "ceiling": Contender(label="ceiling: CE on right labels alone", loss="ce", only_right=True),
}
"""The rows of the experiment on embeddings: ours, what others would do, and two that know more."""

LOSSES = {
    str(name): Contender(label=name.label, loss=str(name), knows="noise rate")
    for spec in SPECS.values()
    if spec.floor is not None
    for name in (LossName(spec), LossName(spec).bounded)
}
"""Every loss that has a floor, without and with its bound."""

BOUNDS = {
    "auto": _BY_TRIALS,
    **{
        name: contender
        for loss in BOUNDED
        for name, contender in (
            (loss, LOSSES[loss]),
            (f"{loss}+b", LOSSES[f"{loss}+b"]),
            (
                f"{loss}+auto",
                Contender(label=f"{label_of(loss)}+B, measured", loss=f"{loss}+b"),
            ),
        )
    },
}
"""The paper's five losses at the bound of the column's rate and at the measured one, and `auto`."""

CONTESTS = {
    "beyond": PEERS,
    "granularity": GRANULARITIES,
    "backward": BACKWARD,
    "pretrained": PRETRAINED_CONTENDERS,
    "losses": LOSSES,
    "bounds": BOUNDS,
}
CONTEST_TITLES = {
    "beyond": "Nothing given: the noise is estimated",
    "granularity": "Whose mean loss is held against the bound",
    "backward": "The backward correction, plain and bounded",
    "pretrained": "Heads on pretrained embeddings",
    "losses": "Every loss that has a floor, without and with its bound",
    "bounds": "The bound of the noise rate, and the bound that is measured",
}


def check_contenders(names: Sequence[str], among: dict[str, Contender]) -> tuple[str, ...]:
    """Return the names in lower case, each once, or raise an error that lists them."""
    spelled = tuple(dict.fromkeys(name.lower() for name in names))
    for name in spelled:
        if name not in among:
            raise InvalidValueError(f"unknown method {name!r}: choose from {', '.join(among)}")
    if not spelled:
        raise InvalidValueError("name at least one method")
    return spelled
