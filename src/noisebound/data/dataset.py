"""Examples with labels, and a data set of training and test examples with its origin."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import polars as pl
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from scipy.sparse import hstack
from torch import Tensor

from noisebound.checks import check_count
from noisebound.data.column_types import check_named
from noisebound.data.rows import JoinedRows, Rows, SparseRows, TensorRows, as_rows
from noisebound.data.table_encoder import TableEncoder
from noisebound.data.text_columns import MOST_ROWS, weigh_text
from noisebound.errors import DataError
from noisebound.system.files import fingerprint_of_texts

_ROW_MASK = "\0is kept"  # not the name of any column


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
    """

    inputs: Shaped[Tensor, "n ..."] | Rows
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    true_labels: Int64[Tensor, " n"] | None = None
    weights: Float[Tensor, " n"] | None = None
    targets: Float[Tensor, "n classes"] | None = None

    def __post_init__(self) -> None:
        for name in ("labels", "true_labels", "weights"):
            values: Tensor | None = getattr(self, name)
            if values is None:
                continue
            if values.shape != self.inputs.shape[:1]:
                raise DataError(
                    f"{len(self.inputs)} inputs need as many {name}, got {list(values.shape)}"
                )
            if name == "weights":
                if not bool((torch.isfinite(values) & (values >= 0)).all()):
                    raise DataError("weights must be finite and not negative")
            elif len(values):
                low, high = (int(extreme) for extreme in values.aminmax())
                if low < 0 or high >= self.num_classes:
                    raise DataError(
                        f"{name} must be indices of {self.num_classes} classes, got {low} … {high}"
                    )
        if self.targets is not None and self.targets.shape != (len(self), self.num_classes):
            raise DataError(
                f"targets must be class probabilities of shape {[len(self), self.num_classes]}, "
                f"got {list(self.targets.shape)}"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """The number of classes, including those without examples."""
        return len(self.class_names)

    @property
    def is_images(self) -> bool:
        """True if the inputs are images rather than features."""
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
        return rows.whole() if isinstance(rows, TensorRows) else rows.dense(torch.arange(len(self)))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example's input."""
        return tuple(self.inputs.shape[1:])

    def class_counts(self) -> Int64[Tensor, " classes"]:
        """Return the number of examples per class."""
        return torch.bincount(self.labels, minlength=self.num_classes)

    def with_labels(self, labels: Int64[Tensor, " n"]) -> "Dataset":
        """Return the same examples with other labels; the true ones stay known.

        Unless ``true_labels`` are known already, they are the labels before the change.
        """
        true_labels = self.labels if self.true_labels is None else self.true_labels
        return replace(self, labels=labels, true_labels=true_labels)

    def subset(self, indices: Int64[Tensor, " m"] | Bool[Tensor, " n"]) -> "Dataset":
        """Return these examples, by position or by a mask; inputs are shared, not copied."""
        if indices.dtype == torch.bool:
            indices = indices.nonzero().squeeze(1)
        per_example: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[indices]
            for name in ("labels", "true_labels", "weights", "targets")
        }
        return replace(self, inputs=self.rows.select(indices), **per_example)

    def take(self, n: int, seed: int) -> "Dataset":
        """Return ``n`` examples drawn at random, with the class proportions of this set."""
        check_count("n", n)
        if n > len(self):
            raise DataError(f"cannot take {n} of {len(self)} examples")
        return self.subset(stratified_indices(self.labels, n, seed))


