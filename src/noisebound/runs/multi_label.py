"""Several labels at once: a two-class run for each label, in one folder."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from sklearn.metrics import average_precision_score, f1_score
from torch import Tensor, nn

from noisebound.data import DataOrigin, ReadingOptions, Splits
from noisebound.data.column_types import listed_names
from noisebound.data.multi_label import FEWEST, unlearnable
from noisebound.data.options import validated
from noisebound.errors import DataError, FolderTakenError, RunError
from noisebound.estimation import EstimatedNoise, Noise, OutOfFold
from noisebound.estimation.multi_label import estimate_label_noise, of_true_label
from noisebound.features import BackboneLike
from noisebound.runs.folder import RunFolder, read_model, write_model
from noisebound.runs.hub import HUB, downloaded
from noisebound.runs.judgment import LONGEST_TEXT, shortened
from noisebound.runs.predict import NewExamples, unlabeled
from noisebound.runs.run import Run
from noisebound.runs.scores import RunScores
from noisebound.runs.train import train_run
from noisebound.system.console import print_note
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import Devices, OneDevice, first_rank_does
from noisebound.training.loggers import LabelLogger, Logger, tell

_COLUMNS = frozenset({"example", "id", "changed"})
"""The columns beside those of labels in predictions and corrected labels."""


class LabelsRecord(BaseModel):
    """``labels.json``: the labels that a run learned, and why it left out others."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    labels: tuple[str, ...]
    left_out: dict[str, str] = {}


@dataclass(frozen=True)
class MultiLabelScores:
    """The scores of a run with several labels.

    Those on a test set are None without one. Its missing labels do not count.
    """

    macro_f1: float | None  # the mean F1 of the labels on the test set
    micro_f1: float | None  # the F1 of all labels together
    average_precision: float | None  # the mean of the labels
    subset_accuracy: float | None  # the share of test examples with all labels right
    labels: Mapping[str, RunScores]  # of each label, on true labels by its validation split


