"""The paper's figures are in the package, and agree with its statements about them."""

import pytest

from noisebound.paper.protocol import (
    BOUNDED,
    COLUMNS,
    METHODS,
    SEARCHED_METHODS,
    columns_of,
    label_of,
    paper_offset,
    paper_score,
)

PLACES = [
    (column, metric) for column in columns_of("table1", "table2") for metric in column.metrics
]


def test_the_bound_helps_in_82_of_100_pairs():
    gains = [
        paper_score(column, f"{loss}+b", metric).mean - paper_score(column, loss, metric).mean
        for column, metric in PLACES
        for loss in BOUNDED
    ]
    assert len(gains) == 100
    assert sum(gain >= 0 for gain in gains) == 82
    assert sum(gain > 0 for gain in gains) < 82  # ties count


def test_every_row_and_column_of_tables_1_and_2_has_a_figure():
    assert len(PLACES) == 20
    for column, metric in PLACES:
        for method in (*METHODS, *SEARCHED_METHODS):
            score = paper_score(column, method, metric)
            assert score is not None, (column.name, method, metric)
            assert 0 < score.mean <= 100
            assert score.std is not None


def test_figures_as_printed():
    score = paper_score(COLUMNS["asym-cifar100-0.4"], "ce+b", "top1")
    plain = paper_score(COLUMNS["asym-cifar100-0.4"], "ce", "top1")
    assert (score.mean, plain.mean) == (34.7, 42.4)
    assert paper_score(COLUMNS["cifar10n-worst"], "ce", "top1") is None


def test_the_swapped_accuracies_of_the_appendix_are_corrected():
    column = COLUMNS["tiny-imagenet-0.4"]
    assert paper_score(column, "fce", "top1").mean == 29.92
    assert paper_score(column, "fce", "top5").mean == 48.85


def test_the_first_of_two_published_figures_counts():
    assert paper_score(COLUMNS["animals-10n"], "mixup", "top1").mean == 83.76


def test_no_row_of_sce_bounded_in_the_appendix():
    assert paper_score(COLUMNS["tiny-imagenet-0.2"], "sce+b", "top1") is None


@pytest.mark.parametrize(
    ("column", "loss", "offset"),
    [("nonuniform-emnist-0.6", "ce", -0.6), ("fashion-mnist-0.4", "sce+b*", 0.2)],
)
def test_offsets(column, loss, offset):
    assert paper_offset(COLUMNS[column], loss) == offset


def test_labels():
    assert [label_of(method) for method in ("nce-mae", "mixup", "cep+b")] == [
        "NCE-MAE",
        "MixUp",
        "CEP+B",
    ]
