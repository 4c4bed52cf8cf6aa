"""BoundedLoss and NoiseBoundedLoss: the value, the sign of the gradient, and the counts."""

import copy
import math

import pytest
import torch
from torch.nn import functional as F

import noisebound as nb
from all_losses import ALL_LOSSES, BATCH, CLASSES
from noisebound.bounded import step_sign
from noisebound.step_bound import GradientBound

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(BATCH, CLASSES, generator=GENERATOR, dtype=torch.float64)
LABELS = torch.randint(CLASSES, (BATCH,), generator=GENERATOR)


def gradient(criterion, logits, labels):
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(criterion(logits, labels), logits)[0]


@pytest.mark.parametrize("offset", [-0.5, 0.5])
@pytest.mark.parametrize("case", ALL_LOSSES, ids=repr)
def test_is_the_distance_from_the_bound(case, offset):
    mean = case.call(case.make().double(), LOGITS, LABELS)
    criterion = nb.BoundedLoss(case.make().double(), bound=mean.item() + offset)
    torch.testing.assert_close(
        case.call(criterion, LOGITS, LABELS), torch.tensor(0.5, dtype=torch.float64)
    )
    assert criterion.raw_mean == pytest.approx(mean.item())
    assert criterion.is_below == (offset > 0)
    assert criterion.share_below == (offset > 0)


@pytest.mark.parametrize(("offset", "sign"), [(-0.5, 1), (0.5, -1), (0.0, 0)])
def test_gradient_is_the_plain_one_times_a_sign(offset, sign):
    loss = nb.SymmetricCrossEntropy()
    bound = loss(LOGITS, LABELS).item() + offset
    torch.testing.assert_close(
        gradient(nb.BoundedLoss(loss, bound), LOGITS, LABELS),
        sign * gradient(loss, LOGITS, LABELS),
    )


def test_evaluation_mode_gives_the_plain_mean_and_records_nothing():
    criterion = nb.BoundedLoss(nb.CrossEntropy(), bound=10.0)
    criterion(LOGITS, LABELS)
    criterion.eval()
    torch.testing.assert_close(
        criterion(LOGITS[:3], LABELS[:3]), F.cross_entropy(LOGITS[:3], LABELS[:3])
    )
    assert criterion.raw_mean == pytest.approx(F.cross_entropy(LOGITS, LABELS).item())
    assert criterion.monitor.batches == 1


def test_share_of_batches_below():
    criterion = nb.BoundedLoss(nb.CrossEntropy(), bound=1.0)
    assert criterion.share_below == 0
    right, wrong = 20.0 * F.one_hot(LABELS, CLASSES), -20.0 * F.one_hot(LABELS, CLASSES)
    for logits in (right, wrong, wrong, right):
        criterion(logits, LABELS)
    assert criterion.share_below == 0.5
    assert criterion.is_below


def test_counts_are_saved():
    criterion = nb.BoundedLoss(nb.CrossEntropy(), bound=10.0)
    criterion(LOGITS, LABELS)
    resumed = nb.BoundedLoss(nb.CrossEntropy(), bound=10.0)
    resumed.load_state_dict(copy.deepcopy(criterion.state_dict()))
    assert resumed.share_below == 1
    assert resumed.monitor.batches == 1


@pytest.mark.parametrize(
    "loss",
    [
        nb.GeneralizedCrossEntropy(),
        nb.GeneralizedCrossEntropy(reduction="none"),
        lambda z, y: nb.GeneralizedCrossEntropy()(z, y),
        lambda z, y: nb.GeneralizedCrossEntropy(reduction="none")(z, y),
    ],
)
def test_takes_modules_and_functions_reduced_or_not(loss):
    expected = nb.GeneralizedCrossEntropy()(LOGITS, LABELS)
    torch.testing.assert_close(nb.BoundedLoss(loss, bound=0.0)(LOGITS, LABELS), expected)


def test_ignored_examples_do_not_dilute_the_mean():
    labels = LABELS.clone()
    labels[::2] = -100
    for reduction in ("mean", "none"):
        criterion = nb.BoundedLoss(nb.CrossEntropy(reduction=reduction), bound=0.0)
        torch.testing.assert_close(criterion(LOGITS, labels), F.cross_entropy(LOGITS, labels))


def test_ignored_examples_do_not_dilute_the_mean_of_a_foreign_loss():
    labels = LABELS.clone()
    labels[::2] = -100
    for reduction in ("mean", "none"):
        criterion = nb.BoundedLoss(torch.nn.CrossEntropyLoss(reduction=reduction), bound=0.0)
        torch.testing.assert_close(criterion(LOGITS, labels), F.cross_entropy(LOGITS, labels))


def test_refuses_objects_that_are_not_losses():
    for loss in ("ce", nb.CrossEntropy):
        with pytest.raises(TypeError, match=r"such as CrossEntropy\(\)"):
            nb.BoundedLoss(loss, bound=1.0)
    with pytest.raises(ValueError, match="does not remember its examples"):
        nb.BoundedLoss(nb.CrossEntropy(), bound=1.0)(LOGITS, LABELS, torch.arange(BATCH))


def test_refuses_a_summed_loss_and_an_invalid_bound():
    for loss in (nb.CrossEntropy(reduction="sum"), torch.nn.CrossEntropyLoss(reduction="sum")):
        with pytest.raises(ValueError, match="gives the sum"):
            nb.BoundedLoss(loss, bound=1.0)
    with pytest.raises(ValueError, match="finite number"):
        nb.BoundedLoss(nb.CrossEntropy(), bound=float("nan"))


