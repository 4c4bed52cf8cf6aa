"""The report page of one training."""

from collections.abc import Sequence
from contextlib import suppress
from statistics import fmean

from jaxtyping import Float
from sklearn.metrics import confusion_matrix, roc_auc_score
from torch import Tensor

from noisebound.data import Dataset, Splits
from noisebound.errors import DataError, RunError
from noisebound.estimation import (
    AnnotatorEstimate,
    EstimatedNoise,
    GivenRate,
    GivenTransition,
    Noise,
)
from noisebound.pages.page import Code, Fact, Page, Picture, Section
from noisebound.pages.plots import (
    draw_accuracies,
    draw_loss_against_floor,
    evidence_figure,
    one_panel,
    short_label,
)
from noisebound.pages.suspects import closeness_sections, suspects_section
from noisebound.pages.table import EMPTY, Cell, Row, Table, confusions, number_cell
from noisebound.runs import Run
from noisebound.runs.judgment import annotators_frame
from noisebound.search.choice import Choice
from noisebound.training.metrics import METRIC_LABELS

_MATRICES = 12  # annotators with a heat map of their own; heuristic
_COMPARED = 20  # annotators in the table of pairs; more do not fit on a page

_ANNOTATOR_NOTES = (
    "wrong: the estimated share of the annotator's labels that are wrong",
    "agreement: with the other annotators, beyond chance; 1 is full agreement (Cohen's kappa)",
)


def run_page(run: Run, splits: Splits | None = None, command: str | None = None) -> Page:
    """Return the page about a finished run.

    The training data ``splits`` is needed for the test scores and the suspects. ``command`` repeats
    the training.
    """
    facts, sections = _facts(run), []
    if run.epochs:
        title = "Training" if is_of_network(run) else "Training of the network"
        sections.append(Section(title, pictures=curves(run)))
    clean = _clean_scores(run)
    if clean is not None:
        facts.append(clean[0])
        sections.append(clean[1])
    if splits is not None and splits.test is not None:
        with suppress(DataError):  # such as data that has changed; the suspects' section says so
            probs = run.test_probabilities(splits)
            assert probs is not None
            scores, auroc = scores_section(probs, splits.test)
            sections.append(scores)
            if auroc is not None:
                facts.append(Fact(f"{auroc:.3f}", "AUROC on the test set, mean over the classes"))
    sections += [*_checks_sections(run), *_choice_sections(run), *noise_sections(run, splits)]
    if (annotators := run.result.of_annotators) is not None:
        classes = run.saved_model.card.class_names
        sections.append(_annotators_section(annotators, classes))
    sections += _suspects_sections(run, splits)
    sections += [] if splits is None else closeness_sections(splits)
    sections.append(repeat_section([run], command))
    return Page(run.name, in_words(run), sections, facts)


def is_of_network(run: Run) -> bool:
    """True if the run's model is a network, which has epochs and a training loss by epoch."""
    choice = run.recipe
    return choice is None or choice.is_network


def label_of(run: Run) -> str:
    """Return the name of the run's method."""
    choice = run.recipe
    return run.config.loss_name.label if choice is None else choice.name


def in_words(run: Run) -> str:
    """Return the headline: the method, and the main facts about its result."""
    epoch, choice = run.result.final.epoch, run.recipe
    words = run.config.loss_name.label if choice is None else choice.label
    words = words[0].upper() + words[1:]
    if choice is None or (choice.is_network and not choice.chosen.stops_early):
        words += f" after {epoch} epoch{'' if epoch == 1 else 's'}"
    since, noise = run.result.memorizing_since, run.result.noise
    if since is not None:
        words += f". It has been memorizing wrong labels since epoch {since}"
    if noise.unknown_because is not None:
        words += ". How noisy the labels are is unknown: it could not be estimated, because "
        words += noise.unknown_because
    return f"{words}."


def _facts(run: Run) -> list[Fact]:
    facts, noise = [], run.result.noise
    if noise.unknown_because is not None:
        facts.append(Fact("unknown", "share of the labels that are wrong"))
    elif isinstance(noise, EstimatedNoise):
        rate, interval = noise.estimate.summary.split(" ", 1)
        facts.append(Fact(rate, f"of the labels wrong, as estimated {interval}"))
    elif isinstance(noise, GivenRate):
        facts.append(Fact(f"{noise.rate:.1%}", "of the labels wrong, as given"))
    if run.floor is not None and is_of_network(run):  # a loss means little without its floor
        facts.append(Fact(f"{run.floor:.3f}", "floor of the training loss"))
        facts.append(Fact(f"{run.result.final.train_loss:.3f}", "training loss"))
    for name, label in METRIC_LABELS.items():
        if (value := run.final(name)) is not None:
            facts.append(Fact(f"{value:.1%}", label))
    return facts


