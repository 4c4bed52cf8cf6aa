"""Examples with labels, and draws of some of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.groups import are_alone, whole_groups
from noisebound.data.rows import Rows, SparseRows, as_rows
from noisebound.errors import DataError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs, labels and the names of the classes.

    Args:
        inputs: uint8 images ``[n, channels, height, width]`` or float features ``[n, features]``,
            as a tensor or as rows; or sparse features
        labels: observed class indices
        class_names: the name of each index
        true_labels: the labels without noise, where they are known; only evaluation uses them
        weights: weight of each example in the mean loss, not negative (default: one)
        targets: class probabilities to train on in place of the labels
        votes: the labels of several annotators, -1 where one gave none; `labels` has one of each
            example then, their majority vote
        annotators: the names of those who gave the votes; empty if they are not known
        groups: the group of each example; no fold divides a group (default: each is its own)
        label_matrix: for examples with several labels at once, 1 for each label that an example
            has, 0 for others, -1 where it is missing. `of_label` has one of them as `labels`
        label_names: the name of each column of `label_matrix`
        counts_alike: True to judge predictions with both classes counted alike, so that a rare
            label is not drowned
    """

    inputs: Shaped[Tensor, "n ..."] | Rows
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    true_labels: Int64[Tensor, " n"] | None = None
    weights: Float[Tensor, " n"] | None = None
    targets: Float[Tensor, "n classes"] | None = None
    votes: Int64[Tensor, "n annotators"] | None = None
    annotators: tuple[str, ...] = ()
    groups: Int64[Tensor, " n"] | None = None
    label_matrix: Int64[Tensor, "n labels"] | None = None
    label_names: tuple[str, ...] = ()
    counts_alike: bool = False

    def __post_init__(self) -> None:
        count, classes = len(self.inputs), self.num_classes
        annotators = len(self.annotators) or (0 if self.votes is None else self.votes.shape[-1])
        shapes: dict[str, tuple[int, ...]] = {
            **dict.fromkeys(("labels", "true_labels", "weights", "groups"), (count,)),
            "targets": (count, classes),
            "votes": (count, annotators),
            "label_matrix": (count, len(self.label_names)),
        }
        for name, shape in shapes.items():
            values: Tensor | None = getattr(self, name)
            if values is None:
                continue
            if tuple(values.shape) != shape:
                raise DataError(
                    f"{name} of {count} inputs must have shape {list(shape)}, got "
                    f"{list(values.shape)}"
                )
            least = {"labels": 0, "true_labels": 0, "votes": -1}.get(name)
            if least is not None and values.numel():
                low, high = (int(extreme) for extreme in values.aminmax())
                if low < least or high >= classes:
                    none = ", or -1 for none" if least else ""
                    raise DataError(
                        f"{name} must be indices of {classes} classes{none}, got {low} … {high}"
                    )
        weights = self.weights
        if weights is not None and not bool((torch.isfinite(weights) & (weights >= 0)).all()):
            raise DataError("weights must be finite and not negative")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """The number of classes, including those without examples."""
        return len(self.class_names)

    @property
    def is_images(self) -> bool:
        return self.inputs.ndim == 4

    @property
    def rows(self) -> Rows:
        """The inputs as rows, to read batch by batch; required for data larger than memory."""
        return as_rows(self.inputs)

    @property
    def dense_inputs(self) -> Shaped[Tensor, "n ..."]:
        """All inputs as one tensor, a copy if they are a subset; an error if they are sparse."""
        rows = self.rows
        if isinstance(rows, SparseRows):
            raise DataError("dense inputs are needed here, and these are sparse")
        return rows.whole()

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.inputs.shape[1:])

    def class_counts(self) -> Int64[Tensor, " classes"]:
        return torch.bincount(self.labels, minlength=self.num_classes)

    def with_labels(self, labels: Int64[Tensor, " n"]) -> "Dataset":
        """Return the same examples with other labels.

        Unless ``true_labels`` are known already, they are the labels before the change.
        """
        true_labels = self.labels if self.true_labels is None else self.true_labels
        return replace(self, labels=labels, true_labels=true_labels, votes=None, annotators=())

    def knows(self, label: int) -> Bool[Tensor, " n"]:
        """Return which examples are known to have or to lack the label at this position."""
        assert self.label_matrix is not None
        return self.label_matrix[:, label] >= 0

    def of_label(self, label: int) -> "Dataset":
        """Return the same examples with one of their labels, which must be known."""
        assert self.label_matrix is not None
        labels = self.label_matrix[:, label]
        several: dict[str, Any] = {"label_matrix": None, "label_names": ()}
        return replace(self, labels=labels, counts_alike=True, **several)

    def subset(self, indices: Int64[Tensor, " m"] | Bool[Tensor, " n"]) -> "Dataset":
        """Return these examples, by position or by a mask; inputs are shared, not copied."""
        if indices.dtype == torch.bool:
            indices = indices.nonzero().squeeze(1)
        per_example: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[indices]
            for name in (
                *("labels", "true_labels", "weights", "targets", "votes", "groups"),
                "label_matrix",
            )
        }
        return replace(self, inputs=self.rows.select(indices), **per_example)

    def take(self, n: int, seed: int) -> "Dataset":
        """Return ``n`` examples drawn at random, with the class proportions of this set."""
        check_count("n", n)
        if n > len(self):
            raise DataError(f"cannot take {n} of {len(self)} examples")
        return self.subset(stratified_indices(self.labels, n, seed))


def check_classes_left(
    before: Int64[Tensor, " n"],
    left: Int64[Tensor, " m"],
    class_names: Sequence[str],
    kind: str,
) -> None:
    """Raise a `DataError` if all examples of a class are unreadable."""
    lost = [class_names[index] for index in sorted(set(before.tolist()) - set(left.tolist()))]
    if lost:
        raise DataError(
            f"no readable {kind} is left of the class {', '.join(lost)}: repair some, or "
            "remove the class"
        )


def stratified_indices(
    labels: Int64[Tensor, " n"], n: int, seed: int, groups: Int64[Tensor, " n"] | None = None
) -> Int64[Tensor, " m"]:
    """Return ``n`` sorted positions in which each class has its share, to the nearest integer.

    Groups are not divided, unless there is only one, so the numbers are then only near that.
    """
    counts = torch.bincount(labels)
    exact = counts * n
    quotas = exact // len(labels)
    # The rest after rounding down goes to the largest remainders.
    quotas[(-(exact % len(labels))).argsort(stable=True)[: n - int(quotas.sum())]] += 1
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    chosen = torch.empty(0, dtype=torch.int64)
    if groups is not None and bool((groups != groups[0]).any()):
        chosen = whole_groups(labels, groups, n / len(labels), shuffled)
        quotas -= torch.bincount(labels[chosen], minlength=len(quotas))
        shuffled = shuffled[are_alone(groups)[shuffled]]
        counts = torch.bincount(labels[shuffled], minlength=len(quotas))
    order = shuffled[labels[shuffled].argsort(stable=True)]  # class after class
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(order)) - starts[labels[order]]
    return torch.cat([chosen, order[place < quotas[labels[order]]]]).sort().values


def refuse_unwritable(names: Sequence[str], what: str) -> None:
    """Raise a `DataError` for names that are not UTF-8: no model or table could hold them."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            written = name.encode("utf-8", "surrogateescape")
            raise DataError(
                f"the name of the {what} {written!r} is not written in UTF-8: rename it"
            ) from error
