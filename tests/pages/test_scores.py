"""Scores on a test set, against scikit-learn's."""

import pytest
import torch
from sklearn.metrics import (
    confusion_matrix,
    precision_recall_fscore_support,
    roc_auc_score,
)

from noisebound.pages.scores import ClassScores

NAMES = ("a", "b", "c")


def test_they_are_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (200,), generator=generator)
    logits = torch.randn(200, 3, generator=generator) + 1.5 * torch.eye(3)[labels]
    probs = (logits.softmax(1) * 20).round() / 20  # with ties
    scores = ClassScores.of(probs, labels, NAMES)
    predicted = probs.argmax(1)
    assert scores.confusion.tolist() == confusion_matrix(labels, predicted).tolist()
    for k, auroc in enumerate(scores.aurocs):
        assert auroc == pytest.approx(roc_auc_score(labels == k, probs[:, k]))
    precision, recall, _, support = precision_recall_fscore_support(labels, predicted)
    (table,) = scores.section().tables
    for k, row in enumerate(table.rows):
        values = [cell.value for cell in row.cells]
        assert values == pytest.approx([support[k], precision[k], recall[k], scores.aurocs[k]])
    (heat_map,) = scores.section().heat_maps
    assert [heat_map.values[k][k] for k in range(3)] == pytest.approx(list(recall))


def test_a_class_that_is_never_there_or_never_predicted():
    probs = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]])
    scores = ClassScores.of(probs, torch.tensor([0, 1]), NAMES)
    assert scores.aurocs == (1.0, 1.0, None)
    assert scores.auroc == 1.0
    rows = scores.section().tables[0].rows
    assert [cell.text for cell in rows[2].cells] == ["0", "–", "–", "–"]
    assert [cell.text for cell in rows[1].cells] == ["1", "–", "0.0%", "1.000"]
