"""``noisebound report``: write an HTML report about runs."""

import warnings
from pathlib import Path

from noisebound.system.console import print_note, print_text


def report(runs: Path, *, out: Path = Path("report.html")) -> None:
    """Write a self-contained HTML report with tables, curves and configurations of runs.

    Parameters
    ----------
    runs
        A folder written by `noisebound reproduce`, `demo` or `fit`.
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
        print_note(str(damage.message))
    print_text(f"written: {out}")
