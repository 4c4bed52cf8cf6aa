"""``noisebound estimate``: estimate how noisy the labels of a data set are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from noisebound.cli.options import (
    BackboneName,
    Json,
    Reading,
    ReadingFlags,
    Source,
    Threads,
    arrange,
)
from noisebound.data.options import validated
from noisebound.errors import InvalidValueError
from noisebound.estimation.names import EstimationMethod
from noisebound.system.console import print_json, print_note, print_text, spell_arguments
from noisebound.training.config import TrainingConfig

if TYPE_CHECKING:
    from noisebound.data import Dataset
    from noisebound.estimation import Noise, NoiseEstimate

_CONFUSIONS = 8  # the most that are listed; heuristic
_RARE = 0.005  # rarer confusions would be rounded to 0 %
_SHOWN = ("model", "epochs", "learning_rate", "batch_size", "augment", "seed")


class _Training(TrainingConfig):
    """The training of the networks behind the estimate, without the options on the noise."""


arrange(
    _Training,
    {name: Parameter(parse=False) for name in TrainingConfig.model_fields if name not in _SHOWN}
    | {
        "model": Parameter(metavar="NAME"),
        "epochs": Parameter(
            help="The number of epochs that you would pass to `fit`. The networks behind the "
            "estimate train for about a quarter of them."
        ),
        "learning_rate": Parameter(metavar="RATE", show_choices=False),
    },
)


def estimate(
    data: Source,
    *,
    method: EstimationMethod = "agreement",
    probs: Path | None = None,
    config: Annotated[_Training | None, Parameter(name="*")] = None,
    reading: Reading = None,
    backbone: BackboneName = "auto",
    threads: Threads = None,
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Estimate how many labels are wrong, and which classes are confused.

    `noisebound fit` makes the same estimate before it trains. For the folder of a run, the estimate
    of that run is printed.

    Parameters
    ----------
    method
        The estimator. confident requires the package cleanlab.
    probs
        A .npy file with out-of-fold class probabilities, one row per training example, in the order
            of the data. By default, two networks are trained, each on one half of the examples.
    out
        A .json file to write the estimate to, including the transition matrix.
    """
    from noisebound.estimation import EstimatedNoise, NoiseEstimate, UnknownNoise
    from noisebound.estimation.transitions import require_cleanlab
    from noisebound.features import load_for_training
    from noisebound.runs import load_run
    from noisebound.runs.folder import RunFolder
    from noisebound.runs.result import estimate_record, noise_record
    from noisebound.search import estimate_label_noise
    from noisebound.search.problem import takes_pixels, with_head
    from noisebound.system.files import write_json
    from noisebound.system.memory import keep_freed_memory
    from noisebound.training.devices import use_threads

    use_threads(threads)
    keep_freed_memory()
    noise: Noise | NoiseEstimate
    if RunFolder(data).result.exists():
        if probs is not None or method != "agreement":
            raise InvalidValueError("a run has its own estimate: leave out --probs and --method")
        run = load_run(data)
        noise, class_names = run.result.noise, run.saved_model.card.class_names
    else:
        if method == "confident":
            require_cleanlab()
        given = config or _Training()
        training = validated(TrainingConfig, given.model_dump(exclude_unset=True))
        splits, _ = load_for_training(
            data,
            "none" if probs is not None and backbone == "auto" else backbone,
            (reading or ReadingFlags()).options,
            is_from_pixels=takes_pixels(training),
            log=print_note,
        )
        class_names = splits.train.class_names
        if probs is None:
            noise = estimate_label_noise(splits, with_head(training, splits), method=method)
        else:
            noise = _from_probabilities(probs, splits.train, method)
    if isinstance(noise, NoiseEstimate):
        found: NoiseEstimate | None = noise
        record, because = estimate_record(noise), noise.diagnostics.rejection
    else:
        record, because = noise_record(noise), noise.unknown_because
        found = noise.estimate if isinstance(noise, EstimatedNoise) else None
        found = noise.rejected if isinstance(noise, UnknownNoise) else found
    if out is not None:
        write_json(out, record)
    if json:
        print_json(record)
    else:
        _print(found, record, class_names, because)


def _from_probabilities(path: Path, train: "Dataset", method: EstimationMethod) -> "NoiseEstimate":
    from noisebound.data import DataError
    from noisebound.data.arrays import read_inputs
    from noisebound.estimation import estimate_noise

    given = read_inputs(path)
    if given.shape != (len(train), train.num_classes):
        raise DataError(
            f"{path} must have one row for each of {len(train)} training examples and one column "
            f"for each of {train.num_classes} classes, got shape {given.shape}"
        )
    return estimate_noise(given, train.labels, method)


def _print(
    found: "NoiseEstimate | None",
    record: dict[str, Any],
    class_names: tuple[str, ...],
    unknown_because: str | None,
) -> None:
    if unknown_because is not None:
        print_text(f"the noise is unknown: {spell_arguments(unknown_because)}", style="bold")
    elif found is not None:
        _print_estimate(found, record, class_names)
    elif record.get("rate") is not None:
        print_text(f"given noise rate: {record['rate']:.1%}", style="bold")
    else:
        print_text("the run did not need the noise and has not estimated it")
    if found is None:
        return
    print_text(
        f"to know the rate to ±3 points, check {found.labels_to_check:,} labels by hand, at random"
    )
    for warning in found.diagnostics.warnings:
        if warning != unknown_because:
            print_note(warning)


def _print_estimate(
    found: "NoiseEstimate", record: dict[str, Any], class_names: tuple[str, ...]
) -> None:
    about = f"by {found.diagnostics.method}, {found.diagnostics.examples:,} examples"
    print_text(f"estimated noise rate: {found.summary}; {about}", style="bold")
    print_text(found.words)
    if "floor" in record:
        floor = record["floor"]
        print_text(
            f"measured floor of the cross-entropy: {floor['level']:.3f} ± "
            f"{floor['standard_error']:.3f}"
        )
    confusions = _confusions(found, class_names)
    if confusions:
        print_text("most frequent confusions:")
        for line in confusions:
            print_text(f"  {line}")


def _confusions(found: "NoiseEstimate", class_names: tuple[str, ...]) -> list[str]:
    wrong = found.transition.clone().fill_diagonal_(0)
    flat = wrong.flatten().topk(min(_CONFUSIONS, wrong.numel()))
    lines = []
    for share, cell in zip(flat.values.tolist(), flat.indices.tolist(), strict=True):
        noisy, true = divmod(cell, len(wrong))
        if share >= _RARE:
            lines.append(f"{share:.1%} of {class_names[true]} are labeled {class_names[noisy]}")
    return lines
