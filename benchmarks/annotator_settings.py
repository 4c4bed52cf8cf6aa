"""Several labels per example, with the truth: ratings and labels by people, and planted annotators.

Constants of the library are chosen on the half ``dev``; the half ``judge`` is looked at once.
"""

import ast
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import PCA
from torch import Tensor

import noisebound as nb
from noisebound.data import load
from noisebound.features import TensorExamples, Texts, embed_once, parse_backbone
from settings import PLANTED

EXAMPLES = 2_500
_PLANTED_EXAMPLES = 1_500
_COMPONENTS = 100  # principal components, which make the regressions fast
_PER_RATED = 5  # ratings of a text that may be shown; the others give the truth

_RATED = {
    "amazon": "amazonReviewSnippets",
    "movies": "movieReviewSnippets",
    "nyt": "nytEditorialSnippets",
    "tweets": "tweets",
}
_HALVES = {
    "dev": ("amazon", "movies", "digits", "topics", "binary"),
    "judge": ("nyt", "tweets", "cifar10n", "spheres", "shapes"),
}
HUMAN = (*_RATED, "cifar10n")


@dataclass(frozen=True)
class Setting:
    """A data set with a number of labels shown per example."""

    dataset: str
    shown: int
    half: str

    @property
    def name(self) -> str:
        return f"{self.dataset}-{self.shown}"


SETTINGS = tuple(
    Setting(dataset, shown, half)
    for half, datasets in _HALVES.items()
    for dataset in datasets
    for shown in (2, 3, 5)
    if shown < 5 or dataset in _RATED
)


class Labeled(NamedTuple):
    """Inputs, labels with ``-1`` where one is missing, the truth, and the annotators if known."""

    inputs: Tensor
    labels: Tensor
    true: Tensor
    names: tuple[str, ...] | None
    num_classes: int


def labeled(setting: Setting, seed: int, ratings: Path | None, data_dir: Path | None) -> Labeled:
    """Return a setting's data. The seed draws the labels that are shown."""
    if setting.dataset in _RATED:
        if ratings is None:
            raise SystemExit(f"{setting.dataset} needs --ratings hutto_ICWSM_2014.tar.gz")
        found = _rated(setting, seed, ratings)
    elif setting.dataset == "cifar10n":
        found = _cifar10n(setting, seed, data_dir)
    else:
        found = planted(setting.dataset, setting.shown, seed)
    return found._replace(inputs=_components(found.inputs))


def _components(inputs: Tensor) -> Tensor:
    if inputs.shape[1] <= _COMPONENTS:
        return inputs
    model = PCA(_COMPONENTS, random_state=0)
    return torch.from_numpy(model.fit_transform(inputs.numpy()))


def read_ratings(archive: Path, dataset: str) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Return texts, and their ratings as 0 for negative, 1 for neutral and 2 for positive."""
    with tarfile.open(archive) as files:
        columns: dict[str, dict[str, str]] = {}
        for kind, place in (("anonDataRatings", 3), ("GroundTruth", 2)):
            name = f"hutto_ICWSM_2014/{_RATED[dataset]}_{kind}.txt"
            member = files.extractfile(name)
            assert member is not None
            text = io.TextIOWrapper(member, encoding="utf-8-sig", errors="replace")
            rows = [line.rstrip("\n").split("\t") for line in text]
            columns[kind] = {row[0]: row[place] for row in rows if len(row) > place}
    texts, signs = columns["GroundTruth"], columns["anonDataRatings"]
    kept = [key for key in signs if texts.get(key, "").strip()]
    ratings = [np.sign(ast.literal_eval(signs[key])).astype(np.int64) + 1 for key in kept]
    return [texts[key] for key in kept], ratings


def _rated(setting: Setting, seed: int, archive: Path) -> Labeled:
    texts, ratings = read_ratings(archive, setting.dataset)
    rows = np.random.default_rng(0).permutation(len(texts))[:EXAMPLES]
    backbone = parse_backbone("package:all-minilm-l6-v2")
    inputs = embed_once(Texts([texts[row] for row in rows]), backbone).vectors
    labels, true = shown_and_true([ratings[row] for row in rows], setting.shown, seed)
    return Labeled(inputs, labels, true, None, 3)


def shown_and_true(
    ratings: list[NDArray[np.int64]], shown: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Return some ratings of each text, and the majority of all but five, ties at random."""
    random = np.random.default_rng(seed)
    mixed = [random.permutation(each) for each in ratings]
    counts = np.stack([np.bincount(each[_PER_RATED:], minlength=3) for each in mixed])
    true = (counts + random.uniform(0, 0.5, counts.shape)).argmax(1)
    labels = np.stack([each[:shown] for each in mixed])
    return torch.from_numpy(labels), torch.from_numpy(true)


