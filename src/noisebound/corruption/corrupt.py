"""Put label noise into clean labels, and report the realized rate and transition."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from numpy.typing import NDArray
from torch import Generator, Tensor

from noisebound.checks import (
    ArrayLike,
    as_tensor,
    check_indices,
    check_noise_rate,
    check_num_classes,
    check_number,
    check_posteriors,
    check_targets,
    check_transition,
)
from noisebound.corruption.kinds import (
    any_other_class,
    cifar100_superclass_of,
    linear_probabilities,
    other_class,
    other_class_of_group,
    rates_by_ambiguity,
    wrong_class_of_column,
)
from noisebound.corruption.multi_label import (
    LABEL_NOISE_KINDS,
    LabelNoiseKind,
    changed_labels,
    realized_transitions,
)
from noisebound.errors import InvalidTypeError, InvalidValueError

NoiseKind: TypeAlias = Literal[
    "symmetric", "pairwise", "superclass", "transition", "classifier", "instance", "human"
]
"""The kinds of noise for one class per example; those of multi-label data are `LabelNoiseKind`."""
NOISE_KINDS: tuple[NoiseKind, ...] = get_args(NoiseKind)
Labels: TypeAlias = Tensor | NDArray[Any] | Sequence[int] | Sequence[Sequence[int]]

# Returns new labels from the old ones, their positions and their random numbers.
_Replace: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Labels with noise, and the realized noise.

    Attributes:
        labels: the noisy labels, to train on
        is_noisy: True where they differ from the clean labels
        noise_rate: the share of labels that differ
        transition: the realized ``T[noisy, true]``; a class without examples has no noise. For
            multi-label data one matrix per label, of the classes absent and present
    """

    labels: Int64[Tensor, "n *labels"]
    is_noisy: Bool[Tensor, "n *labels"]
    noise_rate: float
    transition: Float64[Tensor, "*labels classes classes"]


