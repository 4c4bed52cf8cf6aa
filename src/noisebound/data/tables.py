"""A user's tables: one column of labels, and the others as features."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.data.column_types import (
    as_text,
    check_named,
    did_you_mean,
    is_string,
    listed_names,
)
from noisebound.data.dataset import Dataset, Splits
from noisebound.data.labels import encode_labels, listed_spellings, spellings
from noisebound.data.options import ReadingOptions
from noisebound.data.table_encoder import Frame, TableEncoder
from noisebound.data.table_files import TableFile, read_table_file
from noisebound.errors import DataError

_FEW_CLASSES = 20  # up to this many distinct labels are classes, however few the rows are


def read_table(path: Path, options: ReadingOptions) -> Splits:
    """Return a file's rows: the column ``target`` as labels, every other column as features."""
    table = read_table_file(path, options, options.raw_columns)
    return frame_splits(table, options, name=path.name, source=str(path))


def frame_splits(
    table: Frame | TableFile,
    options: ReadingOptions,
    *,
    name: str,
    source: str,
    test: Frame | None = None,
) -> Splits:
    """Return a frame's rows as examples; the notes describe the changes to its columns.

    Texts stay texts: a backbone embeds them, or `Splits.encoded_by` encodes them once the training
    rows are known. Until then, the inputs are the other columns.

    The messages name ``source``. The rows to evaluate on are those of ``test``, by default the file
    that the options name.
    """
    table = table if isinstance(table, TableFile) else TableFile(table.lazy())
    target = _check_columns(table.frame, options, source)
    part = _with_labels(table, target, source, options)
    labels, class_names = _encode(part.labels, None)
    if len(class_names) < 2:
        raise DataError(f"column {target!r} of {source} has one class only, {class_names[0]!r}")
    if len(class_names) > max(_FEW_CLASSES, len(labels) // 2):
        raise DataError(
            f"column {target!r} of {source} has {len(class_names)} distinct values in "
            f"{len(labels)} rows: it does not look like a class; name another column: `target`"
        )
    unused = {*options.exclude, *([] if options.id is None else [options.id])}
    features = part.frame.drop(target, *unused)
    encoder = TableEncoder.fit(features, options.column_types)
    features = features.select([column.name for column in encoder.columns])
    repeated = _note_of_repeated_rows(features, labels)
    splits = Splits(
        name,
        Dataset(encoder.transform(features), labels, class_names),
        None,
        source=source,
        notes=(*part.notes, *encoder.notes, *repeated),
        encoder=encoder,
        frame=features,
        train_names=part.names,
        table=part.frame.drop(target),
        id_column=options.id,
    )
    if test is None and options.test is not None:
        if not options.test.exists():
            raise DataError(f"the `test` table {options.test} is not there")
        # The columns, and labels such as 01, have the types of the training table.
        raw_columns = {target} if is_string(part.labels.dtype) else set()
        found = read_table_file(options.test, options, encoder.raw_columns | raw_columns)
        return _with_test(splits, found, options, str(options.test))
    return splits if test is None else _with_test(splits, TableFile(test.lazy()), options, source)


def _note_of_repeated_rows(features: pl.LazyFrame, labels: Int64[Tensor, " n"]) -> tuple[str, ...]:
    """Return a note on rows that repeat an earlier row in every feature, if there are any.

    If more than half of the rows do, the columns have few values and rows are equal by chance.
    """
    hashes = features.select(pl.struct(pl.all()).hash()).collect(engine="streaming").to_series()
    rows = pl.DataFrame({"row": hashes, "label": labels.numpy()})
    distinct = rows["row"].n_unique()
    repeated = len(rows) - distinct
    if not 0 < repeated <= len(rows) / 2:
        return ()
    conflicting = rows.n_unique() - distinct
    other = f", {conflicting:,} of them with another label" if conflicting else ""
    return (
        f"{repeated:,} of {len(rows):,} rows repeat the features of an earlier row{other}: remove "
        "copies if they are one example",
    )


class _LabeledRows(NamedTuple):
    """The rows that have a label; ``names`` are their positions if any row was left out."""

    frame: pl.LazyFrame
    labels: pl.Series
    names: tuple[str, ...] | None
    notes: tuple[str, ...]


def _check_columns(lazy: pl.LazyFrame, options: ReadingOptions, source: str) -> str:
    """Return the column of labels; refuse names of columns that the table lacks."""
    columns, target = lazy.collect_schema().names(), options.target
    if target is None:
        raise DataError(
            f"name the column of labels: `target`; {source} has the columns {listed_names(columns)}"
        )
    ids = () if options.id is None else (options.id,)
    check_named(columns, [target, *options.exclude, *ids, *options.column_types], source)
    uses = {"be excluded": options.exclude, "name the rows: `id`": ids}
    for use, names in {**uses, "have a type": options.column_types}.items():
        if target in names:
            raise DataError(f"column {target!r} holds the labels and cannot {use}")
    for name in (*options.exclude, *ids):
        if name in options.column_types:
            raise DataError(f"column {name!r} is not a feature, so it cannot have a type")
    return target


def _with_labels(
    table: TableFile,
    target: str,
    source: str,
    options: ReadingOptions,
    class_names: tuple[str, ...] = (),
) -> _LabeledRows:
    """Return the rows that have a label; merged labels are spelled as the known classes are."""
    lazy = _with_null_labels(table.frame, target, source)
    labels = lazy.select(target).collect().to_series()
    missing, total, notes = labels.null_count(), len(labels), list(table.notes())
    if missing and not options.skip_bad:
        raise DataError(
            f"{missing} of {total} rows of {source} have no label in column {target!r}, where NA "
            "and ? count as none: fill them in, or leave the rows out: `skip_bad`"
        )
    if missing == total:
        raise DataError(f"column {target!r} of {source} is empty")
    names = None
    if missing or table.left_out:
        positions = pl.Series(table.positions(total), dtype=pl.Int64)
        names = tuple(map(str, positions.filter(labels.is_not_null())))
    if missing:
        notes.append(f"{missing} rows without a label were left out")
        lazy, labels = lazy.filter(pl.col(target).is_not_null()), labels.drop_nulls()
    labels = _renamed(labels, options.map_labels, f"column {target!r} of {source}", class_names)
    labels, note = _in_one_spelling(labels, class_names, merge=options.merge_labels)
    return _LabeledRows(lazy, labels, names, (*notes, *([note] if note else [])))


def _renamed(
    labels: pl.Series, new_names: Mapping[str, str], where: str, class_names: tuple[str, ...]
) -> pl.Series:
    """Return the labels under their new names; a test table need not have all of them."""
    if not new_names:
        return labels
    texts = as_text(labels)
    found = texts.unique().to_list()
    absent = next((label for label in new_names if label not in found), None)
    if absent is not None and not class_names:
        raise DataError(
            f"`map_labels`: {where} has no label {absent!r}{did_you_mean(absent, found)}"
        )
    return texts.replace(dict(new_names))


def _with_null_labels(lazy: pl.LazyFrame, target: str, source: str) -> pl.LazyFrame:
    """Return the table with null for missing labels: NaN and blank texts."""
    dtype, labels = lazy.collect_schema()[target], pl.col(target)
    if dtype.is_nested() or dtype.is_object():
        raise DataError(
            f"column {target!r} of {source} must hold one label per row, a number or a text, got "
            f"{dtype}: keep one value of each row, or name another column: `target`"
        )
    if dtype.is_float():
        return lazy.with_columns(labels.fill_nan(None))
    if is_string(dtype):
        is_blank = labels.cast(pl.String).str.strip_chars() == ""
        return lazy.with_columns(pl.when(~is_blank).then(labels).name.keep())
    return lazy


def _in_one_spelling(
    labels: pl.Series, class_names: tuple[str, ...], *, merge: bool
) -> tuple[pl.Series, str]:
    """Return the labels, with those that differ by case or spaces only merged if asked for."""
    if not is_string(labels.dtype):
        return labels, ""
    texts = labels.cast(pl.String)
    counts = dict(texts.alias("label").value_counts(name="rows").iter_rows())
    if not merge:
        groups = spellings(counts)
        note = (
            "labels differ by case or spaces only, and count as different classes: "
            f"{listed_spellings(groups)}; to make them one: `merge_labels`"
        )
        return texts, note if groups else ""
    groups = spellings(dict.fromkeys(class_names, 0) | counts, class_names)
    usual = {label: group[0] for group in groups for label in group[1:]}
    note = f"labels that differ by case or spaces only were merged: {listed_spellings(groups)}"
    return texts.replace(usual), note if groups else ""


def _encode(
    labels: pl.Series, class_names: tuple[str, ...] | None
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """Return class indices and class names; only distinct labels are looked at one by one."""
    distinct = labels.unique(maintain_order=True)
    indices, names = encode_labels(distinct.to_list())
    if class_names is not None:
        # As texts, because whole numbers would count as class indices.
        indices, names = encode_labels([names[index] for index in indices], class_names)
    encoded = labels.replace_strict(distinct, pl.Series(indices), return_dtype=pl.Int64)
    return torch.from_numpy(encoded.to_numpy(writable=True)), names


def _with_test(splits: Splits, table: TableFile, options: ReadingOptions, source: str) -> Splits:
    """Return the same with the rows of a test table, encoded as the training rows are."""
    assert splits.encoder is not None
    assert options.target is not None
    columns = [column.name for column in splits.encoder.columns]
    found = table.frame.collect_schema().names()
    check_named(found, [options.target, *columns], source)
    class_names = splits.train.class_names
    part = _with_labels(table, options.target, source, options, class_names)
    try:
        labels, _ = _encode(part.labels, class_names)
    except DataError as error:
        hint = "; to take labels that differ by case or spaces only for one: `merge_labels`"
        where = f"column {options.target!r} of {source}"
        raise DataError(f"{where}: {error}{'' if options.merge_labels else hint}") from error
    features = part.frame.select(columns)
    return replace(
        splits,
        test=Dataset(splits.encoder.transform(features), labels, class_names),
        test_frame=features,
        notes=(*splits.notes, *part.notes, *splits.encoder.unseen_notes(features)),
    )
