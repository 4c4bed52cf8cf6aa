"""A user's tables and texts: columns of labels, and the others as features."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.data.column_types import (
    as_text,
    check_named,
    did_you_mean,
    is_number,
    is_scalar,
    is_string,
    listed_names,
)
from noisebound.data.dataset import Dataset, refuse_unwritable
from noisebound.data.frames import TEXT_COLUMN, as_table, is_frame, texts_frame
from noisebound.data.input_columns import input_column, with_inputs
from noisebound.data.labels import encode_labels, is_missing, spellings
from noisebound.data.multi_label import (
    HINT,
    PRESENCE,
    LabelMatrix,
    are_truth_values,
    list_hint,
    matrix_in_memory,
    matrix_of_columns,
    matrix_of_lists,
)
from noisebound.data.options import ReadingOptions
from noisebound.data.splits import Splits
from noisebound.data.table_encoder import TableEncoder
from noisebound.data.table_files import read_table_file
from noisebound.data.votes import (
    CROWD_COLUMNS,
    Annotations,
    check_votes,
    is_matrix,
    majority_vote,
    note_on_votes,
    of_columns,
    of_lists,
    of_long_table,
    of_matrix,
)
from noisebound.errors import DataError

LABEL_COLUMN = "label"
"""The name of the column of labels that came without a table."""

_FEW_CLASSES = 20  # up to this many distinct labels are classes, even with few rows


def read_table(path: Path, options: ReadingOptions) -> Splits:
    """Return a file's rows: the columns ``target`` as labels, all other columns as features."""
    frame = read_table_file(path, options.encoding, options.raw_columns)
    return frame_splits(frame, options, name=path.name, source=str(path))


def text_splits(texts: Any, labels: Any, options: ReadingOptions) -> Splits:
    """Return strings in memory as examples."""
    annotators, notes = list[str](), tuple[str, ...]()
    columns: dict[str, Sequence[Any]]
    matrix = matrix_in_memory(labels, options.targets)
    if matrix is not None:
        listed = matrix.values.tolist()
    elif is_frame(labels):
        frame = as_table(labels)
        labels = frame.to_series() if frame.width == 1 else frame.to_numpy()
        annotators = frame.columns
    listed = list(labels) if matrix is None else listed
    if len(texts) != len(listed):
        raise DataError(f"{len(texts)} texts but {len(listed)} labels: they must be as many")
    class_names: tuple[str, ...]
    if matrix is not None:
        class_names, notes = matrix.names, matrix.notes
        columns = dict(zip(matrix.names, matrix.values.T.tolist(), strict=True))
    elif is_matrix(labels):
        votes, class_names, notes = of_matrix(labels)
        rows = [
            [class_names[each] if each >= 0 else None for each in row] for row in votes.tolist()
        ]
        columns = {LABEL_COLUMN: rows}
        if annotators:
            columns = dict(zip(annotators, zip(*rows, strict=True), strict=True))
    else:
        indices, class_names = encode_labels([label for label in listed if not is_missing(label)])
        found = (class_names[index] for index in indices)
        columns = {LABEL_COLUMN: [None if is_missing(label) else next(found) for label in listed]}
    refuse_unwritable(class_names, "class")
    options = options.model_copy(update={"targets": () if matrix is None else matrix.names})
    splits = texts_as_splits(texts, columns, options, name="texts", source="the texts")
    return replace(splits, notes=(*notes, *splits.notes))


