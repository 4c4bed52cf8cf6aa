"""Examples in memory: one tensor of inputs, one of labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int64, Shaped
from numpy.typing import NDArray
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.labels import encode_labels
from noisebound.data.table_encoder import TableEncoder
from noisebound.errors import DataError

_CHANNELS = (1, 3, 4)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs, labels and the names of the classes.

    Args:
        inputs: uint8 images ``[n, channels, height, width]``, or float32 features ``[n, features]``
        labels: class indices
        class_names: the name of each index
        true_labels: what ``labels`` would be without noise, where that is known
    """

    inputs: Shaped[Tensor, "n ..."]
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    true_labels: Int64[Tensor, " n"] | None = None

    def __post_init__(self) -> None:
        for name, labels in (("labels", self.labels), ("true_labels", self.true_labels)):
            if labels is not None and labels.shape != self.inputs.shape[:1]:
                raise DataError(
                    f"{len(self.inputs)} inputs need as many {name}, got {list(labels.shape)}"
                )
            if labels is not None and len(labels):
                low, high = (int(extreme) for extreme in labels.aminmax())
                if low < 0 or high >= len(self.class_names):
                    raise DataError(
                        f"{name} must be indices of {len(self.class_names)} classes, "
                        f"got {low} … {high}"
                    )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """The number of classes, those without examples included."""
        return len(self.class_names)

    @property
    def is_images(self) -> bool:
        """Whether the inputs are images rather than features."""
        return self.inputs.ndim == 4

    def class_counts(self) -> Int64[Tensor, " classes"]:
        """How many examples carry each label."""
        return torch.bincount(self.labels, minlength=self.num_classes)

    def with_labels(self, labels: Int64[Tensor, " n"]) -> "Dataset":
        """The same examples with other labels; the true ones stay known.

        Unless ``true_labels`` are known already, those are the labels until now.
        """
        true_labels = self.labels if self.true_labels is None else self.true_labels
        return replace(self, labels=labels, true_labels=true_labels)

    def subset(self, indices: Int64[Tensor, " m"] | Bool[Tensor, " n"]) -> "Dataset":
        """These examples only, by their positions or by a mask."""
        if indices.dtype == torch.bool:
            indices = indices.nonzero().squeeze(1)
        return Dataset(
            inputs=self.inputs.index_select(0, indices),
            labels=self.labels[indices],
            class_names=self.class_names,
            true_labels=None if self.true_labels is None else self.true_labels[indices],
        )

    def take(self, n: int, seed: int) -> "Dataset":
        """``n`` examples drawn at random, with the classes in the proportions they have here."""
        check_count("n", n)
        if n > len(self):
            raise DataError(f"cannot take {n} of {len(self)} examples")
        return self.subset(stratified_indices(self.labels, n, seed))


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set as loaded: its training examples, its test examples if it has any, its story.

    Args:
        name: the data set's, or the file's
        train: what to learn from
        test: what to judge by
        source: where it was found
        notes: what was done to it on the way
        encoder: for tables, what turns new rows into the same features
        train_names: of the training examples, such as their files; None where it is their position
    """

    name: str
    train: Dataset
    test: Dataset | None
    source: str
    notes: tuple[str, ...] = ()
    encoder: TableEncoder | None = None
    train_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.train_names is not None and len(self.train_names) != len(self.train):
            raise DataError(f"{len(self.train)} examples, but {len(self.train_names)} names")
        if self.test is None:
            return
        shape, test_shape = (list(part.inputs.shape[1:]) for part in (self.train, self.test))
        if shape != test_shape:
            raise DataError(f"training inputs have shape {shape}, test inputs {test_shape}")
        if self.train.class_names != self.test.class_names:
            raise DataError("the training and the test examples have different classes")


def stratified_indices(labels: Int64[Tensor, " n"], n: int, seed: int) -> Int64[Tensor, " m"]:
    """``n`` positions, sorted, in which each class has its share (to the nearest whole number)."""
    counts = torch.bincount(labels)
    quotas = torch.tensor(_apportion(counts.tolist(), n))
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    order = shuffled[labels[shuffled].argsort(stable=True)]  # class after class
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(labels)) - starts[labels[order]]
    return order[place < quotas[labels[order]]].sort().values


def _apportion(counts: Sequence[int], n: int) -> list[int]:
    """Largest remainders: whole quotas that sum to ``n``, none above its count."""
    total = sum(counts)
    quotas = [count * n // total for count in counts]
    by_remainder = sorted(range(len(counts)), key=lambda k: (-(counts[k] * n % total), k))
    for k in by_remainder[: n - sum(quotas)]:
        quotas[k] += 1
    return quotas


def dataset_from_arrays(
    inputs: Any, labels: Any, class_names: Sequence[str] | None = None
) -> Dataset:
    """A data set out of anything array-like; labels may be numbers or text.

    Args:
        inputs: features ``[n, features]``; or images ``[n, height, width]``, with channels last
            (1, 3 or 4 of them) or first. Whole numbers from 0 to 255 are kept as uint8 where they
            are images; everything else becomes float32.
        labels: one a row
        class_names: the classes in order; without, the distinct labels

    Example:
        >>> data = dataset_from_arrays([[0.5, 1.0], [1.5, 2.0]], ["no", "yes"])
        >>> data.labels, data.class_names
        (tensor([0, 1]), ('no', 'yes'))
    """
    array = _as_array(inputs)
    indices, names = encode_labels(_without_graph(labels), class_names)
    if len(array) != len(indices):
        raise DataError(f"{len(array)} inputs but {len(indices)} labels: they must be as many")
    if len(array) == 0:
        raise DataError("there are no examples")
    if len(names) < 2:
        raise DataError(f"all labels are {names[0]!r}: a classifier needs at least two classes")
    return Dataset(_as_inputs(array), torch.from_numpy(indices), names)


def inputs_from_array(inputs: Any) -> Tensor:
    """Inputs alone, in the form that `dataset_from_arrays` gives them."""
    return _as_inputs(_as_array(inputs))


def _as_array(inputs: Any) -> NDArray[Any]:
    array = np.asarray(_without_graph(inputs))
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"inputs must be numbers, got {array.dtype}; encode text columns first, or save the "
            "table as CSV or Parquet and load that"
        )
    if array.ndim < 2:
        raise DataError(f"inputs must have at least two dimensions, got shape {array.shape}")
    if array.dtype.kind == "f":
        is_usable = np.abs(array) <= np.finfo(np.float32).max
        if not is_usable.all():
            raise DataError(
                f"{(~is_usable).sum()} values of the inputs are NaN, infinite or too large for "
                "float32: fill or drop them"
            )
    return array


def _without_graph(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _as_inputs(array: NDArray[Any]) -> Tensor:
    if array.ndim == 2:
        return torch.from_numpy(array.astype(np.float32))
    if array.size == 0:
        raise DataError(f"images must have a height and a width, got shape {list(array.shape)}")
    images = _channels_first(array)
    is_bytes = images.dtype.kind in "iu" and images.min() >= 0 and images.max() <= 255
    return torch.from_numpy(images.astype(np.uint8 if is_bytes else np.float32))


def _channels_first(images: NDArray[Any]) -> NDArray[Any]:
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4:
        is_last, is_first = images.shape[3] in _CHANNELS, images.shape[1] in _CHANNELS
        if is_last != is_first:
            return images.transpose(0, 3, 1, 2) if is_last else images
    raise DataError(
        "images must have shape [n, height, width], or four dimensions of which either the last "
        f"or the second counts 1, 3 or 4 channels; got {list(images.shape)}"
    )