def corrupt(
    labels: Labels,
    kind: NoiseKind | LabelNoiseKind = "symmetric",
    noise_rate: ArrayLike | None = None,
    num_classes: int | None = None,
    *,
    generator: Generator | None = None,
    exact: bool = False,
    include_self: bool = False,
    groups: Sequence[int] | None = None,
    transition: ArrayLike | None = None,
    inputs: Tensor | NDArray[Any] | None = None,
    probs: ArrayLike | None = None,
    human_labels: Labels | None = None,
) -> NoisyLabels:
    """Return labels into which noise was put.

    The noise rate is the probability that a label *changes*. The kinds of noise are:

    - ``"symmetric"``: a label changes to any other class with equal probability. With
      ``include_self`` the new label is drawn from all classes, including the old one, as in many
      other codebases: the realized rate is then ``(c-1)/c`` times ``noise_rate``.
    - ``"pairwise"``: class ``k`` changes to ``k + 1``, the last class to the first.
    - ``"superclass"``: a label changes to any other class of its group with equal probability. By
      default the groups are CIFAR-100's 20 superclasses, as in the paper's Asym-CIFAR-100.
    - ``"transition"``: labels change according to a matrix ``T[noisy, true]``.
    - ``"classifier"``: with probability ``noise_rate`` a label is replaced by the prediction of a
      linear classifier, which was trained on ``inputs`` and the clean labels. This is the paper's
      non-uniform noise. Where the prediction is right the label does not change, so the realized
      rate is smaller than ``noise_rate``.
    - ``"instance"``: ambiguous examples are mislabeled more often, and as a class that they
      resemble. The ambiguity is one minus the probability of the clean label; the rate grows
      linearly with its rank and has the mean ``noise_rate``.
    - ``"human"``: labels are replaced by those that people gave, such as CIFAR-10N.

    Multi-label data, a matrix of labels 0 and 1 (-1: not given), has three kinds of its own:

    - ``"missing"``: a label that is present is left out
    - ``"added"``: a label that is absent is added
    - ``"flip"``: a label changes, whether it is present or absent

    Args:
        labels: clean class indices, or 0/1 labels ``[examples, labels]``
        kind: the kind of noise, one of the above
        noise_rate: the probability that a label changes, in ``[0, 1]``; for all kinds except
            ``"transition"`` and ``"human"``; for multi-label data one number, or one per label
        num_classes: the number of classes; may be left out with ``transition`` or ``probs``
        generator: source of randomness; without one, every call draws other noise
        exact: True to replace exactly ``round(noise_rate * n)`` labels, with every entry of the
            transition matrix right to within two labels; False to replace each independently
        include_self: for ``"symmetric"``: True to draw the new label from all classes
        groups: for ``"superclass"``: the group of each class
        transition: for ``"transition"``: ``T[noisy, true]``, columns summing to one
        inputs: for ``"classifier"`` and ``"instance"``: the examples, one per row
        probs: for the same, instead of ``inputs``: class probabilities, one row per example
        human_labels: for ``"human"``: the labels that people gave

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> clean = torch.arange(10).repeat(100)
        >>> noisy = corrupt(clean, "pairwise", 0.4, 10, generator=g, exact=True)
        >>> noisy.noise_rate, noisy.is_noisy.sum()
        (0.4, tensor(400))
    """
    options = {
        "noise_rate": noise_rate,
        "include_self": include_self or None,
        "groups": groups,
        "transition": transition,
        "inputs": inputs,
        "probs": probs,
        "human_labels": human_labels,
    }
    given_options = {name for name, value in options.items() if value is not None}
    generator = _check_generator(generator)
    if kind in LABEL_NOISE_KINDS:
        foreign = sorted(given_options - {"noise_rate"})
        if foreign or num_classes is not None:
            name = foreign[0] if foreign else "num_classes"
            raise InvalidTypeError(f"`{name}` does not apply to {kind} noise: leave it out")
        return _corrupt_each_label(labels, kind, noise_rate, generator, exact)
    _check_options(kind, given_options)
    matrix = None if transition is None else check_transition(transition).to(generator.device)
    distributions = None if probs is None else check_posteriors(probs).detach().to(generator.device)
    c = _agreed_classes(kind, num_classes, transition=matrix, probs=distributions)
    if np.ndim(labels) == 2:
        raise InvalidValueError(
            f"{kind} noise takes one class per example: for multi-label data use the `kind` "
            f"{', '.join(LABEL_NOISE_KINDS)}"
        )
    given = check_indices("labels", labels, c)
    clean = given.to(generator.device)
    rate = _check_rate(kind, noise_rate, c, include_self)
    equal = torch.full(clean.shape, rate, dtype=torch.float64, device=clean.device)
    noise: tuple[Tensor, _Replace]
    match kind:
        case "symmetric":
            noise = equal, lambda old, _, draws: any_other_class(old, draws, c, include_self)
        case "pairwise":
            noise = equal, lambda old, _, draws: (old + 1) % c
        case "superclass":
            group_of = _check_groups(groups, c).to(generator.device)
            noise = equal, lambda old, _, draws: other_class_of_group(old, draws, group_of)
        case "transition":
            assert matrix is not None
            columns = matrix / matrix.sum(0)
            rates = (1 - columns.diagonal()).clamp(0, 1)[clean]
            noise = rates, lambda old, _, draws: wrong_class_of_column(old, draws, columns)
        case "classifier":
            predicted = _probabilities(inputs, distributions, clean, c).argmax(1)
            noise = equal, lambda old, at, draws: predicted[at]
        case "instance":
            by_class = _probabilities(inputs, distributions, clean, c)
            rates = rates_by_ambiguity(clean, by_class, rate)
            noise = rates, lambda old, at, draws: other_class(old, draws, by_class[at])
        case "human":
            assert human_labels is not None
            said = check_indices("human_labels", human_labels, c).to(generator.device)
            _check_length("human_labels", said, clean)
            noise = (said != clean).double(), lambda old, at, draws: said[at]
    rates, replace = noise
    if exact:
        at, draws = _exactly(rates, clean, generator)
    else:
        at = (_uniform(len(rates), generator) < rates).nonzero().squeeze(1)
        draws = _uniform(len(at), generator)
    noisy = clean.index_copy(0, at, replace(clean[at], at, draws))
    is_noisy = noisy != clean
    return NoisyLabels(
        labels=noisy.to(given.device),
        is_noisy=is_noisy.to(given.device),
        noise_rate=is_noisy.double().mean().item(),
        transition=realized_transition(noisy, clean, c).to(given.device),
    )


