"""``noisebound reproduce``: a table of the paper, with the paper's results beside ours."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from noisebound.cli.options import DataDir, command_line
from noisebound.errors import InvalidValueError
from noisebound.paper import Target, Weights
from noisebound.system.console import Console, print_text

if TYPE_CHECKING:
    from noisebound.paper.reproduce import Reproduction

Names = Annotated[
    tuple[str, ...] | None, Parameter(consume_multiple=True, negative=(), metavar="NAME...")
]
Count = Annotated[int | None, Parameter(validator=validators.Number(gte=1))]


def reproduce(
    target: Target,
    *,
    preset: str | None = None,
    set_: Annotated[
        tuple[str, ...], Parameter(name="--set", consume_multiple=True, negative=())
    ] = (),
    columns: Names = None,
    methods: Annotated[
        tuple[str, ...] | None,
        Parameter(
            consume_multiple=True,
            negative=(),
            help='The rows, such as ce ce+b sce "ce+b*" [default: all rows of the table].',
        ),
    ] = None,
    only: Names = None,
    seeds: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = ("3",),
    weights: Weights = "last",
    jobs: Count = None,
    cluster: str | None = None,
    out: Path = Path("reproduction"),
    name: str | None = None,
    data_dir: DataDir = None,
    source: Names = None,
    backbone: Names = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Reproduce a table of the paper. Finished runs are not repeated.

    Parameters
    ----------
    target
        The table to reproduce.
    preset
        The settings: paper, cpu, features, heads, or a file printed by `noisebound preset`
            [default: features with --backbone, else cpu].
    set_
        Settings to change, such as epochs=10, or emnist.epochs=10 for one data set.
    columns
        The columns, such as mnist-0.4, or mnist for all columns of a data set. Separate them by
            spaces or commas.
    only
        The rows to train now, such as ce+b. The table shows all finished runs [default: all rows].
    seeds
        The number of seeds, or a list of seeds.
    weights
        The weights to evaluate: those of the last epoch, as in the paper, or averaged weights.
    jobs
        The number of parallel runs [default: one per core, or one with a GPU].
    cluster
        The address of a Ray cluster, auto to use one that runs here, or local to start one.
    out
        The folder to write the runs and tables to.
    name
        The stem of the table's file names [default: the target].
    source
        Your own files or folders to use as a data set, such as emnist=folder.
    backbone
        Pretrained encoders to compute the inputs with: onnx:FILE or hf:FOLDER, at most one for
            images and one for texts.
    dry_run
        List the runs without training.
    """
    from noisebound.paper.page import report_on
    from noisebound.paper.plan import Plan
    from noisebound.paper.presets import find_preset
    from noisebound.paper.reproduce import Request
    from noisebound.paper.reproduce import reproduce as run_reproduce
    from noisebound.paper.run import RunStore
    from noisebound.paper.sources import DataSources
    from noisebound.paper.sweep import Workers
    from noisebound.report.page import write_page
    from noisebound.runs.folder import RunFolder

    backbones = tuple(backbone or ())
    plan = Plan(
        find_preset(preset or ("features" if backbones else "cpu")).override(set_),
        _seeds(_split(seeds)),
        DataSources(data_dir, _paths(source or ()), backbones),
    )
    request = Request(
        target,
        plan,
        None if columns is None else _split(columns),
        None if methods is None else _split(methods),
        weights,
        name,
        None if only is None else _split(only),
    )
    store = RunStore(out / "runs")
    if dry_run:
        for run in dict.fromkeys(request.due_runs()):
            print_text(f"{run.key}  {store.state(run):8}  {run.description}")
        return
    try:
        outcome = run_reproduce(request, out, Workers(jobs, cluster))
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; the same command continues from here")
        raise
    if any(store.state(run) == "finished" for run in request.runs()):
        RunFolder(out).save_command(command_line())
        write_page(report_on(out), out / "report.html")
    _print(outcome, out)


def _split(words: tuple[str, ...]) -> list[str]:
    return [part for word in words for part in word.split(",") if part]


def _seeds(words: list[str]) -> tuple[int, ...]:
    """Return the seeds: a single number is their count, several are the seeds themselves."""
    if not words or not all(word.isdecimal() for word in words) or words == ["0"]:
        raise InvalidValueError(
            f"--seeds must be a number of at least 1, or several seeds; got {' '.join(words)!r}"
        )
    numbers = [int(word) for word in words]
    return tuple(range(numbers[0])) if len(numbers) == 1 else tuple(dict.fromkeys(numbers))


def _paths(sources: tuple[str, ...]) -> dict[str, Path]:
    from noisebound.paper.presets import check_dataset

    paths = {}
    for source in sources:
        dataset, equals, path = source.partition("=")
        if not equals or not path:
            raise InvalidValueError(f"--source must be written data-set=folder; got {source!r}")
        if not Path(path).exists():
            raise InvalidValueError(f"--source {source}: there is no {path}")
        paths[check_dataset(dataset)] = Path(path)
    return paths


def _print(outcome: "Reproduction", out: Path) -> None:
    from noisebound.report.table import to_text

    for table in outcome.tables:
        print_text(to_text(table))
    print_text(f"written to {out}: {', '.join(path.name for path in outcome.files)}")
    if outcome.failures:
        complaint = Console(stderr=True, soft_wrap=True, markup=False)
        complaint.print(f"failed runs: {len(outcome.failures)}", style="bold red")
        for run, error in outcome.failures.items():
            complaint.print(f"  {run.key} {run.description}: {error}")
        complaint.print("the same command tries them again; the other runs are in the tables")
        sys.exit(1)
