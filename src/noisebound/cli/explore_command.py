"""``noisebound explore``: a page that shows how the floor depends on the noise."""

from pathlib import Path

from noisebound.system.console import print_text


def explore(*, out: Path = Path("explorer.html")) -> None:
    """Write a self-contained HTML page that plots the floor of each loss over the noise rate.

    Parameters
    ----------
    out
        The HTML file to write.
    """
    from noisebound.report.explorer import write_explorer

    write_explorer(out)
    print_text(f"written: {out}")
