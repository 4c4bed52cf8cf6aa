"""Plant twins that share a label, right or wrong, and see what keeping them together is worth.

    NOISEBOUND_DATA=… python benchmarks/twins.py --out results/twins
    python benchmarks/twins.py cost --out .
    NOISEBOUND_DATA=… python benchmarks/twins.py news --backbone package:all-minilm-l6-v2 --out .

Three in ten labels are replaced. Then four in ten examples get a twin with the same label: half of
the twins are copies, the others have features that differ by 2 % of a standard deviation. `fit`
runs with `quick`, so that the learners are linear, trees and neighbors.

- divided: each example is a group of its own, so twins may be on both sides of a division
- found: the default, which looks for duplicates
- named: `groups` says which examples are twins

``cost`` prints the CPU time to find the duplicates among 50,000 embeddings of 384 numbers. ``news``
prints the noise rate by the labels of near copies among 10,000 news texts that people labeled, and
the true one.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import roc_auc_score
from torch import Tensor

import noisebound as nb
from cells import argument_parser, measure, sources_of, table, write
from noisebound.data import Dataset
from noisebound.data.duplicates import find_duplicates
from noisebound.data.rows import as_rows
from noisebound.estimation.repeated import noise_of_repeated
from noisebound.paper.run import DataSources
from settings import embeddings

DATA = {"digits": 1_000, "breast-cancer": 400, "fashion-mnist": 1_500}  # training examples
METHODS = ("divided", "found", "named")
RATE, TWINS, CHANGE = 0.3, 0.4, 0.02


def clean(name: str, seed: int, sources: DataSources) -> tuple[Tensor, Tensor]:
    """Return features and labels in an order that the seed draws."""
    if name == "fashion-mnist":
        whole = sources.load(name).train.take(4_000, seed)
        features, labels = whole.dense_inputs.flatten(1).float(), whole.labels
    else:
        read = load_digits if name == "digits" else load_breast_cancer
        features, labels = map(torch.tensor, read(return_X_y=True))
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    return features[order].float(), labels[order].long()


def with_twins(features: Tensor, labels: Tensor, seed: int) -> tuple[Dataset, NDArray[np.int64]]:
    """Return examples with noisy labels and twins, and the number of each example's original."""
    n, generator = len(labels), torch.Generator().manual_seed(seed)
    classes = int(labels.max()) + 1
    noisy = nb.corrupt(labels, "symmetric", RATE, classes, generator=generator).labels
    twins = torch.randperm(n, generator=generator)[: round(TWINS * n)]
    change = (
        CHANGE * features.std(0) * torch.randn(len(twins), features.shape[1], generator=generator)
    )
    change[: len(twins) // 2] = 0
    original = torch.cat([torch.arange(n), twins])
    original = original[torch.randperm(len(original), generator=generator)]
    # The first of each pair may be the twin: only which is which is lost.
    inputs = features[original].clone()
    seen: set[int] = set()
    changes = dict(zip(twins.tolist(), change, strict=True))
    for place, source in enumerate(original.tolist()):
        if source in seen:
            inputs[place] += changes[source]
        seen.add(source)
    names = tuple(map(str, range(classes)))
    return Dataset(inputs, noisy[original], names, labels[original]), original.numpy()


def measured(cell: Mapping[str, Any], sources: DataSources, size: float) -> dict[str, Any]:
    """Measure one way to divide the examples, on one data set with one seed."""
    features, labels = clean(cell["data"], cell["seed"], sources)
    count = round(size * DATA[cell["data"]])
    train, original = with_twins(features[:count], labels[:count], cell["seed"])
    groups = {"divided": np.arange(len(train)), "found": None, "named": original}[cell["method"]]
    begin = time.process_time()
    run = nb.fit(
        train, groups=groups, quick=True, seed=cell["seed"], show=False, report=False, n_jobs=1
    )
    suspects = run.suspects()
    is_wrong = (suspects["label"] != suspects["true_label"]).to_numpy()
    estimate = run.noise.estimate
    assert estimate is not None
    low, high = estimate.interval
    true = float(is_wrong.mean())
    found = torch.from_numpy(run.predict(features[count:].numpy()).astype(np.int64))
    return {
        "true_rate": true,
        "rate": estimate.noise_rate,
        "error": abs(estimate.noise_rate - true),
        "holds": low <= true <= high,
        "auroc": float(roc_auc_score(is_wrong, suspects["score"].to_numpy())),
        "accuracy": float((found == labels[count:]).double().mean()),
        "seconds": time.process_time() - begin,
    }


def print_cost() -> None:
    """Print the CPU time of the search for duplicates, with one thread."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(50_000, 40, generator=generator) @ torch.randn(
        40, 384, generator=generator
    )
    vectors[25_000:25_500] = vectors[:500] + 0.05 * vectors.std() * torch.randn(500, 384)
    begin = time.process_time()
    found = find_duplicates(as_rows(vectors), is_embedded=True)
    seconds = time.process_time() - begin
    print(f"{seconds:.1f} s, {len(found.sets)} of 500 planted pairs found")


def print_news(sources: DataSources) -> None:
    """Print the noise rate of news texts by the labels of near copies, and the true one."""
    splits = embeddings("noisy-ag-news", sources)
    sets, train = splits.duplicates.sets, splits.train
    assert train.true_labels is not None
    truth = [len(set(train.true_labels[each].tolist())) for each in sets]
    print(noise_of_repeated(train.labels, sets, train.num_classes))
    print(f"true rate {(train.labels != train.true_labels).double().mean():.3f}")
    print(f"{sum(count > 1 for count in truth)} of {len(sets)} sets are of different true classes")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all cells, and print one table per measurement."""
    parser = argument_parser(__doc__)
    parser.add_argument("command", nargs="?", choices=("twins", "cost", "news"), default="twins")
    options = parser.parse_args(arguments)
    if options.command == "cost":
        print_cost()
        return
    sources, size = sources_of(options), 0.1 if options.quick else 1.0
    if options.command == "news":
        print_news(sources)
        return
    cells = [
        {"data": data, "method": method, "seed": seed}
        for data in options.columns or list(DATA)[: 1 if options.quick else None]
        for method in options.methods or METHODS
        for seed in range(options.seeds)
    ]
    frame = measure(cells, lambda cell: measured(cell, sources, size), options.out, options.jobs)
    texts = [
        f"{title}\n\n{table(frame, 'method', 'data', name)}"
        for name, title in {
            "rate": f"Estimated noise rate; the true one is about {RATE}",
            "error": "Absolute error of the noise rate",
            "auroc": "AUROC of the suspects",
            "accuracy": "Accuracy on clean test labels",
        }.items()
    ]
    write(frame, "\n".join(texts), options.out, "twins")


if __name__ == "__main__":
    main()
