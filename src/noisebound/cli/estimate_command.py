"""``noisebound estimate``: estimate how noisy the labels of a data set are."""

import json as json_format
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators
from rich.markup import escape

from noisebound.cli.messages import with_flags
from noisebound.cli.options import BackboneName, Json, Reading, ReadingFlags, Threads
from noisebound.console import Console, print_note
from noisebound.data import DataError, DataOrigin, Dataset, Splits
from noisebound.data.arrays import read_inputs
from noisebound.estimation import (
    EstimatedNoise,
    EstimationMethod,
    Noise,
    NoiseEstimate,
    UnknownNoise,
    estimate_noise,
)
from noisebound.estimation.confident_learning import require_cleanlab
from noisebound.features import load_embedded, parse_backbone
from noisebound.files import write_text
from noisebound.models import ModelName
from noisebound.search import estimate_label_noise
from noisebound.search.fit import with_head
from noisebound.training import TrainingConfig
from noisebound.training.devices import use_threads

_CONFUSIONS = 8  # the lines of a list that is still read: a choice
_RARE = 0.005  # rarer confusions are not listed: they would round to 0 %
_FLAGS = {"epochs": "--epochs", "learning_rate": "--learning-rate"}


def estimate(
    data: str,
    *,
    method: EstimationMethod = "agreement",
    probs: Path | None = None,
    model: ModelName | Literal["auto"] = "auto",
    epochs: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 50,
    learning_rate: Annotated[float, Parameter(validator=validators.Number(gt=0))] = 1e-3,
    batch_size: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 300,
    augment: bool = False,
    seed: Annotated[int, Parameter(validator=validators.Number(gte=0))] = 0,
    reading: Reading = None,
    backbone: BackboneName = None,
    threads: Threads = None,
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Estimate how many labels are wrong, and which classes are taken for which.

    Parameters
    ----------
    data
        The name of a data set; or a folder of images or of .txt files, or a CSV, TSV, JSONL,
            Parquet, Excel, npz or npy file.
    method
        The estimator. The estimator confident needs cleanlab.
    probs
        A .npy file with the out-of-fold class probabilities of the training examples, in their
            order. Without it, two networks are trained on one half of the examples each.
    model
        The network. With auto it is small_cnn for images, mlp for features and mlp_head for
            embeddings.
    epochs
        The number of epochs of the training that the estimate is for. Each network trains for about
            a quarter of them.
    learning_rate
        Adam's learning rate.
    batch_size
        The number of examples per step.
    augment
        Crop and flip images at random.
    seed
        The seed, which decides the first weights, the halves and the order of the examples.
    out
        The .json file for the estimate with the whole transition matrix.
    """
    use_threads(threads)
    origin = (reading or ReadingFlags()).origin(data)
    if method == "confident":
        require_cleanlab()
    loaded = origin.read() if backbone is None else _embedded(origin, backbone)
    splits = loaded.encoded()
    for note in splits.notes[len(loaded.notes) :]:
        print_note(note)
    train = splits.train
    config = TrainingConfig(
        model=model,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        augment=augment,
        seed=seed,
    )
    config = with_head(config, splits)
    if probs is None:
        noise = estimate_label_noise(train, config, method=method)
        found, record, warnings = _estimate_of(noise), noise.record(), noise.warnings
        because = noise.unknown_because
    else:
        found = _from_probabilities(probs, train, method)
        record, warnings = found.record(), found.diagnostics.warnings
        because = found.diagnostics.rejection
    if out is not None:
        write_text(out, json_format.dumps(record, indent=2) + "\n")
    if json:
        print(json_format.dumps(record))  # noqa: T201
    else:
        _print(found, record, train.class_names, warnings, because)


def _embedded(origin: DataOrigin, backbone: str) -> Splits:
    console = Console(stderr=True, soft_wrap=True)
    return load_embedded(
        origin.data,
        parse_backbone(backbone, origin.image_size),
        origin.options,
        tell=lambda line: console.print(escape(line)),
    )


def _from_probabilities(path: Path, train: Dataset, method: EstimationMethod) -> NoiseEstimate:
    given = read_inputs(path)
    if given.shape != (len(train), train.num_classes):
        raise DataError(
            f"{path} must have one row for each of {len(train)} training examples and one column "
            f"for each of {train.num_classes} classes, got shape {given.shape}"
        )
    return estimate_noise(given, train.labels, method)


def _estimate_of(noise: Noise) -> NoiseEstimate:
    """Return the estimate, also if it was rejected."""
    if isinstance(noise, EstimatedNoise):
        return noise.estimate
    assert isinstance(noise, UnknownNoise)
    assert noise.rejected is not None
    return noise.rejected


def _print(
    found: NoiseEstimate,
    record: dict[str, Any],
    class_names: tuple[str, ...],
    warnings: tuple[str, ...],
    unknown_because: str | None,
) -> None:
    console = Console(soft_wrap=True, highlight=False)
    if unknown_because is None:
        _print_estimate(found, record, class_names, console)
    else:
        reason = escape(with_flags(unknown_because, _FLAGS))
        console.print(f"[bold]the noise is unknown[/]: {reason}")
    console.print(
        f"to know the rate to ±0.03, check {found.labels_to_check:,} labels by hand, at random"
    )
    for warning in warnings:
        if warning != unknown_because:
            console.print(f"[yellow]note:[/] {escape(with_flags(warning, _FLAGS))}")


def _print_estimate(
    found: NoiseEstimate, record: dict[str, Any], class_names: tuple[str, ...], console: Console
) -> None:
    low, high = found.interval
    console.print(
        f"[bold]noise rate {found.noise_rate:.3f}[/], with 95 % confidence between {low:.3f} and "
        f"{high:.3f} (by {found.diagnostics.method}, {found.diagnostics.examples:,} examples)"
    )
    console.print(escape(found.words))
    if "floor" in record:
        floor = record["floor"]
        console.print(
            f"measured floor of the cross-entropy: {floor['level']:.3f} ± "
            f"{floor['standard_error']:.3f}"
        )
    confusions = _confusions(found, class_names)
    if confusions:
        console.print("most frequent confusions:")
        for line in confusions:
            console.print(escape(f"  {line}"))


def _confusions(found: NoiseEstimate, class_names: tuple[str, ...]) -> list[str]:
    wrong = found.transition.clone().fill_diagonal_(0)
    flat = wrong.flatten().topk(min(_CONFUSIONS, wrong.numel()))
    lines = []
    for share, cell in zip(flat.values.tolist(), flat.indices.tolist(), strict=True):
        noisy, true = divmod(cell, len(wrong))
        if share >= _RARE:
            lines.append(f"{share:.1%} of {class_names[true]} are labeled {class_names[noisy]}")
    return lines
