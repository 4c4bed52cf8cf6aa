"""A data set as loaded: training and test examples, and where they come from."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl
import torch
from jaxtyping import Bool, Shaped
from scipy.sparse import hstack
from torch import Tensor

from noisebound.data.column_types import check_named
from noisebound.data.dataset import Dataset, refuse_unwritable, stratified_indices
from noisebound.data.duplicates import Duplicates, find_duplicates
from noisebound.data.groups import classes_in_one_group, group_indices
from noisebound.data.rows import JoinedRows, Rows, as_rows
from noisebound.data.table_encoder import TableEncoder
from noisebound.data.text_columns import MOST_ROWS, weigh_text
from noisebound.errors import DataError
from noisebound.system.files import fingerprint_of_texts

_SAID = 3  # notes of one kind


@dataclass(frozen=True)
class EmbeddedBy:
    """The backbone that made the inputs of a data set."""

    name: str  # such as "hf:folder"
    fingerprint: str | None  # hash of its weights and its preprocessing
    modality: str  # the kind of its inputs: "image", "text" or "features"
    text_columns: tuple[str, ...] = ()  # the columns of a table whose texts it embedded
    image_size: int | None = None  # of the images, for a backbone of the user's own


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
        folder: the folder that `train_names` are relative to, if they are files
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
    frame: pl.DataFrame | None = None
    test_frame: pl.DataFrame | None = None
    train_names: tuple[str, ...] | None = None
    folder: Path | None = None
    embedded_by: EmbeddedBy | None = None
    pictures: Callable[[int], Tensor] | None = None
    table: pl.DataFrame | None = None
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
        check_named(self.table.columns, [column], self.source)
        return replace(self, id_column=column)

    def grouped_by(self, groups: Any) -> "Splits":
        """Return the same data with training examples in groups that no fold divides.

        They are a column of the table, by its name, or one value per training example.
        """
        if groups is None:
            return self
        of = "`groups`"
        if isinstance(groups, str):
            if self.table is None:
                raise DataError(
                    "`groups` names a column of a table, and this data is not a table: in Python, "
                    "pass one value per example"
                )
            check_named(self.table.columns, [groups], self.source)
            groups, of = self.table[groups], f"column {groups!r} of {self.source}"
        found = group_indices(groups, len(self.train), of)
        has_one_label = self.train.label_matrix is None
        single = classes_in_one_group(self.train.labels, found) if has_one_label else []
        notes = [
            f"all examples of the class {self.train.class_names[k]!r} are in one group, so models "
            "that predict them do not know the class, and its labels look wrong"
            for k in single[:_SAID]
        ]
        train = replace(self.train, groups=found)
        return replace(self, train=train, notes=(*self.notes, *notes))

    def of_label(self, name: str) -> "Splits":
        """Return the examples whose label of this name is known, with it as their label."""
        names = self.train.label_names
        if name not in names:
            raise DataError(f"{self.source} has no label {name!r}; it has {', '.join(names)}")
        place = names.index(name)
        splits = self.subset("train", self.train.knows(place))
        if self.test is not None:
            splits = splits.subset("test", self.test.knows(place))
        test = None if splits.test is None else splits.test.of_label(place)
        has_test = test is not None and len(test) > 0
        train = splits.train.of_label(place)
        return replace(splits, train=train, test=test if has_test else None)

    def subset(self, part: Literal["train", "test"], kept: Bool[Tensor, " n"]) -> "Splits":
        """Return the same with some of the training or test examples, which keep their names."""
        if bool(kept.all()):
            return self
        at, rows = kept.nonzero().flatten().tolist(), kept.numpy()
        if part == "test":
            frame = None if self.test_frame is None else self.test_frame.filter(rows)
            test = None if self.test is None else self.test.subset(kept)
            return replace(self, test=test, test_frame=frame)
        names, pictures = self.train_names, self.pictures
        return replace(
            self,
            train=self.train.subset(kept),
            frame=None if self.frame is None else self.frame.filter(rows),
            train_names=tuple(str(place) if names is None else names[place] for place in at),
            pictures=None if pictures is None else (lambda place: pictures(at[place])),
            table=None if self.table is None else self.table.filter(rows),
        )

    @cached_property
    def duplicates(self) -> Duplicates:
        return find_duplicates(
            self.train.rows,
            self.frame,
            has_texts=self.texts() is not None,
            is_embedded=self.embedded_by is not None,
        )

    def with_duplicates_together(self) -> "Splits":
        """Return the same data with duplicates in groups, unless it has groups, and a note."""
        if self.train.groups is not None:
            return self
        found = self.duplicates
        note = found.note(self.train.labels, self.example_name)
        train = replace(self.train, groups=found.groups)
        return replace(self, train=train, notes=(*self.notes, *([note] if note else [])))

    @cached_property
    def ids(self) -> list[str] | None:
        """The ids of the training rows; None without an id column."""
        if self.id_column is None or self.table is None:
            return None
        ids = pl.col(self.id_column).cast(pl.String).fill_null("")
        return self.table.select(ids).to_series().to_list()

    def example_name(self, position: int) -> str:
        """Return the name of a training example for people: its id, its file, or its position."""
        name = f"#{position}" if self.train_names is None else self.train_names[position]
        given = name if self.ids is None else self.ids[position]
        return name if given == name else f"{given} ({name})"

    def picture(self, position: int) -> Shaped[Tensor, "channels height width"] | None:
        """Return the image of a training example, or None if the examples are not images."""
        if self.pictures is not None:
            return self.pictures(position)
        if not self.train.is_images:
            return None
        return self.train.rows.dense(torch.tensor([position]))[0]

    @property
    def has_pictures(self) -> bool:
        return self.pictures is not None or self.train.is_images

    @property
    def is_labels_alone(self) -> bool:
        """True if there are no inputs: no features, and no texts that are yet to be encoded."""
        has_texts = self.encoder is not None and bool(self.encoder.text_columns)
        return self.train.input_shape == (0,) and not has_texts

    def encoded(self) -> "Splits":
        """Return the same data with its texts encoded by the words of all training rows."""
        if self.encoder is None or not self.encoder.text_columns:
            return self
        return self.encoded_by(torch.ones(len(self.train)).bool(), weigh=False)

    def encoded_by(self, rows: Bool[Tensor, " n"], *, weigh: bool = True) -> "Splits":
        """Return the same data with a table's columns encoded by the statistics of these rows.

        Means, deviations, categories and vocabularies must come from the training rows, without
        those of the validation split. Texts that do not help are left out, if they are weighed.
        Data other than tables is unchanged.
        """
        if self.frame is None or self.encoder is None:
            return self
        kept = self.frame.filter(rows.numpy())
        encoder = TableEncoder.fit(kept, self.encoder.types, styles=self.encoder.styles)
        if self.embedded_by is None:
            encoder = encoder.with_words(kept)
        if not weigh or (weighed := self._weigh_texts(encoder, rows)) is None:
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
        assert self.frame is not None
        frame = self.frame[sample.numpy()]
        columns = encoder.beside_texts().transform(frame)
        assert isinstance(columns, Tensor)
        if self.embedded_by is None:
            blocks: list[Any] = [column.encode(frame[column.name]) for column in encoder.texts]
            text: Any = hstack(blocks, format="csr")
        else:
            vectors = _vectors(self.train).dense(sample)
            std, mean = torch.std_mean(vectors, dim=0)
            text = ((vectors - mean) / (std + 1e-6)).numpy()
        groups = None if self.train.groups is None else self.train.groups[sample]
        return weigh_text(columns.numpy(), text, self.train.labels[sample], groups)

    def encoded_with(self, encoder: TableEncoder | None) -> "Splits":
        """Return the same data with a table's columns encoded by this rule, if there is one."""
        if encoder is None or self.frame is None:
            return self

        def encoded(data: Dataset, frame: pl.DataFrame) -> Dataset:
            features = encoder.transform(frame)
            if self.embedded_by is None:
                return replace(data, inputs=features)
            return replace(data, inputs=JoinedRows(_vectors(data), as_rows(features)))

        test = self.test
        if test is not None and self.test_frame is not None:
            test = encoded(test, self.test_frame)
        return replace(self, train=encoded(self.train, self.frame), test=test, encoder=encoder)

    @property
    def to_predict(self) -> tuple[Dataset, pl.DataFrame | None]:
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


def joined_texts(frame: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the text of each row; several columns become one paragraph each."""
    joined = pl.concat_str(
        [pl.col(name).cast(pl.String) for name in columns], separator="\n\n", ignore_nulls=True
    )
    return frame.select(joined.fill_null("")).to_series().to_list()