@dataclass(frozen=True)
class EmbeddedBy:
    """The backbone that made the inputs of a data set.

    Args:
        name: name of the backbone, such as ``"hf:folder"``
        fingerprint: hash of its weights and its preprocessing, if there is one
        modality: the kind of its inputs: ``"image"``, ``"text"`` or ``"features"``
        text_columns: the columns of a table whose texts it embedded
        image_size: height and width of the images, for a backbone of the user's own
    """

    name: str
    fingerprint: str | None
    modality: str
    text_columns: tuple[str, ...] = ()
    image_size: int | None = None


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set as loaded, with its origin.

    Args:
        name: the data set's name, or the file's
        train: the examples to train on, including the later validation split
        test: the examples to evaluate on, if any
        source: the place that the data came from
        notes: sentences about what reading did to the data
        encoder: for tables, the rule that turns rows into features; if texts are embedded, the
            other columns
        frame: for tables, the columns that `train` was encoded from
        test_frame: likewise for `test`
        train_names: the names of the training examples, such as their files; by default they are
            known by position
        embedded_by: the backbone that made the inputs, if one did
        pictures: the images behind the embeddings of `train`, by position
        table: for tables, all columns of the training rows but the labels, features or not
        id_column: the column of `table` that names the rows
    """

    name: str
    train: Dataset
    test: Dataset | None
    source: str
    notes: tuple[str, ...] = ()
    encoder: TableEncoder | None = None
    frame: pl.LazyFrame | None = None
    test_frame: pl.LazyFrame | None = None
    train_names: tuple[str, ...] | None = None
    embedded_by: EmbeddedBy | None = None
    pictures: Callable[[int], Tensor] | None = None
    table: pl.LazyFrame | None = None
    id_column: str | None = None

    def __post_init__(self) -> None:
        refuse_unwritable(self.train.class_names, "class")
        refuse_unwritable(self.train_names or (), "example")
        if self.train_names is not None and len(self.train_names) != len(self.train):
            raise DataError(f"{len(self.train)} examples, but {len(self.train_names)} names")
        if self.test is None:
            return
        shape, test_shape = (list(part.input_shape) for part in (self.train, self.test))
        if shape != test_shape:
            raise DataError(f"training inputs have shape {shape}, test inputs {test_shape}")
        if self.train.class_names != self.test.class_names:
            raise DataError("the training and the test examples have different classes")

    def named_by(self, column: str | None) -> "Splits":
        """Return the same data with rows that this column of the table names."""
        if column is None:
            return self
        if self.table is None:
            raise DataError("`id` names a column of a table, and this data is not a table")
        check_named(self.table.collect_schema().names(), {column: None}, self.source)
        return replace(self, id_column=column)

    @cached_property
    def ids(self) -> list[str] | None:
        """The ids of the training rows; None without an id column."""
        if self.id_column is None or self.table is None:
            return None
        ids = pl.col(self.id_column).cast(pl.String).fill_null("")
        return self.table.select(ids).collect().to_series().to_list()

    def example_name(self, position: int) -> str:
        """Return the name of a training example for people: its id, its file, or its position."""
        name = f"#{position}" if self.train_names is None else self.train_names[position]
        return name if self.ids is None else f"{self.ids[position]} ({name})"

    def picture(self, position: int) -> Shaped[Tensor, "channels height width"] | None:
        """Return the image of a training example, or None if the examples are not images."""
        if self.pictures is not None:
            return self.pictures(position)
        if not self.train.is_images:
            return None
        return self.train.rows.dense(torch.tensor([position]))[0]

    @property
    def has_pictures(self) -> bool:
        """True if the training examples are images, or embeddings of images."""
        return self.pictures is not None or self.train.is_images

    def encoded(self, *, weigh: bool = True) -> "Splits":
        """Return the same data with its texts encoded by the words of all training rows."""
        if self.encoder is None or not self.encoder.text_columns:
            return self
        return self.encoded_by(torch.ones(len(self.train)).bool(), weigh=weigh)

    def encoded_by(self, rows: Bool[Tensor, " n"], *, weigh: bool = True) -> "Splits":
        """Return the same data with a table's columns encoded by the statistics of these rows.

        Means, deviations, categories and vocabularies must come from the training rows, without
        those of the validation split. Data other than tables is unchanged.

        Args:
            rows: True for each training row
            weigh: False to use texts even if they do not help
        """
        if self.frame is None or self.encoder is None:
            return self
        kept = self._kept(rows)
        encoder = TableEncoder.fit(kept, self.encoder.types, styles=self.encoder.styles)
        if self.embedded_by is None:
            encoder = encoder.with_words(kept)
        weighed = self._weigh_texts(encoder, rows) if weigh else None
        if weighed is None:
            return self.encoded_with(encoder)
        scale, reason = weighed
        note = f"text {', '.join(map(repr, encoder.text_columns))}: {reason}"
        encoded = self.encoded_with(encoder.with_text_scale(scale, note))
        return replace(encoded, notes=(*self.notes, note))

    def _weigh_texts(
        self, encoder: TableEncoder, rows: Bool[Tensor, " n"]
    ) -> tuple[float, str] | None:
        """Return the scale of texts beside other columns and its reason; None without both."""
        if not 0 < len(encoder.text_columns) < len(encoder.columns):
            return None
        sample = rows.nonzero().squeeze(1)
        if len(sample) > MOST_ROWS:
            sample = sample[stratified_indices(self.train.labels[sample], MOST_ROWS, seed=0)]
        is_sampled = torch.zeros(len(rows)).bool().index_fill(0, sample, True)
        frame = self._kept(is_sampled).collect()
        columns = encoder.beside_texts().transform(frame)
        assert isinstance(columns, Tensor)
        if self.embedded_by is None:
            blocks: list[Any] = [column.encode(frame[column.name]) for column in encoder.texts]
            text: Any = hstack(blocks, format="csr")
        else:
            vectors = _vectors(self.train).dense(sample)
            std, mean = torch.std_mean(vectors, dim=0)
            text = ((vectors - mean) / (std + 1e-6)).numpy()
        return weigh_text(columns.numpy(), text, self.train.labels[sample])

    def _kept(self, rows: Bool[Tensor, " n"]) -> pl.LazyFrame:
        """Return some rows of the table that `train` was encoded from."""
        assert self.frame is not None
        masked = self.frame.with_columns(pl.Series(_ROW_MASK, rows.numpy()))
        return masked.filter(_ROW_MASK).drop(_ROW_MASK)

    def encoded_with(self, encoder: TableEncoder | None) -> "Splits":
        """Return the same data with a table's columns encoded by this rule, if there is one."""
        if encoder is None or self.frame is None:
            return self
        test = self.test
        if test is not None and self.test_frame is not None:
            test = replace(test, inputs=self._features(encoder, self.test_frame, test))
        train = replace(self.train, inputs=self._features(encoder, self.frame, self.train))
        return replace(self, train=train, test=test, encoder=encoder)

    def _features(self, encoder: TableEncoder, frame: pl.LazyFrame, data: Dataset) -> Tensor | Rows:
        """Return a table's features, beside embeddings if there are any."""
        features = encoder.transform(frame)
        if self.embedded_by is None:
            return features
        return JoinedRows(_vectors(data), as_rows(features))

    @property
    def to_predict(self) -> tuple[Dataset, pl.LazyFrame | None]:
        """The test examples, or all if there are none, and the table they are encoded from."""
        return (self.train, self.frame) if self.test is None else (self.test, self.test_frame)

    def fingerprint(self) -> str:
        """Hash of the training inputs as they were read; texts count before they are encoded."""
        texts = self.texts()
        if texts is None or self.embedded_by is not None:
            return self.train.rows.fingerprint()
        assert self.encoder is not None
        assert self.frame is not None
        others = as_rows(self.encoder.beside_texts().transform(self.frame))
        both = f"{others.fingerprint()} {fingerprint_of_texts(texts)}"
        return hashlib.sha256(both.encode()).hexdigest()

    def texts(self, part: Literal["train", "test"] = "train") -> list[str] | None:
        """Return the text of each example for an encoder; None without texts.

        Several columns of texts become one paragraph each.
        """
        frame = self.frame if part == "train" else self.test_frame
        origin = self.embedded_by or self.encoder
        columns = () if origin is None else origin.text_columns
        return None if frame is None or not columns else joined_texts(frame, columns)


