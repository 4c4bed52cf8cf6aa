"""Sentences with a tag per word: CoNLL and JSONL files, and files of probabilities."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebound.data.arrays import read_arrays_of
from noisebound.data.column_types import did_you_mean
from noisebound.data.files import read_utf8
from noisebound.data.frames import without_surrogates
from noisebound.errors import DataError

_IGNORED = -100
_JSON_LINES = (".jsonl", ".ndjson")
_DOCUMENT = "-DOCSTART-"
_WORDS = ("tokens", "words")
_TAGS = ("tags", "ner_tags", "labels")
_PROBS = ("probs", "probabilities")
_NAMES = "classes"


@dataclass(frozen=True, eq=False)
class TaggedSentence:
    """The words of a sentence and their tags: a name, the index of a class, or None."""

    words: tuple[str, ...]
    tags: tuple[str | int | None, ...]
    line: int  # of the file, with the first word
    probs: NDArray[np.float64] | None = None  # of each word's classes, if the file has them


@dataclass(frozen=True, eq=False)
class TaggedText:
    """The sentences of a file, with the probabilities of each word's classes."""

    sentences: tuple[TaggedSentence, ...]
    labels: tuple[NDArray[np.int64], ...]  # by sentence; -100 for words without a tag
    probs: tuple[NDArray[Any], ...]  # one array [words, classes] per sentence
    class_names: tuple[str, ...]  # the tag of each class
    lines: bool  # True if each word has a line of its own

    def line_of(self, sentence: int, position: int) -> int:
        """Return the line of the file that has a word, or its sentence."""
        return self.sentences[sentence].line + (position if self.lines else 0)


def read_tagged_text(
    path: Path,
    probs: Path | None = None,
    class_names: Sequence[str] = (),
    encoding: str | None = None,
) -> TaggedText:
    """Return the sentences of a CoNLL or JSONL file, with their probabilities.

    A CoNLL file has one word per line, in the first column, its tag in the last one, and blank
    lines between sentences. Each line of a JSONL file has the fields ``tokens`` and ``tags``, and
    ``probs`` unless these are in a ``.npy`` or ``.npz`` file: one row per word, or one array per
    sentence. Their columns are in the order of the class names, by default of the array
    ``classes`` of an ``.npz`` file. Tags that are indices need no names.
    """
    is_json = Path(path.name.lower().removesuffix(".gz")).suffix in _JSON_LINES
    text = read_utf8(path, encoding).decode(errors="replace").removeprefix("\ufeff")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    sentences = list((_of_json if is_json else _of_conll)(lines, path))
    if not sentences:
        raise DataError(f"{path} has no sentences")
    given, names = _probabilities(probs, sentences) if probs is not None else (None, ())
    if given is None:
        missing = next((each for each in sentences if each.probs is None), None)
        if missing is not None:
            raise DataError(
                f"{path} has no probabilities for the sentence in line {missing.line}: pass a file "
                "of them as `probs`, such as probs.npz, or add the field probs to each line"
            )
        given = [np.asarray(each.probs) for each in sentences]
    seen = sorted({tag for each in sentences for tag in each.tags if isinstance(tag, str)})
    columns = next((each.shape[-1] for each in given if each.ndim == 2), 0)
    chosen = tuple(class_names) or names or (() if seen else tuple(map(str, range(columns))))
    if columns != len(chosen):
        raise DataError(
            f"name the tag of each of the {columns} columns of the probabilities, in their order, "
            f"as `classes`: {len(chosen)} are known; the tags of {path.name} are {' '.join(seen)}"
        )
    labels = [_indices(each, chosen, path) for each in sentences]
    bare = tuple(replace(each, probs=None) for each in sentences)
    return TaggedText(bare, tuple(labels), tuple(given), chosen, not is_json)


def _of_conll(lines: Sequence[str], path: Path) -> Iterator[TaggedSentence]:
    words: list[str] = []
    tags: list[str] = []
    width = 0
    for number, line in enumerate([*lines, ""], start=1):
        fields = line.split("\t") if "\t" in line else line.split()
        is_comment = line.startswith("#") and len(fields) != (width or 2)
        if words and (is_comment or not fields or fields[0] == _DOCUMENT):
            yield TaggedSentence(tuple(words), tuple(tags), number - len(words))
            words, tags = [], []
        if is_comment or not fields or fields[0] == _DOCUMENT:
            continue
        width = width or len(fields)
        if len(fields) != width or width < 2:
            raise DataError(
                f"line {number} of {path} has {len(fields)} columns, expected {max(width, 2)}: a "
                "word in the first one and its tag in the last, and a blank line after a sentence"
            )
        words.append(fields[0])
        tags.append(fields[-1].strip())


def _of_json(lines: Sequence[str], path: Path) -> Iterator[TaggedSentence]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            probs = next((record[name] for name in _PROBS if name in record), None)
            rows = None if probs is None else np.asarray(probs, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"line {number} of {path} is not a JSON record with numbers as probs: {error}"
            ) from error
        words, tags = (_field(record, names, number, path) for names in (_WORDS, _TAGS))
        if len(words) != len(tags):
            raise DataError(
                f"line {number} of {path} has {len(words)} tokens and {len(tags)} tags: expected "
                "one tag per token, null for none"
            )
        shown = tuple(without_surrogates(str(word)) for word in words)
        yield TaggedSentence(shown, tuple(tags), number, rows)


def _field(record: Any, names: Sequence[str], number: int, path: Path) -> list[Any]:
    found = next((record[name] for name in names if name in record), None)
    if not isinstance(found, list):
        raise DataError(
            f"line {number} of {path} needs a list {names[0]!r}, such as {names[0]}: […]"
        )
    return found


def _indices(sentence: TaggedSentence, names: Sequence[str], path: Path) -> NDArray[np.int64]:
    index_of = {name: index for index, name in enumerate(names)}

    def index(tag: str | int | None) -> int:
        if tag is None or tag == _IGNORED:
            return _IGNORED
        if isinstance(tag, str) and tag in index_of:
            return index_of[tag]
        if isinstance(tag, int) and 0 <= tag < len(names):
            return tag
        raise DataError(
            f"unknown tag {tag!r} in line {sentence.line} of {path}"
            f"{did_you_mean(str(tag), names)}: the tags are {', '.join(names)}"
        )

    return np.array([index(tag) for tag in sentence.tags], dtype=np.int64)


def _probabilities(
    path: Path, sentences: Sequence[TaggedSentence]
) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """Return the probabilities of each sentence, and the tags of the columns if they are stored."""
    arrays = read_arrays_of(path)
    names = tuple(str(each) for each in arrays.pop(_NAMES, ()))
    lengths = [len(each.words) for each in sentences]
    if len(arrays) == 1:
        (whole,) = arrays.values()
        if whole.ndim == 2 and len(whole) == sum(lengths):
            return np.split(whole, np.cumsum(lengths)[:-1]), names
        found = list(whole) if whole.ndim == 3 else [whole]
        found = [each[:length] for each, length in zip(found, lengths, strict=False)]
    else:
        found = list(arrays.values())
    if [each.shape[:1] for each in found] != [(length,) for length in lengths]:
        raise DataError(
            f"{path} must have one row for each of {sum(lengths):,} words, or one array for each "
            f"of {len(sentences):,} sentences with a row per word, in the order of the file"
        )
    return found, names
