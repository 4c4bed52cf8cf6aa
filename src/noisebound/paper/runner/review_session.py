"""A person who knows the truth reviews a run's labels, in one order or another."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from noisebound.data import Splits
from noisebound.estimation.confident_learning import require_cleanlab
from noisebound.review import Audit, DecisionFile, ReviewedData
from noisebound.review.decisions import Decision, Place
from noisebound.runs import Run, train_run
from noisebound.training import TrainingConfig

Order: TypeAlias = Literal[
    "noisebound", "audit, then noisebound", "random", "self-confidence", "cleanlab"
]
ORDERS: tuple[Order, ...] = get_args(Order)
COUNTS = (100, 300, 1_000, 3_000)
AUDITED, REPETITIONS = 100, 50

_SEED = 1  # that of no split: zero would draw those that a fold has
_AT_ONCE = 25  # the queue learns after as many decisions


@dataclass(frozen=True)
class SessionFindings:
    """What came of so many decisions in one order.

    Args:
        order: the order
        decisions: how many labels were looked at
        wrong: how many of them were wrong
        accuracy: on the test examples, of the model trained with them; None before it is trained
        rate_error: how far the estimated noise rate of the other labels is off; None likewise
        weight: how much a checked label counted; None likewise
    """

    order: str
    decisions: int
    wrong: int
    accuracy: float | None = None
    rate_error: float | None = None
    weight: float | None = None


@dataclass(frozen=True)
class AuditFindings:
    """What one audit of a run's labels found.

    Args:
        seed: of the sample
        error: the rate that it told, less the true one
        covered: True if its interval held the true rate
        width: the width of the interval
    """

    seed: int
    error: float
    covered: bool
    width: float


def review_sessions(
    run: Run, splits: Splits, config: TrainingConfig, folder: Path
) -> Iterator[SessionFindings]:
    """Yield what each order finds after each count of decisions, and then what it comes to."""
    for order in ORDERS:
        session = _Session(order, run, splits, folder)
        for count in COUNTS:
            session.decide_until(count)
            yield SessionFindings(order, count, session.wrong)
    for order in ORDERS:
        session = _Session(order, run, splits, folder)
        for count in COUNTS:
            session.decide_until(count)
            out = folder / f"{order.replace(', ', '-').replace(' ', '-')}-{count}"
            is_begun = (out / "config.json").exists()
            path = session.file.path
            again = train_run(splits, config, out, corrections=path, resume=is_begun, show=False)
            yield _findings(session, again)


class _Session:
    """A person at work, in one order.

    Args:
        order: the order
        run: the run whose labels are looked at
        splits: its data, with the truth
        folder: where the decisions are written
    """

    def __init__(self, order: Order, run: Run, splits: Splits, folder: Path) -> None:
        self.order, self.run, self.splits = order, run, splits
        path = folder / f"{order}.jsonl"
        path.unlink(missing_ok=True)
        self.file = DecisionFile(path, ReviewedData.of(splits, run.result.inputs))
        is_own = order in ("noisebound", "audit, then noisebound")
        self.planned = None if is_own else _planned(order, run, splits)
        self.queue = run.queue_of(splits, self.file)
        self.audit = Audit(
            run.label_probabilities(splits),
            run.find_suspects(splits),
            self.file,
        )

    @property
    def wrong(self) -> int:
        """How many of the labels that were looked at were wrong."""
        return sum(each.verdict == "wrong" for each in self.file)

    def decide_until(self, count: int) -> None:
        """Decide until so many labels were looked at."""
        file, splits = self.file, self.splits
        if self.planned is not None:
            where: Place = "audit" if self.order == "random" else "review"
            upcoming = self.planned[len(file) : count].tolist()
            file.add([_truth(file, splits, each, where) for each in upcoming])
        if self.order == "audit, then noisebound" and not len(file):
            for position in self.audit.next(AUDITED):
                told = _truth(file, splits, position)
                self.audit.decide(position, told.verdict, told.label)
        while len(file) < count:
            following = self.queue.next(min(_AT_ONCE, count - len(file)))
            file.add([_truth(file, splits, each.position) for each in following])


def _truth(file: DecisionFile, splits: Splits, position: int, where: Place = "review") -> Decision:
    assert splits.train.true_labels is not None
    true = int(splits.train.true_labels[position])
    if true == int(splits.train.labels[position]):
        return file.make(position, "right", where=where)
    return file.make(position, "wrong", splits.train.class_names[true], where=where)


def _planned(order: Order, run: Run, splits: Splits) -> Int64[Tensor, " n"]:
    """Return all positions in the order of a rival, by the run's out-of-fold predictions."""
    labels = splits.train.labels
    if order == "random":
        return torch.randperm(len(labels), generator=torch.Generator().manual_seed(_SEED))
    probs = run.label_probabilities(splits)
    confidence = probs.gather(1, labels[:, None]).squeeze(1)
    by_confidence = confidence.argsort(stable=True)
    if order == "self-confidence":
        return by_confidence
    require_cleanlab()
    from cleanlab.filter import find_label_issues

    found = find_label_issues(
        labels.numpy(), probs.numpy(), return_indices_ranked_by="self_confidence", n_jobs=1
    )
    first = torch.from_numpy(np.asarray(found)).long()
    is_first = torch.zeros(len(labels), dtype=torch.bool)
    is_first[first] = True
    return torch.cat([first, by_confidence[~is_first[by_confidence]]])


def _findings(session: _Session, run: Run) -> SessionFindings:
    train = session.splits.train
    assert train.true_labels is not None
    assert run.result.checks is not None
    unchecked = torch.ones(len(train), dtype=torch.bool)
    unchecked[[each.position for each in session.file]] = False
    actual = (train.labels != train.true_labels)[unchecked].double().mean().item()
    return SessionFindings(
        session.order,
        len(session.file),
        session.wrong,
        run.final("test_top1") or 0.0,
        abs(run.noise.assumed_rate - actual),
        run.result.checks.weight,
    )


def audits(run: Run, splits: Splits, folder: Path) -> Iterator[AuditFindings]:
    """Yield what each of fifty audits of a hundred labels finds."""
    train = splits.train
    assert train.true_labels is not None
    actual = (train.labels != train.true_labels).double().mean().item()
    probs = run.label_probabilities(splits)
    suspects = run.find_suspects(splits)
    for seed in range(REPETITIONS):
        path = folder / "audit.jsonl"
        path.unlink(missing_ok=True)
        file = DecisionFile(path, ReviewedData.of(splits, run.result.inputs))
        audit = Audit(probs, suspects, file, seed=seed)
        file.add([_truth(file, splits, each, "audit") for each in audit.next(AUDITED)])
        estimate = audit.result().estimate
        assert estimate is not None
        low, high = estimate.interval
        yield AuditFindings(seed, estimate.noise_rate - actual, low <= actual <= high, high - low)
