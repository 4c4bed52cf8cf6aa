"""In every test the shapes in the library's signatures are checked."""

import pytest
import torch
from jaxtyping import TypeCheckError

import noisebound as nb


def test_a_wrong_shape_is_refused():
    with pytest.raises(TypeCheckError, match=r"entropy(.|\n)*batch classes"):
        nb.CrossEntropy().entropy(torch.tensor([0.5, 0.5]))


def test_shapes_must_agree():
    with pytest.raises(TypeCheckError, match=r"losses_at_labels(.|\n)*batch"):
        nb.CrossEntropy().losses_at_labels(torch.zeros(3, 2), torch.tensor([0, 1]))


def test_a_wrong_result_is_refused():
    class Summed(nb.Loss):
        def formula(self, log_q, at):
            return -at(log_q).sum()

    with pytest.raises(TypeCheckError, match="return value"):
        Summed().class_losses(torch.zeros(3, 2))


@pytest.mark.usefixtures("unchecked_shapes")
def test_checks_can_be_turned_off():
    assert nb.CrossEntropy().of_surprisal(torch.tensor([1])).item() == 1


def test_a_wrong_type_is_refused():
    with pytest.raises(TypeCheckError, match="of_surprisal"):
        nb.CrossEntropy().of_surprisal(torch.tensor([1]))


def test_a_wrong_result_is_refused_after_right_ones_of_the_same_arguments():
    class Moody(nb.Loss):
        def formula(self, log_q, at):
            return -at(log_q).sum() if self.summed else -at(log_q)

    loss = Moody()
    loss.summed = False
    loss.class_losses(torch.zeros(3, 2))
    loss.summed = True
    with pytest.raises(TypeCheckError, match="return value"):
        loss.class_losses(torch.zeros(3, 2))


def test_wrong_shapes_are_refused_after_right_ones():
    loss = nb.CrossEntropy()
    loss.losses_at_labels(torch.zeros(2, 2), torch.tensor([0, 1]))
    with pytest.raises(TypeCheckError, match=r"losses_at_labels(.|\n)*batch"):
        loss.losses_at_labels(torch.zeros(3, 2), torch.tensor([0, 1]))
