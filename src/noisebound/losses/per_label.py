"""Losses of multi-label data: a loss of two classes, applied to each label.

A label with the logit ``z`` is a problem with the classes absent and present, whose logits are
``(0, z)``. So every loss of two classes serves, with its noise model, its entropy and its floor.
"""

from collections.abc import Sequence
from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import ModuleList, functional as F

from noisebound.checks import check_number
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.losses.corrections import ForwardCrossEntropy
from noisebound.losses.likelihood import CrossEntropy, Focal
from noisebound.losses.loss import (
    AtLabels,
    ClassScores,
    Distributions,
    Entropies,
    LikelihoodLoss,
    Loss,
    LossOptions,
    PerExample,
    Pick,
    Reduction,
    is_traced,
)
from noisebound.losses.without_floor import Curriculum, RememberingLoss
from noisebound.noise_models import NoiseModel

LabelLogits = Float[Tensor, "batch labels *positions"]


class PerLabel(Loss):
    """A loss of two classes, applied to each label of multi-label data.

    It takes logits ``[N, K]`` and targets of the same shape: 1 if the label is present, 0 if it is
    absent, and -1 if it was not given. Targets in between are probabilities. The mean is over all
    labels that were given; with ``reduction="none"``, the loss of a label that was not is zero.

    To correct the noise, use `ForwardCrossEntropy` or `BackwardCrossEntropy` with the matrix
    ``T[noisy, true]`` of the classes absent and present, ``[[1-ρ⁺, ρ⁻], [ρ⁺, 1-ρ⁻]]``, for labels
    missed at rate ``ρ⁻`` and added at rate ``ρ⁺``.

    Args:
        loss: a loss of two classes for all labels, or a sequence with one for each label. Only
            their ``reduction`` and ``ignore_index`` are not used.

    Example:
        >>> import noisebound as nb
        >>> loss = nb.PerLabel(nb.GeneralizedCrossEntropy(a=0.4), reduction="none")
        >>> loss(torch.tensor([[3.0, 0.0, -2.0]]), torch.tensor([[1, 0, -1]]))
        tensor([[0.0481, 0.6054, 0.0000]])
    """

    refused_options = ("ignore_index", "weight", "label_smoothing")  # those of the loss count
    log_transitions: Tensor | None

    def __init__(self, loss: Loss | Sequence[Loss], **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.is_shared = not isinstance(loss, Sequence)
        losses = list(loss) if isinstance(loss, Sequence) else [loss]
        for each in losses:
            _check_two_classes(each)
        self.losses = ModuleList(losses)
        self.register_buffer("log_transitions", None if self.is_shared else _stacked(losses))
        if not self.is_shared:
            self.num_classes = len(self.losses)

    @property
    def label_losses(self) -> list[Loss]:
        """The losses of two classes: one for all labels, or one for each."""
        return [each for each in self.losses if isinstance(each, Loss)]

    @property
    def noise_model(self) -> NoiseModel | None:  # type: ignore[override]
        """``f`` of the loss of two classes; None if it has none, or if each label has its own."""
        return self.label_losses[0].noise_model if self.is_shared else None

    @property
    def treats_classes_alike(self) -> bool:  # type: ignore[override]
        return all(each.treats_classes_alike for each in self.label_losses)

    @property
    def predicts_true_class(self) -> bool:  # type: ignore[override]
        return all(each.predicts_true_class for each in self.label_losses)

    def on_observed_labels(self) -> "PerLabel | None":
        """Return the loss for evaluating a model of the observed labels, or None."""
        found = [each.on_observed_labels() for each in self.label_losses]
        losses = [each for each in found if each is not None]
        if len(losses) < len(found):
            return None
        return PerLabel(losses[0] if self.is_shared else losses, reduction=self.reduction)

    def class_weights(self, num_classes: int) -> Tensor | None:
        """Return the weights of the two classes, if any loss has them."""
        found = (each.class_weights(2) for each in self.label_losses)
        return next((weights for weights in found if weights is not None), None)

    def weighted_losses(
        self, logits: LabelLogits, labels: Tensor
    ) -> tuple[LabelLogits, LabelLogits | None]:
        """Return the weighted loss of each label, and its weight, or None if all are one."""
        logits = self._check_logits(logits, labels)
        if not _has_missing(labels):
            return self._given_losses(logits, labels)
        is_given = labels >= 0
        losses, weights = self._given_losses(logits, torch.where(is_given, labels, 0))
        weights = is_given.to(losses.dtype) if weights is None else weights * is_given
        return torch.where(is_given, losses, 0.0), weights

    def _given_losses(
        self, logits: LabelLogits, labels: Tensor
    ) -> tuple[LabelLogits, LabelLogits | None]:
        """Return losses and weights if all labels are given."""
        if self.is_shared:
            return _two_class_losses(self.label_losses[0], logits, labels)
        if self.log_transitions is not None and logits.ndim == 2:
            log_q = F.logsigmoid(-logits), F.logsigmoid(logits)
            table = self.log_transitions.to(logits)
            absent, present = (
                -torch.logaddexp(table[:, y, 0] + log_q[0], table[:, y, 1] + log_q[1])
                for y in (0, 1)
            )
            targets = labels.to(logits.dtype)
            return (1 - targets) * absent + targets * present, None
        by_label = [
            _two_class_losses(loss, logits[:, k], labels[:, k])
            for k, loss in enumerate(self.label_losses)
        ]
        losses = torch.stack([each for each, _ in by_label], dim=1)
        ones = torch.ones_like(losses[:, 0])
        return losses, torch.stack([ones if w is None else w for _, w in by_label], dim=1)

    def _check_logits(self, logits: Tensor, labels: Tensor) -> LabelLogits:
        """Return the logits in float32 or better; refuse them if they do not fit the targets."""
        if not logits.is_floating_point():
            raise InvalidTypeError(f"`logits` must be floating point, got {logits.dtype}")
        if logits.ndim < 2 or logits.shape != labels.shape:
            raise InvalidValueError(
                "multi-label `logits` and `labels` must have the same shape [N, K] or "
                f"[N, K, d1, …], got {tuple(logits.shape)} and {tuple(labels.shape)}"
            )
        if self.num_classes is not None and logits.shape[1] != self.num_classes:
            raise InvalidValueError(
                f"this loss was made for {self.num_classes} labels, got logits of {logits.shape[1]}"
            )
        return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits

    def entropy(self, p: Distributions) -> Entropies:
        """Return the entropy of distributions over the two classes, absent and present."""
        if not self.is_shared:
            raise InvalidValueError(
                "each label has a loss of its own: use entropy(loss.label_losses[k], p), or "
                "noise_bound for the mean of all floors"
            )
        if p.shape[1] != 2:
            raise InvalidValueError(
                "a loss per label has the entropy of the classes absent and present, got a "
                f"distribution over {p.shape[1]}: use noise_bound, transition_bound or "
                "posterior_bound for the floor of all labels"
            )
        loss = self.label_losses[0]
        return loss.entropy(loss.smooth(p))


class BinaryCrossEntropy(PerLabel):
    """Cross-entropy of each label, as ``torch.nn.BCEWithLogitsLoss``.

    It takes logits ``[N, K]`` and targets 0, 1, or -1 for a label that was not given.

    Example:
        >>> import noisebound as nb
        >>> missed, added, prior = 0.4, 0.0, [0.5, 0.1, 0.1]
        >>> bound = nb.noise_bound(nb.BinaryCrossEntropy(), (missed, added), 3, class_prior=prior)
        >>> round(bound, 4)  # the mean prior times the entropy of (0.4, 0.6)
        0.157
    """

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(CrossEntropy(), **options)

    def reduced(self, reduction: Reduction, logits: Tensor, labels: Tensor) -> Tensor:
        """Return torch's own loss, which is one call, if all labels are given."""
        if is_traced() or _has_missing(labels):
            return super().reduced(reduction, logits, labels)
        logits = self._check_logits(logits, labels)
        return F.binary_cross_entropy_with_logits(
            logits, labels.to(logits.dtype), reduction=reduction
        )

    def _given_losses(self, logits: LabelLogits, labels: Tensor) -> tuple[LabelLogits, None]:
        targets = labels.to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="none"), None


