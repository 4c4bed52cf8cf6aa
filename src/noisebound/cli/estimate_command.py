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
    from noisebound.estimation import NoiseEstimate

_CONFUSIONS = 8  # heuristic: a list of this length is still read
_RARE = 0.005  # rarer confusions are not listed: they would round to 0 %
_SHOWN = ("model", "epochs", "learning_rate", "batch_size", "augment", "seed")


class _Training(TrainingConfig):
    """How the networks train that the estimate is made with; the noise itself is not given."""


arrange(
    _Training,
    {name: Parameter(parse=False) for name in TrainingConfig.model_fields if name not in _SHOWN}
    | {
        "model": Parameter(metavar="NAME"),
        "epochs": Parameter(
            help="The number of epochs of the training that the estimate is for. Each network "
            "trains for about a quarter of them."
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

    The estimate is the one that noisebound fit makes before it trains.

    Parameters
    ----------
    method
        The estimator; confident needs the package cleanlab.
    probs
        A .npy file with the out-of-fold class probabilities of the training examples, in their
            order. Without it, two networks are trained, each on one half of the examples.
    out
        The .json file for the estimate with the whole transition matrix.
    """
    from noisebound.estimation import EstimatedNoise, UnknownNoise
    from noisebound.estimation.transitions import require_cleanlab
    from noisebound.features import load_for_training
    from noisebound.runs.folder import RunFolder
    from noisebound.runs.result import estimate_record, noise_record
    from noisebound.search import estimate_label_noise
    from noisebound.search.problem import takes_pixels, with_head
    from noisebound.system.memory import keep_freed_memory
    from noisebound.training.devices import use_threads

    use_threads(threads)
    keep_freed_memory()
    if RunFolder(data).result.exists():
        if probs is not None or method != "agreement":
            raise InvalidValueError("a run has its own estimate: leave out --probs and --method")
        _print_stored(data, out, as_json=json)
        return
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
    if probs is None:
        noise = estimate_label_noise(splits, with_head(training, splits), method=method)
        assert isinstance(noise, EstimatedNoise | UnknownNoise)
        found = noise.estimate if isinstance(noise, EstimatedNoise) else noise.rejected
        record, because = noise_record(noise), noise.unknown_because
    else:
        found = _from_probabilities(probs, splits.train, method)
        record, because = estimate_record(found), found.diagnostics.rejection
    _output(found, record, splits.train.class_names, because, out, as_json=json)


def _print_stored(run: str, out: Path | None, *, as_json: bool) -> None:
    """Print the noise of a run."""
    from noisebound.estimation import EstimatedNoise, UnknownNoise
    from noisebound.runs import load_run
    from noisebound.runs.result import noise_record

    trained = load_run(run)
    noise = trained.result.noise
    found = noise.estimate if isinstance(noise, EstimatedNoise) else None
    if isinstance(noise, UnknownNoise):
        found = noise.rejected
    names, because = trained.saved_model.card.class_names, noise.unknown_because
    _output(found, noise_record(noise), names, because, out, as_json=as_json)


def _output(
    found: "NoiseEstimate | None",
    record: dict[str, Any],
    class_names: tuple[str, ...],
    unknown_because: str | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    if out is not None:
        from noisebound.system.files import write_json

        write_json(out, record)
    if as_json:
        print_json(record)
    else:
        _print(found, record, class_names, unknown_because)


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
    elif "rate" in record:
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