@pytest.mark.parametrize("name", ["ce", "fce", "gce", "sce", "cep", "mae"])
def test_noise_bounded_loss_has_the_noise_bound(name):
    loss = nb.create_loss(name, noise_rate=0.3, num_classes=CLASSES)
    criterion = nb.NoiseBoundedLoss(loss, noise_rate=0.3, num_classes=CLASSES)
    assert criterion.bound == nb.noise_bound(loss, 0.3, CLASSES)


def test_noise_bounded_loss_takes_any_function():
    def focal(logits, labels):
        nll = F.cross_entropy(logits, labels, reduction="none")
        return (1 - torch.exp(-nll)) ** 2 * nll

    criterion = nb.NoiseBoundedLoss(focal, noise_rate=0.3, num_classes=CLASSES)
    assert criterion.bound == pytest.approx(nb.noise_bound(focal, 0.3, CLASSES))
    torch.testing.assert_close(
        criterion(LOGITS, LABELS), (focal(LOGITS, LABELS).mean() - criterion.bound).abs()
    )


def test_class_weights_need_a_prior_and_class_indices():
    weighted = nb.CrossEntropy(weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    with pytest.raises(ValueError, match="class_prior"):
        nb.NoiseBoundedLoss(weighted, 0.3, CLASSES)
    criterion = nb.NoiseBoundedLoss(weighted, 0.3, CLASSES, class_prior=[0.2] * 5)
    assert torch.isfinite(criterion(LOGITS, LABELS))
    with pytest.raises(ValueError, match="class indices"):
        criterion(LOGITS, torch.softmax(LOGITS, 1))


@pytest.mark.usefixtures("unchecked_shapes")
def test_compiles_without_graph_break():
    torch.compiler.reset()
    criterion = nb.NoiseBoundedLoss(nb.GeneralizedCrossEntropy(), 0.3, CLASSES)
    expected = criterion(LOGITS, LABELS)
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(LOGITS, LABELS), expected)
    for _ in range(9):  # counting must not recompile it
        compiled(LOGITS, LABELS)
    assert int(criterion.monitor.batches) == 11


def test_half_precision():
    criterion = nb.NoiseBoundedLoss(nb.CrossEntropy(), 0.3, CLASSES)
    value = criterion(LOGITS.bfloat16(), LABELS)
    assert value.dtype == torch.float32


@pytest.mark.parametrize(
    "make",
    [
        lambda: nb.NoiseBoundedLoss(nb.CrossEntropy(), "auto", 10),
        lambda: nb.noise_bound(nb.CrossEntropy(), "auto", 10),
        lambda: nb.create_loss("fce", noise_rate="auto", num_classes=10),
    ],
)
def test_auto_needs_data(make):
    with pytest.raises(TypeError, match=r"got 'auto': only from data .*estimate_noise"):
        make()


class TestClassesInTheBound:
    """The noise-bound has at most as many classes as there are logits."""

    def test_more_than_logits_are_refused(self):
        criterion = nb.NoiseBoundedLoss(nb.CrossEntropy(), 0.2, num_classes=10)
        for training in (True, False):
            with pytest.raises(ValueError, match=r"10, and these are logits of 5 classes"):
                criterion.train(training)(LOGITS, LABELS)

    def test_as_many_as_logits_need_no_warning(self):
        criterion = nb.NoiseBoundedLoss(nb.CrossEntropy(), 0.2, num_classes=CLASSES)
        assert torch.isfinite(criterion(LOGITS, LABELS))

    def test_fewer_are_allowed_with_one_warning(self):
        """The paper does so on purpose, a user hardly ever."""
        criterion = nb.NoiseBoundedLoss(nb.CrossEntropy(), 0.4, num_classes=2)
        with pytest.warns(nb.ClassCountWarning, match="pass num_classes=5, unless"):
            assert torch.isfinite(criterion(LOGITS, LABELS))
        criterion(LOGITS, LABELS)  # a second warning would be an error here

    @pytest.mark.filterwarnings("ignore::noisebound.ClassCountWarning")
    def test_the_warning_can_be_ignored(self):
        nb.NoiseBoundedLoss(nb.CrossEntropy(), 0.4, num_classes=2)(LOGITS, LABELS)

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_the_check_compiles(self):
        torch.compiler.reset()
        criterion = nb.NoiseBoundedLoss(nb.CrossEntropy(), 0.2, num_classes=CLASSES)
        compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(LOGITS, LABELS), criterion(LOGITS, LABELS))

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_the_warning_compiles(self):
        torch.compiler.reset()
        criterion = nb.NoiseBoundedLoss(nb.CrossEntropy(), 0.2, num_classes=2)
        compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
        with pytest.warns(nb.ClassCountWarning) as caught:
            values = [compiled(LOGITS, LABELS) for _ in range(3)]
        assert len(caught) == 1
        torch.testing.assert_close(values[0], criterion(LOGITS, LABELS))


class TestSign:
    """The sign of a bounded step, which all ways to bound a training share."""

    @pytest.mark.parametrize(("mean", "sign"), [(2.0, 1), (1.0, 0), (0.5, -1), (math.nan, 1)])
    def test_by_the_mean(self, mean, sign):
        assert step_sign(torch.tensor(mean), bound=1.0) == sign

    def test_a_loop_of_ones_own_takes_it_before_the_backward_pass(self):
        bound = GradientBound(1.0)
        weight = torch.tensor(0.5, requires_grad=True)
        weight.backward(gradient=bound.sign(weight))
        assert weight.grad == -1
        assert bound.share_below == 1
