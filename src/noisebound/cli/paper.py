"""``noisebound reproduce``, ``preset``, ``report`` and ``demo``: the paper's results and ours."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from noisebound.cli.options import DataDir, Json, command_line
from noisebound.errors import InvalidValueError
from noisebound.paper import Target, Weights
from noisebound.system.console import Console, print_json, print_text

if TYPE_CHECKING:
    from noisebound.paper.reproduce import Reproduction

_SEVERAL = Parameter(consume_multiple=True, negative=())
_Names = Annotated[tuple[str, ...] | None, _SEVERAL, Parameter(metavar="NAME...")]
# Not in the docstring, where "Methods" would begin a section.
_Methods = Annotated[
    _Names,
    Parameter(help='The rows, such as ce ce+b sce "ce+b*" [default: all rows of the table].'),
]
_Changes = Annotated[
    tuple[str, ...],
    _SEVERAL,
    Parameter(
        name="--set",
        metavar="FIELD=VALUE...",
        help="Settings to change, such as epochs=10, or emnist.epochs=10 for one data set.",
    ),
]


def reproduce(
    target: Target,
    *,
    preset: Annotated[str | None, Parameter(metavar="NAME")] = None,
    set_: _Changes = (),
    columns: _Names = None,
    methods: _Methods = None,
    seeds: Annotated[tuple[str, ...], _SEVERAL, Parameter(metavar="NUMBER...")] = ("3",),
    weights: Weights = "last",
    jobs: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    cluster: Annotated[str | None, Parameter(metavar="ADDRESS")] = None,
    out: Path = Path("reproduction"),
    name: Annotated[str | None, Parameter(metavar="NAME")] = None,
    data_dir: DataDir = None,
    source: _Names = None,
    backbone: _Names = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Reproduce a table of the paper. Finished runs are not repeated.

    Example: `noisebound reproduce table1 --columns fashion-mnist-0.4 --methods ce ce+b`

    Parameters
    ----------
    target
        The table to reproduce.
    preset
        The settings: paper, cpu, features, heads, or a file printed by `noisebound preset`
            [default: features with --backbone, else cpu].
    columns
        The columns, such as mnist-0.4, or mnist for all columns of a data set [default: all columns
            of the table].
    seeds
        The number of seeds, or several seeds.
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
    from noisebound.pages.page import write_page
    from noisebound.paper.page import report_on
    from noisebound.paper.presets import find_preset
    from noisebound.paper.reproduce import Request, reproduce as run_reproduce
    from noisebound.paper.run import DataSources, Plan, RunStore
    from noisebound.runs.folder import RunFolder

    backbones = tuple(backbone or ())
    plan = Plan(
        find_preset(preset or ("features" if backbones else "cpu")).override(set_),
        _seeds(_split(seeds) or []),
        DataSources(data_dir, _paths(source or ()), backbones),
    )
    request = Request(target, plan, _split(columns), _split(methods), weights, name)
    store = RunStore(out / "runs")
    if dry_run:
        for run in dict.fromkeys(request.runs()):
            print_text(f"{run.key}  {store.state(run):8}  {run.description}")
        return
    try:
        outcome = run_reproduce(request, out, jobs, cluster)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; the same command continues from here")
        raise
    if any(store.state(run) == "finished" for run in request.runs()):
        RunFolder(out).save_command(command_line())
        write_page(report_on(out), out / "report.html")
    _print(outcome, out)


def _split(words: tuple[str, ...] | None) -> list[str] | None:
    return None if words is None else [part for part in ",".join(words).split(",") if part]


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
    from noisebound.pages.table import to_text

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


def preset(name: str, *, set_: _Changes = ()) -> None:
    """Print a preset as JSON. Edit it and pass it to `reproduce --preset`.

    Example: `noisebound preset cpu > mine.json`

    Parameters
    ----------
    name
        The preset: paper, cpu, features, heads, or a JSON file printed by this command.
    """
    from noisebound.paper.presets import find_preset

    print_text(find_preset(name).override(set_).to_json())


def report(runs: Path, *, out: Path = Path("report.html")) -> None:
    """Write a self-contained HTML report with tables, curves and configurations of runs.

    Example: `noisebound report runs --out report.html`

    Parameters
    ----------
    runs
        A folder written by `noisebound reproduce`, `demo` or `fit`.
    out
        The HTML file to write.
    """
    from noisebound.pages.page import write_page
    from noisebound.paper.page import report_on

    write_page(report_on(runs), out)
    print_text(f"written: {out}")


def demo(*, out: Path = Path("noisebound-demo"), json: Json = False) -> None:
    """Train on digits with 60 % wrong labels, by five losses, plain and bounded.

    Example: `noisebound demo --out demo`

    Parameters
    ----------
    out
        The folder to write the table, the report and the runs to. Finished runs are not repeated.
    """
    from noisebound.pages.table import to_text
    from noisebound.paper.demo import demo_table, run_demo
    from noisebound.runs.folder import RunFolder

    outcome = run_demo(out)
    RunFolder(out).save_command("noisebound demo")
    if json:
        print_json(outcome)
        return
    print_text(to_text(demo_table(outcome)))
    print_text(f"written to {out}: report.html, table.md, table.json and the runs")