class MultiLabelRun:
    """A training on several labels at once, which is one two-class run per label.

    Methods take the same data as those of `Run`.
    """

    def __init__(
        self,
        path: str | Path,
        model: nn.Module | None = None,
        splits: Splits | None = None,
        backbone: BackboneLike | None = None,
    ) -> None:
        self.folder = RunFolder(path)
        self.record = read_model(self.folder.labels_record, LabelsRecord)
        self.labels = self.record.labels
        self.runs: dict[str, Run] = {}
        """The ordinary run of each label, whose classes are ``absent`` and ``present``."""
        for place, name in enumerate(self.labels):
            folder = self.folder.of_label(place, name)
            if not folder.result.exists():
                raise RunError(
                    f"{path} holds a run that is not finished: it has {place} of "
                    f"{len(self.labels)} labels; continue it with `resume`"
                )
            self.runs[name] = Run(folder.path, model, splits, backbone)

    def __repr__(self) -> str:
        return f"MultiLabelRun({str(self.path)!r}, labels={list(self.labels)})"

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def config(self) -> TrainingConfig:
        """The config of the training of each label."""
        return self._first.config

    @property
    def _first(self) -> Run:
        return next(iter(self.runs.values()))

    @cached_property
    def noise(self) -> pl.DataFrame:
        """The noise of each label: its rate, and how often the label is missed and added.

        The rate missed is the probability that an example with the label lacks it in the data, and
        the rate added that of the opposite mistake, each with a 95 % interval. They are null if the
        noise is unknown.
        """
        return noise_frame({name: run.noise for name, run in self.runs.items()})

    def predict(self, new: Any) -> NDArray[np.int64]:
        """Return which labels each new example has, 0 or 1, ``[n, labels]``."""
        return (self.predict_proba(new) > 0.5).astype(np.int64)

    def predict_proba(self, new: Any) -> NDArray[np.float32]:
        """Return the probability that an example truly has a label, ``[n, labels]``.

        The run of a label alone predicts the labels as annotators give them, if its models learned
        those. Here, such predictions are corrected by the rates of missed and of added labels.
        """
        return self._probabilities(self._new_examples(new, ReadingOptions()))

    def predictions(
        self, new: Any, *, coverage: float | None = None, id: str | None = None, **options: Any
    ) -> pl.DataFrame:
        """Return one row per new example: its name, 0 or 1 per label, and all probabilities.

        The arguments are those of `Run.predictions`, except for ``coverage``.
        """
        if coverage is not None:
            raise DataError(
                "`coverage` gives sets of classes, and this run predicts several labels: leave it "
                f"out, or use the run of one label, such as {self._first.path}"
            )
        column = id or (self.folder.read_origin().id if self.folder.data.exists() else None)
        found = self._new_examples(new, validated(ReadingOptions, options), column)
        first = found[self.labels[0]]
        if id is not None and first.ids is None:
            raise DataError(f"`id` must be a column of a table, and there is none called {id!r}")
        probs = self._probabilities(found)
        ids = {} if first.ids is None else {"id": [first.ids[int(row)] for row in first.names]}
        has = {name: (probs[:, k] > 0.5).astype(np.int64) for k, name in enumerate(self.labels)}
        shares = {f"p({name})": probs[:, k] for k, name in enumerate(self.labels)}
        return pl.DataFrame({"example": first.names, **ids, **has, **shares})

    def _new_examples(
        self, new: Any, options: ReadingOptions, id: str | None = None
    ) -> dict[str, NewExamples]:
        read = unlabeled(self._first.saved_model.card, new, options, id)
        return {name: run.new_examples(read, options, id) for name, run in self.runs.items()}

    def _probabilities(self, found: dict[str, NewExamples]) -> NDArray[np.float32]:
        columns = [
            _of_true_label(run, run.saved_model.probabilities(found[name].inputs))
            for name, run in self.runs.items()
        ]
        return np.stack(columns, axis=1)

    def push_to_hub(self, repo: str, **options: Any) -> NoReturn:
        """Refuse: each label's run goes to the hub on its own."""
        raise RunError(
            "a run with several labels cannot be pushed as one: push the run of each label, such "
            f"as `run.runs[{self.labels[0]!r}].push_to_hub(...)`"
        )

    def training_data(self, data: Any = None, options: ReadingOptions | None = None) -> Splits:
        """Return the data that the run was trained on, with all its labels."""
        splits = self._first.whole_data(data, options)
        if data is None and options is None:
            for run in self.runs.values():
                run.loaded = splits  # read once for all labels
        return splits

    def suspects(self, data: Any = None) -> pl.DataFrame:
        """Return the probability that each label of each training example is wrong.

        The first rows are the most suspect pairs of an example and a label. ``suspect`` says what
        is wrong then: the label is ``missing``, or it was ``added``.
        """
        splits = self.training_data(data)
        frames = [self._suspects_of(name, splits) for name in self.labels]
        return pl.concat(frames).sort("score", descending=True, maintain_order=True)

    def _suspects_of(self, name: str, splits: Splits) -> pl.DataFrame:
        part = self.runs[name].training_data(splits)
        found = self.runs[name].judgment(part).suspects
        place = splits.train.label_names.index(name)
        at, texts = splits.train.knows(place).nonzero().flatten().tolist(), part.texts()
        names, is_present = splits.train_names, part.train.labels.bool().tolist()
        columns = {
            "example": at if names is None else [names[position] for position in at],
            **({} if part.ids is None else {"id": part.ids}),
            "label": [name] * len(at),
            "suspect": ["added" if has else "missing" for has in is_present],
            "probability_wrong": found.probability.tolist(),
            "score": found.score.tolist(),
        }
        if texts is not None:
            columns["text"] = [shortened(text, LONGEST_TEXT) for text in texts]
        return pl.DataFrame(columns)

    def corrected_labels(self, data: Any = None, *, drop_unusable: bool = False) -> pl.DataFrame:
        """Return one row per training example with its labels, 0 or 1, corrected by decisions.

        Missing labels are null, and if ``drop_unusable``, also those of unusable examples.
        ``changed`` names the labels that a person has changed.
        """
        splits = self.training_data(data)
        count, changed = len(splits.train), [list[str]() for _ in range(len(splits.train))]
        columns = {}
        assert splits.train.label_matrix is not None
        for place, name in enumerate(splits.train.label_names):
            if name in self.record.left_out:  # too rare to be learned: as given
                given = pl.Series(splits.train.label_matrix[:, place].numpy())
                columns[name] = given.replace(-1, None)
        for name, run in self.runs.items():
            part = run.training_data(splits)
            made = run.decisions_about(part)
            at = splits.train.knows(splits.train.label_names.index(name)).nonzero().flatten()
            values = torch.full((count,), -1)
            values[at] = made.corrected()
            if drop_unusable:
                values[at[made.with_verdict("unusable")]] = -1
            for position in at[made.corrected() != part.train.labels].tolist():
                changed[position].append(name)
            columns[name] = pl.Series(values.numpy()).replace(-1, None)
        columns = {name: columns[name] for name in splits.train.label_names if name in columns}
        names = splits.train_names
        ids = {} if splits.ids is None else {"id": splits.ids}
        examples = range(count) if names is None else names
        texts = ["; ".join(each) for each in changed]
        return pl.DataFrame({"example": examples, **ids, **columns, "changed": texts})

    @property
    def scores(self) -> MultiLabelScores:
        """The scores on the test set, and those of each label on true labels."""
        return self.scores_of(self.training_data())

    def scores_of(self, splits: Splits) -> MultiLabelScores:
        """Return the scores by data that is already loaded."""
        labels = {name: run.scores for name, run in self.runs.items()}
        if splits.test is None:
            return MultiLabelScores(None, None, None, None, labels)
        assert splits.test.label_matrix is not None
        places = [splits.test.label_names.index(name) for name in self.labels]
        true = splits.test.label_matrix[:, places].numpy()
        probs = np.full(true.shape, np.nan)
        for k, run in enumerate(self.runs.values()):
            found = run.test_probabilities(run.training_data(splits))
            if found is not None:
                probs[true[:, k] >= 0, k] = _of_true_label(run, found)
        is_known = true >= 0
        columns = [(true[known, k], probs[known, k]) for k, known in enumerate(is_known.T)]
        mixed = [(each, share) for each, share in columns if 0 < each.sum() < len(each)]
        is_right, whole = (probs > 0.5) == (true == 1), is_known.all(1)
        return MultiLabelScores(
            macro_f1=_mean([f1_score(each, share > 0.5) for each, share in mixed]),
            micro_f1=float(f1_score(true[is_known], probs[is_known] > 0.5)),
            average_precision=_mean([average_precision_score(*each) for each in mixed]),
            subset_accuracy=float(is_right[whole].all(1).mean()) if whole.any() else None,
            labels=labels,
        )