_ALLOWED = {
    "symmetric": ({"noise_rate"}, {"include_self"}),
    "pairwise": ({"noise_rate"}, set()),
    "superclass": ({"noise_rate"}, {"groups"}),
    "transition": ({"transition"}, set()),
    "classifier": ({"noise_rate"}, {"inputs", "probs"}),
    "instance": ({"noise_rate"}, {"inputs", "probs"}),
    "human": ({"human_labels"}, set()),
}  # the arguments that each kind needs, and those that it takes besides


def _corrupt_each_label(
    labels: Any, kind: str, noise_rate: ArrayLike | None, generator: Generator, exact: bool
) -> NoisyLabels:
    given = as_tensor(labels)
    if given.ndim != 2 or not given.numel():
        raise InvalidValueError(
            f"{kind} noise takes multi-label data, a matrix of labels 0 and 1; got shape "
            f"{tuple(given.shape)}"
        )
    clean = check_targets(given).long().to(generator.device)
    is_noisy = changed_labels(clean, kind, noise_rate, generator, exact=exact)
    noisy = torch.where(is_noisy, 1 - clean, clean)
    return NoisyLabels(
        labels=noisy.to(given.device),
        is_noisy=is_noisy.to(given.device),
        noise_rate=float(is_noisy.sum() / (clean >= 0).sum().clamp(min=1)),
        transition=realized_transitions(noisy, clean).to(given.device),
    )


def _check_options(kind: str, given: set[str]) -> None:
    if kind not in _ALLOWED:
        kinds = ", ".join((*NOISE_KINDS, *LABEL_NOISE_KINDS))
        raise InvalidValueError(f"`kind` must be one of {kinds}, got {kind!r}")
    needed, optional = _ALLOWED[kind]
    missing, foreign = sorted(needed - given), sorted(given - needed - optional)
    if missing:
        raise InvalidTypeError(f"{kind} noise needs `{missing[0]}`")
    if foreign:
        raise InvalidTypeError(f"`{foreign[0]}` does not apply to {kind} noise: leave it out")
    if "inputs" in optional and len(given & optional) != 1:
        raise InvalidTypeError(f"{kind} noise needs either `inputs` or `probs`")


def _agreed_classes(kind: str, num_classes: int | None, **shown: Tensor | None) -> int:
    counts = {name: len(value.T) for name, value in shown.items() if value is not None}
    if num_classes is None and not counts:
        raise InvalidTypeError(f"{kind} noise needs `num_classes`, the number of classes")
    c = check_num_classes(next(iter(counts.values())) if num_classes is None else num_classes)
    for name, count in counts.items():
        if count != c:
            raise InvalidValueError(f"`num_classes` is {c}, but `{name}` has {count} classes")
    return c


def _check_rate(kind: str, noise_rate: Any, c: int, include_self: bool) -> float:
    if noise_rate is None:
        return 0.0
    if kind == "classifier" or include_self:  # the rate of replacement, not of change
        return check_number("noise_rate", noise_rate, "[0, 1]")
    return float(check_noise_rate(noise_rate, c))


def _check_generator(generator: Generator | None) -> Generator:
    if generator is None:
        generator = Generator()
        generator.seed()
    if not isinstance(generator, Generator):
        raise InvalidTypeError(
            "`generator` must be a torch.Generator, such as torch.Generator().manual_seed(0); "
            f"got {generator!r}"
        )
    return generator


def _check_length(name: str, rows: Any, labels: Tensor) -> None:
    if len(rows) != len(labels):
        raise InvalidValueError(
            f"`{name}` must have one row per label, {len(labels)}; got {len(rows)}"
        )


