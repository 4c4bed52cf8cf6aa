"""The report page of one training."""

from collections.abc import Sequence

from noisebound.data import Splits
from noisebound.errors import DataError
from noisebound.estimation import EstimatedNoise, GivenRate, GivenTransition, Noise
from noisebound.pages.scores import ClassScores
from noisebound.pages.suspects import suspects_section
from noisebound.pages.training_plots import draw_accuracies, draw_loss_against_floor
from noisebound.report.page import Code, Fact, HeatMap, Page, Picture, Section
from noisebound.report.plots import one_panel
from noisebound.report.table import Cell, Row, Table, number_cell
from noisebound.runs import Run
from noisebound.search.evidence import Evidence
from noisebound.training.metrics import METRIC_LABELS

_CONFUSIONS = 20  # rows of the table


def run_page(run: Run, splits: Splits | None = None, command: str | None = None) -> Page:
    """Return the page about a training.

    The training data ``splits`` is needed for the test scores and the suspects. ``command`` repeats
    the training.
    """
    require_epochs(run)
    scores = _test_scores(run, splits)
    sections = [
        Section("Training", pictures=curves(run)),
        *([] if scores is None else [scores.section()]),
        *_checks_sections(run),
        *_recipe_sections(run),
        *noise_sections(run, splits),
        *_suspects_sections(run, splits),
        repeat_section([run], command),
    ]
    return Page(run.name, in_words(run), sections, _facts(run, scores))


def require_epochs(run: Run) -> None:
    """Raise an error if a run has no finished epoch to show."""
    if not run.epochs:
        raise DataError(f"{run.path} has not finished an epoch yet")


def label_of(run: Run) -> str:
    """Return the name of the run's method."""
    if run.outcome is not None and run.outcome.choice is not None:
        return run.outcome.choice.chosen.name
    return run.config.loss_name.label


def memorizing_since(run: Run) -> int | None:
    """Return the first epoch since which the loss of a plain training was below the floor."""
    return None if run.outcome is None else run.outcome.memorizing_since


def in_words(run: Run) -> str:
    """Return the result of a training in one to three sentences."""
    final = run.epochs[-1]
    found = []
    if run.floor is not None:  # a loss means little without its floor
        found.append(f"training loss {final.train_loss:.3f} with a floor at {run.floor:.3f}")
    for name, text in METRIC_LABELS.items():
        value = run.final(name)
        found += [] if value is None else [f"{text} {value:.1%}"]
    words = f"{label_of(run)} after {final.epoch} epochs" + (": " if found else "")
    words += "; ".join(found)
    since, noise = memorizing_since(run), _noise_of(run)
    if since is not None:
        words += f". It has been memorizing wrong labels since epoch {since}"
    if noise is not None and noise.unknown_because is not None:
        words += ". How noisy the labels are is unknown: it could not be estimated, because "
        words += noise.unknown_because
    elif isinstance(noise, EstimatedNoise):
        words += f". About {noise.rate:.1%} of the labels are estimated to be wrong"
    return f"{words}."


def _noise_of(run: Run) -> Noise | None:
    return None if run.outcome is None else run.outcome.noise


def curves(run: Run) -> list[Picture]:
    """Return plots of the training loss, with its floor if known, and of the accuracies."""
    label = label_of(run)
    losses, axes = one_panel()
    draw_loss_against_floor(axes, {label: run.epochs}, run.floor, memorizing_since(run))
    pictures = [Picture(losses, f"{label}: {axes.get_title()}, by epoch")]
    accuracies, axes = one_panel()
    draw_accuracies(axes, run.epochs)
    if axes.lines:
        pictures.append(Picture(accuracies, f"Accuracies of {label}, by epoch"))
    return pictures


def noise_sections(run: Run, splits: Splits | None) -> list[Section]:
    """Return the section on the noise rate and the confused classes, if they are known."""
    noise = _noise_of(run)
    if not isinstance(noise, EstimatedNoise | GivenTransition) or noise.unknown_because is not None:
        return []
    rows = noise.transition.tolist()
    names = [str(k) for k in range(len(rows))] if splits is None else splits.train.class_names
    title = "Labels of the examples of each true class, %"
    heat_map = HeatMap(title, "label", "true class", names, names, rows)
    tables = [] if heat_map.has_numbers else [_confusions(rows, names)]
    return [Section("The noise", _noise_in_words(run, noise), tables, heat_maps=[heat_map])]


def _recipe_sections(run: Run) -> list[Section]:
    choice = None if run.outcome is None else run.outcome.choice
    if choice is None:
        return []
    text = f"Trained by {choice.label}: {choice.reason}."
    if choice.regularize:
        text += (
            " Regularized networks, with dropout and a factor for each input, predict more "
            "held-out labels. So all recipes except plain training use them."
        )
    tables = [
        _evidence_table("recipes", "Recipes tried on halves of the examples", choice.tried),
        _evidence_table("finals", "The best of these, trained on all examples", choice.finals),
    ]
    return [Section("The recipe", text, [table for table in tables if table.rows])]


