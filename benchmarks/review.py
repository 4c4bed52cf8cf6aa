"""Measure the benefit of manual review: a person is played by the true labels.

    python benchmarks/review.py --backbone onnx:FILE hf:FOLDER --out review

Labels of a run are reviewed in several orders. After each count of decisions a model is trained
with the corrections. Fifty audits of a hundred labels each estimate the noise rate.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from cleanlab.filter import find_label_issues
from torch import Tensor

import noisebound as nb
from cells import argument_parser, sources_of, table, write
from noisebound.data import Dataset, Splits
from noisebound.models import DEFAULT_HEAD
from noisebound.paper.run import DataSources
from noisebound.review import Audit, Decision, DecisionFile, ReviewedData
from noisebound.runs import Run, train_run
from noisebound.training import TrainingConfig
from settings import embeddings

ORDERS = ("noisebound", "audit, then noisebound", "random", "self-confidence", "cleanlab")
SETS = ("noisy-ag-news", "cifar10n-worst")  # others: cifar10n-random1, cifar10n-aggregate
CIFAR_EXAMPLES = 10_000  # of 50,000, so that the script takes minutes
_SEED = 1  # of no split: zero would draw those of a fold
_AT_ONCE = 25  # the queue learns after this many decisions


FULL = TrainingConfig(
    recipe="auto", model=DEFAULT_HEAD, epochs=30, validation_share=0.0, measure_every=30
)


@dataclass(frozen=True)
class Scale:
    """How much is reviewed, and how networks are trained."""

    counts: tuple[int, ...] = (100, 300, 1_000, 3_000)
    audited: int = 100
    repetitions: int = 50
    config: TrainingConfig = FULL


QUICK = Scale(
    counts=(20, 60),
    audited=20,
    repetitions=2,
    config=TrainingConfig(
        loss="ce", model="linear", epochs=4, learning_rate=0.03, measure_every=4, validation_share=0
    ),
)


def clouds() -> Splits:
    """Return three clouds of points, a quarter of them labeled wrong, for a quick check."""
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(600) % 3
    inputs = 2 * torch.eye(3, 5)[true] + torch.randn(600, 5, generator=generator)
    is_wrong = torch.rand(600, generator=generator) < 0.25
    labels = torch.where(is_wrong, (true + 1) % 3, true)
    train = Dataset(inputs[:400], labels[:400], ("a", "b", "c"), true_labels=true[:400])
    test = Dataset(inputs[400:], true[400:], ("a", "b", "c"))
    return Splits("clouds", train, test, source="made")


def load_review_data(name: str, sources: DataSources) -> Splits:
    """Return embeddings with the labels that people gave and the true ones."""
    splits = embeddings(name, sources)
    if name != "noisy-ag-news" and len(splits.train) > CIFAR_EXAMPLES:
        splits = replace(splits, train=splits.train.take(CIFAR_EXAMPLES, seed=0), pictures=None)
    return splits


def _decision(file: DecisionFile, train: Dataset, position: int, where: Any) -> Decision:
    assert train.true_labels is not None
    true = int(train.true_labels[position])
    if true == int(train.labels[position]):
        return file.make(position, "right", where=where)
    return file.make(position, "wrong", train.class_names[true], where=where)


def _planned(order: str, run: Run, splits: Splits) -> Tensor:
    """Return all positions in the order of a rival, by the run's out-of-fold predictions."""
    labels = splits.train.labels
    if order == "random":
        return torch.randperm(len(labels), generator=torch.Generator().manual_seed(_SEED))
    probs = run.judgment(splits).probabilities
    by_confidence = probs.gather(1, labels[:, None]).squeeze(1).argsort(stable=True)
    if order == "self-confidence":
        return by_confidence
    found = find_label_issues(
        labels.numpy(), probs.numpy(), return_indices_ranked_by="self_confidence", n_jobs=1
    )
    first = torch.from_numpy(np.asarray(found)).long()
    is_first = torch.zeros(len(labels), dtype=torch.bool).index_fill_(0, first, True)
    return torch.cat([first, by_confidence[~is_first[by_confidence]]])


