r"""The floor that label noise puts under the loss.

No model, however good, has a noisy risk below the mean entropy of the noisy labels (paper, Section
"Risk Bounds"). On separable data that entropy follows from the noise alone:
$B(\eta, c) = H(u_{sym}(\eta, c))$. ``H`` belongs to the loss; here are the noise vectors and the
bounds that are made of both. All is computed in float64 and works on arrays of rates: a float gives
a float, a tensor a tensor, an array an array.
"""

import copy
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from noisebound.bayes_risk import ClassLosses, bayes_risk, treats_classes_alike
from noisebound.checks import (
    ArrayLike,
    check_class_prior,
    check_distribution,
    check_noise_rate,
    check_num_classes,
    check_transition,
)
from noisebound.errors import InvalidValueError
from noisebound.losses import Loss

AnyLoss: TypeAlias = Loss | nn.Module | Callable[[Tensor, Tensor], Tensor]
"""One of ours, or any function or module of ``(logits, labels)`` that gives per-sample losses."""

_CHUNK = 2**24  # how many numbers one pass over noise vectors may hold

Rate = TypeVar("Rate", float, Tensor, NDArray[np.float64])


def symmetric_noise(noise_rate: ArrayLike, num_classes: int) -> Float[Tensor, "*rates classes"]:
    """``u_sym = (1-η, η/(c-1), …, η/(c-1))``: wrong labels fall on all other classes alike.

    Example:
        >>> symmetric_noise(0.4, num_classes=3)
        tensor([0.6000, 0.2000, 0.2000], dtype=torch.float64)
    """
    num_classes = check_num_classes(num_classes)
    return _symmetric_noise(check_noise_rate(noise_rate, num_classes), num_classes)


def pairwise_noise(noise_rate: ArrayLike, num_classes: int) -> Float[Tensor, "*rates classes"]:
    """``u_pair = (1-η, η, 0, …, 0)``: wrong labels all fall on one other class.

    Example:
        >>> pairwise_noise(0.4, num_classes=3)
        tensor([0.6000, 0.4000, 0.0000], dtype=torch.float64)
    """
    num_classes = check_num_classes(num_classes)
    return _pairwise_noise(check_noise_rate(noise_rate, num_classes), num_classes)


def entropy(loss: AnyLoss, p: ArrayLike) -> Any:
    """``H(p) = p · L(p)`` of the loss's proper base loss, for one distribution or many.

    For a loss of which no base loss is known this is its Bayes risk ``min_q p · L(q)``, found
    numerically, so any function of ``(logits, labels)`` will do.

    Args:
        loss: one of ours, or any function or module that gives per-sample losses.
        p: class probabilities, along the last axis.

    Returns:
        One number for each distribution.

    Example:
        >>> import noisebound as nb
        >>> entropy(nb.MeanSquaredError(), [0.5, 0.5, 0.0])
        0.5
    """
    distributions = check_distribution(p)
    _refuse_weights(loss, distributions.shape[-1])
    return _like(_entropy(loss, distributions), p)


def noise_bound(
    loss: AnyLoss, noise_rate: Rate, num_classes: int, class_prior: ArrayLike | None = None
) -> Rate:
    """The paper's noise-bound ``B(η, c) = H(u_sym(η, c))``.

    The highest entropy that labels wrong at rate η can have, whatever the structure of the noise:
    a mean training loss below it means that noise is being memorised. It assumes a loss that
    treats all classes alike; one with class weights needs the prior of the (true) classes too.

    Args:
        loss: one of ours, or any function or module that gives per-sample losses.
        noise_rate: η, the probability that a label changes.
        num_classes: c.
        class_prior: the share of each true class; only a loss that favours some needs it.

    Example:
        >>> import noisebound as nb
        >>> round(noise_bound(nb.GeneralizedCrossEntropy(a=0.4), noise_rate=0.4, num_classes=10), 4)
        0.8965
    """
    num_classes = check_num_classes(num_classes)
    rates = check_noise_rate(noise_rate, num_classes)
    if class_prior is None:
        _require_alike(loss, num_classes)
        floors = _entropy(loss, _symmetric_noise(rates, num_classes))
    else:
        prior = check_class_prior(class_prior, num_classes)
        by_rate = [
            _mixture_entropy(loss, symmetric_columns(rate, num_classes), prior)
            for rate in rates.flatten()
        ]
        floors = torch.stack(by_rate).reshape(rates.shape)
    bound: Rate = _like(floors, noise_rate)
    return bound


