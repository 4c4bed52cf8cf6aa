"""A run: the folder of a training, and everything that can be done with it."""

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from noisebound.data import Dataset, ReadingOptions, Splits
from noisebound.data.embeddings import holds_embeddings
from noisebound.data.frames import is_frame
from noisebound.data.load import Unlabeled, read
from noisebound.data.options import validated
from noisebound.errors import DataError, RunError
from noisebound.estimation import (
    EstimatedNoise,
    Noise,
    NoiseEstimate,
    Suspects,
    conformal_threshold,
    estimate_noise,
    prediction_sets,
)
from noisebound.features import Backbone, BackboneLike
from noisebound.features.examples import ExampleSplits, Modality, load_raw
from noisebound.features.load import embedded
from noisebound.review import Audit, Decision, DecisionFile, ReviewedData, ReviewQueue
from noisebound.review.decisions import TRUSTED
from noisebound.runs.corrections import with_second_labels
from noisebound.runs.export import export
from noisebound.runs.folder import RunFolder, read_model, write_model
from noisebound.runs.hub import push
from noisebound.runs.judgment import (
    Judgment,
    annotators_frame,
    check_same_data,
    judge,
    suspects_frame,
)
from noisebound.runs.keeper import read_metrics, read_out_of_fold
from noisebound.runs.predict import (
    NewExamples,
    new_examples,
    predictions_frame,
    same_backbone,
    unlabeled,
)
from noisebound.runs.result import RunResult, read_result
from noisebound.runs.saved_model import SavedModel
from noisebound.runs.scores import (
    NO_SPLIT,
    HeldOut,
    RunScores,
    asked_noise,
    test_scores,
    validation_scores,
)
from noisebound.search.choice import Choice
from noisebound.search.recipes import RECIPES
from noisebound.system.files import load_tensors, save_tensors
from noisebound.training.config import TrainingConfig
from noisebound.training.data import validation_mask
from noisebound.training.fine_tuning import TunedBackbone
from noisebound.training.metrics import EpochMetrics, Evaluated
from noisebound.training.session import MEAN_PREDICTIONS


