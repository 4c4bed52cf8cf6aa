"""The trackers of experiments that get the metrics of a training, besides the run's own file."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, TypeAlias, cast

from noisebound.errors import InvalidTypeError, needed_for

LoggerName: TypeAlias = Literal["csv", "tensorboard", "mlflow", "wandb", "trackio"]

PROJECT = "noisebound"
"""The project, or experiment, that runs belong to unless the tracker knows another one."""

_LONGEST = 500  # characters of an option that MLflow takes
_UNKNOWN_TO_MLFLOW = re.compile(r"[^/\w.\- ]")  # characters


class Logger(Protocol):
    """A logger with the interface of Lightning's and Fabric's."""

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Log the metrics of an epoch, counted from 1."""

    def finalize(self, status: str) -> None:
        """Write what is buffered: training has ended with ``"success"`` or ``"failed"``."""


def tell(
    loggers: Sequence[Logger], method: Literal["log_metrics", "finalize"], *arguments: Any
) -> None:
    """Call a method of each logger; one that fails gives a warning, and the training goes on."""
    for logger in loggers:
        try:
            getattr(logger, method)(*arguments)
        except Exception as error:
            from noisebound.checks import frames_to_caller  # torch is not imported for --help

            warnings.warn(
                f"the logger {_title(logger)} failed in {method}, and the training goes on: "
                f"{error!r}",
                stacklevel=frames_to_caller(),
            )


def _title(logger: Logger) -> str:
    return getattr(logger, "title", type(logger).__name__)


class LoggerFunction:
    """A function of ``(metrics, step)`` as a logger."""

    def __init__(self, function: Callable[[dict[str, float], int], object]) -> None:
        self._function = function
        self.title = getattr(function, "__name__", type(function).__name__)

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self._function(metrics, step)

    def finalize(self, status: str) -> None:
        """Do nothing: a function keeps nothing back."""


class LabelLogger:
    """The metrics of one of several labels, called ``label/metric``, in a logger of them all.

    Its epochs follow those ``before``, because some trackers take no earlier step.
    """

    def __init__(self, logger: Logger, label: str, before: int) -> None:
        self._logger, self._label, self._before = logger, label, before
        self.title = _title(logger)

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        named = {f"{self._label}/{name}": value for name, value in metrics.items()}
        self._logger.log_metrics(named, self._before + step)

    def finalize(self, status: str) -> None:
        """Do nothing: other labels may follow."""


class TrackedRun:
    """A run of MLflow, Weights & Biases or Trackio; it begins with the first metrics.

    A run that is active already gets the metrics, and stays open.
    """

    def __init__(self, package: str, name: str, settings: Mapping[str, Any]) -> None:
        with needed_for(f"`logger` {package}", package, package):
            self._tracker = import_module(package)
        self.title, self._is_mlflow = package, package == "mlflow"
        self._name, self._settings = name, dict(settings)
        self._is_begun = self._is_own = False

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        if not self._is_begun:
            self._begin()
        if self._is_mlflow:  # which refuses names such as "R&B/train_loss"
            names = (_UNKNOWN_TO_MLFLOW.sub("_", name).lstrip("/") for name in metrics)
            self._tracker.log_metrics(dict(zip(names, metrics.values(), strict=True)), step=step)
        else:
            self._tracker.log(metrics, step=step)

    def _begin(self) -> None:
        tracker, self._is_begun = self._tracker, True
        if self._is_mlflow:
            active = tracker.active_run()
        else:  # Trackio has a module of this name
            active = None if isinstance(tracker.run, ModuleType) else tracker.run
        self._is_own = active is None
        if self._is_own and self._is_mlflow:
            tracker.start_run(run_name=self._name)
            tracker.log_params(
                {name: str(each)[:_LONGEST] for name, each in self._settings.items()}
            )
        elif self._is_own:
            tracker.init(project=PROJECT, name=self._name, config=self._settings)

    def finalize(self, status: str) -> None:
        """End the run, if it began here."""
        if not self._is_own:
            return
        if self._is_mlflow:
            self._tracker.end_run("FINISHED" if status == "success" else "FAILED")
        else:
            self._tracker.finish()


def as_loggers(given: Any, out: Path, settings: Mapping[str, Any]) -> list[Logger]:
    """Return the loggers that the user named or gave, one or several.

    Args:
        given: a name, a logger of Lightning or Fabric, a function of ``(metrics, step)``, a list of
            these, or None
        out: the run's folder, in which ``logs`` gets what trackers write to files
        settings: the options that the run was given
    """
    several = given if isinstance(given, list | tuple) else [given]
    return [_as_logger(each, out, settings) for each in several if each is not None]


def _as_logger(given: Any, out: Path, settings: Mapping[str, Any]) -> Logger:
    if given in ("csv", "tensorboard"):
        from lightning_fabric.loggers.csv_logs import CSVLogger
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        if given == "csv":
            return cast(Logger, CSVLogger(out, name="logs"))
        with needed_for("`logger` tensorboard", "tensorboard", "tensorboard"):
            return cast(Logger, TensorBoardLogger(out, name="logs"))
    if given in ("mlflow", "wandb", "trackio"):
        return TrackedRun(given, out.resolve().name, settings)
    if hasattr(given, "log_metrics") and hasattr(given, "finalize"):
        return cast(Logger, given)
    if callable(given):
        return LoggerFunction(given)
    raise InvalidTypeError(
        "`logger` must be csv, tensorboard, mlflow, wandb or trackio, a logger of Lightning or "
        f"Fabric, or a function of (metrics, step); got {given!r}"
    )