def review(order: str, run: Run, splits: Splits, folder: Path, scale: Scale) -> Iterator[Any]:
    """Decide in one order, and yield the file of decisions at each count."""
    path, train = folder / f"{order}.jsonl", splits.train
    path.unlink(missing_ok=True)
    file = DecisionFile(path, ReviewedData.of(splits, run.result.inputs))
    queue = run.review_queue(splits)
    queue.decisions = file
    planned = None if "noisebound" in order else _planned(order, run, splits)
    if order.startswith("audit"):
        audit = Audit(run.judgment(splits).probabilities, run.judgment(splits).suspects, file)
        for position in audit.next(scale.audited):
            true = _decision(file, train, position, "audit")
            audit.decide(position, true.verdict, true.label)
    for count in scale.counts:
        if planned is not None:
            where = "audit" if order == "random" else "review"
            upcoming = planned[len(file) : count].tolist()
            file.add([_decision(file, train, each, where) for each in upcoming])
        while len(file) < count:
            following = queue.next(min(_AT_ONCE, count - len(file)))
            file.add([_decision(file, train, each.position, "review") for each in following])
        yield file


def sessions(name: str, run: Run, splits: Splits, folder: Path, scale: Scale) -> list[Any]:
    """Return the wrong labels found and the accuracy reached, for each order and count."""
    train = splits.train
    is_wrong = train.labels != train.true_labels
    rows = []
    for order in ORDERS:
        for file in review(order, run, splits, folder, scale):
            words = order.replace(", ", "-").replace(" ", "-")
            out = folder / f"{words}-{len(file)}"
            again = train_run(
                splits,
                scale.config,
                out,
                corrections=file.path,
                resume=(out / "config.json").exists(),
                show=False,
            )
            unchecked = torch.ones(len(train), dtype=torch.bool)
            unchecked[[each.position for each in file]] = False
            actual = is_wrong[unchecked].double().mean().item()
            checks = again.result.checks
            rows.append(
                {
                    "data": name,
                    "before": run.final("test_top1"),
                    "order": order,
                    "decisions": str(len(file)),
                    "wrong": sum(each.verdict == "wrong" for each in file),
                    "accuracy": again.final("test_top1"),
                    "rate_error": abs(again.noise.assumed_rate - actual),
                    "weight": None if checks is None else checks.weight,
                }
            )
    return rows


def audits(name: str, run: Run, splits: Splits, folder: Path, scale: Scale) -> list[Any]:
    """Return how close repeated audits come to the true noise rate."""
    train = splits.train
    actual = (train.labels != train.true_labels).double().mean().item()
    probs, suspects = run.judgment(splits).probabilities, run.judgment(splits).suspects
    rows = []
    for seed in range(scale.repetitions):
        path = folder / "audit.jsonl"
        path.unlink(missing_ok=True)
        file = DecisionFile(path, ReviewedData.of(splits, run.result.inputs))
        audit = Audit(probs, suspects, file, seed=seed)
        file.add([_decision(file, train, each, "audit") for each in audit.next(scale.audited)])
        estimate = audit.result().estimate
        assert estimate is not None
        low, high = estimate.interval
        rows.append(
            {
                "data": name,
                "seed": seed,
                "actual": actual,
                "own": run.noise.assumed_rate,
                "error": estimate.noise_rate - actual,
                "covered": low <= actual <= high,
                "width": high - low,
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Review each data set in every order, and show the tables."""
    options = argument_parser(__doc__).parse_args(arguments)
    scale, sources = (QUICK if options.quick else Scale()), sources_of(options)
    found: list[Any] = []
    audited: list[Any] = []
    warnings.simplefilter("ignore", nb.UnknownNoiseWarning)
    for name in ["clouds"] if options.quick else options.columns or SETS:
        splits = clouds() if options.quick else load_review_data(name, sources)
        folder = options.out / "runs" / name
        before = folder / "before"
        is_begun = (before / "config.json").exists()
        run = train_run(splits, scale.config, before, resume=is_begun, show=False)
        audited += audits(name, run, splits, folder, scale)
        found += sessions(name, run, splits, folder, scale)
        frame = pl.DataFrame(found).filter(pl.col("data") == name)
        for value, form in (("wrong", ".0f"), ("accuracy", ".3f"), ("rate_error", ".3f")):
            print(f"{name}: {value}\n{table(frame, 'order', 'decisions', value, form=form)}")
    audit_frame = pl.DataFrame(audited)
    shares = audit_frame.group_by("data", maintain_order=True).agg(
        pl.col("actual", "own").first(),
        (pl.col("error").abs() <= 0.05).mean().alias("within 0.05"),
        pl.col("covered").mean(),
        (pl.col("error") ** 2).mean().sqrt().alias("root mean squared error"),
        pl.col("width").mean(),
    )
    write(pl.DataFrame(found), "", options.out, "review")
    write(audit_frame, str(shares), options.out, "audits")


if __name__ == "__main__":
    main()
