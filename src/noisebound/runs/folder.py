"""A run folder: the names of its files, and the lock that gives it one owner."""

import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from noisebound.data import DataOrigin
from noisebound.errors import DataError, FolderTakenError, RunError
from noisebound.system.files import PARTS, write_text
from noisebound.training.config import TrainingConfig
from noisebound.training.devices import Devices, first_rank_does

Model = TypeVar("Model", bound=BaseModel)

_PATIENCE_SECONDS = 2.0
"""How long to wait for the lock. A killed owner may still be exiting, and a new one may not have
written its name yet."""

_LONGEST_NAME = 60
"""How much of a label's name the folder of its run has: file systems refuse long names."""


class RunFolder:
    """The files of a run, in a folder that need not exist yet."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

        # While a process trains here: the lock that dies with it, and who it is.
        self.owner_lock = self.path / ".owner.lock"
        self.owner = self.path / ".owner"

        # Written by a training, in this order.
        self.config = self.path / "config.json"
        self.cross_fit = self.path / "cross-fit"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.encoder = self.path / "encoder.safetensors"
        self.weights = self.path / "model.safetensors"
        self.estimators = self.path / "estimators.skops"
        self.card = self.path / "model.json"
        self.result = self.path / "result.json"

        # Written by a training on several labels at once: which they are, and a run for each.
        self.labels_record = self.path / "labels.json"
        self.labels = self.path / "labels"

        # Written when its scores are first asked for.
        self.held_out = self.path / "validation.safetensors"
        self.scores = self.path / "scores.json"

        # Written beside it for people: by `nb.fit`, the command line and the pages.
        self.data = self.path / "data.json"
        self.command = self.path / "command.txt"
        self.report = self.path / "report.html"

        # Written by a review of the labels.
        self.decisions = self.path / "decisions.jsonl"
        self.corrections = self.path / "corrections.jsonl"  # those that the run was trained with

        # Written by experiments, whose runs are folders named by the hash of their config.
        self.experiment = self.path / "run.json"
        self.environment = self.path / "environment.json"
        self.failure = self.path / "failure.json"
        self.running = self.path / "running"
        self.lock = self.path / ".lock"

    def out_of_fold(self, name: str = "all") -> Path:
        return self.cross_fit / f"{name}.safetensors"

    def of_label(self, place: int, name: str) -> "RunFolder":
        """Return the folder of the run of one of several labels, by its position and name."""
        short = re.sub(r"[^0-9A-Za-z]+", "-", name)[:_LONGEST_NAME]
        return RunFolder(self.labels / f"{place + 1:02}-{short}")

    @property
    def is_of_labels(self) -> bool:
        """True for a run on several labels; a user's own file may be called ``labels.json`` too."""
        with suppress(OSError, ValueError):
            record = json.loads(self.labels_record.read_bytes())
            return self.config.exists() and isinstance(record, dict) and "left_out" in record
        return False

    def check_place(self) -> None:
        """Refuse a path that is a file, or lies below one."""
        for place in (self.path, *self.path.parents):
            if place.exists():
                if not place.is_dir():
                    raise FolderTakenError(f"{place} is a file: `out` must be a folder")
                return

    @contextmanager
    def owned(self, devices: Devices) -> Iterator[None]:
        """Own the folder within the context, by a lock that dies with the process.

        Raises:
            FolderTakenError: another process owns it; the message says which
        """
        lock = FileLock(self.owner_lock, timeout=_PATIENCE_SECONDS)
        first_rank_does(devices, partial(self._take, lock))
        try:
            yield
        finally:
            if devices.is_global_zero:
                self.owner.unlink(missing_ok=True)
                lock.release()

    def _take(self, lock: FileLock) -> None:
        self.check_place()
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout as error:
            owner = "another process"
            with suppress(OSError):
                owner = self.owner.read_text(encoding="utf-8")
            raise FolderTakenError(
                f"{self.path} is in use: {owner} is training there; wait until it ends, stop it, "
                "or choose another folder: `out`"
            ) from error
        try:
            now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
            write_text(self.owner, f"process {os.getpid()} on {socket.gethostname()}, since {now},")
            for folder in (self.path, self.cross_fit, self.checkpoints):
                for part in folder.glob(PARTS):  # of killed processes
                    part.unlink(missing_ok=True)
        except BaseException:
            lock.release()
            raise

    def check_replaceable(self) -> None:
        """Refuse to replace files that are not a run's, or decisions that people made."""
        if not self.config.exists():
            return
        self.read_config()
        if self.decisions.exists():
            raise FolderTakenError(
                f"{self.path} holds decisions about labels, which `overwrite` would lose: move "
                f"{self.decisions.name} elsewhere, or choose another folder: `out`"
            )
        for path in self.labels.glob("*") if self.is_of_labels else ():
            RunFolder(path).check_replaceable()

    def remove_run(self) -> None:
        """Remove the files of a run, and nothing else that is in the folder."""
        self.check_replaceable()
        if not self.config.exists():
            return
        kept = [self.path, self.owner_lock, self.owner]
        if not self.is_of_labels:
            kept += [self.labels, self.labels_record]
        for path in reversed(vars(self).values()):  # the config last: without it there is no run
            if path.is_dir() and path not in kept:
                shutil.rmtree(path)
            elif path not in kept:
                path.unlink(missing_ok=True)

    def check(self, config: TrainingConfig, *, resume: bool) -> None:
        """Refuse a folder that another run has taken, or any run if this is not to resume it."""
        if not self.config.exists():
            return
        if not resume:
            raise FolderTakenError(
                f"{self.path} holds a run already: continue it with `resume`, replace it with "
                "`overwrite`, or choose another folder: `out`"
            )
        known, asked = (each.model_dump(mode="json") for each in (self.read_config(), config))
        changed = [name for name in asked if asked[name] != known[name]]
        if changed:
            listed = ", ".join(f"{name} {known[name]!r} → {asked[name]!r}" for name in changed)
            raise RunError(
                f"{self.path} holds a run with another config ({listed}): resume it with the same, "
                "or choose another folder: `out`"
            )

    def read_config(self) -> TrainingConfig:
        if not self.config.exists():
            raise RunError(f"{self.path} holds no run: there is no {self.config.name}")
        return read_model(self.config, TrainingConfig)

    def save_origin(self, origin: DataOrigin) -> None:
        """Write where the data came from; the record means the same from any folder."""
        write_model(self.data, origin.resolved())

    def read_origin(self) -> DataOrigin:
        if not self.data.exists():
            raise RunError(f"{self.path} does not say what data it was trained on: name the `data`")
        return read_model(self.data, DataOrigin)

    def save_command(self, command: str) -> None:
        write_text(self.command, f"{command}\n")

    def read_command(self) -> str | None:
        with suppress(FileNotFoundError):
            return self.command.read_text(encoding="utf-8").strip()
        return None


def write_model(path: Path, model: BaseModel) -> None:
    """Write a pydantic model as indented JSON, whole or not at all."""
    write_text(path, model.model_dump_json(indent=2) + "\n")


def read_model(path: Path, model: type[Model]) -> Model:
    """Return a pydantic model that was written as JSON, or an error that names the file."""
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f" {part}:" for part in first["loc"])
        raise DataError(
            f"{path} is damaged, or of another version of noisebound:{where} {first['msg']}; "
            "restore it, or remove its folder"
        ) from error