def _of_true_label(run: Run, probs: Tensor) -> NDArray[np.float32]:
    present: NDArray[np.float32] = probs[:, 1].numpy()
    if run.recipe is None or run.noise.rate is None or run.noise.unknown_because is not None:
        return present
    return of_true_label(present, run.noise.transition, run.recipe.share_as_given)


def noise_frame(noises: Mapping[str, Noise]) -> pl.DataFrame:
    """Return the noise of labels, one row each, as `MultiLabelRun.noise` describes it."""
    rates = ("noise_rate", "missed", "added")
    columns = [f"{rate}{end}" for rate in rates for end in ("", "_low", "_high")]
    schema = {"label": pl.String, **dict.fromkeys(columns, pl.Float64)}
    rows = [(name, *_rates(noise)) for name, noise in noises.items()]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _rates(noise: Noise) -> list[float | None]:
    """Return the rate of all labels, of missed and of added ones, each with its interval."""
    if noise.rate is None or noise.unknown_because is not None:
        return [None] * 9
    found = [noise.rate, *(noise.interval or (None, None))]
    judged = noise.out_of_fold if isinstance(noise, EstimatedNoise) else None
    rates = (float(noise.transition[0, 1]), float(noise.transition[1, 0]))
    if judged is None:
        return [*found, rates[0], None, None, rates[1], None, None]
    for rate, (low, high) in zip(rates, _intervals(judged), strict=True):
        found += [rate, min(low, rate), max(high, rate)]
    return found