def _vectors(data: Dataset) -> Rows:
    """Return the embeddings alone, without the columns beside them."""
    rows = data.rows
    return rows.left if isinstance(rows, JoinedRows) else rows


def check_classes_left(
    before: Int64[Tensor, " n"],
    left: Int64[Tensor, " m"],
    class_names: Sequence[str],
    kind: str,
) -> None:
    """Raise a `DataError` if all examples of a class are unreadable."""
    lost = [class_names[index] for index in sorted(set(before.tolist()) - set(left.tolist()))]
    if lost:
        classes = "class" if len(lost) == 1 else "classes"
        raise DataError(
            f"no readable {kind} is left of the {classes} {', '.join(lost)}: repair some, or "
            f"remove the {classes}"
        )


def joined_texts(frame: pl.LazyFrame | pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the text of each row; several columns become one paragraph each."""
    joined = pl.concat_str(
        [pl.col(name).cast(pl.String) for name in columns], separator="\n\n", ignore_nulls=True
    )
    return frame.lazy().select(joined.fill_null("")).collect().to_series().to_list()


def stratified_indices(labels: Int64[Tensor, " n"], n: int, seed: int) -> Int64[Tensor, " m"]:
    """Return ``n`` sorted positions in which each class has its share, to the nearest integer."""
    counts = torch.bincount(labels)
    exact = counts * n
    quotas = exact // len(labels)
    # What rounding down left over goes to the largest remainders.
    quotas[(-(exact % len(labels))).argsort(stable=True)[: n - int(quotas.sum())]] += 1
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    order = shuffled[labels[shuffled].argsort(stable=True)]  # class after class
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(labels)) - starts[labels[order]]
    return order[place < quotas[labels[order]]].sort().values


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