def texts_as_splits(
    texts: Any,
    labels: Mapping[str, Sequence[Any]],
    options: ReadingOptions,
    *,
    name: str,
    source: str,
    test: tuple[Sequence[str], Mapping[str, Sequence[str]]] | None = None,
) -> Splits:
    """Return texts with their columns of labels; ``test`` has those to evaluate on."""
    if TEXT_COLUMN in labels:
        raise DataError(f"no annotator can be called {TEXT_COLUMN!r}: rename this column of labels")
    frame, *tests = (
        texts_frame(each[0]).hstack(pl.DataFrame(each[1]))
        for each in ((texts, labels), *filter(None, (test,)))
    )
    columns: dict[str, Any] = {"text": (TEXT_COLUMN,), "encoding": None}
    columns |= {} if options.targets else {"target": tuple(labels)}
    options = options.model_copy(update=columns)
    test_frame = tests[0] if tests else None
    return frame_splits(frame, options, name=name, source=source, test=test_frame)


def frame_splits(
    frame: pl.DataFrame,
    options: ReadingOptions,
    *,
    name: str,
    source: str,
    test: pl.DataFrame | None = None,
) -> Splits:
    """Return a frame's rows as examples; the notes describe the changes to its columns.

    Texts stay texts: a backbone embeds them, or `Splits.encoded_by` encodes them once the training
    rows are known. Until then, the inputs are the other columns.

    The messages name ``source``. The rows to evaluate on are those of ``test``, by default the file
    that the options name.
    """
    options = _with_crowd_columns(frame, options)
    _check_columns(frame, options, source)
    part = _with_labels(frame, options, source)
    labels, class_names, several = _encode(part, None)
    where, count = _column_words(options, source), len(part.annotations.labels)
    if len(class_names) < 2:
        raise DataError(f"{where} has one class only, {class_names[0]!r}")
    hint = list_hint(class_names)
    if len(class_names) > max(_FEW_CLASSES, count // 2):
        raise DataError(
            f"{where} has {len(class_names)} distinct values in {count} rows: it does not look "
            f"like a class; {hint or 'name another column: `target`'}"
        )
    for varying in set(_not_features(options)) - set(part.frame.columns):
        raise DataError(
            f"column {varying!r} differs among the labels of one item, so it cannot name rows or "
            "groups"
        )
    # Not strict, because columns that differ within an item are already left out.
    features = part.frame.drop({*options.exclude, *_not_features(options)}, strict=False)
    splits = Splits(
        name,
        Dataset(torch.empty(len(labels), 0), labels, class_names, **several),
        None,
        source=source,
        notes=(*part.notes, *_notes_of(several, part), *([hint] if hint else [])),
        train_names=part.names,
        table=part.frame,
        id_column=options.id,
    )
    if several and not features.width:  # annotators can be compared without a model
        return splits
    column = input_column(features)
    # Columns, and labels such as 01, have the same types in a file of test rows.
    raw_columns = set(options.target) if is_string(part.annotations.labels.dtype) else set()
    if column is None:
        encoder = TableEncoder.fit(features, options.column_types)
        features = features.select([each.name for each in encoder.columns])
        splits = replace(
            splits,
            train=replace(splits.train, inputs=encoder.transform(features)),
            notes=(*splits.notes, *encoder.notes),
            encoder=encoder,
            frame=features,
        )
        raw_columns |= encoder.raw_columns
    splits = splits.grouped_by(options.groups)
    if test is None and options.test is not None:
        if not options.test.exists():
            raise DataError(f"the `test` table {options.test} is not there")
        test = read_table_file(options.test, options.encoding, raw_columns)
        source = str(options.test)
    if test is not None:
        splits = _with_test(splits, test, options, source, column)
    return splits if column is None else with_inputs(splits, features, column)


class _LabeledRows(NamedTuple):
    """The rows that have a label; ``names`` are their positions if any row was left out."""

    frame: pl.DataFrame  # without the labels
    annotations: Annotations
    names: tuple[str, ...] | None
    notes: tuple[str, ...]
    where: str  # the columns of labels, as messages name them
    matrix: LabelMatrix | None = None  # of several labels at once; there are no annotations then


def _with_crowd_columns(frame: pl.DataFrame, options: ReadingOptions) -> ReadingOptions:
    """Return the options with the columns of crowd-kit's tables, if this is one, and an `id`."""
    if not options.target and options.item is None and set(CROWD_COLUMNS) <= set(frame.columns):
        item, annotator, target = CROWD_COLUMNS
        found = {"item": item, "annotator": annotator, "target": (target,)}
        options = options.model_copy(update=found)
    return options.model_copy(update={"id": options.id or options.item})


def _column_words(options: ReadingOptions, source: str) -> str:
    columns = options.target or options.targets
    names = listed_names([repr(name) for name in columns], most=5)
    return f"column{'s' if len(columns) > 1 else ''} {names} of {source}"


def _check_columns(frame: pl.DataFrame, options: ReadingOptions, source: str) -> None:
    """Refuse names of columns that the table lacks, and columns with two uses."""
    columns, targets = frame.columns, options.target or options.targets
    if not targets:
        raise DataError(
            f"name the column of labels: `target`; {source} has the columns {listed_names(columns)}"
        )
    if options.targets:
        of_one = ("target", "item", "annotator", "map_labels", "merge_labels")
        if (name := next((each for each in of_one if getattr(options, each)), None)) is not None:
            raise DataError(
                f"`targets` names labels of which an example may have several, and `{name}` is for "
                "one label per example, by one annotator or several: leave out one of the two"
            )
    others = _not_features(options)
    who = () if options.annotator is None else (options.annotator,)
    check_named(columns, [*targets, *options.exclude, *others, *who, *options.column_types], source)
    if len(set(targets)) < len(targets):
        raise DataError(f"a column of labels is named twice, got {', '.join(targets)}")
    if len(targets) > 1 and (options.item is not None or who):
        raise DataError(
            "a table has either one row per label, with `item`, `annotator` and one `target`, or "
            f"one row per example, with several; got {len(targets)} columns of labels: leave out "
            "`item` and `annotator`, or all but one `target`"
        )
    uses = {
        "be excluded": options.exclude,
        "name the rows or groups": others,
        "name annotators": who,
    }
    for use, names in {**uses, "have a type": options.column_types}.items():
        if (target := next((name for name in targets if name in names), None)) is not None:
            raise DataError(f"column {target!r} holds the labels and cannot {use}")
    if options.annotator in others:
        raise DataError(
            f"column {options.annotator!r} names annotators, so it cannot name rows or groups"
        )
    for name in (*options.exclude, *others, *who):
        if name in options.column_types:
            raise DataError(f"column {name!r} is not a feature, so it cannot have a type")


def _not_features(options: ReadingOptions) -> list[str]:
    """Return the columns that name rows or their groups, each once."""
    return [name for name in dict.fromkeys((options.id, options.groups)) if name is not None]


def _with_labels(
    frame: pl.DataFrame,
    options: ReadingOptions,
    source: str,
    class_names: tuple[str, ...] = (),
) -> _LabeledRows:
    if options.targets:
        return rows_with_matrix(frame, options, source, class_names)
    targets, where = list(options.target), _column_words(options, source)
    is_long = options.item is not None or options.annotator is not None
    for target in targets:
        frame = _with_null_labels(frame, target, source, may_be_lists=not is_long)
    is_labeled = pl.any_horizontal(pl.col(targets).is_not_null())
    kept, total = frame.filter(is_labeled), len(frame)
    missing = total - len(kept)
    if missing and not options.skip_bad:
        raise DataError(
            f"{missing} of {total} rows of {source} have no label in {where.split(' of ')[0]}, "
            "where NA and ? count as none: fill them in, or leave the rows out: `skip_bad`"
            f"{f'; {HINT}' if isinstance(frame.schema[targets[0]], pl.List) else ''}"
        )
    if missing == total:
        raise DataError(f"{where} is empty")
    names, notes = None, []
    if missing:
        names = None if is_long else tuple(map(str, frame.select(is_labeled)[:, 0].arg_true()))
        notes.append(f"{missing} rows without a label were left out")
    if is_long:
        table = of_long_table(kept, options.item, options.annotator, targets[0], source)
        kept, annotations = table.examples, table.annotations
        notes += table.notes
    elif kept.schema[targets[0]] == pl.List:
        annotations = of_columns(of_lists(kept[targets[0]]), where, are_named=False)
    else:
        annotations = of_columns(kept.select(targets), where)
    labels = _renamed(annotations.labels, options.map_labels, where, class_names)
    labels, spelled = _in_one_spelling(labels, class_names, merge=options.merge_labels)
    used = [*targets, *([] if options.annotator is None else [options.annotator])]
    annotations = annotations._replace(labels=labels)
    return _LabeledRows(kept.drop(used), annotations, names, (*notes, *spelled), where)


def rows_with_matrix(
    frame: pl.DataFrame, options: ReadingOptions, source: str, known: tuple[str, ...] = ()
) -> _LabeledRows:
    """Return the rows with several labels at once; those ``known`` are of the training table."""
    where, names = _column_words(options, source), list(options.targets)
    matrix, notes, kept_names = None, list[str](), None
    if len(names) == 1 and not _is_of_truth(frame[names[0]], known):
        matrix = matrix_of_lists(frame[names[0]], where, known)
    else:
        matrix = matrix_of_columns(frame.select(names), where)
    is_labeled = (matrix.values >= 0).any(1)
    if missing := int((~is_labeled).sum()):
        if not options.skip_bad:
            raise DataError(
                f"{missing} of {len(frame)} rows of {source} have no value in "
                f"{where.split(' of ')[0]}: fill them in, such as [] in a list without labels, or "
                "leave the rows out: `skip_bad`"
            )
        notes.append(f"{missing} rows without a label were left out")
        frame = frame.filter(is_labeled.numpy())
        matrix = matrix._replace(values=matrix.values[is_labeled])
        kept_names = tuple(map(str, is_labeled.nonzero().flatten().tolist()))
    none = Annotations(pl.Series(dtype=pl.Int64), *(torch.empty(0, dtype=torch.int64),) * 2, ())
    notes += matrix.notes
    return _LabeledRows(frame.drop(names), none, kept_names, tuple(notes), where, matrix)


def _is_of_truth(column: pl.Series, known: tuple[str, ...]) -> bool:
    """True for a column that says whether each row has one label, and so is no list."""
    if is_number(column.dtype):
        return True
    may_be = is_string(column.dtype) and known in ((), (column.name,))
    return may_be and are_truth_values(column)


def _renamed(
    labels: pl.Series, new_names: Mapping[str, str], where: str, class_names: tuple[str, ...]
) -> pl.Series:
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


def _with_null_labels(
    frame: pl.DataFrame, target: str, source: str, *, may_be_lists: bool
) -> pl.DataFrame:
    """Return the table with null for missing labels: NaN, blank texts and empty lists."""
    dtype, labels = frame.schema[target], pl.col(target)
    if may_be_lists and isinstance(dtype, pl.List) and is_scalar(dtype.inner):  # type: ignore[arg-type]
        is_labeled = labels.list.drop_nulls().list.len() > 0
        return frame.with_columns(pl.when(is_labeled).then(labels).name.keep())
    if dtype.is_nested() or dtype.is_object():
        raise DataError(
            f"column {target!r} of {source} must hold one label per row, a number or a text, got "
            f"{dtype}: keep one value of each row, or name another column: `target`"
        )
    if dtype.is_float():
        return frame.with_columns(labels.fill_nan(None))
    if is_string(dtype):
        is_blank = labels.cast(pl.String).str.strip_chars() == ""
        return frame.with_columns(pl.when(~is_blank).then(labels).name.keep())
    return frame


def _in_one_spelling(
    labels: pl.Series, class_names: tuple[str, ...], *, merge: bool
) -> tuple[pl.Series, list[str]]:
    """Return the labels, with those that differ by case or spaces only merged if asked for."""
    if not is_string(labels.dtype):
        return labels, []
    texts = labels.cast(pl.String)
    counts = dict(texts.alias("label").value_counts(name="rows").iter_rows())
    groups = spellings(dict.fromkeys(class_names if merge else (), 0) | counts, class_names)
    if not groups:
        return texts, []
    found = listed_names([", ".join(map(repr, group)) for group in groups], 5, separator="; ")
    if merge:
        texts = texts.replace({label: group[0] for group in groups for label in group[1:]})
        return texts, [f"labels that differ by case or spaces only were merged: {found}"]
    return texts, [
        f"labels differ by case or spaces only, and count as different classes: {found}; to make "
        "them one: `merge_labels`"
    ]


def _encode(
    part: _LabeledRows, class_names: tuple[str, ...] | None
) -> tuple[Int64[Tensor, " n"], tuple[str, ...], dict[str, Any]]:
    """Return class indices, class names, and the matrix if there are several labels per example.

    Only distinct labels are looked at one by one.
    """
    if part.matrix is not None:
        columns = {"label_matrix": part.matrix.values, "label_names": part.matrix.names}
        return torch.zeros(len(part.frame), dtype=torch.int64), PRESENCE, columns
    labels, annotators = part.annotations.labels, part.annotations.names
    distinct = labels.unique(maintain_order=True)
    indices, names = encode_labels(distinct.to_list())
    if class_names is not None:
        # As texts, because whole numbers would count as class indices.
        indices, names = encode_labels([names[index] for index in indices], class_names)
    encoded = labels.replace_strict(distinct, pl.Series(indices), return_dtype=pl.Int64)
    votes = part.annotations.votes(
        torch.from_numpy(encoded.to_numpy(writable=True)), len(part.frame)
    )
    if len(annotators) == 1 or (
        part.annotations.are_rows and bool(((votes >= 0).sum(1) == 1).all())
    ):
        return votes.max(1).values, names, {}
    check_votes(votes, annotators, part.where)
    are_named = part.annotations.are_named
    chosen = majority_vote(votes, len(names), are_named=are_named)
    return chosen, names, {"votes": votes, "annotators": annotators if are_named else ()}


def _notes_of(several: dict[str, Any], part: _LabeledRows) -> tuple[str, ...]:
    votes, found = several.get("votes"), part.annotations
    if votes is None:
        return ()
    is_list = not (found.are_named or found.are_rows)
    hints = (HINT,) if is_list or are_truth_values(found.labels) else ()
    return (note_on_votes(votes, found.names), *hints)


def _with_test(
    splits: Splits, frame: pl.DataFrame, options: ReadingOptions, source: str, column: str | None
) -> Splits:
    encoder = splits.encoder
    columns = [column or ""] if encoder is None else [each.name for each in encoder.columns]
    # The rows are examples, with the label of each in any of the columns of labels.
    found = [name for name in options.target if name in frame.columns] or list(options.target)
    options = options.model_copy(update={"target": tuple(found), "item": None, "annotator": None})
    check_named(frame.columns, [*found, *options.targets, *columns], source)
    class_names = splits.train.class_names
    part = _with_labels(frame, options, source, splits.train.label_names or class_names)
    try:
        labels, _, several = _encode(part, class_names)
    except DataError as error:
        hint = "; to take labels that differ by case or spaces only for one: `merge_labels`"
        raise DataError(f"{part.where}: {error}{'' if options.merge_labels else hint}") from error
    features = part.frame.select(columns)
    inputs = torch.empty(len(labels), 0) if encoder is None else encoder.transform(features)
    return replace(
        splits,
        test=Dataset(
            inputs,
            labels,
            class_names,
            label_matrix=several.get("label_matrix"),
            label_names=splits.train.label_names,
        ),
        test_frame=features,
        notes=(*splits.notes, *part.notes, *(encoder.unseen_notes(features) if encoder else ())),
    )
