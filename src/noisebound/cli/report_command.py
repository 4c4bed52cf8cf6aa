"""``noisebound report``: write a page about runs."""

import warnings
from pathlib import Path

from rich.markup import escape

from noisebound.system.console import Console


def report(runs: Path, *, out: Path = Path("report.html")) -> None:
    """Write a self-contained HTML page with the tables, curves and configurations of runs.

    Parameters
    ----------
    runs
        The folder that `noisebound reproduce`, `demo` or `fit` wrote.
    out
        The HTML file to write.
    """
    from noisebound.paper.page import DamagedRunWarning, report_on
    from noisebound.report.page import write_page

    with warnings.catch_warnings(record=True) as damages:
        warnings.simplefilter("always", DamagedRunWarning)
        page = report_on(runs)
    write_page(page, out)
    for damage in damages:
        note = f"[yellow]note:[/] {escape(str(damage.message))}"
        Console(stderr=True, soft_wrap=True, highlight=False).print(note)
    Console(soft_wrap=True, highlight=False).print(f"written: {escape(str(out))}")