class AsymmetricFocal(Loss):
    """The asymmetric loss (Ridnik et al., 2021) of one label, for `PerLabel`.

    ``(1-q)^γ⁺ (-log q)`` if the label is present, and ``s^γ⁻ (-log(1-s))`` with
    ``s = max(q - m, 0)`` if it is absent: absent labels that are easy count for little. Its floor
    is searched.

    Args:
        gamma_pos: γ⁺, at least zero.
        gamma_neg: γ⁻, at least zero; 4 in the paper.
        clip: m, in ``[0, 1)``; 0.05 in the paper.

    Example:
        >>> import noisebound as nb
        >>> loss = nb.PerLabel(nb.AsymmetricFocal(), reduction="none")
        >>> loss(torch.zeros(1, 2), torch.tensor([[1, 0]]))
        tensor([[0.6931, 0.0245]])
    """

    treats_classes_alike = False

    def __init__(
        self,
        gamma_pos: float = 0.0,
        gamma_neg: float = 4.0,
        clip: float = 0.05,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.gamma_pos = check_number("gamma_pos", gamma_pos, "[0, ∞)")
        self.gamma_neg = check_number("gamma_neg", gamma_neg, "[0, ∞)")
        self.clip = check_number("clip", clip, "[0, 1)")
        self.require_num_classes(2)

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        absent, present = log_q[:, :1], log_q[:, 1:]
        of_present = Focal(self.gamma_pos).of_surprisal(-present)
        if self.clip == 0:
            of_absent = Focal(self.gamma_neg).of_surprisal(-absent)
        else:  # the power's derivative may be infinite at zero, where it is multiplied by zero
            shifted = (present.exp() - self.clip).clamp(min=torch.finfo(present.dtype).tiny)
            of_absent = -(shifted**self.gamma_neg) * torch.log1p(-shifted)
        return at(torch.cat([of_absent, of_present], dim=1))


def _check_two_classes(loss: object) -> None:
    if not isinstance(loss, Loss):
        raise InvalidTypeError(f"`loss` must be a noisebound loss, such as Focal(); got {loss!r}")
    if isinstance(loss, RememberingLoss | Curriculum | PerLabel):
        raise InvalidTypeError(f"{type(loss).__name__} does not apply to each label: use another")
    if loss.num_classes not in (None, 2):
        raise InvalidValueError(
            "each label has two classes, absent and present, and this loss was made for "
            f"{loss.num_classes}: {loss!r}"
        )


def _stacked(losses: Sequence[Loss]) -> Float[Tensor, "labels 2 2"] | None:
    """Return the logarithms of all matrices, which cost less at once; None for other losses."""
    matrices = []
    for each in losses:
        if type(each) is not ForwardCrossEntropy or each.weight is not None or each.label_smoothing:
            return None
        matrices.append(each.log_transition)
    return torch.stack(matrices)


def _has_missing(labels: Tensor) -> bool:
    """Return whether a label may be missing; refuse labels that are neither targets nor -1."""
    if is_traced():
        return True
    if labels.dtype == torch.bool or not labels.numel():
        return False
    low, high = (end.item() for end in labels.aminmax())
    if low >= 0 and high <= 1:
        return False
    is_missing = (labels == -1) & (labels < 0)  # to torch, 255 in uint8 equals -1
    wrong = labels[~(((labels >= 0) & (labels <= 1)) | is_missing)]
    if wrong.numel():
        raise InvalidValueError(
            "multi-label `labels` must be 0, 1, a probability, or -1 where none was given; got "
            f"{wrong[0].item():g}"
        )
    return True


def _two_class_losses(
    loss: Loss, logits: PerExample, labels: Tensor
) -> tuple[PerExample, PerExample | None]:
    """Return the losses and weights of labels that are all given."""
    is_soft = labels.is_floating_point()
    if (
        isinstance(loss, LikelihoodLoss)
        and type(loss).losses_at_labels is LikelihoodLoss.losses_at_labels
        and not (loss.weight is not None or loss.label_smoothing)
    ):  # a function of the surprisal, which takes one kernel
        if not is_soft:
            return loss.of_surprisal(-F.logsigmoid(torch.where(labels > 0, logits, -logits))), None
        present = loss.of_surprisal(-F.logsigmoid(logits))
        return labels * present + (1 - labels) * loss.of_surprisal(-F.logsigmoid(-logits)), None
    classes = torch.stack([torch.zeros_like(logits), logits], dim=1)
    targets = torch.stack([1 - labels, labels], dim=1) if is_soft else labels.long()
    return loss.weighted_losses(classes, targets)