def _check_groups(groups: Sequence[int] | None, c: int) -> Int64[Tensor, " classes"]:
    if groups is None and c != 100:
        raise InvalidValueError(
            f"the built-in groups are those of CIFAR-100's 100 classes; for {c} classes pass "
            "`groups`, the group of each class"
        )
    of_class = torch.as_tensor(cifar100_superclass_of() if groups is None else groups)
    if of_class.shape != (c,):
        raise InvalidValueError(
            f"`groups` must name the group of each of {c} classes, got {len(of_class)}"
        )
    numbered: Tensor = torch.unique(of_class, return_inverse=True)[1]
    alone = (numbered.bincount()[numbered] == 1).nonzero().flatten().tolist()
    if alone:
        raise InvalidValueError(
            f"classes {alone} are alone in their `groups`, so that their labels cannot change: "
            "put each class into a group with another one"
        )
    return numbered


def _probabilities(
    inputs: Tensor | NDArray[Any] | None, distributions: Tensor | None, clean: Tensor, c: int
) -> Float64[Tensor, "n classes"]:
    if distributions is not None:
        _check_length("probs", distributions, clean)
        return distributions
    assert inputs is not None
    _check_length("inputs", inputs, clean)
    return linear_probabilities(inputs, clean, c).to(clean.device)


def _exactly(
    rates: Float64[Tensor, " n"], labels: Int64[Tensor, " n"], generator: Generator
) -> tuple[Int64[Tensor, " m"], Float64[Tensor, " m"]]:
    """Choose the expected number of labels, rounded, each in proportion to its rate.

    This is systematic sampling: the rates are laid end to end on a line, class by class and in
    random order within each class. The labels that cover one of the points offset, offset + 1, and
    so on are chosen.
    """
    n = len(rates)
    is_constant = bool((rates == rates[0]).all())
    wanted = round(rates[0].item() * n if is_constant else rates.sum().item())
    shuffled = torch.randperm(n, generator=generator, device=generator.device)
    classes = int(labels.max()) + 1
    class_order = torch.randperm(classes, generator=generator, device=generator.device)
    order = shuffled[class_order[labels[shuffled]].argsort(stable=True)]
    ends = _scaled_to(rates[order], wanted).cumsum(0)
    ends[-1] = wanted  # the sum may be off by rounding
    points = (ends - _uniform(1, generator)).ceil()
    at = order[points.diff(prepend=points.new_zeros(1)) > 0]
    return at, _spread_evenly(labels[at], generator)


def _scaled_to(rates: Float64[Tensor, " n"], total: int) -> Float64[Tensor, " n"]:
    """Return the rates in the same proportions, but summing to ``total`` and none above one."""
    certain = rates >= 1
    while True:
        factor = (total - certain.sum()) / rates[~certain].sum().clamp(min=1e-300)
        scaled = torch.where(certain, 1.0, rates * factor)
        if not bool((scaled > 1).any()):
            return scaled
        certain |= scaled >= 1


def _spread_evenly(groups: Int64[Tensor, " m"], generator: Generator) -> Float64[Tensor, " m"]:
    """Return one number in [0, 1) per label, spread evenly within each group.

    [0, 1) is cut into ``m`` equal parts, and each of a group's ``m`` members draws from its own.
    Members of a group are next to each other, in random order.
    """
    sizes = groups.bincount()
    is_first = groups.diff(prepend=groups.new_full((1,), -1)) != 0
    positions = torch.arange(len(groups), device=groups.device)
    starts = torch.where(is_first, positions, 0).cummax(0).values
    draws = (positions - starts + _uniform(len(groups), generator)) / sizes[groups]
    return draws.clamp(max=math.nextafter(1.0, 0.0))


def _uniform(n: int, generator: Generator) -> Float64[Tensor, " n"]:
    return torch.rand(n, generator=generator, device=generator.device, dtype=torch.float64)


def realized_transition(
    noisy: Int64[Tensor, " n"], clean: Int64[Tensor, " n"], c: int
) -> Float64[Tensor, "classes classes"]:
    """Return the realized ``T[noisy, true]``; a class without examples has no noise."""
    counts = torch.bincount(noisy * c + clean, minlength=c * c).view(c, c).double()
    totals = counts.sum(0)
    return torch.where(totals > 0, counts / totals.clamp(min=1), torch.eye(c, device=noisy.device))
