"""The rows beyond the paper's tables: what a method knows of the noise, and its peers."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from noisebound.errors import InvalidValueError

Granularity: TypeAlias = Literal["batch", "example", "class", "running"]
"""Over what a mean is held at the bound: a batch, an example, a batch's examples of a class, or
about ten batches."""

Knowledge: TypeAlias = Literal["noise rate", "true rate", "true transition", "nothing"]
"""The rate that was asked for, that which came about, the matrix that came about, or none."""


class Contender(BaseModel):
    """A method of which more is to be said than the name of its loss.

    Attributes:
        label: for the reader
        loss: as for `TrainingConfig`
        knows: what it is told of the noise
        granularity: whose mean loss its bound is held against
        prunes: whether cleanlab first finds wrong labels in five folds, and they are left out
        best_epoch: whether the epoch is chosen by accuracy on held-out noisy labels
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str
    loss: str
    knows: Knowledge = "nothing"
    granularity: Granularity = "batch"
    prunes: bool = False
    best_epoch: bool = False


_RATE: Knowledge = "true rate"
_MATRIX: Knowledge = "true transition"
_GRANULARITIES: tuple[Granularity, ...] = ("batch", "running", "class", "example")

PEERS = {
    "auto": Contender(label="auto: FCE+B, nothing given", loss="fce+b"),
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
"""Ours, what it would be if the truth were known, and what others do."""

GRANULARITIES = {
    f"{loss}:{granularity}": Contender(
        label=f"{loss.upper()}+B, {granularity}", loss=f"{loss}+b", granularity=granularity
    )
    for loss in ("ce", "fce")
    for granularity in _GRANULARITIES
}
"""Whose mean is held against the bound, all else as in ``auto``."""

BACKWARD = {
    "fce-matrix": Contender(label="FCE, true transition", loss="fce", knows=_MATRIX),
    "fce+matrix": PEERS["fce+matrix"],
    "backward-matrix": Contender(label="backward, true transition", loss="backward", knows=_MATRIX),
    "backward+matrix": Contender(
        label="backward+B, true transition", loss="backward+b", knows=_MATRIX
    ),
    "backward-auto": Contender(label="backward, estimated", loss="backward"),
    "backward+auto": Contender(label="backward+B, estimated", loss="backward+b"),
    "auto": PEERS["auto"],
}
"""The paper's open question: the backward correction, plain and bounded, and the forward one."""

CONTESTS = {"beyond": PEERS, "granularity": GRANULARITIES, "backward": BACKWARD}
CONTEST_TITLES = {
    "beyond": "Nothing given: the noise is estimated",
    "granularity": "Whose mean loss is held against the bound",
    "backward": "The backward correction, plain and bounded",
}
CONTENDERS = PEERS | GRANULARITIES | BACKWARD


def check_contenders(names: Sequence[str], among: dict[str, Contender]) -> tuple[str, ...]:
    """The names, each once, or an error that lists them."""
    spelled = tuple(dict.fromkeys(name.lower() for name in names))
    for name in spelled:
        if name not in among:
            raise InvalidValueError(f"unknown method {name!r}: choose from {', '.join(among)}")
    if not spelled:
        raise InvalidValueError("name at least one method")
    return spelled
