"""Scores on a test set, against scikit-learn's."""

import pytest
import torch
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from noisebound.data import Dataset
from noisebound.pages.run_page import scores_section

NAMES = ("a", "b", "c")


def labeled(labels, names=NAMES):
    return Dataset(torch.zeros(len(labels), 1), labels, names)


def test_they_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (200,), generator=generator)
    logits = torch.randn(200, 3, generator=generator) + 1.5 * torch.eye(3)[labels]
    probs = (logits.softmax(1) * 20).round() / 20  # with ties
    section, auroc = scores_section(probs, labeled(labels))
    aurocs = [roc_auc_score(labels == k, probs[:, k]) for k in range(3)]
    assert auroc == pytest.approx(sum(aurocs) / 3)
    precision, recall, _, support = precision_recall_fscore_support(labels, probs.argmax(1))
    table, heat_map = section.tables
    for k, row in enumerate(table.rows):
        values = [cell.value for cell in row.cells]
        assert values == pytest.approx([support[k], precision[k], recall[k], aurocs[k]])
    assert heat_map.is_heat_map
    assert [heat_map.rows[k].cells[k].share for k in range(3)] == pytest.approx(list(recall))


def test_a_class_that_is_never_there_or_never_predicted():
    probs = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]])
    section, auroc = scores_section(probs, labeled(torch.tensor([0, 1])))
    assert auroc == 1.0
    rows = section.tables[0].rows
    assert [cell.text for cell in rows[2].cells] == ["0", "–", "–", "–"]
    assert [cell.text for cell in rows[1].cells] == ["1", "–", "0.0%", "1.000"]


def test_many_classes_have_a_table_of_confusions():
    names = tuple(f"class {k}" for k in range(14))
    section, _ = scores_section(torch.eye(14)[[3, 4, 5]], labeled(torch.tensor([3, 3, 5]), names))
    assert not section.tables[1].is_heat_map
    first = section.tables[1].rows[0]
    assert (first.label, *[cell.text for cell in first.cells]) == ("class 3", "class 4", "50.0%")