def _cifar10n(setting: Setting, seed: int, data_dir: Path | None) -> Labeled:
    columns = [load(f"cifar10n-random{place}", data_dir=data_dir).train for place in (1, 2, 3)]
    rows = torch.randperm(len(columns[0]), generator=torch.Generator().manual_seed(0))[:EXAMPLES]
    images = columns[0].inputs
    true = columns[0].true_labels
    assert isinstance(images, Tensor)
    assert true is not None
    backbone = parse_backbone("package:efficientnet-lite0")
    inputs = embed_once(TensorExamples(images[rows]), backbone).vectors
    labels = torch.stack([each.labels[rows] for each in columns], 1)
    order = torch.rand(labels.shape, generator=torch.Generator().manual_seed(seed)).argsort(1)
    return Labeled(inputs, labels.gather(1, order)[:, : setting.shown], true[rows], None, 10)


def planted(dataset: str, shown: int, seed: int) -> Labeled:
    """Return data with six annotators, each of whom labels a random part."""
    inputs, true, num_classes = _clean(dataset, seed)
    transitions = _annotators(num_classes, seed, worse=0.05 if dataset in PLANTED else 0.0)
    random = torch.Generator().manual_seed(seed)
    columns = [
        torch.multinomial(matrix.T[true], 1, generator=random) for matrix in transitions.values()
    ]
    labels = torch.cat(columns, 1)
    rank = torch.rand(labels.shape, generator=random).argsort(1)
    labels = labels.masked_fill(rank >= shown, -1)
    return Labeled(inputs, labels, true, tuple(transitions), num_classes)


def _annotators(num_classes: int, seed: int, worse: float) -> Mapping[str, Tensor]:
    same = torch.eye(num_classes, dtype=torch.float64)
    expert = nb.bounds.symmetric_transition(0.5, num_classes)
    expert[:, seed % num_classes] = same[seed % num_classes]
    return {
        "good": nb.bounds.symmetric_transition(0.1 + worse, num_classes),
        "fair": nb.bounds.symmetric_transition(0.15 + worse, num_classes),
        "bad": nb.bounds.symmetric_transition(0.4 + worse, num_classes),
        "spammer": torch.full_like(same, 1 / num_classes),
        "adversary": 0.3 * same + 0.7 * same.roll(1, 0),
        "expert in one class": expert,
    }


def _clean(dataset: str, seed: int) -> tuple[Tensor, Tensor, int]:
    if dataset in PLANTED:
        found = PLANTED[dataset](seed).take(_PLANTED_EXAMPLES, seed)
        return found.dense_inputs.flatten(1).float(), found.labels, found.num_classes
    if dataset == "digits":
        digits = load_digits()
        features, true = digits.data / 16, digits.target
    else:  # clusters that are not well separated
        features, true = make_classification(
            _PLANTED_EXAMPLES,
            60,
            n_informative=12,
            n_classes={"topics": 4, "binary": 2}[dataset],
            n_clusters_per_class=1,
            random_state=seed,
        )
    inputs = torch.from_numpy(features.astype(np.float32))
    return inputs, torch.from_numpy(true.astype(np.int64)), int(true.max()) + 1
