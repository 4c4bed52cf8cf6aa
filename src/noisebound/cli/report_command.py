"""``noisebound report``: write a page about runs."""

from pathlib import Path

from rich.markup import escape

from noisebound.console import Console
from noisebound.experiments.outcome.run_report import report_on
from noisebound.report.page import write_page


def report(runs: Path, *, out: Path = Path("report.html")) -> None:
    """Write a self-contained HTML page with the tables, curves and configurations of runs.

    Parameters
    ----------
    runs
        The folder that `noisebound reproduce`, `demo` or `fit` wrote.
    out
        The HTML file to write.
    """
    write_page(report_on(runs), out)
    Console(soft_wrap=True, highlight=False).print(f"written: {escape(str(out))}")