def entropy_interval(loss: AnyLoss, noise_rate: Rate, num_classes: int) -> tuple[Rate, Rate]:
    """The least and the greatest entropy of labels wrong at rate η: pairwise and symmetric noise.

    Every other noise of that rate lies between (paper, Lemma "Entropy Interval").

    Example:
        >>> import noisebound as nb
        >>> low, high = entropy_interval(nb.CrossEntropy(), noise_rate=0.4, num_classes=10)
        >>> f"{low:.3f} {high:.3f}"
        '0.673 1.552'
    """
    num_classes = check_num_classes(num_classes)
    rates = check_noise_rate(noise_rate, num_classes)
    _require_alike(loss, num_classes)
    pairwise = _entropy(loss, _pairwise_noise(rates, num_classes))
    symmetric = _entropy(loss, _symmetric_noise(rates, num_classes))
    return _like(pairwise, noise_rate), _like(symmetric, noise_rate)


def transition_bound(
    loss: AnyLoss, transition: ArrayLike, class_prior: ArrayLike | None = None
) -> float:
    """``Σ_k prior_k H(T[:, k])``: the floor under class-conditional noise on separable data.

    Args:
        loss: one of ours, or any function or module that gives per-sample losses.
        transition: ``T[noisy, true]``, columns summing to one.
        class_prior: the share of each true class; balanced if not given. A loss with class
            weights needs it stated.

    Example:
        >>> import noisebound as nb
        >>> round(transition_bound(nb.CrossEntropy(), [[1.0, 0.4], [0.0, 0.6]]), 4)
        0.3365
    """
    columns = check_transition(transition).mT
    if class_prior is None:
        _refuse_weights(loss, len(columns))
        class_prior = columns.new_full((len(columns),), 1 / len(columns))
    prior = check_class_prior(class_prior, len(columns))
    return float(_mixture_entropy(loss, columns, prior))


def nonuniform_bound(loss: AnyLoss, noise_rates: ArrayLike, num_classes: int) -> float:
    """The mean of ``H(u_sym(η(x)))``: symmetric noise whose rate differs between examples.

    It is at most the noise-bound of the mean rate (Jensen).

    Args:
        loss: one of ours, or any function or module that gives per-sample losses.
        noise_rates: η(x) of each example.
        num_classes: c.

    Example:
        >>> import noisebound as nb
        >>> round(nonuniform_bound(nb.CrossEntropy(), [0.0, 0.5], num_classes=2), 4)
        0.3466
    """
    num_classes = check_num_classes(num_classes)
    rates = check_noise_rate(noise_rates, num_classes)
    if rates.numel() == 0:
        raise InvalidValueError("noise_rates must hold at least one rate, got none")
    _require_alike(loss, num_classes)
    distinct, count = torch.unique(rates, return_counts=True)  # the search need run but once
    entropies = _entropy(loss, _symmetric_noise(distinct, num_classes))
    return float((entropies * count).sum() / count.sum())


def _symmetric_noise(rates: Tensor, num_classes: int) -> Tensor:
    wrong = (rates / (num_classes - 1)).unsqueeze(-1).expand(*rates.shape, num_classes - 1)
    return torch.cat([1 - rates.unsqueeze(-1), wrong], dim=-1)


def _pairwise_noise(rates: Tensor, num_classes: int) -> Tensor:
    noisy = torch.stack([1 - rates, rates], dim=-1)
    return nn.functional.pad(noisy, (0, num_classes - 2))


def symmetric_columns(rate: Tensor, num_classes: int) -> Tensor:
    """The noise vector of each true class, one a row."""
    right = torch.eye(num_classes, dtype=rate.dtype, device=rate.device)
    return (1 - rate) * right + rate / (num_classes - 1) * (1 - right)