def _evidence_table(name: str, title: str, found: Sequence[Evidence]) -> Table:
    rows = [
        Row(
            each.name,
            (
                number_cell(each.epochs, "d"),
                number_cell(each.agreement, ".1%"),
                Cell(f"{each.gain:+.1%} ± {each.standard_error:.1%}", "", each.gain),
                Cell(
                    f"{each.balanced_gain:+.1%} ± {each.balanced_error:.1%}", "", each.balanced_gain
                ),
                number_cell(each.examples, ",d"),
            ),
        )
        for each in found
    ]
    over = "over the first" if name == "finals" else "over plain training"
    alike = "if classes count alike"
    header = ("recipe", "epochs", "left-out labels predicted", over, alike, "labels")
    return Table(name, title, header, tuple(rows), ())


def _checks_sections(run: Run) -> list[Section]:
    """Return the section on decisions about labels: the run before them, and this one."""
    checks = None if run.outcome is None else run.outcome.checks
    if checks is None:
        return []
    labels = {
        "test_top1": METRIC_LABELS["test_top1"],
        "validation_top1": "accuracy on the validation labels that nobody has checked",
        "noise_rate": "wrong labels among those that nobody had checked",
    }
    rows = [
        Row(labels[name], (number_cell(before, ".1%"), number_cell(checks.after[name], ".1%")))
        for name, before in checks.before.items()
        if name in labels and name in checks.after
    ]
    header = ("", "before", "after")
    tables = [Table("checks", "Before and after", header, tuple(rows), ())] if rows else []
    return [Section("Checked labels", checks.words, tables)]


def repeat_section(runs: Sequence[Run], command: str | None) -> Section:
    """Return the section with the command and the configs that repeat the runs."""
    commands = [] if command is None else [Code("command", command, is_open=True)]
    configs = [Code(f"config of {run.name}", run.config.model_dump_json(indent=2)) for run in runs]
    return Section("To repeat it", code=[*commands, *configs])


def _noise_in_words(run: Run, noise: Noise) -> str:
    text = ""
    if isinstance(noise, EstimatedNoise):
        text = f"Estimated share of wrong labels: {noise.estimate.summary}. "
    if run.result.chosen is not None:
        text += f"The floor: {run.result.chosen.reason}. "
    text += " ".join(f"Note: {warning}." for warning in noise.warnings)
    if isinstance(noise, EstimatedNoise):
        text += f" {noise.estimate.words} To know the rate to ±3 points, check "
        text += f"{noise.estimate.labels_to_check:,} labels by hand."
    return text.strip()


def _confusions(transition: Sequence[Sequence[float]], names: Sequence[str]) -> Table:
    """Return the largest off-diagonal entries of a matrix that is too large to show."""
    entries = [
        (share, true, noisy)
        for noisy, row in enumerate(transition)
        for true, share in enumerate(row)
        if noisy != true
    ]
    rows = [
        Row(names[true], (Cell(names[noisy]), number_cell(share, ".1%")))
        for share, true, noisy in sorted(entries, reverse=True)[:_CONFUSIONS]
    ]
    header = ("true class", "labeled", "of the class")
    return Table("confusions", "The most frequent mistakes", header, tuple(rows), ())


def _suspects_sections(run: Run, splits: Splits | None) -> list[Section]:
    if splits is None or run.outcome is None or not run.noise.is_known:
        return []
    if run.noise.unknown_because is not None:
        return []  # the probabilities are meaningless without a rate
    try:
        suspects = run.find_suspects(splits)
    except DataError as error:  # such as data that has changed since
        return [Section("The most suspect labels", f"They cannot be shown: {error}.")]
    return [suspects_section(suspects, splits, run.expected_wrong(suspects))]


def _test_scores(run: Run, splits: Splits | None) -> ClassScores | None:
    if splits is None or splits.test is None or run.outcome is None:
        return None
    try:
        probs = run.test_probabilities(splits)
    except DataError:  # such as data that has changed; the section on suspects says so
        return None
    assert probs is not None
    return ClassScores.of(probs, splits.test.labels, splits.test.class_names)


def _facts(run: Run, scores: ClassScores | None) -> list[Fact]:
    facts = []
    noise = _noise_of(run)
    if noise is not None and noise.unknown_because is not None:
        facts.append(Fact("unknown", "share of the labels that are wrong"))
    elif isinstance(noise, EstimatedNoise):
        rate, interval = noise.estimate.summary.split(" ", 1)
        facts.append(Fact(rate, f"of the labels wrong, as estimated {interval}"))
    elif isinstance(noise, GivenRate):
        facts.append(Fact(f"{noise.rate:.1%}", "of the labels wrong, as given"))
    if run.floor is not None:
        facts.append(Fact(f"{run.floor:.3f}", "floor of the training loss"))
        facts.append(Fact(f"{run.epochs[-1].train_loss:.3f}", "training loss"))
    for name, label in METRIC_LABELS.items():
        value = run.final(name)
        if value is not None:
            facts.append(Fact(f"{value:.1%}", label))
    if scores is not None and scores.auroc is not None:
        facts.append(Fact(f"{scores.auroc:.3f}", "AUROC on the test set, mean over the classes"))
    return facts
