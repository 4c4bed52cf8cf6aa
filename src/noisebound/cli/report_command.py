"""``noisebound report``: one page about runs."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from noisebound.experiments.outcome.run_report import report_on
from noisebound.report.page import write_page


def report(runs: Path, *, out: Path = Path("report.html")) -> None:
    """Write one self-contained HTML page: tables, curves, configs.

    Parameters
    ----------
    runs
        The folder that reproduce, demo or fit wrote.
    out
        The page.
    """
    write_page(report_on(runs), out)
    Console(soft_wrap=True, highlight=False).print(f"written: {escape(str(out))}")
