"""The list of all losses; ``test_all_losses.py`` tests each of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import noisebound as nb
import references

CLASSES, RATE, BATCH = 5, 0.3, 16

# The columns sum to one. The zeros test that losses are computed in log space.
TRANSITION = np.array(
    [
        [0.7, 0.0, 0.1, 0.0, 0.2],
        [0.1, 0.8, 0.0, 0.0, 0.0],
        [0.0, 0.2, 0.6, 0.1, 0.0],
        [0.2, 0.0, 0.3, 0.9, 0.1],
        [0.0, 0.0, 0.0, 0.0, 0.7],
    ]
)
SYMMETRIC = np.full((CLASSES, CLASSES), RATE / (CLASSES - 1))
np.fill_diagonal(SYMMETRIC, 1 - RATE)


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[..., nb.Loss]
    reference: Callable[[np.ndarray, np.ndarray], np.ndarray]
    takes_weight: bool = False  # and label_smoothing
    remembers: bool = False  # needs the examples' positions in the training set
    needs_batch: bool = False  # the loss of an example depends on its batch
    entropy: str = "known"  # "known", "searched" or "none"

    def __repr__(self) -> str:
        return self.name

    def call(self, loss, logits, labels):
        """Call the loss, as if the batch were the first examples of the training set."""
        if self.remembers:
            return loss(logits, labels, torch.arange(len(logits)))
        return loss(logits, labels)

    def per_sample(self, logits, labels, **options):
        """Return the losses of the examples by a new loss, which remembers nothing yet."""
        loss = self.make(reduction="none", **options)
        if logits.dtype == torch.float64:
            loss.double()  # for the memory
        return self.call(loss, logits, labels)


ALL_LOSSES = (
    Case(
        "ce",
        nb.CrossEntropy,
        references.cross_entropy(),
        takes_weight=True,
    ),
    Case(
        "fce",
        lambda **o: nb.ForwardCrossEntropy(TRANSITION, **o),
        references.forward(TRANSITION),
        takes_weight=True,
    ),
    Case(
        "fce-symmetric",
        lambda **o: nb.ForwardCrossEntropy.symmetric(RATE, CLASSES, **o),
        references.forward(SYMMETRIC),
        takes_weight=True,
    ),
    Case(
        "gce",
        lambda **o: nb.GeneralizedCrossEntropy(a=0.4, **o),
        references.generalized(0.4),
        takes_weight=True,
    ),
    Case(
        "gce-at-mae",
        lambda **o: nb.GeneralizedCrossEntropy(a=1.0, **o),
        references.absolute(),
        takes_weight=True,
    ),
    Case(
        "sce",
        lambda **o: nb.SymmetricCrossEntropy(A=8.0, **o),
        references.symmetric(8.0),
        takes_weight=True,
    ),
    Case(
        "cep",
        lambda **o: nb.PriorCrossEntropy(RATE, CLASSES, **o),
        references.prior(RATE),
    ),
    Case(
        "backward",
        lambda **o: nb.BackwardCrossEntropy(TRANSITION, **o),
        references.backward(TRANSITION),
    ),
    Case(
        "backward-symmetric",
        lambda **o: nb.BackwardCrossEntropy.symmetric(RATE, CLASSES, **o),
        references.backward(SYMMETRIC),
    ),
    Case("mse", nb.MeanSquaredError, references.squared(), takes_weight=True),
    Case("mae", nb.MeanAbsoluteError, references.absolute(), takes_weight=True),
    Case(
        "nce-mae",
        nb.NormalizedCrossEntropyMAE,
        references.normalized(1.0, 1.0),
        takes_weight=True,
    ),
    Case("spherical", nb.Spherical, references.spherical(), takes_weight=True),
    Case(
        "bootstrap-soft",
        nb.Bootstrapping,
        references.soft_bootstrap(0.95),
        takes_weight=True,
        entropy="searched",
    ),
    Case(
        "bootstrap-hard",
        lambda **o: nb.Bootstrapping(mode="hard", **o),
        references.hard_bootstrap(0.8),
        takes_weight=True,
    ),
    Case("focal", nb.Focal, references.focal(2.0), takes_weight=True),
    Case(
        "focal-below-one",
        lambda **o: nb.Focal(gamma=0.5, **o),
        references.focal(0.5),
        takes_weight=True,
    ),
    Case(
        "rce",
        lambda **o: nb.ReverseCrossEntropy(A=4.0, **o),
        references.reverse(4.0),
        takes_weight=True,
    ),
    Case(
        "nce",
        lambda **o: nb.Normalized(nb.CrossEntropy(), **o),
        references.normalized_by_sum(references.cross_entropy()),
        takes_weight=True,
    ),
    Case(
        "nfl",
        lambda **o: nb.Normalized(nb.Focal(gamma=0.5), **o),
        references.normalized_by_sum(references.focal(0.5)),
        takes_weight=True,
    ),
    Case(
        "nfl-rce",
        lambda **o: nb.ActivePassive(
            nb.Normalized(nb.Focal(gamma=0.5)), nb.ReverseCrossEntropy(A=4.0), 2.0, 0.5, **o
        ),
        references.weighted_sum(
            2.0,
            references.normalized_by_sum(references.focal(0.5)),
            0.5,
            references.reverse(4.0),
        ),
        takes_weight=True,
    ),
    Case(
        "nce-agce",
        lambda **o: nb.ActivePassive(
            nb.Normalized(nb.CrossEntropy()),
            nb.AsymmetricGeneralizedCrossEntropy(a=6.0, q=1.5),
            beta=4.0,
            **o,
        ),
        references.weighted_sum(
            1.0,
            references.normalized_by_sum(references.cross_entropy()),
            4.0,
            references.asymmetric_generalized(6.0, 1.5),
        ),
        takes_weight=True,
    ),
    Case(
        "agce",
        nb.AsymmetricGeneralizedCrossEntropy,
        references.asymmetric_generalized(0.6, 0.6),
        takes_weight=True,
    ),
    Case("aul", nb.AsymmetricUnhinged, references.asymmetric_unhinged(5.5, 3.0), takes_weight=True),
    Case(
        "ael",
        nb.AsymmetricExponential,
        references.asymmetric_exponential(2.5),
        takes_weight=True,
    ),
    Case(
        "taylor",
        lambda **o: nb.TaylorCrossEntropy(order=3, **o),
        references.taylor(3),
        takes_weight=True,
    ),
    Case("js", nb.JensenShannon, references.jensen_shannon(0.5), takes_weight=True),
    Case("ls", nb.LabelSmoothing, references.label_smoothing(0.1)),
    Case(
        "nls",
        lambda **o: nb.LabelSmoothing(smoothing=-0.3, **o),
        references.label_smoothing(-0.3),
    ),
    Case(
        "ldr-kl",
        lambda **o: nb.LabelDistributionallyRobust(lam=2.0, margin=0.5, **o),
        references.label_distributionally_robust(2.0, 0.5),
        takes_weight=True,
    ),
    Case(
        "truncated",
        lambda **o: nb.Truncated(BATCH, **o),
        references.truncated(0.7, 0.5),
        remembers=True,
        entropy="none",
    ),
    Case(
        "curriculum",
        lambda **o: nb.Curriculum(RATE, **o),
        references.curriculum(RATE, references.hinge()),
        needs_batch=True,
        entropy="none",
    ),
    Case(
        "curriculum-ce",
        lambda **o: nb.Curriculum(RATE, base="cross-entropy", **o),
        references.curriculum(RATE, references.cross_entropy()),
        needs_batch=True,
        entropy="none",
    ),
    Case(
        "elr",
        lambda **o: nb.EarlyLearning(BATCH, CLASSES, **o),
        references.early_learning(3.0, 0.7),
        remembers=True,
        entropy="none",
    ),
)

STATELESS = tuple(case for case in ALL_LOSSES if not case.remembers)
POINTWISE = tuple(case for case in STATELESS if not case.needs_batch)
WITH_ENTROPY = tuple(case for case in ALL_LOSSES if case.entropy != "none")
