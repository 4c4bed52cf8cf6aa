"""Runs on the Hugging Face hub: the files that go there, their model card, and the way back."""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from noisebound.errors import DataError, RunError, needed_for
from noisebound.estimation import EstimatedNoise
from noisebound.learners.neighbors import FittedNeighbors
from noisebound.learners.stored import members_of
from noisebound.runs.folder import RunFolder
from noisebound.runs.saved_model import change_backbone

if TYPE_CHECKING:
    from noisebound.runs.run import Run

HUB = "hf:"
"""Begins the name of a run on the hub, as in ``"hf:user/flowers"`` or ``"hf:user/flowers@v1"``."""

_LIBRARY = "noisebound"
_CARD = "README.md"


def published(folder: RunFolder) -> list[Path]:
    """Return the files of a run that the hub gets, of those that there are.

    The others stay: where the data is, decisions with the names of people, reports with pictures
    or texts of examples, checkpoints, logs, and predictions for the training examples.
    """
    known = (
        *(folder.config, folder.card, folder.weights, folder.encoder, folder.estimators),
        *(folder.result, folder.metrics, folder.scores, folder.held_out),
    )
    return [path for path in known if path.exists()]


def push(run: "Run", repo: str, *, private: bool, with_examples: bool) -> str:
    """Upload a run with its model card in one commit, and return the address."""
    with needed_for("push_to_hub", "huggingface_hub", "hub"):
        from huggingface_hub import HfApi

    with TemporaryDirectory(prefix="noisebound-") as folder:
        write_published(run, Path(folder), repo, with_examples=with_examples)
        hub = HfApi(library_name=_LIBRARY)
        hub.create_repo(repo, private=private, exist_ok=True)
        message = f"Upload a run of noisebound {version(_LIBRARY)}"
        return str(hub.upload_folder(repo_id=repo, folder_path=folder, commit_message=message))


def write_published(run: "Run", out: Path, repo: str, *, with_examples: bool = False) -> None:
    """Write to a folder what the hub gets: the run's files, and the model card."""
    keeps = any(isinstance(each, FittedNeighbors) for each in members_of(run.model))
    if keeps and not with_examples:
        raise RunError(
            "the model has nearest neighbors, which hold the features of all training examples: "
            "to publish these too, pass `with_examples`; or train another `learner`"
        )
    with suppress(DataError, RunError, OSError):  # without the data, the scores stay unknown
        _ = run.scores
    for path in published(run.folder):
        shutil.copyfile(path, out / path.name)
    made_by = run.saved_model.card.backbone
    if made_by is not None and _public_name(made_by.name) != made_by.name:
        change_backbone(out, replace(made_by, name=_public_name(made_by.name)))
    result = out / run.folder.result.name
    record = _without_names(json.loads(result.read_text(encoding="utf-8")))
    result.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if run.folder.data.exists():  # how the data is read, without its place
        origin = run.folder.read_origin()
        places: dict[str, Any] = {"data": None, "data_dir": None, "test": None}
        places["backbone"] = origin.backbone and _public_name(origin.backbone)
        if len(origin.target) > 1:  # the names of annotators
            places["target"] = ()
        RunFolder(out).save_origin(origin.model_copy(update=places))
    (out / _CARD).write_text(model_card(run, repo), encoding="utf-8")


def _public_name(backbone: str) -> str:
    """Return the name of a backbone, and of a local folder or file its last part only."""
    kind, _, place = backbone.partition(":")
    path, mark, options = place.partition("?")
    is_local = Path(path).is_absolute() or Path(path).exists() or path.startswith(("~", "."))
    return f"{kind}:{Path(path).name}{mark}{options}" if is_local else backbone


def _without_names(record: Any) -> Any:
    """Return a record in which annotators have numbers in place of names."""
    if isinstance(record, list):
        return [_without_names(each) for each in record]
    if not isinstance(record, dict):
        return record
    found = {name: _without_names(value) for name, value in record.items()}
    if "are_named" in found:
        found["names"] = [f"annotator {place}" for place in range(1, 1 + len(found["names"]))]
    return found


def model_card(run: "Run", repo: str) -> str:
    """Return the README.md of a run: the data, its noise, the model and the evidence for it."""
    card = run.saved_model.card
    made_by, encoder = card.backbone, card.encoder
    has_texts = encoder is not None and bool(encoder.text_columns)
    kind = "image" if len(card.input_shape) == 3 else "text" if has_texts else "tabular"
    if made_by is not None and made_by.modality != "features":
        kind = made_by.modality
    about = f"library_name: {_LIBRARY}\npipeline_tag: {kind}-classification\n"
    name = "" if made_by is None else _public_name(made_by.name).removeprefix(HUB)
    if made_by is not None and made_by.name.startswith(HUB) and name.count("/") == 1:
        about += f"base_model: {name}\n"
    facts = "\n".join(f"| {title} | {text.replace('|', '/')} |" for title, text in _facts(run))
    return f"""---
{about}tags: [{_LIBRARY}, label-noise]
---

# {repo.rpartition("/")[2]}

A classifier of {len(card.class_names)} classes, trained on noisy labels by noisebound
{version(_LIBRARY)}.

| | |
|---|---|
{facts}

```python
import noisebound as nb

run = nb.load_run("{HUB}{repo}")
run.predict(new)  # the likeliest class of each example
```
"""


def _facts(run: "Run") -> Iterator[tuple[str, str]]:
    result, choice, noise = run.result, run.recipe, run.result.noise
    names = run.saved_model.card.class_names
    yield "classes", f"{', '.join(names[:20])}{', …' if len(names) > 20 else ''}"
    yield "training data", f"SHA-256 of the inputs: `{result.examples or result.inputs}`"
    if noise.unknown_because is not None:
        yield "wrong labels", f"unknown: {noise.unknown_because}"
    elif isinstance(noise, EstimatedNoise):
        yield "wrong labels, estimated", noise.estimate.summary
    elif noise.rate is not None:
        yield "wrong labels, as given", f"{noise.rate:.1%}"
    if choice is None:
        yield "model", run.config.loss_name.label
    else:
        yield "model", f"{choice.label}; {choice.reason}"
        if choice.baseline is not None:
            plain = f"{choice.baseline.label} predicts {choice.baseline.agreement:.1%}"
            yield "in comparison", f"{plain} of the held-out labels, which are noisy too"
    if result.chosen is not None:
        yield "bound of the loss", f"{result.chosen.level:.3f}: {result.chosen.reason}"
    if run.folder.scores.exists():
        yield "accuracy on true labels", run.scores.words
    if (tested := run.final("test_top1")) is not None:
        yield "accuracy on the test set", f"{tested:.1%}"
    with suppress(DataError, RunError):  # such as data that was in memory only
        found = run.audit().result() if run.folder.decisions.exists() else None
        if found is not None and found.answered:
            yield "audit of the labels by hand", found.words
    if result.checks is not None:
        yield "labels checked before training", result.checks.words


def downloaded(name: str) -> Path:
    """Return the folder of a run on the hub, which is downloaded once."""
    with needed_for(f"the run {name}", "huggingface_hub", "hub"):
        from huggingface_hub import snapshot_download

    repo, _, revision = name.removeprefix(HUB).partition("@")
    try:
        return Path(snapshot_download(repo, revision=revision or None))
    except Exception as error:  # from the hub, the connection or the disk
        message = str(error).strip().partition("\n")[0]
        raise RunError(
            f"the run {name} cannot be fetched ({type(error).__name__}: {message}): check its name "
            "and your access (`hf auth login`), or download it elsewhere and give its folder"
        ) from error
