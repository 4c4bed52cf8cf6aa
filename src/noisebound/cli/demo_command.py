"""``noisebound demo``: train with and without a bound."""

from pathlib import Path

from noisebound.cli.options import Json
from noisebound.system.console import print_text


def demo(*, out: Path = Path("noisebound-demo"), json: Json = False) -> None:
    """Train on digits with 60 % wrong labels, by five losses, plain and bounded.

    Parameters
    ----------
    out
        The folder to write the table, the report and the runs to. Finished runs are not repeated.
    """
    import torch

    from noisebound.paper.demo import run_demo
    from noisebound.runs.folder import RunFolder

    torch.set_num_threads(1)  # fastest for a small network, and reproducible
    outcome = run_demo(out)
    RunFolder(out).save_command("noisebound demo")
    if json:
        print_text(outcome.to_json())
        return
    print_text(outcome.to_text())
    print_text(f"written to {out}: report.html, table.md, table.json, training.png and the runs")
