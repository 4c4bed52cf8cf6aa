"""Columns of texts as TF-IDF features, and whether they help beside the other columns."""

import warnings
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from jaxtyping import Int64
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from scipy.sparse import csr_matrix, hstack, issparse
from torch import Tensor

from noisebound.errors import DataError

_MOST_WORDS = 20_000  # terms; heuristic: ten thousand texts use about this many often
_MOST_RUNS = 30_000
_FEWEST_TEXTS = 2  # a term of a single text does not generalize
# TF-IDF has rows of length one, while standardized numbers have length sqrt(features). At this
# length a linear network learns texts alone at the learning rate that suits numbers (heuristic).
# Beside other columns, `weigh_text` finds the scale.
_ROW_LENGTH = 10.0


class Terms(BaseModel):
    """A vocabulary of words and pairs of words, or of runs of three to five letters in a word."""

    model_config = ConfigDict(frozen=True)
    kind: Literal["words", "letters"]
    terms: Annotated[tuple[str, ...], Field(min_length=1)]
    # Inverse document frequencies.
    weights: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...]

    @classmethod
    def fit(cls, kind: Literal["words", "letters"], texts: list[str]) -> "Terms | None":
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
        vectorizer = _vectorizer(self.kind, vocabulary=self.terms)
        vectorizer.idf_ = np.array(self.weights)
        return vectorizer


class TextColumn(BaseModel):
    """A column of texts: one feature per term of its vocabularies; an empty text has none.

    Without vocabularies it is plain text without features: its texts are encoded later, or a
    backbone embeds them. The scale multiplies its features, or embeddings, beside the other columns
    of the table; it is 0 if the texts do not help.
    """

    model_config = ConfigDict(frozen=True)
    kind: Literal["text", "plain text"] = "plain text"
    name: str
    vocabularies: tuple[Terms, ...] = ()
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0

    @classmethod
    def fit(cls, series: pl.Series) -> "TextColumn":
        if not any(text.strip() for text in _texts(series)):
            raise DataError(f"column {series.name!r} holds no text: name another column: `text`")
        return cls(name=series.name)

    def with_words(self, series: pl.Series) -> "TextColumn":
        texts = _texts(series)
        found = [Terms.fit("words", texts), Terms.fit("letters", texts)]
        vocabularies = tuple(terms for terms in found if terms is not None)
        if not vocabularies:
            raise DataError(
                f"the texts of column {self.name!r} have no words in common and none of three "
                "letters: there is nothing to learn from"
            )
        return TextColumn(kind="text", name=self.name, vocabularies=vocabularies)

    @property
    def feature_names(self) -> list[str]:
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


# Held-out log loss decides whether texts help beside the other columns, and at which scale. There
# are many words and few other columns. At full scale, a network memorizes noisy labels through the
# words, and hardly uses the columns.

SCALES = (1.0, 0.3, 0.1, 0.03)
"""The scales to choose from, as multiples of the scale of a text without other columns."""

MOST_ROWS = 3000
"""The examples to compare on, at most: a few seconds."""

_FOLDS = 3
_FEWEST_PER_CLASS = 2 * _FOLDS
_INVERSE_PENALTY = 3.0  # about as weak a penalty as 50 epochs of a linear network (measured)


def weigh_text(
    columns: NDArray[Any],
    text: Any,
    labels: Int64[Tensor, " n"],
    groups: Int64[Tensor, " n"] | None = None,
) -> tuple[float, str] | None:
    """Return the scale at which a text helps, or 0, and the reason; None for too few examples.

    Linear models with and without the text are compared by out-of-fold log loss. The gain must
    exceed its standard error, paired by example. A table with words trains a linear network, and
    one without words a deeper network. So the text must also beat boosted trees on the other
    columns, which are standardized features.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier  # takes a second to import
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    targets = labels.numpy()
    counts = np.bincount(targets)
    rows = np.flatnonzero(counts[targets] >= _FEWEST_PER_CLASS)  # rarer classes cannot be divided
    if len(np.unique(targets[rows])) < 2:
        return None
    _, targets = np.unique(targets[rows], return_inverse=True)
    columns, text = columns[rows], text[rows]
    folds = _folds(targets, None if groups is None else groups.numpy()[rows])

    def losses(model: Any, features: Any) -> NDArray[np.float64]:
        found = np.empty(len(targets))
        for train, held_out in folds:
            probs = model.fit(features[train], targets[train]).predict_proba(features[held_out])
            right = probs[np.arange(len(held_out)), targets[held_out]]
            found[held_out] = -np.log(right.clip(1e-6))
        return found

    linear = LogisticRegression(C=_INVERSE_PENALTY, max_iter=100, tol=1e-3)
    boosted = HistGradientBoostingClassifier(
        max_iter=30, max_leaf_nodes=8, early_stopping=False, random_state=0
    )
    with warnings.catch_warnings():
        # Nearly converged is good enough: only large differences count.
        warnings.simplefilter("ignore", ConvergenceWarning)
        without = min(losses(linear, columns), losses(boosted, columns), key=np.mean)
        by_scale = {scale: losses(linear, _beside(columns, text * scale)) for scale in SCALES}
    scale = min(SCALES, key=lambda scale: by_scale[scale].mean())
    gain = without - by_scale[scale]
    error = gain.std(ddof=1) / len(gain) ** 0.5
    helps = gain.mean() > error
    verdict = f"used, scaled by {scale:g}" if helps else "not used: it does not help"
    return scale if helps else 0.0, (
        f"{verdict} (held-out log loss {without.mean():.4f} without the text, "
        f"{by_scale[scale].mean():.4f} with it, by linear models; standard error of the difference "
        f"{error:.4f})"
    )


def _folds(
    targets: NDArray[np.int64], groups: NDArray[np.int64] | None
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return divisions that keep groups whole, unless a class is then missing from training."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is not None and len(np.unique(groups)) >= _FOLDS:
        division = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0)
        folds = list(division.split(targets, targets, groups))
        if all(len(np.unique(targets[train])) == targets.max() + 1 for train, _ in folds):
            return folds
    return list(StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(targets, targets))


def _beside(columns: NDArray[Any], text: Any) -> Any:
    if issparse(text):
        blocks: list[Any] = [csr_matrix(columns), text]
        return hstack(blocks, format="csr")
    return np.hstack([columns, text])
