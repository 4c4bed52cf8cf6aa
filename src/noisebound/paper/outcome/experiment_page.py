"""A page about the paper's experiments: tables, curves, runs and configs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from noisebound.estimation import EstimatedNoise
from noisebound.pages.run_page import heat_map_of
from noisebound.paper.outcome.accuracy_table import accuracy_table
from noisebound.paper.outcome.contender_table import contender_table
from noisebound.paper.outcome.contest import Contest
from noisebound.paper.outcome.epoch_figure import epoch_figure
from noisebound.paper.outcome.finished import FinishedRun, Measurements, Selection
from noisebound.paper.outcome.label_tables import estimate_table, suspect_table
from noisebound.paper.outcome.offset_search import offset_table
from noisebound.paper.outcome.rate_sweep import rate_curves, rate_table
from noisebound.paper.outcome.standing_table import standing_table
from noisebound.paper.protocol.columns import COLUMNS, TABLE_TITLES, Column
from noisebound.paper.protocol.contenders import CONTEST_TITLES, CONTESTS, Contender
from noisebound.paper.protocol.methods import BOUNDED, METHODS, SEARCHED_METHODS
from noisebound.paper.protocol.run_config import RunConfig
from noisebound.report.figures import rate_sweep_figure
from noisebound.report.page import Code, Page, Picture, Section
from noisebound.report.table import EMPTY, Cell, Row, Table, number_cell


def experiment_page(runs: Sequence[FinishedRun], command: str | None = None) -> Page:
    """Return the page about runs; those with different settings are shown in separate parts.

    Args:
        runs: the finished runs
        command: the command that would repeat them
    """
    parts = [_experiment_sections(part) for part in _by_scale(runs)]
    headlines = [headline for headline, _ in parts if headline]
    sections = [section for _, part in parts for section in part]
    sections += [
        Section("Runs", tables=[_runs_table(runs)]),
        Section("To repeat it", "The first config of each column.", code=_configs(runs, command)),
    ]
    return Page(
        "Training on noisy labels, plain and bounded",
        " ".join(headlines) or f"{len(runs)} finished runs.",
        sections,
    )


def _by_scale(runs: Sequence[FinishedRun]) -> list[list[FinishedRun]]:
    """Return the runs in parts, in each of which a column has one scale; mostly there is one."""
    scales: dict[str, list[str]] = {}
    parts: dict[int, list[FinishedRun]] = {}
    for run in runs:
        scale = _scale(run)
        known = scales.setdefault(run.config.column, [])
        if scale not in known:
            known.append(scale)
        parts.setdefault(known.index(scale), []).append(run)
    return list(parts.values())


def _scale(run: FinishedRun) -> str:
    """Return the settings that all methods of a column have in common."""
    of_the_method = {"loss", "recipe", "noise_rate", "transition", "learning_rate"}
    of_the_bound = {"bound", "bound_classes", "bound_offset"}
    of_the_run = {"seed", "measure_every"}
    training = run.config.training.model_dump(exclude=of_the_method | of_the_bound | of_the_run)
    return repr((run.config.source, run.config.backbone, run.config.train_examples, training))


def _experiment_sections(runs: Sequence[FinishedRun]) -> tuple[str, list[Section]]:
    """Return the headline of one part, and its tables and pictures."""
    measurements = Measurements(runs)
    present = {run.config.column for run in runs}
    columns = [column for column in COLUMNS.values() if column.name in present]
    tables = _accuracy_tables(measurements, columns, runs)
    sections = [Section("Accuracies", tables=tables)] if tables else []
    contests = _contest_tables(runs, columns)
    if contests:
        sections.append(Section("Beyond the paper", tables=contests))
    searched = offset_table(Selection("offsets", measurements, columns, BOUNDED))
    if searched.rows:
        sections.append(Section("Bounds around the noise-bound", tables=[searched]))
    swept = _swept(runs)
    if swept:
        table = rate_table(Selection("rate-sweep", measurements, *swept))
        curves = [curve for curve in rate_curves(table.records) if len(curve.rates) > 1]
        words = "Accuracy by the noise rate that the method is told"
        pictures = [Picture(rate_sweep_figure(curves), words)] if curves else []
        sections.append(Section("Believing another noise rate", tables=[table], pictures=pictures))
    sections += [
        Section(
            f"{column.title}, epoch by epoch",
            "Means over seeds. In a pair the plain training is orange, the bounded one blue.",
            pictures=[Picture(figure, f"Training on {column.title}, epoch by epoch")],
        )
        for column in columns
        if (figure := epoch_figure(measurements, column)) is not None
    ]
    sections += _noise_sections(runs)
    headline = " ".join(table.summary for table in (*tables, *contests) if table.summary)
    return headline, sections


def _noise_sections(runs: Sequence[FinishedRun]) -> list[Section]:
    """Return the noise of each column, as the first run that estimated it found it."""
    sections: dict[str, Section] = {}
    for run in runs:
        noise, column = run.result.noise, COLUMNS[run.config.column]
        if not isinstance(noise, EstimatedNoise) or column.name in sections:
            continue
        low, high = noise.interval
        text = f"By {run.config.training.loss}, seed {run.config.training.seed}: "
        text += f"{noise.estimate.noise_rate:.1%} of the labels are estimated to be wrong "
        text += f"({low:.1%} to {high:.1%})."
        rows = noise.transition.tolist()
        heat_map = heat_map_of(rows, [str(k) for k in range(len(rows))])
        title = f"{column.title}, the estimated noise"
        sections[column.name] = Section(title, text, heat_maps=[heat_map])
    return list(sections.values())


def _accuracy_tables(
    measurements: Measurements, columns: Sequence[Column], runs: Sequence[FinishedRun]
) -> list[Table]:
    done = {run.config.training.loss for run in runs}
    methods = [method for method in METHODS if method in done]
    if any(run.config.training.bound_offset for run in runs):
        methods += SEARCHED_METHODS
    tables = []
    for name in TABLE_TITLES:
        here = [column for column in columns if column.table == name]
        if here:
            table = accuracy_table(Selection(name, measurements, here, methods))
            rows = tuple(row for row in table.rows if any(cell != EMPTY for cell in row.cells))
            if rows:
                tables.append(replace(table, rows=rows))
    return tables


def _contest_tables(runs: Sequence[FinishedRun], columns: Sequence[Column]) -> list[Table]:
    """Return the tables beyond the paper, which judge averaged weights."""
    tables = []
    for name, contenders in CONTESTS.items():
        on_embeddings = name in ("pretrained", "losses", "bounds")
        entered = [run for run in runs if (run.config.backbone is not None) == on_embeddings]
        settings = [
            column
            for column in columns
            if any(
                run.config.column == column.name and run.config.is_by(contender)
                for run in entered
                for contender in _beyond_the_paper(contenders)
            )
        ]
        if settings:
            title = f"{CONTEST_TITLES[name]}, averaged weights"
            contest = Contest(name, title, entered, settings, contenders, "averaged")
            tables.append(contender_table(contest))
            if name == "beyond":
                tables += [estimate_table(contest), suspect_table(contest)]
            if name == "pretrained":
                tables.append(standing_table(contest))
    return tables


def _beyond_the_paper(contenders: Mapping[str, Contender]) -> list[Contender]:
    """Return the contenders that no table of the paper shows."""
    return [
        contender
        for contender in contenders.values()
        if contender.knows != "noise rate" or contender.loss not in METHODS
    ]


def _swept(runs: Sequence[FinishedRun]) -> tuple[list[Column], list[str]] | None:
    """Return the columns and methods of runs that were told a wrong noise rate, if any."""
    found = [
        (COLUMNS[run.config.column], run.config.training.loss)
        for run in runs
        if run.config.believes is not None
    ]
    if not found:
        return None
    return list(dict.fromkeys(c for c, _ in found)), list(dict.fromkeys(m for _, m in found))


def _runs_table(runs: Sequence[FinishedRun]) -> Table:
    rows = []
    for run in runs:
        training, final = run.config.training, run.result.final
        rows.append(
            Row(
                run.config.key,
                (
                    Cell(run.config.column),
                    Cell(run.config.method),
                    number_cell(training.seed, "d"),
                    Cell(_told(run.config)),
                    number_cell(run.result.bound, ".3f"),
                    number_cell(final.train_loss, ".3f"),
                    number_cell(run.result.memorizing_since, "d"),
                    number_cell(final.test_top1, ".1%"),
                    number_cell(final.averaged_test_top1, ".1%"),
                    number_cell(final.memorized, ".1%"),
                ),
                is_shaded=training.loss_name.is_bounded,
            )
        )
    return Table(
        name="runs",
        title=f"{len(runs)} finished runs, after the last epoch",
        header=(
            "run",
            "column",
            "method",
            "seed",
            "noise rate told",
            "bound",
            "training loss",
            "memorizing since epoch",
            "test accuracy",
            "averaged weights",
            "wrong labels reproduced",
        ),
        rows=tuple(rows),
        records=(),
    )


def _told(config: RunConfig) -> str:
    told = config.training.given_rate
    if config.knows == "noise rate":
        return "–" if told is None else f"{told:g}"
    return config.knows


def _configs(runs: Sequence[FinishedRun], command: str | None) -> list[Code]:
    first = {run.config.column: run.config for run in reversed(runs)}
    return [
        *([] if command is None else [Code("command", command, is_open=True)]),
        *(Code(name, config.model_dump_json(indent=2)) for name, config in sorted(first.items())),
    ]
