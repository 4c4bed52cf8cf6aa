"""Labels of tokens: joined for the estimate, and ranked as tokens, spans and sentences."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import noisebound as nb
from noisebound.estimation import Span, TagSchemeWarning
from noisebound.estimation.tokens import Tag, are_span_tags, check_tags, spans_of

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def sentences(n=400, rate=0.2, seed=0):
    """Ragged sentences with one label in ``rate`` wrong, and predictions that are nearly sure."""
    random = np.random.default_rng(seed)
    probs, labels, truth = [], [], []
    for length in random.integers(1, 15, n):
        true = random.choice(5, length, p=[0.6, 0.1, 0.1, 0.1, 0.1])
        is_wrong = random.random(length) < rate
        shift = random.integers(1, 5, length)
        labels.append(np.where(is_wrong, (true + shift) % 5, true))
        logits = 4.0 * np.eye(5)[true] + random.normal(size=(length, 5))
        probs.append(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
        truth.append(true)
    return probs, labels, truth


def padded(probs, labels):
    longest = max(map(len, labels))
    uniform = np.full((len(probs), longest, 5), 0.2)
    ignored = np.full((len(probs), longest), -100)
    for place, (p, y) in enumerate(zip(probs, labels, strict=True)):
        uniform[place, : len(y)], ignored[place, : len(y)] = p, y
    return uniform, ignored


@pytest.mark.parametrize("form", [lambda *given: given, padded], ids=["ragged", "padded"])
def test_the_estimate_is_that_of_all_labeled_tokens(form):
    probs, labels, _ = sentences()
    flat = nb.estimate_noise(np.concatenate(probs), np.concatenate(labels))
    found = nb.estimate_noise(*form(probs, labels))
    assert found.noise_rate == flat.noise_rate == pytest.approx(0.2, abs=0.05)
    assert torch.equal(found.transition, flat.transition)
    second = [np.roll(each, 1, axis=0) for each in probs]
    with_second = nb.estimate_noise(probs, labels, second_probs=second)
    joined = np.concatenate(second)
    expected = nb.estimate_noise(np.concatenate(probs), np.concatenate(labels), second_probs=joined)
    assert with_second.interval == expected.interval


def test_checked_tokens_are_pairs_of_sentence_and_position():
    probs, labels, truth = sentences()
    places = [(i, j) for i, each in enumerate(labels) for j in range(len(each))]
    order = np.random.default_rng(1).permutation(len(places))[:100]
    chosen = [places[each] for each in order]
    true = [int(truth[i][j]) for i, j in chosen]
    found = nb.estimate_noise(probs, labels, trusted=(chosen, true))
    rows = np.concatenate(labels), np.concatenate(truth)
    flat = nb.estimate_noise(np.concatenate(probs), rows[0], trusted=(order, rows[1][order]))
    assert found.interval == flat.interval
    with pytest.raises(nb.NoiseboundError, match=r"pairs \(sentence, position\)"):
        nb.estimate_noise(probs, labels, trusted=([(0, 99)] * 10, [0] * 10))


def test_wrong_tokens_and_their_sentences_come_first():
    probs, labels, truth = sentences()
    found = nb.find_suspects(probs, labels)
    is_wrong = np.concatenate([y != t for y, t in zip(labels, truth, strict=True)])
    assert roc_auc_score(is_wrong, found.score) > 0.95
    sentence, position = found.places[found.ranking[0]].tolist()
    assert labels[sentence][position] != truth[sentence][position]
    has_wrong = [bool((y != t).any()) for y, t in zip(labels, truth, strict=True)]
    assert roc_auc_score(has_wrong, found.sentences.score) > 0.95
    assert len(found.sentences.ranking) == len(labels)


def test_ignored_tokens_are_left_out_wherever_they_stand():
    probs, labels, _ = sentences()
    found = nb.find_suspects(probs, labels)
    random = np.random.default_rng(2)
    wider, ignored, kept = [], [], []
    for p, y in zip(probs, labels, strict=True):  # as a tokenizer that splits words
        places = np.sort(random.permutation(2 * len(y))[: len(y)])
        spread, tags = np.full((2 * len(y), 5), 0.2), np.full(2 * len(y), -100)
        spread[places], tags[places] = p, y
        wider.append(torch.from_numpy(spread)), ignored.append(tags.tolist()), kept.append(places)
    again = nb.find_suspects(wider, ignored)
    assert torch.equal(again.score, found.score)
    assert again.places[:, 1].tolist() == np.concatenate(kept).tolist()


def test_a_sentence_without_labels_is_last():
    probs, labels, _ = sentences()
    found = nb.find_suspects([*probs, np.full((3, 5), 0.2)], [*labels, [-100] * 3])
    assert found.sentences.ranking[-1] == len(labels)


def spans_with(labels, true, rate=0.1):
    """Suspects of one sentence, among many that are labeled right."""
    random = np.random.default_rng(0)
    many = [random.choice(5, 10) for _ in range(60)]
    given = [np.where(random.random(10) < rate, (each + 1) % 5, each) for each in many]
    soft = [np.eye(5)[each] * 0.98 + 0.004 for each in [*many, true]]
    found = nb.find_suspects(soft, [*given, labels])
    with pytest.warns(TagSchemeWarning, match=r"do not follow their scheme, the first in sentence"):
        return [each for each in found.spans(TAGS) if each.sentence == 60]


def test_a_dropped_span_is_suggested():
    (found,) = spans_with([0] * 6, [0, 1, 2, 0, 0, 0])
    assert (found.label, found.suggested) == (None, Span(1, 3, "PER"))
    assert found.probability > 0.5


def test_a_swapped_type_and_a_shifted_border_are_corrected():
    swapped, right = spans_with([0, 3, 4, 0, 3, 0], [0, 1, 2, 0, 3, 0])
    assert (swapped.label, swapped.suggested) == (Span(1, 3, "LOC"), Span(1, 3, "PER"))
    assert right.label == right.suggested == Span(4, 5, "LOC")
    assert swapped.score > 0 > right.score
    (shorter,) = spans_with([0, 0, 1, 0], [0, 1, 2, 0])
    assert (shorter.label, shorter.suggested) == (Span(2, 3, "PER"), Span(1, 3, "PER"))


def test_an_invented_span_has_no_suggestion():
    (found,) = spans_with([0, 1, 2, 0], [0, 0, 0, 0])
    assert (found.label, found.suggested) == (Span(1, 3, "PER"), None)


def test_spans_of_split_words_reach_from_their_first_to_their_last_labeled_token():
    found = spans_with([0, -100, 1, -100, -100, 2, -100, 0], [0, 0, 0, 0, 0, 0, 0, 0])
    assert [each.label for each in found] == [Span(2, 6, "PER")]


@pytest.mark.parametrize(
    ("tags", "spans", "wrong"),
    [
        ("B-X I-X B-X O", [(0, 2), (2, 3)], []),
        ("B-X L-X U-X B-X I-X L-X", [(0, 2), (2, 3), (3, 6)], []),
        ("B-X E-X S-X S-Y", [(0, 2), (2, 3), (3, 4)], []),
        ("O I-X I-X", [(1, 3)], [1]),
        ("B-X I-Y O", [(0, 1), (1, 2)], [1]),
        ("B-X E-X I-X", [(0, 2), (2, 3)], [2]),
        ("", [], []),
    ],
)
def test_spans_by_scheme(tags, spans, wrong):
    read = [Tag(*each.partition("-")[::2]) for each in tags.split()]
    found, violations = spans_of(read)
    assert [each[:2] for each in found] == spans
    assert violations == wrong


def test_a_span_without_an_end_does_not_follow_a_scheme_that_has_ends():
    read = [Tag("B", "X"), Tag("L", "X"), Tag("B", "X"), Tag("I", "X"), Tag("O", "")]
    assert spans_of(read, has_ends=True) == ([(0, 2, "X"), (2, 4, "X")], [3])


def test_tags_are_of_one_scheme():
    assert check_tags(["O", "B-a-b"]) == [("O", ""), ("B", "a-b")]
    assert are_span_tags(TAGS)
    assert not are_span_tags(["NOUN", "VERB"])
    with pytest.raises(nb.NoiseboundError, match="unknown tag 'PER': expected O, or a prefix"):
        check_tags(["O", "PER"])
    with pytest.raises(nb.NoiseboundError, match=r"of one scheme, BIO, BILOU, BIOES; got .* E, L"):
        check_tags(["O", "B-PER", "L-PER", "E-PER"])
    probs, labels, _ = sentences(50)
    with pytest.raises(nb.NoiseboundError, match="has 2 tags, and the classes reach up to 4"):
        nb.find_suspects(probs, labels).spans(["O", "B-PER"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda p, y: (p, y[1:]), "one sequence for each of 50 sentences, got 49"),
        (lambda p, y: (p, [y[0][1:], *y[1:]]), r"sentence 0 has \d+ tokens in `probs` and labels"),
        (lambda p, y: ([*p[:-1], p[-1][:, :4]], y), r"shape \[tokens, 5\] for each sentence"),
        (lambda p, y: (p, [each.astype(float) for each in y]), "must be whole numbers"),
        (lambda p, y: (p, [each + 9 for each in y]), "must lie in 0 … 4, got"),
        (lambda p, y: (p, [each * 0 - 100 for each in y]), "no token has a label: all"),
    ],
)
@pytest.mark.parametrize("function", [nb.find_suspects, nb.estimate_noise])
def test_sequences_that_do_not_fit(function, changed, message):
    probs, labels, _ = sentences(50)
    with pytest.raises(nb.NoiseboundError, match=message):
        function(*changed(probs, labels))


def test_an_empty_sentence_may_be_an_empty_list():
    probs, labels, _ = sentences()
    expected = nb.estimate_noise(probs, labels).noise_rate
    assert nb.estimate_noise([[], *probs, []], [[], *labels, []]).noise_rate == expected
