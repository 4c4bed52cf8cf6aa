"""``noisebound reproduce review``: what it brings that a person checks labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from noisebound.errors import InvalidValueError
from noisebound.estimation.confident_learning import require_cleanlab
from noisebound.models import DEFAULT_HEAD
from noisebound.paper.outcome.review_tables import audit_table, rate_table, session_table
from noisebound.paper.protocol.review_data import (
    OTHER_REVIEW_SETS,
    REVIEW_SETS,
    load_review_data,
)
from noisebound.paper.protocol.sources import DataSources
from noisebound.paper.reproduce import Reproduction
from noisebound.paper.runner.review_session import audits, review_sessions
from noisebound.report.table import Table
from noisebound.report.table_formats import write_table
from noisebound.runs import train_run
from noisebound.training import TrainingConfig

ReviewTarget: TypeAlias = Literal["review"]

_CONFIG = TrainingConfig(
    recipe="auto", model=DEFAULT_HEAD, epochs=30, validation_share=0.0, measure_every=30
)


@dataclass(frozen=True)
class ReviewRequest:
    """What to measure.

    Args:
        sources: where the data comes from
        columns: the names of data sets; None for the usual two
    """

    sources: DataSources
    columns: Sequence[str] | None = None

    def chosen_sets(self) -> tuple[str, ...]:
        """Return the names of the data sets, or refuse what is none."""
        for name in self.columns or ():
            if name not in (*REVIEW_SETS, *OTHER_REVIEW_SETS):
                known = ", ".join((*REVIEW_SETS, *OTHER_REVIEW_SETS))
                raise InvalidValueError(f"`columns` of review must be among {known}; got {name!r}")
        return REVIEW_SETS if self.columns is None else tuple(self.columns)


def reproduce_review(request: ReviewRequest, out: Path) -> Reproduction:
    """Play a person by the true labels, and write the tables.

    Args:
        request: what to measure
        out: the folder for the tables; the runs are in its folder ``runs``, and those that are
            finished are not repeated
    """
    require_cleanlab()
    tables: dict[str, Table] = {}
    audited = {}
    for name in request.chosen_sets():
        splits = load_review_data(name, request.sources)
        train = splits.train
        assert train.true_labels is not None
        folder = out / "runs" / name
        is_begun = (folder / "before" / "config.json").exists()
        run = train_run(splits, _CONFIG, folder / "before", resume=is_begun, show=False)
        actual = (train.labels != train.true_labels).double().mean().item()
        audited[name] = (actual, run.noise.assumed_rate, list(audits(run, splits, folder)))
        _write(tables, audit_table(audited), out)
        notes = (
            f"{len(train):,} training examples; {_CONFIG.model} on embeddings, a recipe by trials, "
            f"at most {_CONFIG.epochs} epochs, one seed",
        )
        before, found = run.final("test_top1") or 0.0, {}
        for each in review_sessions(run, splits, _CONFIG, folder):
            found[each.order, each.decisions] = each
            known = list(found.values())
            _write(tables, session_table(name, before, known, notes), out)
            _write(tables, rate_table(name, known), out)
    files = [out / f"{name}.md" for name in tables]
    return Reproduction(tuple(tables.values()), tuple(files), {})


def _write(tables: dict[str, Table], table: Table, out: Path) -> None:
    """Write a table as far as it is known, so that an interruption leaves what is done."""
    tables[table.name] = table
    write_table(table, out)
