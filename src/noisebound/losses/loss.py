"""The base classes of losses: labels in all of torch's forms, the reduction, and the entropy."""

import inspect
from collections.abc import Callable
from typing import Literal, NoReturn, TypeAlias, TypedDict, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from noisebound.bayes_risk import bayes_risk
from noisebound.checks import ArrayLike, check_number
from noisebound.errors import InvalidTypeError, InvalidValueError
from noisebound.losses.best_prediction import balanced_prediction
from noisebound.noise_models import NoiseModel

Reduction: TypeAlias = Literal["mean", "sum", "none"]
Pick: TypeAlias = Callable[[Tensor], Tensor]
"""Returns the entries ``[N, 1, …]`` of ``[N, C, …]`` at the labels, or all entries unchanged."""

ClassScores: TypeAlias = Float[Tensor, "batch classes *positions"]
"""Logits, log-probabilities or losses, one per class."""
AtLabels: TypeAlias = Float[Tensor, "batch one_or_all *positions"]
"""The result of a formula: values at the labels, or at all classes if ``at`` picks all."""
Surprisal: TypeAlias = Float[Tensor, "..."]
"""``-log q_y``, or a function of each element."""
Labels: TypeAlias = Int[Tensor, "batch *positions"]
PerExample: TypeAlias = Float[Tensor, "batch *positions"]
Distributions: TypeAlias = Float[Tensor, "batch classes"]
Entropies: TypeAlias = Float[Tensor, " batch"]

_NOT_LABELS = frozenset({torch.bool, torch.complex32, torch.complex64, torch.complex128})
_NO_LABEL = -(2**63)  # torch would silently ignore the label -100, its default


class LossOptions(TypedDict, total=False):
    """The options that losses share; :class:`Loss` explains them."""

    reduction: Reduction
    ignore_index: int
    weight: ArrayLike | None
    label_smoothing: float


