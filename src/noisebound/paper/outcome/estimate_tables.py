"""How well noise is estimated and borne: tables by world, half and kind of noise."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from noisebound.paper.protocol.estimate_settings import HALVES, WORLDS, EstimateSetting
from noisebound.paper.runner.accuracy_findings import METHOD_LABELS
from noisebound.paper.runner.estimate_cells import EstimateCell
from noisebound.report.table import EMPTY, Cell, Row, Table, Value, number_cell

Found: TypeAlias = tuple[EstimateCell, Mapping[str, Any]]
"""A cell and what was measured in it."""

_WAYS = {"one_set": "one set", "two_sets": "two sets", "trusted": "100 checked labels"}
_NARROW = 0.15
"""An interval of this width or less is called narrow, and its suspects must be calibrated."""


@dataclass(frozen=True)
class _Gap:
    """By how much ours is below the other in a setting."""

    name: str
    value: float


def rate_table(found: Sequence[Found]) -> Table:
    """Return coverage, width and mean absolute error of the estimates, by kind of noise."""
    rows = []
    for world in WORLDS:
        for half in HALVES:
            here = [
                (cell, each)
                for cell, each in found
                if cell.setting.world == world and cell.setting.half == half
            ]
            for noise in dict.fromkeys(cell.setting.noise for cell, _ in here):
                cells = [each for cell, each in here if cell.setting.noise == noise]
                rows.append(Row(f"{world}, {half}: {noise}", tuple(_rate_cells(cells))))
    rows += [
        Row(name, tuple(_rate_cells([each for _, each in cells])))
        for name, cells in _by_setting(found).items()
        if cells[0][0].setting.noise in ("human", "foretellable-0.2")
    ]
    ways = [f"{what}, {way}" for way in _WAYS.values() for what in ("holds", "width", "error")]
    return Table(
        name="rates",
        title="The noise rate: how often the 95 % interval holds it, and how far the estimate is",
        header=("settings", "cells", "true rate", *ways, "error, cleanlab"),
        rows=tuple(rows),
        records=tuple(_rate_record(cell, each) for cell, each in found),
        notes=(
            "holds: the share of cells whose 95 % interval holds the true rate; width: its mean "
            "width; error: the mean absolute error of the estimate; a cell is a setting and a seed",
            "the last rows are single settings whose noise the inputs foretell, or people made",
        ),
    )


def _rate_cells(cells: Sequence[Mapping[str, Any]]) -> Iterable[Cell]:
    yield number_cell(len(cells), "d")
    yield number_cell(_mean(each["noise_rate"] for each in cells), ".3f")
    for way in _WAYS:
        held = [each[way]["low"] <= each["noise_rate"] <= each[way]["high"] for each in cells]
        yield number_cell(_mean(held), ".0%")
        yield number_cell(_mean(each[way]["high"] - each[way]["low"] for each in cells), ".3f")
        yield number_cell(
            _mean(abs(each[way]["rate"] - each["noise_rate"]) for each in cells), ".3f"
        )
    yield number_cell(_mean(abs(each["cleanlab"] - each["noise_rate"]) for each in cells), ".3f")


def _rate_record(cell: EstimateCell, found: Mapping[str, Any]) -> dict[str, Value]:
    record = _about(cell) | {name: found[name] for name in ("noise_rate", "examples", "differing")}
    for way in _WAYS:
        record |= {f"{way}_{name}": found[way][name] for name in ("rate", "low", "high")}
    return record | {"cleanlab": found["cleanlab"], "warnings": " ".join(found["warnings"])}


def suspect_table(found: Sequence[Found]) -> Table:
    """Return how well wrong labels are found in every setting, beside cleanlab."""
    names = ("f1", "cleanlab_f1", "auroc", "self_confidence_auroc", "calibration_error", "width")
    rows, f1, order, narrow = [], [], [], []
    for name, cells in _by_setting(found).items():
        means = {key: _mean_known(each[key] for _, each in cells) for key in names}
        setting = cells[0][0].setting
        label = f"{setting.half}: {name}"
        f1.append(_gap(name, means["f1"], means["cleanlab_f1"]))
        order.append(_gap(name, means["auroc"], means["self_confidence_auroc"]))
        error, width = means["calibration_error"], means["width"]
        if width is not None and error is not None and width <= _NARROW:
            narrow.append(_Gap(name, error))
        rows.append(Row(label, tuple(number_cell(means[key], ".3f") for key in names)))
    return Table(
        name="suspects",
        title="Which labels are wrong: suspects by given probabilities, and cleanlab on the same",
        header=(
            "setting",
            "F1 at 0.5",
            "F1, cleanlab",
            "AUROC",
            "AUROC, self-confidence",
            "calibration error",
            "width of the interval",
        ),
        rows=tuple(rows),
        records=tuple(_about(cell) | dict(each) for cell, each in found),
        notes=(
            "means over seeds; the calibration error is the mean distance between the probability "
            "that a label is wrong and how often it is, in ten equal parts",
        ),
        summary=f"{_in_words('F1', f1)} {_in_words('AUROC', order)} {_calibrated(narrow)}",
    )


def accuracy_table(found: Sequence[Found]) -> Table:
    """Return the accuracy of every method in every setting, and its mean in each world."""
    methods = [name for name in METHOD_LABELS if any(cell.method == name for cell, _ in found)]
    means: dict[EstimateSetting, dict[str, float]] = {}
    for cells in _by_setting(found).values():
        by_method = {
            name: [100 * each["accuracy"] for cell, each in cells if cell.method == name]
            for name in methods
        }
        means[cells[0][0].setting] = {
            name: statistics.fmean(values) for name, values in by_method.items() if values
        }
    rows = [
        Row(f"{setting.half}: {setting.name}", _accuracy_cells(methods, of_setting))
        for setting, of_setting in means.items()
    ]
    for world in WORLDS:
        of_world = [
            each for setting, each in means.items() if setting.world == world and len(each) > 0
        ]
        complete = [each for each in of_world if len(each) == len(methods)]
        if complete:
            mean = {name: statistics.fmean(each[name] for each in complete) for name in methods}
            label = f"{world}: mean of {len(complete)} settings"
            rows.append(Row(label, _accuracy_cells(methods, mean), is_shaded=True))
    return Table(
        name="accuracy",
        title="Accuracy on clean test labels, in %",
        header=("setting", *(METHOD_LABELS[name] for name in methods)),
        rows=tuple(rows),
        records=tuple(_about(cell) | {"method": cell.method} | dict(each) for cell, each in found),
        notes=(
            "means over seeds; bold: best of its row; all networks are trained alike; logistic "
            "regression, boosting and the classifier that cleanlab trains are chosen by "
            "cross-validation on the noisy labels; boosting gets 64 principal components of pixels "
            "and embeddings",
        ),
        summary=_against_plain(means),
    )


def _accuracy_cells(methods: Sequence[str], means: Mapping[str, float]) -> tuple[Cell, ...]:
    best = round(max(means.values()), 1)
    return tuple(
        Cell(f"{means[name]:.1f}", "", means[name], is_best=round(means[name], 1) == best)
        if name in means
        else EMPTY
        for name in methods
    )


def _against_plain(means: Mapping[EstimateSetting, Mapping[str, float]]) -> str:
    gains = {
        setting: each["auto"] - each["plain"]
        for setting, each in means.items()
        if "auto" in each and "plain" in each
    }
    if not gains:
        return ""
    lost = [f"{setting.name} {gain:+.1f}" for setting, gain in gains.items() if gain < -1]
    words = f"auto gains {statistics.fmean(gains.values()):+.1f} points over plain training on "
    words += f"average; it loses more than 1 point in {len(lost)} of {len(gains)} settings"
    words += f" ({', '.join(lost)})." if lost else "."
    strong = [
        gain
        for setting, gain in gains.items()
        if setting.world == "tables" and setting.noise in ("symmetric-0.4", "pairwise-0.3")
    ]
    if strong:
        words += " On tables under symmetric 0.4 and pairwise 0.3 noise it gains "
        words += f"{statistics.fmean(strong):+.1f}."
    return words


def _by_setting(found: Sequence[Found]) -> dict[str, list[Found]]:
    groups: dict[str, list[Found]] = {}
    for cell, each in found:
        groups.setdefault(cell.setting.name, []).append((cell, each))
    return groups


def _about(cell: EstimateCell) -> dict[str, Value]:
    setting = cell.setting
    return {
        "world": setting.world,
        "half": setting.half,
        "dataset": setting.dataset,
        "noise": setting.noise,
        "seed": cell.seed,
    }


def _gap(name: str, ours: float | None, other: float | None) -> _Gap | None:
    return None if ours is None or other is None else _Gap(name, ours - other)


def _in_words(what: str, gaps: Sequence[_Gap | None]) -> str:
    other = "cleanlab's" if what == "F1" else "that of self-confidence"
    known = [gap for gap in gaps if gap is not None]
    below = sorted((gap for gap in known if gap.value < 0), key=lambda gap: gap.value)
    words = f"Our {what} is at least {other} in {len(known) - len(below)} of {len(known)} settings"
    listed = ", ".join(f"{gap.name} {gap.value:+.3f}" for gap in below[:10])
    return f"{words} (furthest below: {listed})." if below else f"{words}."


def _calibrated(narrow: Sequence[_Gap]) -> str:
    if not narrow:
        return ""
    off = [gap for gap in narrow if gap.value > 0.05]
    words = f"Where the interval is at most {_NARROW} wide ({len(narrow)} settings), the mean "
    words += f"calibration error is {statistics.fmean(gap.value for gap in narrow):.3f}, over 0.05 "
    words += f"in {len(off)}"
    listed = ", ".join(f"{gap.name} {gap.value:.3f}" for gap in off)
    return f"{words} ({listed})." if off else f"{words}."


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
