"""Suspect labels of tokens, of the spans that their tags mark, and of whole sentences."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.errors import InvalidValueError
from noisebound.estimation.predictions import Labels
from noisebound.estimation.sequences import JoinedTokens
from noisebound.estimation.suspects import Suspects

_SCHEMES = {"BIO": "BI", "BILOU": "BILU", "BIOES": "BIES"}
_LEAST_SCORE = -20.0  # of a sentence without labels


class TagSchemeWarning(UserWarning):
    """Labels do not follow the scheme of their tags."""


class Tag(NamedTuple):
    """A tag such as B-PER: the place in a span, and the type of the span; ``O`` has no type."""

    prefix: str
    type: str


class Span(NamedTuple):
    """A span of a type: the positions of its first token, and after its last one."""

    start: int
    stop: int
    type: str


class SpanSuspect(NamedTuple):
    """How suspect a span is; without a label, it is a span that the labels miss.

    Attributes:
        sentence: the position of the sentence
        label: the labeled span
        suggested: the span that is likelier; None if there is likelier none. It may be the same.
        score: the log-odds that the label of one of its tokens is wrong, the highest
    """

    sentence: int
    label: Span | None
    suggested: Span | None
    score: float

    @property
    def probability(self) -> float:
        """The probability that the span is wrong."""
        return float(torch.tensor(self.score).sigmoid())


@dataclass(frozen=True, eq=False)
class TokenSuspects(Suspects):
    """The log-odds that each label of a token is wrong, and the likeliest other label.

    Args:
        labels: the labels of all labeled tokens, sentence after sentence
        places: the sentence of each of these tokens, and its position there
        num_sentences: the number of sentences
    """

    labels: Labels
    places: Int64[Tensor, "n 2"]
    num_sentences: int

    @classmethod
    def among(cls, found: Suspects, tokens: JoinedTokens) -> "TokenSuspects":
        """Return the suspects among joined tokens."""
        return cls(found.score, found.suggested, tokens.labels, tokens.places, tokens.sentences)

    @cached_property
    def sentences(self) -> Suspects:
        """The sentences, each as suspect as its most suspect label."""
        scores = torch.full((self.num_sentences,), _LEAST_SCORE, dtype=self.score.dtype)
        return Suspects(scores.scatter_reduce(0, self.places[:, 0], self.score, "amax"), None)

    def spans(self, class_names: Sequence[str]) -> list[SpanSuspect]:
        """Return the labeled spans and those that labels miss, the most suspect first.

        A token's label is replaced by its suggestion if it is probably wrong. A span that then
        begins or ends elsewhere, has another type or is gone is suspect, and so is a new one.

        Args:
            class_names: the tag of each class: ``O``, and tags such as B-PER in one of the schemes
                BIO, BILOU and BIOES
        """
        tags = check_tags(class_names)
        assert self.suggested is not None  # as for losses, which no token has
        last = int(torch.cat([self.labels, self.suggested]).max())
        if last >= len(tags):
            raise InvalidValueError(
                f"`class_names` has {len(tags)} tags, and the classes reach up to {last}"
            )
        has_ends = any(tag.prefix in "LE" for tag in tags)
        likelier = torch.where(self.score > 0, self.suggested, self.labels)
        found, violations = [], []
        rows = zip(
            self.places.tolist(),
            self.labels.tolist(),
            likelier.tolist(),
            self.score.tolist(),
            strict=True,
        )
        for sentence, group in groupby(rows, key=lambda row: row[0][0]):
            places, labels, others, scores = zip(*group, strict=True)
            labeled, wrong = spans_of([tags[each] for each in labels], has_ends=has_ends)
            proposed, _ = spans_of([tags[each] for each in others])
            violations += [(sentence, places[each][1], class_names[labels[each]]) for each in wrong]
            ends = [*(place for _, place in places), places[-1][1] + 1]
            for label, suggested in _pairs(labeled, proposed):
                both = [each for each in (label, suggested) if each is not None]
                score = max(max(scores[each.start : each.stop]) for each in both)
                found.append(
                    SpanSuspect(sentence, _moved(label, ends), _moved(suggested, ends), score)
                )
        if violations:
            sentence, position, name = violations[0]
            warnings.warn(
                f"{len(violations)} tags do not follow their scheme, the first in sentence "
                f"{sentence} at position {position}: {name} continues no span of its type, or its "
                "span has no end; spans are read as far as they go",
                TagSchemeWarning,
                stacklevel=2,
            )
        return sorted(found, key=lambda each: -each.score)


def _moved(span: Span | None, ends: Sequence[int]) -> Span | None:
    """Return a span of labeled tokens as one of all tokens."""
    return span and Span(ends[span.start], ends[span.stop - 1] + 1, span.type)


def check_tags(class_names: Sequence[str]) -> list[Tag]:
    """Return the tags of the classes; refuse tags that are not of one scheme."""
    tags = [Tag("O", "") if name == "O" else Tag(*_parts(name)) for name in class_names]
    prefixes = {tag.prefix for tag in tags} - {"O"}
    if not any(prefixes <= set(letters) for letters in _SCHEMES.values()):
        raise InvalidValueError(
            f"tags must be of one scheme, {', '.join(_SCHEMES)}; got the prefixes "
            f"{', '.join(sorted(prefixes))}"
        )
    return tags


def are_span_tags(class_names: Sequence[str]) -> bool:
    """True if classes are tags of spans, unlike parts of speech."""
    return "O" in class_names and any(_parts_or_none(name) for name in class_names)


def _parts(name: str) -> tuple[str, str]:
    found = _parts_or_none(name)
    if found is None:
        raise InvalidValueError(
            f"unknown tag {name!r}: expected O, or a prefix and a type such as B-PER, in the "
            f"scheme {', '.join(_SCHEMES)}"
        )
    return found


def _parts_or_none(name: str) -> tuple[str, str] | None:
    prefix, dash, kind = name.partition("-")
    return (prefix, kind) if dash and kind and prefix in {*"".join(_SCHEMES.values())} else None


def spans_of(tags: Sequence[Tag], *, has_ends: bool = False) -> tuple[list[Span], list[int]]:
    """Return the spans of a sentence, and the positions of tags that do not follow the scheme.

    These continue no span of their type, or belong to a span without an end in a scheme that
    ``has_ends``. A span is read from them nevertheless, as noisy labels have such mistakes.

    Example:
        >>> spans_of([Tag("B", "PER"), Tag("I", "PER"), Tag("O", ""), Tag("I", "LOC")])
        ([Span(start=0, stop=2, type='PER'), Span(start=3, stop=4, type='LOC')], [3])
    """
    spans: list[Span] = []
    wrong: list[int] = []
    start: int | None = None
    for place, (prefix, kind) in enumerate([*tags, Tag("O", "")]):
        continues = start is not None and prefix in "ILE" and tags[start].type == kind
        if start is not None and not continues:
            spans.append(Span(start, place, tags[start].type))
            start, wrong = None, [*wrong, place - 1] if has_ends else wrong
        if prefix in "ILE" and not continues:
            wrong.append(place)
        if prefix != "O" and start is None:
            start = place
        if start is not None and prefix in "LEUS":
            spans.append(Span(start, place + 1, kind))
            start = None
    return spans, wrong


def _pairs(
    labeled: Sequence[Span], proposed: Sequence[Span]
) -> list[tuple[Span | None, Span | None]]:
    """Return each labeled span with the proposed one that it shares most with, and the others."""

    def shared(one: Span, other: Span) -> int:
        return min(one.stop, other.stop) - max(one.start, other.start)

    pairs: list[tuple[Span | None, Span | None]] = []
    for span in labeled:
        best = max(proposed, key=lambda each: (shared(span, each), each == span), default=None)
        pairs.append((span, best if best is not None and shared(span, best) > 0 else None))
    pairs += [(None, each) for each in proposed if all(shared(span, each) <= 0 for span in labeled)]
    return pairs
