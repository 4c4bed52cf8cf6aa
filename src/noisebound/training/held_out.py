"""What networks say of examples that they were not trained on, when they know them best."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from noisebound.files import written_whole

_PATIENCE = 3

LOOKED_AT = 2_000
"""Of a network's own examples, to see whether it knows them by heart."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What networks say of examples that they were not trained on.

    Args:
        logits: a row an example
        is_underfit: whether a network was still learning, and had learnt nothing by heart, when its
            epochs ended: then much of what it gets wrong is its own fault, and not the labels'
        positions: of the examples among those that were given to `fit`
    """

    logits: Float[Tensor, "n classes"]
    is_underfit: bool
    positions: Int64[Tensor, " n"]

    def save(self, path: Path, identity: str) -> None:
        """Whole or not at all."""
        about = {"identity": identity, "underfit": str(self.is_underfit)}
        with written_whole(path) as part:
            save_file({"logits": self.logits, "positions": self.positions}, part, metadata=about)

    @classmethod
    def read(cls, path: Path, identity: str | None = None) -> "HeldOut | None":
        """What was saved, if it is whole and of this run; of whichever, without an identity."""
        try:
            with safe_open(path, framework="pt") as stored:
                about = stored.metadata() or {}
                if identity not in (None, about.get("identity")):
                    return None
                logits, positions = (stored.get_tensor(name) for name in ("logits", "positions"))
                return cls(logits, about.get("underfit") == "True", positions)
        except (OSError, SafetensorError):  # absent or damaged: do it again
            return None


class BestEpoch:
    """The epoch at which a network knew held-out examples best, before it learnt noise by heart.

    Args:
        labels: of the held-out examples
    """

    def __init__(self, labels: Int64[Tensor, " n"]) -> None:
        self.labels = labels
        self.logits: Float[Tensor, "n classes"] = torch.empty(0)
        self._epoch = self._best = 0
        self._least = torch.inf

    def look(self, logits: Float[Tensor, "n classes"]) -> float:
        """The loss of the predictions after one more epoch."""
        self._epoch += 1
        loss = F.cross_entropy(logits, self.labels).item()
        if loss < self._least:
            self.logits, self._least, self._best = logits, loss, self._epoch
        return loss

    @property
    def is_past(self) -> bool:
        """Whether it is some epochs ago."""
        return self._epoch - self._best >= _PATIENCE

    def is_underfit(
        self, own_logits: Float[Tensor, "m classes"], own_labels: Int64[Tensor, " m"]
    ) -> bool:
        """Whether the last epoch was the best, and the network no better on its own examples.

        Args:
            own_logits: of some examples that the network was trained on
            own_labels: theirs
        """
        if self._best < self._epoch:
            return False
        own = F.cross_entropy(own_logits, own_labels, reduction="none")
        others = F.cross_entropy(self.logits, self.labels, reduction="none")
        error = (own.var() / len(own) + others.var() / len(others)).sqrt()
        return bool(others.mean() - own.mean() < 2 * error)  # but by chance
