"""List, download or inspect data sets, and clear the cache."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cyclopts import App, Parameter
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from noisebound.cli.options import DataDir, Json, Reading, ReadingFlags, Source
from noisebound.data.column_types import ColumnType, listed_names
from noisebound.system.console import Console, print_json, print_text, spell_arguments

if TYPE_CHECKING:
    from noisebound.data.published.releases import Published

data = App(name="data", help=__doc__)

_MANY_CLASSES = 20  # the most that are listed; heuristic


@data.command(name="list")
def list_datasets(*, data_dir: DataDir = None) -> None:
    """List the published data sets, and their folders on this machine.

    Example: `noisebound data list`
    """
    from noisebound.data.published import DATASETS

    table = Table("name", "what", "train", "test", box=None, pad_edge=False)
    table.add_column("found in", overflow="fold")
    for published in DATASETS.values():
        counts = (f"{count:,}" for count in published.counts)
        table.add_row(published.name, published.title, *counts, escape(_place(published, data_dir)))
    Console(soft_wrap=True).print(table)


def _place(published: "Published", data_dir: Path | None) -> str:
    """Return the folders of all parts of a data set, or a dash if one is missing."""
    from noisebound.data.published.releases import find

    if not published.parts:
        return "scikit-learn"
    folders = [str(found.folder) for part in published.parts if (found := find(part, data_dir))]
    return ", ".join(folders) if len(folders) == len(published.parts) else "-"


@data.command
def fetch(name: str, *, data_dir: DataDir = None) -> None:
    """Download a published data set to the cache, unless it is on this machine, and verify it.

    Example: `noisebound data fetch fashion-mnist`

    Parameters
    ----------
    name
        The name of the data set in `noisebound data list`.
    """
    from noisebound.data.published import get_published
    from noisebound.data.published.releases import find_or_download

    published = get_published(name)
    for part in published.parts:
        found = find_or_download(part, data_dir)
        for file in found.release:
            print_text(str(found.folder / file.name))
    if not published.parts:
        print_text(f"{published.name} comes with scikit-learn: there is nothing to fetch")


@data.command
def info(name_or_path: Source, *, reading: Reading = None, json: Json = False) -> None:
    """Read a data set and show its size, shapes, columns, classes, balance and origin.

    Example: `noisebound data info table.csv --target species`
    """
    from noisebound.data.load import read, summarize

    summary = summarize(read(name_or_path, (reading or ReadingFlags()).options).encoded())
    if json:
        print_json(summary)
    else:
        _print_summary(summary)


@data.command
def cache(
    *,
    clear: Annotated[
        bool, Parameter(negative=(), help="Delete files that can be made again; keep downloads.")
    ] = False,
) -> None:
    """Show the size of the cache, or clear it.

    The environment variable NOISEBOUND_CACHE sets the cache folder.

    Example: `noisebound data cache --clear`
    """
    from noisebound.data.files import cache_folder, cached_files, clear_cache
    from noisebound.data.published import download_folders

    found = clear_cache() if clear else cached_files(download_folders())
    table = Table("what", "files", "size", "cleared by --clear", box=None, pad_edge=False)
    table.add_column("folder", overflow="fold")
    for each in found:
        is_cleared, place = "yes" if each.is_cleared else "no", escape(str(each.folder))
        table.add_row(each.what, f"{each.files:,}", decimal(each.nbytes), is_cleared, place)
    if found:
        Console(soft_wrap=True).print(table)
    total = decimal(sum(each.nbytes for each in found))
    print_text(f"{total} {'removed' if clear else 'kept'} in {cache_folder()}")


def _print_summary(summary: dict[str, Any]) -> None:
    print_text(f"{summary['name']} from {summary['source']}", style="bold")
    for name in ("train", "test"):
        if summary[name] is not None:
            print_text(f"{name:<6}{_described(summary[name])}")
    if 0 < len(summary["mean"]) <= 4:
        pairs = zip(summary["mean"], summary["std"], strict=True)
        constants = ", ".join(f"{mean:.2f} ± {std:.2f}" for mean, std in pairs)
        print_text(f"mean ± deviation of each channel: {constants}")
    for kind in get_args(ColumnType):
        names = [name for name, found in summary["columns"].items() if found == kind]
        if names:
            print_text(f"{kind + ' columns':<18}{listed_names(names)}")
    for note in summary["notes"]:
        print_text(f"note: {spell_arguments(note)}")
    is_one = summary["train"]["labels_per_example"] is None
    table = Table("class" if is_one else "label", "name", "train", "test", box=None, pad_edge=False)
    test = summary["test"]["class_counts"] if summary["test"] else {}
    counts = list(summary["train"]["class_counts"].items())
    for index, (name, count) in enumerate(counts[:_MANY_CLASSES]):
        table.add_row(str(index), escape(name), f"{count:,}", f"{test[name]:,}" if test else "-")
    if len(counts) > _MANY_CLASSES:
        table.add_row("…", f"{len(counts)} {'classes' if is_one else 'labels'} in all", "", "")
    Console().print(table)


def _described(part: dict[str, Any]) -> str:
    shape, imbalance, rate = (
        "×".join(map(str, part["shape"])),
        part["imbalance"],
        part["noise_rate"],
    )
    balance = "some classes without examples"
    if imbalance is not None:
        balance = f"largest class {imbalance:.2f} times the smallest"
        balance = "classes balanced" if imbalance == 1 else balance
    if part["labels_per_example"] is not None:
        balance = f"{part['labels_per_example']:.2f} labels each"
    wrong = "" if rate is None else f", {rate:.1%} of the labels wrong"
    return f"{part['examples']:,} examples of {shape} {part['dtype']}, {balance}{wrong}"
