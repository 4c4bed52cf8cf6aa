"""What a review of labels brings, by order and by number of decisions; and what an audit tells."""

from collections.abc import Mapping, Sequence

from noisebound.paper.runner.review_session import (
    AUDITED,
    COUNTS,
    ORDERS,
    AuditFindings,
    SessionFindings,
)
from noisebound.report.table import EMPTY, Cell, Row, Table, Value

_CLOSE = 0.05  # of the true rate: the aim of an audit


def session_table(
    name: str,
    before: float,
    findings: Sequence[SessionFindings],
    notes: Sequence[str] = (),
) -> Table:
    """Return the table of one data set.

    Args:
        name: the data set's
        before: the accuracy on the test examples before any decision
        findings: what came of each order and count
        notes: the circumstances
    """
    by_place = {(each.order, each.decisions): each for each in findings}
    rows, records = [], []
    for order in ORDERS:
        cells = []
        for count in COUNTS:
            found = by_place.get((order, count))
            cells.append(EMPTY if found is None else _cell(found))
        rows.append(Row(order, tuple(cells), is_shaded="noisebound" in order))
    for found in findings:
        record: dict[str, Value] = {"data": name, "before": before, **vars(found)}
        records.append(record)
    return Table(
        f"review-{name}",
        f"{name}: test accuracy after decisions, before them {before:.1%}; in parentheses how many "
        "of the labels that were looked at were wrong",
        ("order", *(f"{count:,} decisions" for count in COUNTS)),
        tuple(rows),
        tuple(records),
        tuple(notes),
    )


def _cell(found: SessionFindings) -> Cell:
    accuracy = "–" if found.accuracy is None else f"{found.accuracy:.1%}"
    return Cell(accuracy, f"{found.wrong:,} wrong", found.accuracy)


def rate_table(name: str, findings: Sequence[SessionFindings]) -> Table:
    """Return how far the estimated noise rate of the unchecked labels is off, and the weights."""
    by_place = {(each.order, each.decisions): each for each in findings}
    rows = tuple(
        Row(
            order,
            tuple(
                EMPTY
                if (found := by_place.get((order, count))) is None or found.rate_error is None
                else Cell(f"{found.rate_error:.3f}", f"×{found.weight:g}", found.rate_error)
                for count in COUNTS
            ),
        )
        for order in ORDERS
    )
    return Table(
        f"review-rate-{name}",
        f"{name}: error of the estimated noise rate of the labels that nobody has checked; in "
        "parentheses how much a checked label counts",
        ("order", *(f"{count:,} decisions" for count in COUNTS)),
        rows,
        tuple({"data": name, **vars(found)} for found in findings),
    )


def audit_table(audits: Mapping[str, tuple[float, float, Sequence[AuditFindings]]]) -> Table:
    """Return how close audits come to the true rate.

    Args:
        audits: of each data set the true rate, the run's own estimate, and the audits
    """
    rows, records = [], []
    for name, (actual, own, found) in audits.items():
        count = len(found)
        close = sum(abs(each.error) <= _CLOSE for each in found) / count
        covered = sum(each.covered for each in found) / count
        root = (sum(each.error**2 for each in found) / count) ** 0.5
        width = sum(each.width for each in found) / count
        numbers = (actual, own, close, covered, root, width)
        forms = (".1%", ".1%", ".0%", ".0%", ".3f", ".3f")
        rows.append(
            Row(name, tuple(Cell(format(x, f), "", x) for x, f in zip(numbers, forms, strict=True)))
        )
        records += [{"data": name, "actual": actual, "own": own, **vars(each)} for each in found]
    header = (
        "data",
        "labels wrong",
        "the run's own estimate",
        "audits within 0.05",
        "intervals that hold it",
        "root mean squared error",
        "mean width",
    )
    title = f"Audits of {AUDITED} labels, each repeated with other samples"
    return Table("review-audit", title, header, tuple(rows), tuple(records))