def _clean_scores(run: Run) -> tuple[Fact, Section] | None:
    """Return the scores on true labels by the validation split, if they are known."""
    with suppress(DataError, RunError):  # such as data that was in memory only
        found, names = run.scores.validation, run.saved_model.card.class_names
        if found is None or found.warnings:  # nothing is known
            return None
        accuracy, interval = found.summary.split(" ", 1)
        fact = Fact(accuracy, f"accuracy on true labels {interval}")
        text = (
            f"The model predicts {found.noisy_accuracy:.1%} of the {found.examples:,} validation "
            f"labels, which are noisy too. Its accuracy on true labels: {run.scores.words}. To "
            f"know it to ±3 points, check {found.labels_to_check:,} labels by hand."
        )
        recalls = {
            f"recall of {each}": score for each, score in zip(names, found.recall, strict=True)
        }
        rows = [
            Row(name, tuple(number_cell(each, ".1%") for each in (score.value, *score.interval)))
            for name, score in {"macro-F1": found.macro_f1, **recalls}.items()
            if score is not None
        ]
        header = ("on true labels", "estimate", "lowest", "highest")
        table = Table("clean-scores", "With 95 % confidence", header, tuple(rows))
        return fact, Section("Scores on true labels", text, folded=[table])
    return None


def curves(run: Run) -> list[Picture]:
    """Return plots of the training loss, with its floor if known, and of the accuracies."""
    if not run.epochs:
        return []
    choice = run.recipe
    label = choice.network.name if choice is not None and choice.network else label_of(run)
    losses, axes = one_panel()
    draw_loss_against_floor(axes, {label: run.epochs}, run.floor, run.result.memorizing_since)
    pictures = [Picture(losses, f"{label}: {axes.get_title()}, by epoch")]
    accuracies, axes = one_panel()
    draw_accuracies(axes, run.epochs)
    if axes.lines:
        pictures.append(Picture(accuracies, f"Accuracies of {label}, by epoch"))
    return pictures


def scores_section(
    probs: Float[Tensor, "n classes"], test: Dataset
) -> tuple[Section, float | None]:
    """Return the section on a test set, and the mean AUROC over the classes that have one."""
    names, predicted = test.class_names, probs.argmax(1)
    counts = confusion_matrix(test.labels, predicted, labels=range(len(names)))
    right, labeled, guessed = counts.diagonal(), counts.sum(1), counts.sum(0)
    aurocs = [_auroc(probs[:, k], test.labels == k) for k in range(len(names))]
    known = [each for each in aurocs if each is not None]
    text = f"The model predicts {right.sum():,} of {len(test):,} test labels. "
    text += "AUROC compares each class with the rest."
    text += f" Its mean over the classes is {fmean(known):.3f}." if known else ""
    rows = []
    for k, name in enumerate(names):
        shares = (right[k] / total[k] if total[k] else None for total in (guessed, labeled))
        cells = (number_cell(share, ".1%") for share in shares)
        ends = number_cell(labeled[k], ",d"), number_cell(aurocs[k], ".3f")
        rows.append(Row(name, (ends[0], *cells, ends[1])))
    header = ("class", "examples", "precision", "recall", "AUROC")
    table = Table("scores", "Scores by class", header, tuple(rows))
    title = "Predictions for the examples of each class"
    shares = (counts / labeled.clip(min=1)[:, None]).tolist()
    confused = confusions(title, "label", "prediction", names, shares)
    return Section("The test set", text, [table, confused]), fmean(known) if known else None


def _auroc(score: Float[Tensor, " n"], is_positive: Tensor) -> float | None:
    is_mixed = is_positive.any() and not is_positive.all()
    return float(roc_auc_score(is_positive, score)) if is_mixed else None


def _checks_sections(run: Run) -> list[Section]:
    """Return the section on decisions about labels: the run before them, and this one."""
    if (checks := run.result.checks) is None:
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
    tables = [Table("checks", "Before and after", header, tuple(rows))] if rows else []
    return [Section("Checked labels", checks.words, tables)]


def _choice_sections(run: Run) -> list[Section]:
    choice = run.recipe
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
    description = "Held-out labels that each learner and recipe predicts, with one standard error"
    picture = Picture(evidence_figure(choice), f"{description}; chosen: {choice.label}")
    return [Section("The choice", text, pictures=[picture], folded=[_evidence_table(choice)])]


def _evidence_table(choice: Choice) -> Table:
    rows = []
    for each in choice.tried:
        gains = ((each.gain, each.standard_error), (each.balanced_gain, each.balanced_error))
        cells = [Cell(f"{gain:+.1%} ± {error:.1%}", "", gain) for gain, error in gains]
        cells = [Cell(each.stop), number_cell(each.agreement, ".1%"), *cells]
        rows.append(Row(short_label(each), tuple(cells), is_shaded=choice.is_member(each)))
    header = ("learner and recipe", "setting", "agreement", "gain", "balanced gain")
    notes = (
        f"agreement: the share of {choice.chosen.examples:,} held-out labels predicted",
        "gain: over plain training, in the same divisions of the examples, ± 1 standard error",
        "balanced gain: the same if all classes count alike",
    )
    return Table("candidates", "All candidates", header, tuple(rows), notes=notes)


