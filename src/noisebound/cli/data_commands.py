"""``noisebound data``: list, download or inspect data sets, and clear the cache."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from cyclopts import App, Parameter
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from noisebound.cli.options import DataDir, Json, Reading, ReadingFlags, Source
from noisebound.data.column_types import ColumnType, listed_names
from noisebound.system.console import Console, print_json, print_text, spell_arguments

if TYPE_CHECKING:
    from noisebound.data.cache import CachedFiles
    from noisebound.data.published.releases import Published
    from noisebound.data.summary import DataSummary, PartSummary

data_app = App(name="data", help="List, download or inspect data sets, and clear the cache.")

_MANY_CLASSES = 20  # the most that are listed; heuristic


@data_app.command(name="list")
def list_datasets(*, data_dir: DataDir = None) -> None:
    """List the published data sets, and their folders on this machine.

    Example: `noisebound data list`
    """
    from noisebound.data.published import DATASETS

    table = Table("name", "what", "train", "test", box=None, pad_edge=False)
    table.add_column("found in", overflow="fold")
    for published in DATASETS.values():
        train, test = published.counts[0]
        table.add_row(
            published.name,
            published.title,
            f"{train:,}",
            f"{test:,}",
            escape(_place(published, data_dir)),
        )
    Console(soft_wrap=True).print(table)


def _place(published: "Published", data_dir: Path | None) -> str:
    """Return the folders of all parts of a data set, or a dash if one is missing."""
    from noisebound.data.published.releases import find

    if not published.parts:
        return "scikit-learn"
    folders = [str(found.folder) for part in published.parts if (found := find(part, data_dir))]
    return ", ".join(folders) if len(folders) == len(published.parts) else "-"


@data_app.command
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


@data_app.command
def info(name_or_path: Source, *, reading: Reading = None, json: Json = False) -> None:
    """Read a data set and show its size, shapes, columns, classes, balance and origin.

    Example: `noisebound data info table.csv --target species`
    """
    from noisebound.data.summary import summarize

    summary = summarize((reading or ReadingFlags()).origin(name_or_path).load())
    if json:
        print_json(summary.model_dump(mode="json"))
    else:
        _print_summary(summary)


@data_app.command
def cache(
    *,
    clear: Annotated[
        bool, Parameter(negative=(), help="Delete files that can be made again; keep downloads.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the size of the cache, or clear it.

    The environment variable NOISEBOUND_CACHE sets the cache folder.

    Example: `noisebound data cache --clear`
    """
    from noisebound.data.cache import cache_folder, cached_files, clear_cache
    from noisebound.data.published import download_folders

    found = clear_cache() if clear else cached_files(download_folders())
    if json:
        print_json(
            [
                {
                    "folder": str(each.folder),
                    "what": each.what,
                    "files": each.files,
                    "bytes": each.nbytes,
                    "is_cleared": each.is_cleared,
                }
                for each in found
            ]
        )
        return
    if found:
        Console(soft_wrap=True).print(_cache_table(found))
    total = decimal(sum(each.nbytes for each in found))
    verb = "removed" if clear else "kept"
    print_text(f"{total} {verb} in {cache_folder()}")


def _cache_table(found: "list[CachedFiles]") -> Table:
    table = Table("what", "files", "size", "cleared by --clear", box=None, pad_edge=False)
    table.add_column("folder", overflow="fold")
    for each in found:
        table.add_row(
            each.what,
            f"{each.files:,}",
            decimal(each.nbytes),
            "yes" if each.is_cleared else "no",
            escape(str(each.folder)),
        )
    return table


def _print_summary(summary: "DataSummary") -> None:
    print_text(f"{summary.name} from {summary.source}", style="bold")
    for part, name in ((summary.train, "train"), (summary.test, "test")):
        if part is not None:
            print_text(f"{name:<6}{_described(part)}")
    if 0 < len(summary.mean) <= 4:
        pairs = zip(summary.mean, summary.std, strict=True)
        constants = ", ".join(f"{mean:.2f} ± {std:.2f}" for mean, std in pairs)
        print_text(f"mean ± deviation of each channel: {constants}")
    for kind in get_args(ColumnType):
        names = [name for name, found in summary.columns.items() if found == kind]
        if names:
            print_text(f"{kind + ' columns':<18}{listed_names(names)}")
    for note in summary.notes:
        print_text(f"note: {spell_arguments(note)}")
    Console().print(_class_table(summary))


def _described(part: "PartSummary") -> str:
    shape = "×".join(str(size) for size in part.shape)
    text = f"{part.examples:,} examples of {shape} {part.dtype}, "
    if part.imbalance is None:
        text += "some classes without examples"
    elif part.imbalance == 1:
        text += "classes balanced"
    else:
        text += f"largest class {part.imbalance:.2f} times the smallest"
    is_known = part.noise_rate is not None
    return text + (f", {part.noise_rate:.1%} of the labels wrong" if is_known else "")


def _class_table(summary: "DataSummary") -> Table:
    table = Table("class", "name", "train", "test", box=None, pad_edge=False)
    test = summary.test.class_counts if summary.test else {}
    for index, (name, count) in enumerate(summary.train.class_counts.items()):
        if index == _MANY_CLASSES:
            table.add_row("…", f"{summary.classes} classes in all", "", "")
            break
        table.add_row(str(index), escape(name), f"{count:,}", f"{test[name]:,}" if test else "-")
    return table
