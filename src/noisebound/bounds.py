r"""The floor that label noise puts under the loss.

No model, however good, has a noisy risk below the mean entropy of the noisy labels (paper, Section
"Risk Bounds"). On separable data that entropy follows from the noise alone:
$B(\eta, c) = H(u_{sym}(\eta, c))$. The loss defines its entropy ``H``; this module has the noise
vectors and the bounds, in float64. A float gives a float, a tensor a tensor, an array an array.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from noisebound.bayes_risk import ClassLosses, bayes_risk, treats_classes_alike
from noisebound.checks import (
    ArrayLike,
    as_float64,
    check_class_prior,
    check_count,
    check_distribution,
    check_label_probabilities,
    check_label_transitions,
    check_noise_rate,
    check_num_classes,
    check_per_label,
    check_posteriors,
    check_transition,
)
from noisebound.errors import InvalidValueError
from noisebound.losses import Loss, PerLabel
from noisebound.noise_models import symmetric_transition

AnyLoss: TypeAlias = Loss | nn.Module | Callable[[Tensor, Tensor], Tensor]
"""A function or module of ``(logits, labels)`` that returns one loss per example, or their mean."""

_CHUNK = 2**24  # float64 numbers per pass over noise vectors: 128 MB

Rate = TypeVar("Rate", float, Tensor, NDArray[np.float64])


def symmetric_noise(noise_rate: ArrayLike, num_classes: int) -> Float[Tensor, "*rates classes"]:
    """Return ``u_sym = (1-η, η/(c-1), …, η/(c-1))``: all wrong classes are equally likely.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]``; one or many.
        num_classes: c, at least two.

    Example:
        >>> symmetric_noise(0.4, num_classes=3)
        tensor([0.6000, 0.2000, 0.2000], dtype=torch.float64)
    """
    num_classes = check_num_classes(num_classes)
    rates = check_noise_rate(noise_rate, num_classes).unsqueeze(-1)
    wrong = (rates / (num_classes - 1)).expand(*rates.shape[:-1], num_classes - 1)
    return torch.cat([1 - rates, wrong], dim=-1)


def pairwise_noise(noise_rate: ArrayLike, num_classes: int) -> Float[Tensor, "*rates classes"]:
    """Return ``u_pair = (1-η, η, 0, …, 0)``: only one wrong class is possible.

    Args:
        noise_rate: η, the probability that a label changes, in ``[0, 1]``; one or many.
        num_classes: c, at least two.

    Example:
        >>> pairwise_noise(0.4, num_classes=3)
        tensor([0.6000, 0.4000, 0.0000], dtype=torch.float64)
    """
    num_classes = check_num_classes(num_classes)
    rates = check_noise_rate(noise_rate, num_classes)
    return nn.functional.pad(torch.stack([1 - rates, rates], dim=-1), (0, num_classes - 2))


def entropy(loss: AnyLoss, p: ArrayLike) -> Any:
    """Return ``H(p) = p · L(p)`` of the loss's proper base loss, for one distribution or many.

    For a loss without a known base loss this is its Bayes risk ``min_q p · L(q)``. It is found
    numerically, so that any function of ``(logits, labels)`` has an entropy.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)``.
        p: class probabilities along the last axis.

    Example:
        >>> import noisebound as nb
        >>> entropy(nb.MeanSquaredError(), [0.5, 0.5, 0.0])
        0.5
    """
    distributions = check_distribution(p)
    _refuse_weights(loss, distributions.shape[-1])
    return _like(_entropy(loss, distributions), p)


@overload
def noise_bound(
    loss: AnyLoss, noise_rate: Rate, num_classes: int, class_prior: ArrayLike | None = None
) -> Rate: ...
@overload
def noise_bound(
    loss: PerLabel,
    noise_rate: tuple[ArrayLike, ArrayLike],
    num_classes: int,
    class_prior: ArrayLike | None = None,
) -> float: ...
def noise_bound(
    loss: AnyLoss, noise_rate: Any, num_classes: int, class_prior: ArrayLike | None = None
) -> Any:
    """Return the paper's noise-bound ``B(η, c) = H(u_sym(η, c))``.

    It is the highest entropy that labels wrong at rate η can have. A mean training loss below it
    means that noise is being memorized. The loss must treat all classes alike.

    For a loss per label it is the mean over the labels of ``π H(ρ⁻) + (1-π) H(ρ⁺)``, for labels
    that are missed at rate ``ρ⁻`` and added at rate ``ρ⁺``.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)``.
        noise_rate: η, the probability that a label changes, in ``[0, 1]``; one or many. For a loss
            per label the rates ``(missed, added)``, each one number or one per label; one number
            stands for both.
        num_classes: c, at least two; for a loss per label the number of labels.
        class_prior: the share of each true class, summing to one; needed only with class weights.
            For a loss per label π, the share of examples to which each label truly belongs, one
            number or one per label; needed unless both rates are equal. From the share ``s`` of
            observed labels it follows as ``(s - ρ⁺) / (1 - ρ⁻ - ρ⁺)``.

    Example:
        >>> import noisebound as nb
        >>> round(noise_bound(nb.GeneralizedCrossEntropy(a=0.4), noise_rate=0.4, num_classes=10), 4)
        0.8965
    """
    if isinstance(loss, PerLabel):
        transitions = label_transitions(noise_rate, num_classes)
        return _mean_of_labels(label_entropies(loss, transitions), class_prior)
    vectors = symmetric_noise(noise_rate, num_classes)
    if class_prior is None:
        _require_alike(loss, vectors.shape[-1])
        floors = _entropy(loss, vectors)
    else:
        prior = check_class_prior(class_prior, vectors.shape[-1])
        rates = 1 - vectors[..., 0]
        by_rate = [
            _mixture_entropy(loss, symmetric_transition(rate, len(prior)), prior)
            for rate in rates.flatten()
        ]
        floors = torch.stack(by_rate).reshape(rates.shape)
    return _like(floors, noise_rate)


def entropy_interval(loss: AnyLoss, noise_rate: Rate, num_classes: int) -> tuple[Rate, Rate]:
    """Return the entropy of pairwise and of symmetric noise at rate η.

    All other noise of that rate lies between the two (paper, Lemma "Entropy Interval").

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)``.
        noise_rate: η, the probability that a label changes, in ``[0, 1]``; one or many.
        num_classes: c, at least two.

    Example:
        >>> import noisebound as nb
        >>> low, high = entropy_interval(nb.CrossEntropy(), noise_rate=0.4, num_classes=10)
        >>> f"{low:.3f} {high:.3f}"
        '0.673 1.552'
    """
    pairwise = pairwise_noise(noise_rate, num_classes)
    symmetric = symmetric_noise(noise_rate, num_classes)
    _require_alike(loss, symmetric.shape[-1])
    return _like(_entropy(loss, pairwise), noise_rate), _like(_entropy(loss, symmetric), noise_rate)


def transition_bound(
    loss: AnyLoss, transition: ArrayLike, class_prior: ArrayLike | None = None
) -> float:
    """Return ``Σ_k prior_k H(T[:, k])``: the floor of class-conditional noise on separable data.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)``.
        transition: ``T[noisy, true]``, columns summing to one. For a loss per label a matrix of the
            classes absent and present, or one per label.
        class_prior: the share of each true class, summing to one; by default equal shares. A loss
            with class weights needs it. For a loss per label see `noise_bound`.

    Example:
        >>> import noisebound as nb
        >>> round(transition_bound(nb.CrossEntropy(), [[1.0, 0.4], [0.0, 0.6]]), 4)
        0.3365
    """
    if isinstance(loss, PerLabel):
        matrices = check_label_transitions(transition)
        shares = as_float64(0.0 if class_prior is None else class_prior)
        if len(matrices) == 1 and shares.ndim == 1:  # one matrix stands for all labels
            matrices = matrices.expand(max(1, len(shares)), 2, 2)
        return _mean_of_labels(label_entropies(loss, matrices), class_prior)
    columns = check_transition(transition).mT
    if class_prior is None:
        _refuse_weights(loss, len(columns))
        class_prior = columns.new_full((len(columns),), 1 / len(columns))
    prior = check_class_prior(class_prior, len(columns))
    return float(_mixture_entropy(loss, columns, prior))


def nonuniform_bound(loss: AnyLoss, noise_rates: ArrayLike, num_classes: int) -> float:
    """Return the mean of ``H(u_sym(η(x)))``, where each example has its own noise rate.

    By Jensen's inequality it is at most the noise-bound of the mean rate.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)``.
        noise_rates: η(x), the probability that the example's label changes; one per example.
        num_classes: c, at least two.

    Example:
        >>> import noisebound as nb
        >>> round(nonuniform_bound(nb.CrossEntropy(), [0.0, 0.5], num_classes=2), 4)
        0.3466
    """
    if isinstance(loss, PerLabel):
        raise InvalidValueError(
            "a loss per label has no single rate per example: use posterior_bound(loss, probs) "
            "with probabilities [examples, labels]"
        )
    num_classes = check_num_classes(num_classes)
    rates = check_noise_rate(noise_rates, num_classes)
    if rates.numel() == 0:
        raise InvalidValueError("`noise_rates` must hold at least one rate, got none")
    distinct, count = torch.unique(rates, return_counts=True)  # each distinct rate is searched once
    bounds = noise_bound(loss, distinct, num_classes)
    return float((bounds * count).sum() / count.sum())


def posterior_bound(loss: AnyLoss, probs: ArrayLike) -> float:
    """Return the mean entropy of the noisy labels' posterior: the paper's general lemma.

    It holds for noise of any structure, and for classes that overlap by nature. A weak model's
    uncertainty counts as noise. Its bound is then too high, and the network stops learning.

    Args:
        loss: a noisebound loss, or any function or module of ``(logits, labels)``.
        probs: calibrated out-of-fold probabilities of the observed label, one row per example; for
            a loss per label, one probability for each label.

    Example:
        >>> import noisebound as nb
        >>> round(posterior_bound(nb.CrossEntropy(), [[1.0, 0.0], [0.5, 0.5]]), 4)
        0.3466
    """
    if isinstance(loss, PerLabel):
        present = check_label_probabilities(probs).flatten()
        posterior = torch.stack([1 - present, present], dim=1)
    else:
        posterior = check_posteriors(probs)
    _refuse_weights(loss, posterior.shape[1])
    distinct, count = torch.unique(posterior, dim=0, return_counts=True)
    return float((_entropy(loss, distinct) * count).sum() / count.sum())


def label_transitions(noise_rate: Any, num_labels: int) -> Float[Tensor, "labels 2 2"]:
    """Return ``T[noisy, true]`` of each label from the rates ``(missed, added)``, or from both."""
    num_labels = check_count("num_classes", num_labels)
    is_pair = isinstance(noise_rate, Sequence) or np.ndim(noise_rate) > 0
    pair = noise_rate if is_pair else (noise_rate, noise_rate)
    if len(pair) != 2:
        raise InvalidValueError(
            "`noise_rate` of a loss per label must be the pair (missed, added), each one number or "
            f"one per label; got {len(pair)} entries"
        )
    missed, added = (
        check_per_label(f"noise_rate[{k}]", rates, num_labels) for k, rates in enumerate(pair)
    )
    return torch.stack([1 - added, missed, added, 1 - missed], dim=1).view(-1, 2, 2)


def label_entropies(
    loss: PerLabel, transitions: Float[Tensor, "labels 2 2"]
) -> Float[Tensor, "labels 2"]:
    """Return the entropy of each observed label, where it is truly absent and truly present."""
    _refuse_weights(loss, 2)
    if not loss.is_shared:
        losses = loss.label_losses
        if len(losses) != len(transitions):
            raise InvalidValueError(
                f"the loss has {len(losses)} labels, the noise is of {len(transitions)}"
            )
        pairs = zip(losses, transitions, strict=True)
        return torch.stack([_entropy(each, matrix.mT) for each, matrix in pairs])
    distinct, at = torch.unique(transitions.mT.reshape(-1, 2), dim=0, return_inverse=True)
    return _entropy(loss, distinct)[at].view(-1, 2)  # each distinct column is searched once


def _mean_of_labels(entropies: Float[Tensor, "labels 2"], prior: ArrayLike | None) -> float:
    """Return the floor of the mean loss, from the share of examples to which a label belongs."""
    absent, present = entropies.unbind(1)
    if prior is not None:
        shares = check_per_label("class_prior", prior, len(entropies))
    elif torch.allclose(absent, present):
        shares = torch.zeros_like(absent)
    else:
        raise InvalidValueError(
            "labels that are missed and added at different rates have no noise-bound without "
            "`class_prior`, the share of examples to which each label truly belongs: "
            "(s - added) / (1 - missed - added) for the share s of observed labels"
        )
    return float(torch.lerp(absent, present, shares).mean())


def _entropy(loss: AnyLoss, p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    rows = p.reshape(-1, p.shape[-1])
    if isinstance(loss, Loss):
        chunks = torch.split(rows, max(1, _CHUNK // rows.shape[1]))
        entropies = torch.cat([loss.entropy(loss.smooth(chunk)) for chunk in chunks])
    else:
        entropies = bayes_risk(_class_losses(loss), rows)
    return entropies.reshape(p.shape[:-1])


def _mixture_entropy(loss: AnyLoss, columns: Tensor, prior: Tensor) -> Tensor:
    """Return the floor of the mean loss; the ``columns`` are noise vectors, one per true class.

    With class weights ``w`` a distribution ``p`` of noisy labels acts as the measure ``w p``, a
    multiple of a distribution, and the mean divides by the expected weight ``w · p``.
    """
    prior = prior.to(columns.device)
    class_weights = loss.class_weights(columns.shape[1]) if isinstance(loss, Loss) else None
    if not isinstance(loss, Loss) or class_weights is None:
        return (prior * _entropy(loss, columns)).sum()
    weights = class_weights.to(columns)
    measures = weights * loss.smooth(columns)
    mass = measures.sum(1)
    normalized = measures / mass.clamp(min=torch.finfo(mass.dtype).tiny).unsqueeze(1)
    floor = (prior * mass * loss.entropy(normalized)).sum()
    return floor / (prior * (columns @ weights)).sum()


def _require_alike(loss: AnyLoss, num_classes: int) -> None:
    _refuse_weights(loss, num_classes)
    if isinstance(loss, Loss):
        alike = loss.treats_classes_alike
    else:
        alike = treats_classes_alike(_class_losses(loss), num_classes)
    if not alike:
        raise InvalidValueError(
            "the noise-bound holds only for losses that treat all classes alike, and this one does "
            "not: use transition_bound(loss, transition, class_prior)"
        )


def _refuse_weights(loss: AnyLoss, num_classes: int) -> None:
    if isinstance(loss, Loss) and loss.class_weights(num_classes) is not None:
        raise InvalidValueError(
            "a loss that weighs or ignores classes has no noise-bound without a class prior: pass "
            "`class_prior`, the share of each true class, to noise_bound or transition_bound"
        )


def _class_losses(loss: AnyLoss) -> ClassLosses:
    """Return a foreign loss as a function that returns one value per example.

    A module is copied, unreduced and in float64 on the CPU, as a search changes it.
    """
    weight = getattr(loss, "weight", None)
    if isinstance(weight, Tensor) and weight.ndim == 1:
        raise InvalidValueError(
            "the theory does not cover a foreign loss with class weights: use one of noisebound's "
            "losses with the same `weight`, and pass `class_prior`"
        )
    if isinstance(loss, nn.Module):
        loss = copy.deepcopy(loss).to("cpu", torch.float64)
        if hasattr(loss, "reduction"):
            setattr(loss, "reduction", "none")  # noqa: B010 (a Module's attributes are untyped)

    def class_losses(logits: Tensor, labels: Tensor) -> Tensor:
        try:
            losses = loss(logits, labels)
        except RuntimeError as error:
            raise InvalidValueError(
                "the noise-bound of this loss is searched in float64 on the CPU, where "
                f"loss(logits [N, C], labels [N]) failed: {error}"
            ) from error
        if losses.shape == labels.shape:
            return losses
        if losses.ndim == 0:
            return _one_by_one(loss, logits, labels, losses)
        raise InvalidValueError(
            f"loss(logits, labels) must return one value per example: for {len(labels)} examples "
            f"it returned a tensor of shape {tuple(losses.shape)}"
        )

    return class_losses


def _one_by_one(loss: AnyLoss, logits: Tensor, labels: Tensor, reduced: Tensor) -> Tensor:
    """Return the losses of single examples, for a loss that only returns their mean."""
    losses = torch.stack([loss(z[None], y[None]) for z, y in zip(logits, labels, strict=True)])
    if not torch.allclose(losses.mean(), reduced, rtol=1e-4, equal_nan=True):
        raise InvalidValueError(
            "loss(logits, labels) returned one number that is not the mean of its examples' "
            "losses; it must return their mean, or one value per example"
        )
    return losses


def _like(result: Tensor, given: object) -> Any:
    """Return an array for an array, else a tensor; without a tensor one number is a float."""
    if isinstance(given, Tensor):
        return result
    if result.ndim == 0:
        return result.item()
    return result.numpy() if isinstance(given, np.ndarray) else result