def noise_sections(run: Run, splits: Splits | None) -> list[Section]:
    """Return the section on the noise rate and the confused classes, if they are known."""
    noise = run.result.noise
    if not isinstance(noise, EstimatedNoise | GivenTransition) or noise.unknown_because is not None:
        return []
    shares = noise.transition.tolist()
    names = [str(k) for k in range(len(shares))] if splits is None else splits.train.class_names
    title = "Labels of the examples of each true class"
    table = confusions(title, "label", "true class", names, shares)
    return [Section("The noise", _noise_in_words(run, noise), [table])]


def _noise_in_words(run: Run, noise: Noise) -> str:
    words = []
    if isinstance(noise, EstimatedNoise):
        words.append(f"Estimated share of wrong labels: {noise.estimate.summary}.")
        if noise.of_majority is not None:
            words.append(
                f"Of the majority votes, which are trained on, {noise.rate:.1%} are wrong."
            )
    if run.result.chosen is not None:
        words.append(f"The floor: {run.result.chosen.reason}.")
    words += [f"Note: {warning}." for warning in noise.warnings]
    if isinstance(noise, EstimatedNoise):
        words.append(f"{noise.estimate.words} To know the rate to ±3 points, check")
        words.append(f"{noise.estimate.labels_to_check:,} labels by hand.")
    return " ".join(words)


def _annotators_section(found: AnnotatorEstimate, class_names: Sequence[str]) -> Section:
    """Return the section on the annotators of a run."""
    who = f"{len(found.names):,} annotators" if found.are_named else "Unknown annotators"
    words = f"{who} gave {int(found.counts.sum()):,} labels to the examples that were trained on."
    order = found.counts.argsort(descending=True, stable=True).tolist()
    titles, tables = {0: "Labels by all annotators"}, [_annotator_table(found, class_names)]
    if found.are_named:
        titles = {each: f"Labels by {found.names[each]}" for each in order[:_MATRICES]}
        tables.append(_disagreement(found, order[:_COMPARED]))
    folded = [
        confusions(title, "label", "true class", class_names, found.transitions[each].tolist())
        for each, title in titles.items()
    ]
    return Section("The annotators", words, tables, folded=folded)


def _annotator_table(found: AnnotatorEstimate, class_names: Sequence[str]) -> Table:
    rows = []
    for each in annotators_frame(found, class_names).iter_rows():
        name, count, rate, low, high, kappa, mistake = each
        numbers = number_cell(count, ",d"), number_cell(rate, ".1%")
        interval = Cell(f"{low:.1%} to {high:.1%}", "", low)
        cells = (*numbers, interval, number_cell(kappa, ".2f"), Cell(mistake or "–"))
        rows.append(Row(name, cells))
    header = ("annotator", "labels", "wrong", "95% interval", "agreement", "most frequent mistake")
    return Table("annotators", "Annotators", header, tuple(rows), notes=_ANNOTATOR_NOTES)


def _disagreement(found: AnnotatorEstimate, shown: Sequence[int]) -> Table:
    """Return how often two annotators give the same label, as a heat map of disagreement."""
    rows = []
    for one in shown:
        cells = []
        for other in shown:
            share = float(found.pairwise_agreement[one, other])
            is_known = one != other and share == share
            shade = 1 - share
            cells.append(Cell(f"{100 * shade:.0f}", "", shade, share=shade) if is_known else EMPTY)
        rows.append(Row(found.names[one], tuple(cells)))
    names = [found.names[each] for each in shown]
    title = "Disagreement of two annotators on the examples that both labeled, %"
    return Table("disagreement", title, ("annotator", *names), tuple(rows))


def _suspects_sections(run: Run, splits: Splits | None) -> list[Section]:
    noise = run.result.noise
    if splits is None or not noise.is_known or noise.unknown_because is not None:
        return []  # the probabilities are meaningless without a rate
    try:
        suspects = run.judgment(splits).suspects
    except DataError as error:  # such as data that has changed since
        return [Section("The most suspect labels", f"They cannot be shown: {error}.")]
    return [suspects_section(suspects, splits, run.expected_wrong(suspects))]


def repeat_section(runs: Sequence[Run], command: str | None) -> Section:
    """Return the section with the command and the configs that repeat the runs."""
    commands = [] if command is None else [Code("command", command, is_open=True)]
    configs = [Code(f"config of {run.name}", run.config.model_dump_json(indent=2)) for run in runs]
    return Section("To repeat it", code=[*commands, *configs])
