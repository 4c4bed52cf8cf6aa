"""Compare `auto` and the bounded losses with other methods, on the columns of noisebound.paper.

    python benchmarks/contests.py beyond --out beyond           # nothing is given
    python benchmarks/contests.py backward --out beyond         # the backward correction
    python benchmarks/contests.py losses --backbone onnx:FILE --out losses
    python benchmarks/contests.py bounds --backbone onnx:FILE --out features
    python benchmarks/contests.py pretrained --backbone onnx:FILE hf:FOLDER --out pretrained

Every contest writes one CSV file with a line per column, method and seed, and prints the accuracy
on clean test labels in percent, of the averaged weights. `beyond` also prints the estimated noise
rates and how well wrong labels are found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import torch
from lightning_fabric import Fabric
from torch import Tensor

import noisebound as nb
from cells import argument_parser, key_of, measure, sources_of, table, write
from classical import LEARNERS
from noisebound.catalog import SPECS, LossName
from noisebound.corruption.corrupt import realized_transition
from noisebound.data import Dataset, Splits
from noisebound.estimation import ESTIMATION_METHODS, EstimatedNoise
from noisebound.paper.presets import Preset, find_preset
from noisebound.paper.protocol import BOUNDED, COLUMNS, Column, label_of
from noisebound.paper.run import DataSources, Plan, noisy_splits
from noisebound.runs import Run, train_run
from noisebound.training import TrainingConfig
from noisebound.training.data import split_validation
from settings import auroc, calibration_error

NOTHING, COLUMN_RATE, RATE, MATRIX = "nothing", "noise rate", "true rate", "true transition"


@dataclass(frozen=True)
class Contender:
    """A row of a contest.

    Args:
        label: the name in the table
        loss: the loss
        given: the knowledge of the noise: nothing, the column's rate, the realized rate or matrix
        recipe: ``"auto"`` to let trials choose, in place of the loss
        learner: ``"network"``, or a name in `classical.LEARNERS`
        variant: ``"early"`` for the best epoch on validation, ``"pruned"`` for training without
            cleanlab's label issues, ``"right"`` for training on the right labels alone
    """

    label: str
    loss: str = "ce"
    given: str = NOTHING
    recipe: str | None = None
    learner: str = "network"
    variant: str = ""

    @property
    def is_simple(self) -> bool:
        """True if users could train like this without noisebound, knowing nothing."""
        return self.recipe is None and self.given == NOTHING and self.variant != "right"


AUTO = Contender("auto: a recipe by trials, nothing given", recipe="auto")
ROBUST = {name: Contender(label_of(name), name) for name in ("elr", "nce-mae", "gce", "mae")}
BEYOND = {
    "auto": AUTO,
    "fce+auto": Contender("FCE+B, estimated", "fce+b"),
    "fce+matrix": Contender("FCE+B, true transition", "fce+b", MATRIX),
    "ce+rate": Contender("CE+B, true rate", "ce+b", RATE),
    "sce+rate": Contender("SCE+B, true rate", "sce+b", RATE),
    "plain": Contender("CE"),
    "early": Contender("CE, stopped early", variant="early"),
    "prune": Contender("CE, pruned by cleanlab", variant="pruned"),
    **ROBUST,
}
BACKWARD = {
    "fce-matrix": Contender("FCE, true transition", "fce", MATRIX),
    "fce+matrix": BEYOND["fce+matrix"],
    "backward-matrix": Contender("backward, true transition", "backward", MATRIX),
    "backward+matrix": Contender("backward+B, true transition", "backward+b", MATRIX),
    "backward-auto": Contender("backward, estimated", "backward"),
    "backward+auto": Contender("backward+B, estimated", "backward+b"),
    "fce+auto": BEYOND["fce+auto"],
}
LOSSES = {
    str(name): Contender(name.label, str(name), COLUMN_RATE)
    for spec in SPECS.values()
    if spec.has_floor
    for name in (LossName(spec), LossName(spec).bounded)
}
BOUNDS = {"auto": AUTO} | {
    name: contender
    for loss in BOUNDED
    for name, contender in (
        (loss, LOSSES[loss]),
        (f"{loss}+b", LOSSES[f"{loss}+b"]),
        (f"{loss}+auto", Contender(f"{label_of(loss)}+B, measured", f"{loss}+b")),
    )
}
PRETRAINED = {
    "auto": AUTO,
    "plain": BEYOND["plain"],
    "early": BEYOND["early"],
    "logistic": Contender("logistic regression", learner="logistic"),
    "neighbors": Contender("nearest neighbors", learner="neighbors"),
    "cleanlab": Contender("cleanlab's CleanLearning", learner="cleanlab"),
    **ROBUST,
    **{f"{n}+rate": Contender(f"{label_of(n)}+B, true rate", f"{n}+b", RATE) for n in BOUNDED},
    "ceiling": Contender("ceiling: CE on right labels alone", variant="right"),
}
CONTESTS = {
    "beyond": BEYOND,
    "backward": BACKWARD,
    "losses": LOSSES,
    "bounds": BOUNDS,
    "pretrained": PRETRAINED,
}
_KINDS = ("clean", "0.2", "0.4", "0.6", "pairwise-0.2", "pairwise-0.4", "classifier-0.6")
_EMBEDDED = ("cifar10-0.4", "cifar100-0.4", "asym-cifar100-0.4")
SETTINGS = {
    "beyond": (
        *(f"{dataset}-{kind}" for dataset in ("fashion-mnist", "mnist") for kind in _KINDS),
        "nonuniform-emnist-0.6",
        "cifar10n-worst",
    ),
    "backward": ("fashion-mnist-0.4", "fashion-mnist-pairwise-0.4", "mnist-0.4"),
    "losses": _EMBEDDED,
    "bounds": _EMBEDDED,
    "pretrained": (
        *(f"cifar10n-{which}" for which in ("aggregate", "random1", "worst")),
        *("cifar10-0.4", "cifar10-pairwise-0.4", "cifar100-0.4", "asym-cifar100-0.4"),
        *("cifar100-clean", "noisy-ag-news"),
    ),
}
_QUICK = ("epochs=2", "train_examples=200", "batch_size=50", "model=small_mlp", "measure_every=2")
_QUICK_METHODS = {
    "beyond": ("fce+auto", "early", "prune"),
    "backward": ("backward+matrix",),
    "losses": ("ce", "ce+b"),
    "bounds": ("ce", "ce+b", "ce+auto"),
    "pretrained": ("auto", "neighbors", "cleanlab", "ce+rate", "ceiling"),
}


def measured(
    cell: Mapping[str, Any], contest: str, preset: Preset, sources: DataSources, out: Path
) -> dict[str, Any]:
    """Train a contender on a column, and return its accuracies and its findings on labels."""
    column, contender = COLUMNS[cell["column"]], CONTESTS[contest][cell["method"]]
    (run,) = Plan(preset, (cell["seed"],), sources).runs(column, contender.loss)
    splits = noisy_splits(run, sources)
    config = config_of(contender, column, run.training, splits.train)
    is_wrong = _is_wrong(splits.train)
    if contender.learner != "network":
        return {"averaged": _accuracy_of_learner(contender.learner, splits, config)}
    found: dict[str, Any] = {"noise_rate": is_wrong.double().mean().item()}
    given = splits
    if contender.variant == "right":
        given = replace(splits, train=splits.train.subset(~is_wrong))
    if contender.variant == "pruned":
        pruned, findings = prune(splits, config, out / "folds" / key_of(cell))
        given, found = replace(splits, train=pruned), found | findings
    folder = out / "runs" / f"{contest}-{key_of(cell)}"
    fabric = Fabric(devices=1, precision=run.precision)
    done = train_run(given, config, folder, resume=True, show=False, fabric=fabric)
    result = done.result
    is_early = contender.variant == "early" and result.best_on_validation is not None
    epoch = result.best_on_validation if is_early else result.final
    assert epoch is not None
    found |= {
        "last": epoch.evaluated("test_top1", averaged=False),
        "averaged": epoch.best_known("test_top1"),
        "wrong_labels_reproduced": epoch.evaluated("memorized", averaged=True),
        "recipe": None if done.recipe is None else done.recipe.chosen.name,
    }
    return found | (label_findings(done, splits) if cell["method"] == "fce+auto" else {})


def config_of(
    contender: Contender, column: Column, training: TrainingConfig, train: Dataset
) -> TrainingConfig:
    """Return the config of a contender, with the knowledge of the noise that it is given."""
    changes: dict[str, Any] = {"recipe": contender.recipe}
    if contender.recipe is not None:
        changes["loss"] = None  # a recipe brings its own
    if contender.variant == "early" or (contender.loss == "ce" and contender.is_simple):
        changes["measure_every"] = 1
    if contender.given != COLUMN_RATE:
        # The paper's c belongs to a noise-bound that follows from a rate.
        classes = column.bound_classes if contender.given == RATE else None
        rate = {RATE: _is_wrong(train).double().mean().item(), NOTHING: "auto", MATRIX: None}
        changes |= {"noise_rate": rate[contender.given], "bound_classes": classes}
    if contender.given == MATRIX:
        true = train.labels if train.true_labels is None else train.true_labels
        matrix = realized_transition(train.labels, true, train.num_classes)
        changes["transition"] = tuple(map(tuple, matrix.tolist()))
    return training.model_copy(update=changes)


def _is_wrong(train: Dataset) -> Tensor:
    return train.labels != (train.labels if train.true_labels is None else train.true_labels)


def _accuracy_of_learner(learner: str, splits: Splits, config: TrainingConfig) -> float:
    data, _ = split_validation(splits, config)  # the examples that networks train on
    assert data.test is not None
    x, test = (data.normalization(each.dense_inputs).flatten(1) for each in (data.train, data.test))
    predicted = LEARNERS[learner](x, data.train.labels, test, config.seed)
    return (predicted == data.test.labels).double().mean().item()


def prune(splits: Splits, config: TrainingConfig, folder: Path) -> tuple[Dataset, dict[str, Any]]:
    """Return the examples whose labels cleanlab finds right in five folds, and its findings."""
    from cleanlab.count import compute_confident_joint, estimate_latent
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    train, generator = splits.train, torch.Generator().manual_seed(config.seed)
    probs = torch.zeros(len(train), train.num_classes)
    for number, fold in enumerate(torch.randperm(len(train), generator=generator).tensor_split(5)):
        rest = torch.ones(len(train), dtype=torch.bool).index_fill_(0, fold, False)
        part = replace(splits, train=train.subset(rest))
        run = train_run(part, config, folder / str(number), resume=True, show=False)
        probs[fold] = run.saved_model.probabilities(train.subset(fold).rows)
    labels, numbers = train.labels.numpy(), probs.numpy()
    issues = torch.from_numpy(find_label_issues(labels, numbers, n_jobs=1))
    prior, matrix, _ = estimate_latent(compute_confident_joint(labels, numbers), labels)
    score = -torch.from_numpy(get_label_quality_scores(labels, numbers))
    findings = {
        "estimate five folds": float(1 - (prior * matrix.diagonal()).sum()),
        "auroc": auroc(score, _is_wrong(train)),
    }
    return train.subset(~issues), findings


def label_findings(run: Run, splits: Splits) -> dict[str, Any]:
    """Return the noise rate by every estimator, and how well a run finds wrong labels."""
    is_wrong, suspects = _is_wrong(splits.train), run.judgment(splits).suspects
    found: dict[str, Any] = {
        "auroc": auroc(suspects.score, is_wrong),
        "calibration_error": calibration_error(suspects.probability, is_wrong),
    }
    noise = run.noise
    if isinstance(noise, EstimatedNoise) and noise.out_of_fold is not None:
        probs, labels = noise.out_of_fold.probabilities, noise.out_of_fold.labels
        for method in ESTIMATION_METHODS:
            estimate = nb.estimate_noise(probs, labels, method)
            found[f"estimate {method}"] = estimate.noise_rate
            if method == ESTIMATION_METHODS[0]:
                found["low"], found["high"] = estimate.interval
    return found


def report(name: str, frame: pl.DataFrame) -> str:
    """Return the tables of a contest."""
    labels = {key: contender.label for key, contender in CONTESTS[name].items()}
    text = table(frame, "method", "column", "averaged", labels=labels, factor=100, form=".1f")
    if name == "beyond":
        for value in ("noise_rate", *(n for n in frame.columns if n.startswith("estimate "))):
            text += f"\n{value}\n{table(frame, 'method', 'column', value, labels=labels)}"
        for value in ("auroc", "calibration_error"):
            if value in frame.columns:
                text += f"\n{value}\n{table(frame, 'method', 'column', value, labels=labels)}"
    if name in ("losses", "bounds"):
        text += "\n" + pairs(name, frame)
    return text


def _means(frame: pl.DataFrame) -> dict[tuple[str, str], float]:
    means = frame.group_by("column", "method").agg(pl.col("averaged").mean() * 100)
    return {(each["column"], each["method"]): each["averaged"] for each in means.to_dicts()}


def pairs(name: str, frame: pl.DataFrame) -> str:
    """Return in how many pairs a bound helps: that of the given rate, and the measured one."""
    means, sentences = _means(frame), []
    for given in (COLUMN_RATE, NOTHING):
        gains = []
        for (column, method), mean in means.items():
            contender = CONTESTS[name][method]
            loss = LossName.parse(contender.loss)
            plain = means.get((column, str(loss.plain)))
            is_pair = loss.is_bounded and contender.given == given and contender.recipe is None
            gains += [mean - plain] if is_pair and plain is not None else []
        if gains:
            helped = sum(gain >= 0 for gain in gains)
            sentences.append(
                f"given {given}, the bound helps in {helped} of {len(gains)} pairs "
                f"({helped / len(gains):.0%}), by {fmean(gains):+.1f} points, at worst by "
                f"{min(gains):+.1f}"
            )
    return "; ".join(sentences) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a contest, or its missing cells, and show its tables."""
    parser = argument_parser(__doc__)
    parser.add_argument("contest", choices=CONTESTS)
    options = parser.parse_args(arguments)
    name, sources = options.contest, sources_of(options)
    on_embeddings = name in ("losses", "bounds", "pretrained")
    if on_embeddings and not (options.backbone or options.quick):
        parser.error(f"{name} needs --backbone onnx:FILE, and hf:FOLDER for texts")
    preset = find_preset(
        "heads" if name == "pretrained" else "features" if on_embeddings else "cpu"
    )
    columns = options.columns or SETTINGS[name]
    methods = options.methods or tuple(CONTESTS[name])
    if options.quick:
        preset = preset.override(_QUICK)
        columns, methods, options.seeds = ("digits-0.4",), _QUICK_METHODS[name], 1
    cells = [
        {"column": column, "method": method, "seed": seed}
        for column in columns
        for seed in range(options.seeds)
        for method in methods
    ]
    work = partial(measured, contest=name, preset=preset, sources=sources, out=options.out)
    frame = measure(cells, work, options.out, options.jobs)
    write(frame, report(name, frame), options.out, name)


if __name__ == "__main__":
    main()