def _intervals(judged: OutOfFold) -> list[tuple[float, float]]:
    """Return the intervals of the rates of missed and of added labels."""
    estimate = estimate_label_noise(judged.probabilities[:, 1:], judged.labels[:, None])
    both = (estimate.missed_intervals[0], estimate.added_intervals[0])
    return [(float(low), float(high)) for low, high in both]


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def train_labels(
    splits: Splits,
    config: TrainingConfig,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    model: nn.Module | None = None,
    fabric: Devices | None = None,
    show: bool = True,
    backbone: Any = None,
    corrections: str | Path | None = None,
    origin: DataOrigin | None = None,
    loggers: Sequence[Logger] = (),
    **options: Any,
) -> MultiLabelRun:
    """Train on each label of a data set, and return the run; the arguments are as of `train_run`.

    An interrupted training continues at the label where it was. ``corrections`` is the folder of a
    run of the same labels, which holds the decisions about each.
    """
    fabric, folder = fabric or OneDevice(), RunFolder(out)
    loggers = (*fabric.loggers, *loggers)
    origin = origin or DataOrigin(data=None)
    record = learnable_labels(splits, may_leave_out=len(origin.targets) == 1)
    is_shown = show and fabric.is_global_zero
    decided = dict[str, Path]()
    if corrections is not None:
        decided = _decisions_of(RunFolder(corrections))
        lost = [name for name in decided if name not in record.labels]
        if lost and is_shown:
            print_note(
                f"decisions about {listed_names(lost, 5)} are not used: the data has no such label "
                "to learn"
            )
    with folder.owned(fabric), _finalized(loggers):
        first_rank_does(fabric, partial(_check_place_of_labels, folder))
        if overwrite:
            first_rank_does(fabric, folder.remove_run)
        folder.check(config, resume=resume)
        if folder.config.exists() and not folder.is_of_labels:
            raise RunError(
                f"{folder.path} holds a run with one label: choose another folder: `out`"
            )
        if folder.is_of_labels:
            known = read_model(folder.labels_record, LabelsRecord)
            if known.labels != record.labels:
                raise RunError(
                    f"{folder.path} holds a run of the labels {', '.join(known.labels)}, and these "
                    f"are {', '.join(record.labels)}: choose another folder: `out`"
                )

        def begin() -> None:
            folder.save_origin(origin)
            write_model(folder.labels_record, record)
            write_model(folder.config, config)

        first_rank_does(fabric, begin)
        if record.left_out and is_shown:
            print_note(_left_out_note(record))
        for place, name in enumerate(record.labels):
            if is_shown:
                print_note(f"label {place + 1} of {len(record.labels)}: {name}")
            train_run(
                splits.of_label(name),
                config,
                folder.of_label(place, name).path,
                resume=True,
                model=model,
                fabric=fabric,
                show=show,
                backbone=backbone,
                corrections=decided.get(name),
                origin=origin.model_copy(update={"label": name}),
                loggers=[LabelLogger(each, name, place * config.epochs) for each in loggers],
                **options,
            )
    return MultiLabelRun(out, model, splits, backbone)


def _check_place_of_labels(folder: RunFolder) -> None:
    """Refuse a folder whose ``labels`` or ``labels.json`` are a user's own."""
    for place in (folder.labels, folder.labels_record):
        if place.exists() and not folder.is_of_labels:
            raise FolderTakenError(f"{place} is not of a run: choose another folder: `out`")


@contextmanager
def _finalized(loggers: Sequence[Logger]) -> Iterator[None]:
    """Write what the loggers have buffered when all labels are trained, or training fails."""
    status = "failed"
    try:
        yield
        status = "success"
    finally:
        tell(loggers, "finalize", status)


def learnable_labels(splits: Splits, *, may_leave_out: bool) -> LabelsRecord:
    """Return the labels that enough examples have and lack; lists may have rare ones."""
    train = splits.train
    assert train.label_matrix is not None
    for name in _COLUMNS.intersection(train.label_names):
        raise DataError(
            f"a label of {splits.source} is called {name!r}, as is a column of predictions and of "
            "corrected labels: rename the label"
        )
    rare = unlearnable(train.label_matrix, train.label_names)
    kept = tuple(name for name in train.label_names if name not in rare)
    if rare and (not may_leave_out or not kept):
        name, why = next(iter(rare.items()))
        more = f", and so for {len(rare) - 1} others" if len(rare) > 1 else ""
        raise DataError(
            f"the label {name!r} of {splits.source} {why}{more}: it takes {FEWEST} examples with "
            f"and {FEWEST} without a label to learn it; leave it out of"
            " `targets`, or its column out of the matrix"
        )
    return LabelsRecord(labels=kept, left_out=rare)


def _left_out_note(record: LabelsRecord) -> str:
    listed = [f"{name!r} {why}" for name, why in record.left_out.items()]
    return (
        f"{len(listed)} labels are left out, because fewer than {FEWEST} examples have or lack "
        f"them: {listed_names(listed, 5, separator='; ')}"
    )


def _decisions_of(folder: RunFolder) -> dict[str, Path]:
    """Return the files of decisions in the runs of labels, by the names of the labels."""
    if not folder.is_of_labels:
        raise DataError(
            f"{folder.path} is no run with several labels: `corrections` is the folder of one, in "
            "which labels were reviewed"
        )
    known = read_model(folder.labels_record, LabelsRecord).labels
    files = {name: folder.of_label(place, name).decisions for place, name in enumerate(known)}
    return {name: path for name, path in files.items() if path.exists()}


def load_run(
    path: str | Path, model: nn.Module | None = None, backbone: BackboneLike | None = None
) -> Run | MultiLabelRun:
    """Return the run that `fit` left in a folder, or one from the Hugging Face hub.

    The path is a folder; or ``"hf:user/name"`` for a run that `Run.push_to_hub` uploaded. Pass the
    model if the network is your own, and the backbone if it is your own or was moved.
    """
    path = downloaded(str(path)) if str(path).startswith(HUB) else path
    is_of_labels = RunFolder(path).is_of_labels
    return (MultiLabelRun if is_of_labels else Run)(path, model, backbone=backbone)
