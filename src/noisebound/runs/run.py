"""A run: the folder of a training, and everything that can be done with it."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from noisebound.data import DataOrigin, Dataset, ReadingOptions, Splits
from noisebound.data.load import read
from noisebound.data.options import validated
from noisebound.data.rows import Rows
from noisebound.data.table_files import is_frame
from noisebound.errors import DataError, RunError
from noisebound.estimation import EstimatedNoise, Noise, Suspects
from noisebound.features import Backbone, BackboneLike
from noisebound.features.load import EmbeddedSplits, embedded, load_raw
from noisebound.review import Audit, Decision, DecisionFile, ReviewedData, ReviewQueue
from noisebound.review.decisions import is_decided, is_trusted
from noisebound.runs.folder import RunFolder
from noisebound.runs.judgment import (
    Judgment,
    check_same_data,
    infer_judgment,
    judgment_once,
    label_surprise,
    suspects_frame,
)
from noisebound.runs.keeper import read_metrics, read_out_of_fold
from noisebound.runs.predict import (
    Names,
    backbone_of,
    new_inputs,
    predictions_frame,
    read_ids,
    same_backbone,
)
from noisebound.runs.result import RunResult, read_result
from noisebound.runs.saved_model import SavedModel
from noisebound.search.choice import Choice
from noisebound.search.recipes import RECIPES
from noisebound.training.config import TrainingConfig
from noisebound.training.data import validation_mask
from noisebound.training.metrics import METRIC_NAMES, EpochMetrics, Evaluated
from noisebound.training.session import MEAN_PREDICTIONS

_FIRST_COLUMNS = {"epoch": pl.Int64}


class Run:
    """A training and its outcome, as `nb.fit` returns it and `nb.load_run` finds it again.

    Args:
        path: the run's folder
        model: the network, where it is one of the user's own
        splits: the data that the run was trained on, where it is at hand
        backbone: the backbone of the run, where it is one of the user's own, or has been moved
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
        self._network, self._splits, self._backbone = model, splits, backbone
        self._judged: tuple[Splits, Judgment] | None = None

    def __repr__(self) -> str:
        state = "not finished" if self.outcome is None else "finished"
        return f"Run({str(self.path)!r}, method={self.config.method!r}, {state})"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.resolve().name

    @cached_property
    def epochs(self) -> list[EpochMetrics]:
        """The metrics of each epoch."""
        return read_metrics(self.folder.metrics)

    @property
    def history(self) -> pl.DataFrame:
        """The metrics of each epoch, one row each; null if not evaluated."""
        schema = {name: _FIRST_COLUMNS.get(name, pl.Float64) for name in METRIC_NAMES}
        return pl.DataFrame([metrics.record() for metrics in self.epochs], schema=schema)

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
        """The encoder whose vectors the model takes, fine-tuned if the run did that."""
        if self.saved_model.card.backbone is None:
            raise RunError(f"{self.path} was trained without a backbone")
        return backbone_of(self.saved_model, self._backbone)

    @property
    def floor(self) -> float | None:
        """The floor of the training loss, as far as it is known."""
        if self.outcome is not None and self.outcome.floor is not None:
            return self.outcome.floor
        return self.epochs[-1].bound if self.epochs else None

    def final(self, name: Evaluated) -> float | None:
        """Return a measurement of the model, with averaged weights if there are such."""
        if self.outcome is not None:
            return self.outcome.final.best_known(name)
        return self.epochs[-1].best_known(name) if self.epochs else None

    def predict(self, new: Any) -> NDArray[Any]:
        """Return the likeliest class of each new example, in the type that labels had.

        Args:
            new: a path, the name of a data set, a data frame of polars or pandas, an array, or
                texts
        """
        _, inputs = self._inputs(new)
        return self.saved_model.classes(self.saved_model.probabilities(inputs).argmax(1))

    def predict_proba(self, new: Any) -> NDArray[np.float32]:
        """Return the class probabilities of each new example, ``[n, classes]``.

        Args:
            new: as in :meth:`predict`
        """
        _, inputs = self._inputs(new)
        probs: NDArray[np.float32] = self.saved_model.probabilities(inputs).numpy()
        return probs

    def predictions(
        self,
        new: Any,
        *,
        data_dir: str | Path | None = None,
        skip_bad: bool = False,
        encoding: str | None = None,
        id: str | None = None,
    ) -> pl.DataFrame:
        """Return one row per new example: its name, its class, and every class's probability.

        Args:
            new: as in :meth:`predict`
            data_dir: where published files are looked for first
            skip_bad: True to leave out images that cannot be read
            encoding: character encoding of a table or text file (default: UTF-8)
            id: the column of a table that names its rows, to copy into the answer; by default the
                column that `fit` was given
        """
        given = {"data_dir": data_dir, "skip_bad": skip_bad, "encoding": encoding}
        options = validated(ReadingOptions, given)
        names, inputs = self._inputs(new, options)
        column = id or (self.folder.read_origin().id if self.folder.data.exists() else None)
        ids = None if column is None else read_ids(new, column, options)
        if id is not None and ids is None:
            raise DataError(f"`id` must be a column of a table, and there is none called {id!r}")
        probs = self.saved_model.probabilities(inputs)
        return predictions_frame(names, self.saved_model, probs, ids)

    def _inputs(
        self, new: Any, options: ReadingOptions | None = None
    ) -> tuple[Names, Tensor | Rows]:
        if self.saved_model.card.backbone is None and self._backbone is not None:
            raise DataError("the model was trained without a backbone: leave `backbone` out")
        options = options or ReadingOptions()
        return new_inputs(self.saved_model, new, options, lambda: self.backbone)

    def suspects(self, data: Any = None) -> pl.DataFrame:
        """Return every training example with how likely its label is wrong, the likeliest first.

        Args:
            data: the run's training data; by default it is loaded again from its source
        """
        splits = self.training_data(data)
        return suspects_frame(self.find_suspects(splits), splits)

    def find_suspects(self, splits: Splits) -> Suspects:
        """Return how suspect each label of the run's training data is, by position.

        Labels that were checked before the run was trained are never suspects.
        """
        found = self.judgment(splits).suspects
        if not self.folder.corrections.exists():
            return found
        data = ReviewedData.of(splits, self.result.inputs)
        return found.without(is_trusted(DecisionFile(self.folder.corrections, data)))

    @property
    def decisions(self) -> DecisionFile:
        """The decisions about the labels, read from the run's folder."""
        return self.decisions_about(self.training_data())

    def decisions_about(self, splits: Splits) -> DecisionFile:
        """Return the decisions about training data that is already loaded."""
        return DecisionFile(self.folder.decisions, ReviewedData.of(splits, self.result.inputs))

    def decide(
        self, position: int, label: str | None, *, by: str | None = None, data: Any = None
    ) -> Decision:
        """Record the right label of a training example, and return the decision.

        Args:
            position: the example's position among the training examples
            label: the name of the right class, or None if the example is unusable
            by: who decided (default: the user of this computer)
            data: as in :meth:`suspects`
        """
        made = self.decisions_about(self.training_data(data))
        if label is None:
            return made.decide(position, "unusable", by=by)
        if label == made.data.given(position):
            return made.decide(position, "right", by=by)
        return made.decide(position, "wrong", label, by=by)

    def review_queue(
        self, data: Any = None, *, least: float = 0.0, decisions: DecisionFile | None = None
    ) -> ReviewQueue:
        """Return the labels that nobody has decided about, the one most worth a look first.

        Args:
            data: as in :meth:`suspects`
            least: the least probability of being wrong with which a label is a suspect
            decisions: the decisions (default: those in the run folder)
        """
        splits = self.training_data(data)
        surprise = label_surprise(self.label_probabilities(splits), splits.train.labels)
        if decisions is None:  # an empty file of decisions is false
            decisions = self.decisions_about(splits)
        return ReviewQueue(self.find_suspects(splits), decisions, least, surprise)

    def audit(self, data: Any = None, *, seed: int = 0) -> Audit:
        """Return a random sample of the labels to check, and the result so far.

        Args:
            data: as in :meth:`suspects`
            seed: another seed draws another sample
        """
        splits = self.training_data(data)
        return Audit(
            self.label_probabilities(splits),
            self.find_suspects(splits),
            self.decisions_about(splits),
            self.stated_rate,
            seed,
        )

    @property
    def stated_rate(self) -> tuple[float, tuple[float, float] | None] | None:
        """The noise rate and its interval, as every page and command states them."""
        return None if self.noise.rate is None else (self.noise.rate, self.noise.interval)

    def expected_wrong(self, suspects: Suspects) -> int:
        """Return how many training labels are probably wrong, consistent with the noise rate.

        Checked labels are right. If the noise rate is unknown, the suspects' probabilities are
        summed up.
        """
        checked = 0 if self.result.checks is None else self.result.checks.trusted
        expected = self.noise.expected_wrong(len(suspects.score) - checked)
        return round(suspects.probability.sum().item()) if expected is None else expected

    def label_probabilities(self, splits: Splits) -> Float64[Tensor, "n classes"]:
        """Return the class probabilities of each training example, out of fold if possible."""
        return self.judgment(splits).probabilities

    def judgment(self, splits: Splits) -> Judgment:
        """Return the predictions and suspects for training data that is already loaded.

        The run folder keeps them, so that the model infers once, whoever asks.
        """
        if self._judged is None or self._judged[0] is not splits:
            result, noise = self.result, self.noise  # errors if the run is not finished or damaged
            check_same_data(result, self.saved_model.card.class_names, splits)

            def infer() -> Judgment:
                inputs = self._model_splits(splits).train.rows
                config, saved = self.trained_config, self.saved_model
                return infer_judgment(config, noise, saved, splits.train, inputs)

            self._judged = splits, judgment_once(self.folder, splits, infer)
        return self._judged[1]

    def test_probabilities(self, splits: Splits) -> Float[Tensor, "n classes"] | None:
        """Return the class probabilities of each test example, if there are any."""
        test = self._model_splits(splits).test
        return None if test is None else self.saved_model.probabilities(test.rows)

    def accuracies(
        self, splits: Splits, held_out: Int64[Tensor, " m"] | None
    ) -> dict[str, float | None]:
        """Return the model's accuracy on the test set and on training examples that it did not see.

        Args:
            splits: the data that the run was trained on
            held_out: positions of training examples; left out of the answer if the model was
                trained on any of them
        """
        own = DecisionFile(self.folder.corrections, ReviewedData.of(splits, self.result.inputs))
        unseen = validation_mask(splits.train, self.config, is_decided(own))
        encoded, found = self._model_splits(splits), dict[str, float | None]()
        if held_out is not None and bool(unseen[held_out].all()):
            found["validation_top1"] = self._accuracy(encoded.train.subset(held_out))
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
            if not isinstance(splits, EmbeddedSplits):
                raise DataError(
                    "the run's encoder was fine-tuned: give the images or texts that it was "
                    "trained on"
                )
            splits = embedded(splits.raw, self.backbone, skip_bad=True)
        return splits.encoded_with(saved.card.encoder)

    def training_data(self, data: Any = None) -> Splits:
        """Return the data that the run was trained on.

        Args:
            data: the same data, where it was in memory only, or as it was loaded
        """
        if isinstance(data, Splits):
            return data
        if data is not None:
            return self._loaded(data, self._reading_options(data))
        if self._splits is None:
            self._splits = self.load_again(self.folder.read_origin())
        return self._splits

    def _reading_options(self, data: Any) -> ReadingOptions:
        """Return how the run's data was read, as far as that applies to the same data in memory."""
        if not self.folder.data.exists() or not (isinstance(data, str | Path) or is_frame(data)):
            return ReadingOptions()
        options = self.folder.read_origin().options
        return options.model_copy(update={"data_dir": None}) if is_frame(data) else options

    def load_again(self, origin: DataOrigin) -> Splits:
        """Return training data as the run's network takes it, embedded if there is a backbone."""
        if origin.data is None or origin.backbone is None:
            return origin.read()  # the model has its own vocabulary
        return self._loaded(origin.data, origin.options)

    def _loaded(self, data: Any, options: ReadingOptions) -> Splits:
        made_by = self.saved_model.card.backbone
        if made_by is None:
            return read(data, options)
        # `fit` may have left out empty texts without being asked to.
        skip_bad = options.skip_bad or made_by.modality == "text"
        return embedded(load_raw(data, options), same_backbone(made_by, self._backbone), skip_bad)


def load_run(
    path: str | Path, model: nn.Module | None = None, backbone: BackboneLike | None = None
) -> Run:
    """Return the run that `fit` left in a folder.

    Args:
        path: the folder
        model: the network, where it is one of the user's own
        backbone: the backbone, where it is one of the user's own, or has been moved
    """
    return Run(path, model, backbone=backbone)
