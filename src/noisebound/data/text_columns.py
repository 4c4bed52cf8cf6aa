"""Columns of texts as TF-IDF features of words and of runs of letters, by stored rules."""

from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.sparse import csr_matrix, hstack

from noisebound.errors import DataError, InvalidValueError

_MOST_WORDS = 20_000  # terms; heuristic: ten thousand texts use about this many often
_MOST_RUNS = 30_000
_FEWEST_TEXTS = 2  # a term of a single text teaches nothing
# TF-IDF has rows of length one, while standardized numbers have length sqrt(features). At this
# length a linear network learns texts alone at the learning rate that suits numbers (heuristic).
# Beside other columns, `weigh_text` finds the scale.
_ROW_LENGTH = 10.0
_ARE_EMPTY = "texts are empty and have no features"


class Terms(BaseModel):
    """A vocabulary of words and pairs of words, or of runs of three to five letters in a word.

    Attributes:
        kind: ``"words"`` or ``"letters"``
        terms: the vocabulary, in the order of the features
        weights: the inverse document frequency of each term, logarithmic and positive
    """

    model_config = ConfigDict(frozen=True)
    kind: Literal["words", "letters"]
    terms: Annotated[tuple[str, ...], Field(min_length=1)]
    weights: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...]

    @model_validator(mode="after")
    def _fits(self) -> "Terms":
        if len(self.terms) != len(self.weights) or len(set(self.terms)) != len(self.terms):
            raise InvalidValueError("a vocabulary needs distinct terms, and one weight for each")
        return self

    @classmethod
    def fit(cls, kind: Literal["words", "letters"], texts: list[str]) -> "Terms | None":
        """Return the vocabulary of some texts; None if they have no terms of this kind."""
        for fewest in (_FEWEST_TEXTS, 1):
            vectorizer = _vectorizer(kind, min_df=fewest)
            try:
                vectorizer.fit(texts)
            except ValueError:  # an empty vocabulary
                continue
            names = tuple(str(name) for name in vectorizer.get_feature_names_out())
            return cls(kind=kind, terms=names, weights=tuple(vectorizer.idf_.tolist()))
        return None

    @cached_property
    def vectorizer(self) -> Any:
        """Scikit-learn's vectorizer with this vocabulary."""
        vectorizer = _vectorizer(self.kind, vocabulary=self.terms)
        vectorizer.idf_ = np.array(self.weights)
        return vectorizer


class PlainTextColumn(BaseModel):
    """A column of texts to embed, or to encode later; it has no features yet.

    Attributes:
        name: the name of the column
        scale: factor of the embeddings of the texts beside the other columns of the table; 0 if
            the texts do not help
    """

    model_config = ConfigDict(frozen=True)
    kind: Literal["plain text"] = "plain text"
    name: str
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0

    @classmethod
    def fit(cls, series: pl.Series) -> tuple["PlainTextColumn", str]:
        """Return the column of these texts, and a note, which may be empty."""
        return cls(name=series.name), _note_of_empty(series)

    @property
    def feature_names(self) -> list[str]:
        """Return an empty list."""
        return []

    def encode(self, column: pl.Series) -> np.ndarray:
        """Return an array without columns."""
        return np.empty((len(column), 0))


class TextColumn(BaseModel):
    """A column of texts, one feature per term of its vocabularies; an empty text has none.

    Attributes:
        name: the name of the column
        vocabularies: of words, of runs of letters, or of both
        scale: factor of the features beside the other columns of the table
    """

    model_config = ConfigDict(frozen=True)
    kind: Literal["text"] = "text"
    name: str
    vocabularies: Annotated[tuple[Terms, ...], Field(min_length=1)]
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @classmethod
    def fit(cls, series: pl.Series) -> "TextColumn":
        """Return the column with the vocabulary of these texts."""
        texts = _texts(series)
        found = [Terms.fit("words", texts), Terms.fit("letters", texts)]
        vocabularies = tuple(terms for terms in found if terms is not None)
        if not vocabularies:
            raise DataError(
                f"the texts of column {series.name!r} have no words in common and none of three "
                "letters: there is nothing to learn from"
            )
        return cls(name=series.name, vocabularies=vocabularies)

    @property
    def feature_names(self) -> list[str]:
        """Return one name per feature."""
        return [
            f"{self.name}: {term!r}"
            for vocabulary in self.vocabularies
            for term in vocabulary.terms
        ]

    def encode(self, column: pl.Series) -> csr_matrix:
        """Return the features of a column, ``[rows, features]``, sparse."""
        texts = _texts(column)
        parts = [vocabulary.vectorizer.transform(texts) for vocabulary in self.vocabularies]
        scale = np.float32(self.scale * _ROW_LENGTH / len(parts) ** 0.5)
        features: csr_matrix = hstack(parts, format="csr", dtype=np.float32) * scale
        return features


def _note_of_empty(series: pl.Series) -> str:
    texts = _texts(series)
    empty = sum(not text.strip() for text in texts)
    if empty == len(texts):
        raise DataError(f"column {series.name!r} holds no text: name another column: `text`")
    return f"column {series.name!r}: {empty} {_ARE_EMPTY}" if empty else ""


def is_of_empty_texts(note: str) -> bool:
    """True if a note says that empty texts are kept, which is false if they are embedded."""
    return note.endswith(_ARE_EMPTY)


def _texts(series: pl.Series) -> list[str]:
    texts: list[str] = series.cast(pl.String).fill_null("").to_list()
    return texts


def _vectorizer(kind: str, **options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer  # takes a second to import

    is_words = kind == "words"
    return TfidfVectorizer(
        analyzer="word" if is_words else "char_wb",
        ngram_range=(1, 2) if is_words else (3, 5),
        max_features=None if "vocabulary" in options else _MOST_WORDS if is_words else _MOST_RUNS,
        sublinear_tf=True,
        dtype=np.float32,
        **options,
    )
