"""The report page of one training."""

from collections.abc import Sequence

from noisebound.data import Splits
from noisebound.errors import DataError
from noisebound.estimation import EstimatedNoise, GivenRate, GivenTransition, Noise
from noisebound.pages.evidence_plot import evidence_figure, short_label
from noisebound.pages.scores import ClassScores
from noisebound.pages.suspects import suspects_section
from noisebound.pages.training_plots import draw_accuracies, draw_loss_against_floor
from noisebound.report.page import Code, Fact, HeatMap, Page, Picture, Section
from noisebound.report.plots import one_panel
from noisebound.report.table import Cell, Row, Table, number_cell
from noisebound.runs import Run
from noisebound.search.choice import Choice
from noisebound.training.metrics import METRIC_LABELS, EpochMetrics

_CONFUSIONS = 20  # rows of the table


def run_page(run: Run, splits: Splits | None = None, command: str | None = None) -> Page:
    """Return the page about a training.

    The training data ``splits`` is needed for the test scores and the suspects. ``command`` repeats
    the training.
    """
    require_metrics(run)
    scores = _test_scores(run, splits)
    sections = [
        *training_sections(run),
        *([] if scores is None else [scores.section()]),
        *_checks_sections(run),
        *_choice_sections(run),
        *noise_sections(run, splits),
        *_suspects_sections(run, splits),
        repeat_section([run], command),
    ]
    return Page(run.name, in_words(run), sections, _facts(run, scores))


def require_metrics(run: Run) -> None:
    """Raise an error if a run has no epochs, except a finished one without a network."""
    choice = _choice_of(run)
    has_network = choice is None or choice.network is not None
    if has_network and not run.epochs:
        raise DataError(f"{run.path} has not finished an epoch yet")


def final_metrics(run: Run) -> EpochMetrics:
    """Return the metrics of the model, or of the last epoch of a training that goes on."""
    return run.epochs[-1] if run.outcome is None else run.outcome.final


def is_of_network(run: Run) -> bool:
    """True if the run's model is a network, which has epochs and a training loss by epoch."""
    choice = _choice_of(run)
    return choice is None or choice.is_network


def label_of(run: Run) -> str:
    """Return the name of the run's method."""
    choice = _choice_of(run)
    return run.config.loss_name.label if choice is None else choice.name


def _choice_of(run: Run) -> Choice | None:
    return None if run.outcome is None else run.outcome.choice


def memorizing_since(run: Run) -> int | None:
    """Return the first epoch since which the loss of a plain training was below the floor."""
    return None if run.outcome is None else run.outcome.memorizing_since


def in_words(run: Run) -> str:
    """Return the result of a training in one to three sentences."""
    final = final_metrics(run)
    found = []
    if run.floor is not None and is_of_network(run):  # a loss means little without its floor
        found.append(f"training loss {final.train_loss:.3f} with a floor at {run.floor:.3f}")
    for name, text in METRIC_LABELS.items():
        value = run.final(name)
        found += [] if value is None else [f"{text} {value:.1%}"]
    choice = _choice_of(run)
    words = run.config.loss_name.label if choice is None else choice.label
    words = words[0].upper() + words[1:]
    if choice is None or (choice.is_network and not choice.chosen.stops_early):
        words += f" after {final.epoch} epoch{'' if final.epoch == 1 else 's'}"
    words += (": " if found else "") + "; ".join(found)
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


def training_sections(run: Run) -> list[Section]:
    """Return the section with the plots by epoch, if a network was trained."""
    if not run.epochs:
        return []
    title = "Training" if is_of_network(run) else "Training of the network"
    return [Section(title, pictures=curves(run))]


def curves(run: Run) -> list[Picture]:
    """Return plots of the training loss, with its floor if known, and of the accuracies."""
    if not run.epochs:
        return []
    choice = _choice_of(run)
    network = None if choice is None else choice.network
    label = label_of(run) if network is None else network.name
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


def _choice_sections(run: Run) -> list[Section]:
    choice = _choice_of(run)
    if choice is None:
        return []
    text = f"Trained: {choice.label}; {choice.reason}."
    if not choice.tried:
        return [Section("The choice", text)]
    if choice.regularize:
        text += (
            " Regularized networks, with dropout and a factor for each input, predict more "
            "held-out labels. So all recipes except plain training use them."
        )
    text += " Each candidate trained on halves of the examples and predicted the other halves."
    description = (
        "Held-out labels that each learner and recipe predicts, with one standard error; "
        f"chosen: {choice.label}"
    )
    picture = Picture(evidence_figure(choice), description)
    return [Section("The choice", text, pictures=[picture], folded=[_evidence_table(choice)])]


def _evidence_table(choice: Choice) -> Table:
    rows = [
        Row(
            short_label(each),
            (
                Cell(each.stop),
                number_cell(each.agreement, ".1%"),
                Cell(f"{each.gain:+.1%} ± {each.standard_error:.1%}", "", each.gain),
                Cell(
                    f"{each.balanced_gain:+.1%} ± {each.balanced_error:.1%}", "", each.balanced_gain
                ),
            ),
            is_shaded=choice.is_member(each),
        )
        for each in choice.tried
    ]
    header = ("learner and recipe", "setting", "agreement", "gain", "balanced gain")
    notes = (
        f"agreement: the share of {choice.chosen.examples:,} held-out labels predicted",
        "gain: over plain training, in the same divisions of the examples, ± 1 standard error",
        "balanced gain: the same if all classes count alike",
    )
    return Table("candidates", "All candidates", header, tuple(rows), (), notes)


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
    if run.floor is not None and is_of_network(run):
        facts.append(Fact(f"{run.floor:.3f}", "floor of the training loss"))
        facts.append(Fact(f"{final_metrics(run).train_loss:.3f}", "training loss"))
    for name, label in METRIC_LABELS.items():
        value = run.final(name)
        if value is not None:
            facts.append(Fact(f"{value:.1%}", label))
    if scores is not None and scores.auroc is not None:
        facts.append(Fact(f"{scores.auroc:.3f}", "AUROC on the test set, mean over the classes"))
    return facts