class Loss(nn.Module):
    """A loss ``L(q, y)`` of logits, which is called like ``torch.nn.CrossEntropyLoss``.

    A subclass writes its mathematics once, as :meth:`formula`. From it follow the losses at class
    indices, the expected losses ``Σ_k p_k L(q, k)`` at class probabilities, and the vector
    ``L(q)``, which gives the entropy and the noise-bound. Losses are computed and returned in
    float32 or better, also for half-precision logits.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        ignore_index: class index whose examples are left out.
        weight: one weight per class, at least zero; the mean is then weighted.
        label_smoothing: share of each label that is spread evenly over all classes, in ``[0, 1]``.
    """

    noise_model: NoiseModel | None = None
    """``f`` of the paper's decomposition ``L(f(q), y)``; None if none is known."""

    num_classes: int | None = None
    """The number of classes if the loss depends on it, else None."""

    treats_classes_alike: bool = True
    """True if renaming the classes does not change the entropy, as the noise-bound assumes."""

    predicts_true_class: bool = False
    """True if the minimizer is the posterior of the true class, as the loss corrects the noise."""

    refused_options: tuple[str, ...] = ()
    """The options above that have no meaning for this loss."""

    weight: Tensor | None

    def __init__(
        self,
        *,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        weight: ArrayLike | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        is_given = {
            "ignore_index": ignore_index != -100,
            "weight": weight is not None,
            "label_smoothing": label_smoothing != 0,
        }
        for name in self.refused_options:
            if is_given[name]:
                raise InvalidTypeError(
                    f"{type(self).__name__} does not take `{name}`: leave it out"
                )
        if reduction not in get_args(Reduction):
            raise InvalidValueError(
                f"`reduction` must be 'mean', 'sum' or 'none', got {reduction!r}"
            )
        self.reduction: Reduction = reduction
        self.ignore_index = ignore_index
        if weight is None:
            self.weight = None  # an attribute is read faster than a buffer
        else:
            self.register_buffer("weight", _check_weight(weight))
            self.num_classes = len(self.get_buffer("weight"))
        self.label_smoothing = check_number("label_smoothing", label_smoothing, "[0, 1]")

    def require_num_classes(self, num_classes: int) -> None:
        """Set the number of classes, which a subclass knows from its arguments."""
        if self.weight is not None and len(self.weight) != num_classes:
            raise InvalidValueError(
                f"`weight` must have one entry per class, {num_classes}; got {len(self.weight)}"
            )
        self.num_classes = num_classes

    @property
    def assumed_transition(self) -> Float[Tensor, "classes classes"] | None:
        """The matrix ``T[noisy, true]`` that the loss corrects; None if it corrects none."""
        transition: Tensor | None = getattr(self.noise_model, "transition", None)
        return transition

    def on_observed_labels(self) -> "Loss | None":
        """Return the loss for evaluating a model of the observed labels, or None.

        A loss that predicts the true class returns another one, least at the observed posterior.
        """
        return self

    def class_weights(self, num_classes: int) -> Float[Tensor, " classes"] | None:
        """Return the weight of each observed class, zero if ignored; None if all are one."""
        if not 0 <= self.ignore_index < num_classes:
            return self.weight
        weights = torch.ones(num_classes) if self.weight is None else self.weight.clone()
        weights[self.ignore_index] = 0
        return weights

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the reduced loss.

        Args:
            logits: of shape ``[N, C]`` or ``[N, C, d1, …]``.
            labels: class indices of shape ``[N]`` or ``[N, d1, …]``, or class probabilities of the
                logits' shape.
        """
        return self.reduced(self.reduction, logits, labels)

    def reduced(self, reduction: Reduction, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss with this reduction instead of its own."""
        return reduce_losses(*self.weighted_losses(logits, labels), reduction)

    def check_logits(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the logits in float32 or better; refuse them if they do not fit the labels."""
        check_shapes(logits, labels, self.num_classes)
        if self.ignore_index >= 0 and labels.is_floating_point():
            raise InvalidValueError(
                "`ignore_index` has no meaning for `labels` that are probabilities: leave it out"
            )
        return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits

    def weighted_losses(
        self, logits: Tensor, labels: Tensor
    ) -> tuple[PerExample, PerExample | None]:
        """Return the weighted loss of each example, and its weight, or None if all are one."""
        logits = self.check_logits(logits, labels)
        if labels.is_floating_point():
            return self._losses_at_probabilities(logits, labels.to(logits.dtype)), None
        labels, num_classes = labels.long(), logits.shape[1]
        # On the CPU torch refuses labels out of range, so that we need not look at them first. On
        # an accelerator the process would die, and a traced function cannot depend on an error.
        if labels.is_cpu and not is_traced():
            if not 0 <= self.ignore_index < num_classes:  # else the kernels accept this label
                try:
                    return self._weigh(logits, labels)
                except (IndexError, RuntimeError):
                    if bool(((labels >= 0) & (labels < num_classes)).all()):
                        raise
            refuse_out_of_range(labels, num_classes, self.ignore_index)
        counts = labels != self.ignore_index
        losses, weights = self._weigh(logits, torch.where(counts, labels, 0))
        weights = counts.to(losses.dtype) if weights is None else weights * counts
        return torch.where(counts, losses, 0.0), weights

    def _weigh(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return losses and weights if no label is ignored."""
        if self.label_smoothing:
            certain = F.one_hot(labels, logits.shape[1]).movedim(-1, 1).to(logits.dtype)
            losses = self._losses_at_probabilities(logits, certain)
        else:
            losses = self.losses_at_labels(logits, labels)
        if self.weight is None:
            return losses, None
        weights = self.weight.to(logits)[labels]
        return losses if self.label_smoothing else losses * weights, weights

    def _losses_at_probabilities(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        losses = self.class_losses(F.log_softmax(logits, dim=1))
        if self.weight is not None:
            weight = self.weight.to(losses)
            losses = losses * weight.view(-1, *[1] * (losses.ndim - 2))
        return (self.smooth(probabilities, dim=1) * losses).sum(1)

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        """Return ``L(q, y)``, written with ``at(v)`` for ``v_y``.

        Sums over the classes keep dimension 1.
        """
        raise InvalidTypeError(f"{type(self).__name__} must define formula(log_q, at)")

    def losses_at_labels(self, logits: ClassScores, labels: Labels) -> PerExample:
        """Return ``L(q, y)`` of each example."""
        index = labels.unsqueeze(1)
        return self.formula(F.log_softmax(logits, dim=1), lambda v: v.gather(1, index)).squeeze(1)

    def class_losses(self, log_q: ClassScores) -> ClassScores:
        """Return the vector ``L(q) = (L(q, 1), …, L(q, c))``."""
        return self.formula(log_q, lambda v: v)

    def best_prediction(self, p: Distributions) -> Distributions | None:
        """Return ``argmin_q p · L(q)``, if it is known: ``f⁻¹(p)`` of a noise model."""
        return None if self.noise_model is None else self.noise_model.inverse(p)

    def entropy(self, p: Distributions) -> Entropies:
        """Return ``H(p) = p · L(q)`` of the best prediction ``q``, which is searched if unknown."""
        best = self.best_prediction(p)
        if best is None:
            return bayes_risk(
                lambda z, y: self.class_losses(z.log_softmax(1)).gather(1, y.unsqueeze(1))[:, 0], p
            )
        return (p * self.class_losses(best.clamp(min=torch.finfo(p.dtype).tiny).log())).sum(1)

    def smooth(self, p: Tensor, dim: int = -1) -> Tensor:
        """Return the distributions with ``label_smoothing`` of their mass spread evenly."""
        if not self.label_smoothing:
            return p
        return (1 - self.label_smoothing) * p + self.label_smoothing / p.shape[dim]

    def extra_repr(self) -> str:
        """Return the constructor's arguments and the options that differ from their defaults."""
        parameters = inspect.signature(type(self)).parameters
        own = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
        shown = [name for name in own if name in vars(self)]  # modules show themselves
        defaults = {name: each.default for name, each in inspect.signature(Loss).parameters.items()}
        names = ("reduction", "ignore_index", "label_smoothing")
        shown += [name for name in names if getattr(self, name) != defaults[name]]
        values = {name: getattr(self, name) for name in shown}
        return ", ".join(
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in values.items()
        )


class LikelihoodLoss(Loss):
    """A loss ``L(q, y) = φ(s)`` of the surprisal ``s = -log q_y``. A subclass defines φ.

    Torch's fused cross-entropy computes the surprisal, and φ is applied to one number per example.
    """

    curvature: Literal["concave", "convex"] | None = None
    """The shape of φ as a function of ``q_y``, if the floor follows from it.

    The expected loss of a concave φ is least at a vertex of the simplex. For a convex φ see
    :func:`~noisebound.losses.best_prediction.balanced_prediction`.
    """

    def of_surprisal(self, surprisal: Surprisal) -> Surprisal:
        """Return φ of each element."""
        raise InvalidTypeError(f"{type(self).__name__} must define of_surprisal(surprisal)")

    def formula(self, log_q: ClassScores, at: Pick) -> AtLabels:
        return self.of_surprisal(-at(log_q))

    def losses_at_labels(self, logits: ClassScores, labels: Labels) -> PerExample:
        return self.of_surprisal(
            F.cross_entropy(logits, labels, reduction="none", ignore_index=_NO_LABEL)
        )

    def best_prediction(self, p: Distributions) -> Distributions | None:
        """Return ``argmin_q p · L(q)``, by the noise model or the curvature; None without both."""
        if self.curvature == "concave":
            return F.one_hot(p.argmax(1), p.shape[1]).to(p)
        if self.curvature == "convex":
            return balanced_prediction(p, self.of_surprisal)
        return super().best_prediction(p)


def reduce_losses(losses: Tensor, weights: Tensor | None, reduction: Reduction) -> Tensor:
    """Return the reduced losses; they are weighted, so the mean divides by the sum of weights."""
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weights is None else losses.sum() / weights.sum()


def _check_weight(weight: ArrayLike) -> Tensor:
    weights = torch.as_tensor(weight)
    weights = weights if weights.is_floating_point() else weights.float()
    if weights.ndim != 1 or not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise InvalidValueError(
            f"`weight` must be a vector of non-negative numbers, one per class, got {weight!r}"
        )
    return weights


def is_traced() -> bool:
    """True under ``torch.compile`` and ``torch.func``, where values cannot be read."""
    return torch._C._are_functorch_transforms_active() or torch.compiler.is_compiling()


def check_shapes(logits: Tensor, labels: Tensor, num_classes: int | None) -> None:
    """Refuse labels that are neither class indices nor probabilities for these logits."""
    shape = logits.shape
    fits = labels.shape == (shape if labels.is_floating_point() else shape[:1] + shape[2:])
    right_types = logits.is_floating_point() and labels.dtype not in _NOT_LABELS
    right_classes = num_classes is None or shape[1:2] == (num_classes,)
    # This runs with every batch, so the reason is looked for only after a mismatch.
    if not (fits and right_types and right_classes and len(shape) > 1):
        _explain_mismatch(logits, labels, num_classes)


def _explain_mismatch(logits: Tensor, labels: Tensor, num_classes: int | None) -> NoReturn:
    shape, given = tuple(logits.shape), tuple(labels.shape)
    if not logits.is_floating_point():
        raise InvalidTypeError(f"`logits` must be floating point, got {logits.dtype}")
    if labels.dtype in _NOT_LABELS:
        raise InvalidTypeError(f"`labels` must be classes or probabilities, got {labels.dtype}")
    if len(shape) < 2:
        raise InvalidValueError(
            f"`logits` must have shape [N, C] or [N, C, d1, …], got {shape}; "
            "for a single example pass logits.unsqueeze(0)"
        )
    if num_classes is not None and shape[1] != num_classes:
        raise InvalidValueError(
            f"this loss was made for {num_classes} classes, got logits with {shape[1]}: {shape}"
        )
    if labels.is_floating_point():
        raise InvalidValueError(
            f"`labels` of type {labels.dtype} are class probabilities and must have the shape of "
            f"the logits, {shape}, got {given}; for class indices pass labels.long()"
        )
    raise InvalidValueError(
        f"`labels` that are class indices for logits of shape {shape} must have shape "
        f"{shape[:1] + shape[2:]}, got {given}"
    )


def refuse_out_of_range(labels: Labels, num_classes: int, ignore_index: int) -> None:
    """Refuse labels that are neither in range nor ``ignore_index``."""
    outside = labels[((labels < 0) | (labels >= num_classes)) & (labels != ignore_index)]
    if outside.numel():
        raise InvalidValueError(
            f"`labels` must lie in 0 … {num_classes - 1} or be ignore_index={ignore_index}, "
            f"got {int(outside[0])}"
        )
