import pytest
import torch

import noisebound as nb

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(8, 5, 3, generator=GENERATOR)
LABELS = torch.randint(5, (8, 3), generator=GENERATOR)
PROBABILITIES = torch.softmax(torch.randn(8, 5, 3, generator=GENERATOR), dim=1)
WEIGHT = torch.tensor([0.5, 1.0, 2.0, 0.1, 3.0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("ignore_index", [-100, 2])
def test_is_torchs_cross_entropy(reduction, weight, smoothing, ignore_index):
    options = {
        "reduction": reduction,
        "weight": weight,
        "label_smoothing": smoothing,
        "ignore_index": ignore_index,
    }
    ours, theirs = nb.CrossEntropy(**options), torch.nn.CrossEntropyLoss(**options)
    torch.testing.assert_close(ours(LOGITS, LABELS), theirs(LOGITS, LABELS))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_is_torchs_cross_entropy_of_probabilities(reduction, weight):
    ours = nb.CrossEntropy(reduction=reduction, weight=weight)
    theirs = torch.nn.CrossEntropyLoss(reduction=reduction, weight=weight)
    torch.testing.assert_close(ours(LOGITS, PROBABILITIES), theirs(LOGITS, PROBABILITIES))


def test_smoothed_probabilities_are_smoothed_alike_by_all():
    """SCE without its second term is CE, but has its own code for smoothing."""
    ours = nb.SymmetricCrossEntropy(A=0.0, label_smoothing=0.3)
    theirs = torch.nn.CrossEntropyLoss(label_smoothing=0.3)
    torch.testing.assert_close(ours(LOGITS, PROBABILITIES), theirs(LOGITS, PROBABILITIES))


def test_refuses_weights_that_do_not_fit():
    with pytest.raises(ValueError, match="made for 5 classes"):
        nb.CrossEntropy(weight=WEIGHT)(LOGITS[:, :4], LABELS.clamp(max=3))
    with pytest.raises(ValueError, match="non-negative"):
        nb.CrossEntropy(weight=-WEIGHT)
    with pytest.raises(ValueError, match="one entry per class, 2; got 5"):
        nb.ForwardCrossEntropy(torch.eye(2), weight=WEIGHT)


def test_refuses_smoothing_outside_the_unit_interval():
    with pytest.raises(ValueError, match=r"\[0, 1\], got 1.5"):
        nb.CrossEntropy(label_smoothing=1.5)


def test_shows_what_was_changed():
    assert repr(nb.CrossEntropy(reduction="sum", ignore_index=0)) == (
        "CrossEntropy(reduction='sum', ignore_index=0)"
    )