def _entropy(loss: AnyLoss, p: Float[Tensor, "*batch classes"]) -> Float[Tensor, "*batch"]:
    rows = p.reshape(-1, p.shape[-1])
    if isinstance(loss, Loss):
        chunks = torch.split(rows, max(1, _CHUNK // rows.shape[1]))
        entropies = torch.cat([loss.entropy(loss.smooth(chunk)) for chunk in chunks])
    else:
        entropies = bayes_risk(_class_losses(loss), rows)
    return entropies.reshape(p.shape[:-1])


def _mixture_entropy(loss: AnyLoss, columns: Tensor, prior: Tensor) -> Tensor:
    """The floor of the (weighted) mean loss, ``columns[k]`` being the noise of true class ``k``.

    With class weights ``w`` a noisy label distribution ``p`` acts as the measure ``w p``, which is
    a multiple of a distribution, and the mean divides by the expected weight ``w · p``.
    """
    _refuse_foreign_weights(loss)
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
            "the noise-bound holds for losses that treat all classes alike, and this one does not: "
            "use transition_bound(loss, transition, class_prior)"
        )


def _refuse_weights(loss: AnyLoss, num_classes: int) -> None:
    _refuse_foreign_weights(loss)
    if isinstance(loss, Loss) and loss.class_weights(num_classes) is not None:
        raise InvalidValueError(
            "a loss with class weights, or one that ignores a class, has no noise-bound without a "
            "class prior: pass class_prior, the share of each true class, to noise_bound or "
            "transition_bound"
        )


def _refuse_foreign_weights(loss: AnyLoss) -> None:
    weight = getattr(loss, "weight", None)
    if not isinstance(loss, Loss) and isinstance(weight, Tensor) and weight.ndim == 1:
        raise InvalidValueError(
            "the theory does not cover a foreign loss with class weights: use one of noisebound's "
            "losses with the same weight, and pass class_prior"
        )


def _class_losses(loss: AnyLoss) -> ClassLosses:
    """A foreign loss as a vector over classes."""
    loss = _for_search(loss)

    def class_losses(logits: Tensor, classes: Tensor) -> Tensor:
        rows = logits.expand(len(classes), -1)
        try:
            losses = loss(rows, classes)
        except RuntimeError as error:
            raise InvalidValueError(
                "the noise-bound of a loss is searched in float64 on the CPU, and there "
                f"loss(logits [N, C], labels [N]) failed: {error}"
            ) from error
        if losses.shape == classes.shape:
            return losses
        if losses.ndim == 0:
            return _one_by_one(loss, rows, classes, losses)
        raise InvalidValueError(
            f"loss(logits, labels) must give one value an example: for {len(classes)} examples it "
            f"gave a tensor of shape {tuple(losses.shape)}"
        )

    return class_losses


def _one_by_one(loss: AnyLoss, rows: Tensor, classes: Tensor, reduced: Tensor) -> Tensor:
    """The losses behind a mean over examples."""
    losses = torch.stack([loss(rows[:1], k.reshape(1)) for k in classes])
    if not torch.allclose(losses.mean(), reduced, rtol=1e-4, equal_nan=True):
        raise InvalidValueError(
            "loss(logits, labels) gave one number that is not the mean of its examples' losses; "
            "it must give the mean, or one value an example"
        )
    return losses


def _for_search(loss: AnyLoss) -> AnyLoss:
    """A module as an unreduced copy in float64 on the CPU; the search must leave it as it was."""
    if not isinstance(loss, nn.Module):
        return loss
    twin = copy.deepcopy(loss).to("cpu", torch.float64)
    if hasattr(twin, "reduction"):
        setattr(twin, "reduction", "none")  # noqa: B010 (a Module's attributes are untyped)
    return twin


def _like(result: Tensor, given: object) -> Any:
    """What goes out is of the kind that came in; a single number from no tensor is a float."""
    if isinstance(given, Tensor):
        return result
    if result.ndim == 0:
        return result.item()
    return result.numpy() if isinstance(given, np.ndarray) else result