class Run:
    """A training and its outcome, as `nb.fit` returns it and `nb.load_run` finds it again.

    Methods with the argument ``data`` load the training data again by default. Pass the same data
    where it was in memory only, or has moved.
    """

    def __init__(
        self,
        path: str | Path,
        model: nn.Module | None = None,
        splits: Splits | None = None,
        backbone: BackboneLike | None = None,
    ) -> None:
        self.folder = RunFolder(path)
        self.config: TrainingConfig = self.folder.read_config()
        self._network, self.loaded, self._backbone = model, splits, backbone
        self._part: tuple[Splits, Splits] | None = None
        self._judged: tuple[Splits, Judgment] | None = None

    def __repr__(self) -> str:
        state = "not finished" if self.outcome is None else "finished"
        return f"Run({str(self.path)!r}, method={self.config.method!r}, {state})"

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @cached_property
    def epochs(self) -> list[EpochMetrics]:
        return read_metrics(self.folder.metrics)

    @property
    def history(self) -> pl.DataFrame:
        """The metrics of each epoch, one row each; null if not evaluated."""
        schema = dict.fromkeys(EpochMetrics.model_fields, pl.Float64) | {"epoch": pl.Int64}
        return pl.DataFrame([metrics.model_dump() for metrics in self.epochs], schema=schema)

    @cached_property
    def outcome(self) -> RunResult | None:
        """The result of the run, once it is finished."""
        return read_result(self.folder)

    @property
    def result(self) -> RunResult:
        """The result of the run, or an error if it is not finished."""
        if self.outcome is None:
            raise RunError(
                f"{self.path} holds no finished run: continue it with `resume`, or train with "
                "noisebound fit"
            )
        return self.outcome

    @cached_property
    def noise(self) -> Noise:
        """The noise of the labels: given, estimated or unknown."""
        noise = self.result.noise
        if not isinstance(noise, EstimatedNoise):
            return noise
        name = MEAN_PREDICTIONS if self.folder.out_of_fold(MEAN_PREDICTIONS).exists() else "all"
        kept, path = read_out_of_fold(self.folder, name), self.folder.out_of_fold(name)
        if kept is None and path.exists():
            raise DataError(f"{path} is damaged: restore it, or train again in another folder")
        return replace(noise, out_of_fold=kept)

    @property
    def annotators(self) -> pl.DataFrame | None:
        """The error rate of each annotator, its 95 % interval, and agreement beyond chance.

        None without several labels per example. The labels of the validation split do not count.
        """
        found = self.result.of_annotators
        if found is None:
            return None
        return annotators_frame(found, self.saved_model.card.class_names)

    @property
    def recipe(self) -> Choice | None:
        """The recipe that trained and its evidence, unless a loss was named."""
        return self.result.choice

    @property
    def trained_config(self) -> TrainingConfig:
        """The config of the training itself, in which a recipe's loss stands."""
        choice = self.recipe
        if choice is None:
            return self.config
        # Other learners predict the observed label, as plain training does.
        recipe = choice.recipe if choice.network == choice.chosen else RECIPES["plain"]
        return recipe.config(self.config)

    @cached_property
    def saved_model(self) -> SavedModel:
        """The trained model with its preprocessing."""
        return SavedModel.load(self.path, self._network)

    @property
    def model(self) -> nn.Module:
        """The trained network, with averaged weights if they were kept, in evaluation mode."""
        return self.saved_model.model

    @cached_property
    def backbone(self) -> Backbone:
        """The encoder that embeds the model's inputs, fine-tuned if training did so."""
        made_by, weights = self.saved_model.card.backbone, self.saved_model.encoder_weights
        if made_by is None:
            raise RunError(f"{self.path} was trained without a backbone")
        found, modality = same_backbone(made_by, self._backbone), cast(Modality, made_by.modality)
        return found if weights is None else TunedBackbone(found, modality, weights)

    @property
    def floor(self) -> float | None:
        """The floor of the training loss, else its bound, if either is known."""
        if self.outcome is not None and self.outcome.floor is not None:
            return self.outcome.floor
        return self.epochs[-1].bound if self.epochs else None

    def final(self, name: Evaluated) -> float | None:
        """Return a metric of the model, of its averaged weights if they were evaluated."""
        if self.outcome is not None:
            return self.outcome.final.best_known(name)
        return self.epochs[-1].best_known(name) if self.epochs else None

    def predict(self, new: Any) -> NDArray[Any]:
        """Return the likeliest class of each new example, in the type that labels had.

        ``new`` is a path, the name of a data set, a table of polars, pandas or pyarrow, a
        ``Dataset`` of Hugging Face, an array, or texts.
        """
        return self.saved_model.classes(self.predict_proba(new).argmax(1))

    def predict_proba(self, new: Any) -> NDArray[np.float32]:
        """Return the class probabilities of each new example, ``[n, classes]``."""
        inputs = self.new_examples(new, ReadingOptions()).inputs
        probs: NDArray[np.float32] = self.saved_model.probabilities(inputs).numpy()
        return probs

    def predict_sets(self, new: Any, coverage: float = 0.9) -> list[tuple[Any, ...]]:
        """Return sets of classes, of which the share ``coverage`` contains the true class.

        The sets are calibrated on the noisy labels of the validation split, with a correction for
        the noise.
        """
        threshold = self._threshold(coverage)
        probs = torch.from_numpy(self.predict_proba(new))
        rows = prediction_sets(probs, threshold).numpy()
        return [tuple(self.saved_model.classes(np.flatnonzero(row)).tolist()) for row in rows]

    def _threshold(self, coverage: float) -> float:
        held_out = self._held_out()
        if not len(held_out.labels):
            raise RunError(f"prediction sets need a validation split, and {NO_SPLIT}")
        noise = asked_noise(self.noise)
        return conformal_threshold(held_out.probs, held_out.labels, noise, coverage)

    def predictions(
        self,
        new: Any,
        *,
        coverage: float | None = None,
        data_dir: str | Path | None = None,
        skip_bad: bool = False,
        encoding: str | None = None,
        id: str | None = None,
    ) -> pl.DataFrame:
        """Return one row per new example: its name, its class, and every class's probability.

        Args:
            new: as in :meth:`predict`
            coverage: adds the prediction sets of :meth:`predict_sets`, as the column ``set``
            data_dir: as in `ReadingOptions`, like ``skip_bad`` and ``encoding``
            skip_bad: see there
            encoding: see there
            id: a column to copy to the result (default: the `id` of `fit`)
        """
        given = {"data_dir": data_dir, "skip_bad": skip_bad, "encoding": encoding}
        column = id or (self.folder.read_origin().id if self.folder.data.exists() else None)
        found = self.new_examples(new, validated(ReadingOptions, given), column)
        if id is not None and found.ids is None:
            raise DataError(f"`id` must be a column of a table, and there is none called {id!r}")
        threshold = None if coverage is None else self._threshold(coverage)
        return predictions_frame(self.saved_model, found, threshold)

    def new_examples(self, new: Any, options: ReadingOptions, id: str | None = None) -> NewExamples:
        """Return new examples, which may have been read already, as the inputs of the model."""
        if self.saved_model.card.backbone is None and self._backbone is not None:
            raise DataError("the model was trained without a backbone: leave `backbone` out")
        if not isinstance(new, Unlabeled):
            new = unlabeled(self.saved_model.card, new, options, id)
        return new_examples(self.saved_model, new, options, lambda: self.backbone, id)

    def export(self, path: str | Path) -> Path:
        """Write the model to one file, which gives the class probabilities, and return its path.

        An ``.onnx`` file is for onnxruntime, and a ``.pt2`` file for `torch.export.load`. The
        inputs are those of the model: pixels, the features of a table as its encoder gives them, or
        what the pretrained encoder takes if it is a torch network.
        """
        export(self, Path(path))
        return Path(path)

    def push_to_hub(self, repo: str, *, private: bool = True, with_examples: bool = False) -> str:
        """Upload the model, its results and a model card to the Hugging Face hub.

        Returns its address. Neither the training data nor where it is, decisions about labels,
        reports and logs leave this machine.

        Args:
            repo: the name, such as ``"user/flowers"``
            private: False to let everyone read a new repository
            with_examples: True to upload nearest neighbors, which hold the features of all training
                examples
        """
        return push(self, repo, private=private, with_examples=with_examples)

    def suspects(self, data: Any = None) -> pl.DataFrame:
        """Return the probability that each training label is wrong, the most suspect first."""
        splits = self.training_data(data)
        return suspects_frame(self.judgment(splits).suspects, splits)

    @property
    def decisions(self) -> DecisionFile:
        """The decisions about the labels, read from the run's folder."""
        return self.decisions_about()

    def decisions_about(self, data: Any = None) -> DecisionFile:
        """Return the decisions about the labels."""
        reviewed = ReviewedData.of(self.training_data(data), self.result.inputs)
        return DecisionFile(self.folder.decisions, reviewed)

    def _corrections(self, splits: Splits) -> DecisionFile:
        """Return the decisions that the run was trained with."""
        return DecisionFile(self.folder.corrections, ReviewedData.of(splits, self.result.inputs))

    def _as_trained(self, splits: Splits) -> Splits:
        """Return the data with the second labels that the run was trained with."""
        return replace(splits, train=with_second_labels(splits.train, self._corrections(splits)))

    def decide(
        self, position: int, label: str | None, *, by: str | None = None, data: Any = None
    ) -> Decision:
        """Record the right label of the training example at a position, and return the decision.

        None is the label of an unusable example. By default, the user of this computer decides.
        """
        made = self.decisions_about(data)
        if label is None:
            return made.decide(position, "unusable", by=by)
        if label == made.data.given(position):
            return made.decide(position, "right", by=by)
        return made.decide(position, "wrong", label, by=by)

    def review_queue(self, data: Any = None) -> ReviewQueue:
        """Return the undecided labels, the one most worth checking first."""
        splits = self.training_data(data)
        judged, decisions = self.judgment(splits), self.decisions_about(splits)
        return ReviewQueue(judged.suspects, decisions, judged.probabilities)

    def second_opinion(self, data: Any = None) -> NoiseEstimate | None:
        """Return the noise by the labels that people gave without seeing the given ones, if any."""
        splits = self.training_data(data)
        train = with_second_labels(splits.train, self.decisions_about(splits))
        if train.votes is None or train.votes is splits.train.votes:
            return None
        probs = self.judgment(splits).probabilities
        return estimate_noise(probs, train.votes, annotators=train.annotators or None)

    def audit(self, data: Any = None, *, seed: int = 0) -> Audit:
        """Return the audit: a random sample of labels to check, and its result so far."""
        splits = self.training_data(data)
        judged, decisions = self.judgment(splits), self.decisions_about(splits)
        return Audit(judged.probabilities, judged.suspects, decisions, self.noise.rate, seed)

    def expected_wrong(self, suspects: Suspects) -> int:
        """Return the expected number of wrong training labels; checked labels are right.

        It follows from the noise rate, or if that is unknown, from the suspects' probabilities.
        """
        checked = 0 if self.result.checks is None else self.result.checks.trusted
        if self.noise.rate is None:
            return round(suspects.probability.sum().item())
        return round(self.noise.rate * (len(suspects.score) - checked))

    def judgment(self, splits: Splits) -> Judgment:
        """Return the predictions and suspects for training data that is already loaded.

        Labels that were checked before the run was trained are never suspects.
        """
        if self._judged is None or self._judged[0] is not splits:
            result, saved, noise = self.result, self.saved_model, self.noise
            check_same_data(result, saved.card.class_names, splits)
            inputs = self._model_splits(splits).train.rows
            # The given labels are judged, by the second labels too.
            train = replace(self._as_trained(splits).train, labels=splits.train.labels)
            found = judge(self.trained_config, noise, saved, train, inputs)
            trusted = self._corrections(splits).with_verdict(*TRUSTED)
            self._judged = splits, replace(found, suspects=found.suspects.without(trusted))
        return self._judged[1]

    @property
    def scores(self) -> RunScores:
        """The accuracy, F1 and recall on true labels, as intervals, by the validation split.

        They are kept in the run's folder, and computed again after labels were checked.
        """
        kept, decisions = self.folder.scores, self.folder.decisions
        is_current = not decisions.exists() or (
            kept.exists() and kept.stat().st_mtime_ns >= decisions.stat().st_mtime_ns
        )
        if kept.exists() and is_current:
            return read_model(kept, RunScores)
        found = self._scored(self.training_data())
        with suppress(OSError):  # the folder may be read-only
            write_model(kept, found)
        return found

    def _scored(self, splits: Splits) -> RunScores:
        audit = self.audit(splits) if self.folder.decisions.exists() else None
        found = validation_scores(self._held_out(splits), self.noise, audit)
        if (test := self._model_splits(splits).test) is None:
            return found
        probs = self.saved_model.probabilities(test.rows)
        return found.model_copy(update={"test": test_scores(probs, test.labels)})

    def _held_out(self, splits: Splits | None = None) -> HeldOut:
        """Return the predictions for the validation split, which are computed once and kept."""
        kept = self.folder.held_out
        if kept.exists():
            return HeldOut(**load_tensors(kept)[0])
        splits = splits or self.training_data()
        check_same_data(self.result, self.saved_model.card.class_names, splits)
        at = self._is_held_out(splits).nonzero().squeeze(1)
        examples = self._model_splits(self._as_trained(splits)).train.subset(at)
        found = HeldOut(self.saved_model.probabilities(examples.rows), examples.labels, at)
        with suppress(OSError):
            save_tensors(kept, vars(found), {})
        return found

    def _is_held_out(self, splits: Splits) -> Bool[Tensor, " n"]:
        """Return which training examples are in the validation split."""
        decided = self._corrections(splits).with_verdict(*TRUSTED, "unusable")
        together = self._as_trained(splits).with_duplicates_together().train
        return validation_mask(together, self.config, decided)

    def test_probabilities(self, splits: Splits) -> Float[Tensor, "n classes"] | None:
        """Return the class probabilities of each test example, if there are any."""
        test = self._model_splits(splits).test
        return None if test is None else self.saved_model.probabilities(test.rows)

    def accuracies(
        self, splits: Splits, held_out: Dataset | None, positions: Int64[Tensor, " m"] | None
    ) -> dict[str, float | None]:
        """Return the accuracy on the test set, and on the labels of ``held_out`` examples.

        The latter is left out if the model was trained on any of these. They are at ``positions``
        among the training examples.
        """
        unseen = self._is_held_out(splits)
        encoded, found = self._model_splits(splits), dict[str, float | None]()
        if held_out is not None and positions is not None and bool(unseen[positions].all()):
            examples = replace(encoded.train.subset(positions), labels=held_out.labels)
            found["validation_top1"] = self._accuracy(examples)
        if encoded.test is not None:
            found["test_top1"] = self._accuracy(encoded.test)
        return found

    def _accuracy(self, examples: Dataset) -> float:
        predicted = self.saved_model.probabilities(examples.rows).argmax(1)
        return (predicted == examples.labels).double().mean().item()

    def _model_splits(self, splits: Splits) -> Splits:
        """Return the data as the trained model takes it."""
        saved = self.saved_model
        if saved.encoder_weights is not None:
            if not isinstance(splits, ExampleSplits):
                raise DataError(
                    "the run's encoder was fine-tuned: give the images or texts that it was "
                    "trained on"
                )
            splits = embedded(splits, self.backbone, skip_bad=True)
        return splits.encoded_with(saved.card.encoder)

    @cached_property
    def label(self) -> str | None:
        """The label that was trained, if examples may have several at once."""
        return self.folder.read_origin().label if self.folder.data.exists() else None

    def training_data(self, data: Any = None, options: ReadingOptions | None = None) -> Splits:
        """Return the data that the run was trained on, embedded if there is a backbone.

        By default, ``data`` is read as `fit` read it. Data that is already loaded is returned.
        """
        splits = self.whole_data(data, options)
        if self.label is None or splits.train.label_matrix is None:
            return splits
        if self._part is None or self._part[0] is not splits:
            self._part = splits, splits.of_label(self.label)
        return self._part[1]

    def whole_data(self, data: Any = None, options: ReadingOptions | None = None) -> Splits:
        """Return the same as :meth:`training_data`, with all labels that examples may have."""
        if isinstance(data, Splits):
            return data
        if data is None and options is None and self.loaded is not None:
            return self.loaded
        is_again = data is None
        if data is None:
            origin = self.folder.read_origin()
            if origin.data is None:
                raise DataError(
                    "the data was in memory and is not kept: pass the same `data` again"
                )
            data, options = origin.data, options or origin.options
        is_path = isinstance(data, str | Path)
        has_names = is_path or is_frame(data) or self.label is not None
        if options is None and self.folder.data.exists() and has_names:
            options = self.folder.read_origin().options
            options = options if is_path else options.model_copy(update={"data_dir": None})
        options, made_by = options or ReadingOptions(), self.saved_model.card.backbone
        if made_by is None or (is_path and holds_embeddings(Path(data))):
            found = read(data, options)  # the model has its own vocabulary
        else:
            # `fit` may have left out empty texts without being asked to.
            skip_bad = options.skip_bad or made_by.modality == "text"
            backbone = same_backbone(made_by, self._backbone)
            found = embedded(load_raw(data, options), backbone, skip_bad)
        if is_again:
            self.loaded = found
        return found
