"""Losses per label: a loss of two classes for each label, and the floor of their mean."""

import copy
import functools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn import functional as F

import noisebound as nb
import references

N, K = 12, 3
MISSED, ADDED = 0.3, 0.1
MATRIX = np.array([[1 - ADDED, MISSED], [ADDED, 1 - MISSED]])


def asymmetric_focal(gamma_pos, gamma_neg, clip):
    def loss(q, y):
        shifted = np.maximum(q[:, 1] - clip, 0)
        absent = shifted**gamma_neg * -np.log(1 - shifted)
        return np.where(y == 1, (1 - q[:, 1]) ** gamma_pos * -np.log(q[:, 1]), absent)

    return loss


LOSSES = {
    "ce": (nb.CrossEntropy, references.cross_entropy()),
    "gce": (nb.GeneralizedCrossEntropy, references.generalized(0.4)),
    "sce": (nb.SymmetricCrossEntropy, references.symmetric(8.0)),
    "focal": (nb.Focal, references.focal(2.0)),
    "mse": (nb.MeanSquaredError, references.squared()),
    "ldr-kl": (
        lambda: nb.LabelDistributionallyRobust(lam=2.0, margin=0.5),
        references.label_distributionally_robust(2.0, 0.5),
    ),
    "forward": (lambda: nb.ForwardCrossEntropy(MATRIX), references.forward(MATRIX)),
    "backward": (lambda: nb.BackwardCrossEntropy(MATRIX), references.backward(MATRIX)),
    "asymmetric": (nb.AsymmetricFocal, asymmetric_focal(0.0, 4.0, 0.05)),
    "asymmetric-0.5": (
        lambda: nb.AsymmetricFocal(0.5, 0.5, clip=0.0),
        asymmetric_focal(0.5, 0.5, 0.0),
    ),
}
every_loss = pytest.mark.parametrize("name", [*LOSSES, "bce"])


def make(name, **options):
    return (
        nb.BinaryCrossEntropy(**options)
        if name == "bce"
        else nb.PerLabel(LOSSES[name][0](), **options)
    )


def batch(dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(N, K, generator=g, dtype=torch.float64)
    return logits.to(dtype), torch.randint(2, (N, K), generator=g)


def reference(name, logits, labels):
    q = torch.stack([torch.zeros_like(logits), logits], -1).double().softmax(-1).reshape(-1, 2)
    loss = LOSSES["ce" if name == "bce" else name][1]
    return torch.from_numpy(loss(q.numpy(), labels.flatten().numpy())).view(labels.shape)


@every_loss
def test_value_is_that_of_two_classes(name):
    logits, labels = batch()
    found = make(name, reduction="none")(logits, labels)
    torch.testing.assert_close(found, reference(name, logits, labels), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(make(name)(logits, labels), found.mean())
    torch.testing.assert_close(make(name, reduction="sum")(logits, labels), found.sum())


@every_loss
def test_targets_may_be_floats_and_probabilities(name):
    logits, labels = batch()
    loss = make(name, reduction="none")
    at = [loss(logits, torch.full((N, K), value)) for value in (0, 1)]
    torch.testing.assert_close(loss(logits, labels.double()), loss(logits, labels))
    soft = torch.rand(N, K, generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(loss(logits, soft), (1 - soft) * at[0] + soft * at[1])


@every_loss
@pytest.mark.parametrize("dtype", [torch.int8, torch.long, torch.float64])
def test_labels_that_were_not_given_count_for_nothing(name, dtype):
    logits, labels = batch()
    labels[::3, 1] = labels[5] = -1
    is_given = labels >= 0
    logits.requires_grad_()
    value = make(name)(logits, labels.to(dtype))
    torch.testing.assert_close(value, reference(name, logits.detach(), labels)[is_given].mean())
    (gradient,) = torch.autograd.grad(value, logits)
    assert not gradient[~is_given].any()
    assert gradient[is_given].any()


@every_loss
def test_gradients(name):
    logits, labels = batch()
    logits = logits[:3].requires_grad_()
    loss = make(name, reduction="none")
    for targets in (labels[:3], 0.8 * labels[:3].double() + 0.1):
        assert torch.autograd.gradcheck(lambda z, t=targets: loss(z, t), logits)
        assert torch.autograd.gradgradcheck(lambda z, t=targets: loss(z, t), logits)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision(name, dtype):
    logits, labels = batch(dtype)
    losses = make(name, reduction="none")(logits, labels)
    assert losses.dtype == torch.float32
    expected = reference(name, logits, labels)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)


@every_loss
@pytest.mark.parametrize("soft", [False, True])
def test_extreme_logits_stay_finite(name, soft):
    logits = torch.tensor([[1e4, -1e4, 0.0]] * 2).half().requires_grad_()
    labels = torch.tensor([[0, 0, 0], [1, 1, 1]])
    losses = make(name, reduction="none")(logits, 0.9 * labels + 0.05 if soft else labels)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert torch.isfinite(losses).all()
    assert torch.isfinite(gradient).all()


def test_binary_cross_entropy_is_that_of_torch():
    logits, labels = batch(torch.float32)
    expected = F.binary_cross_entropy_with_logits(logits, labels.float())
    assert torch.equal(nb.BinaryCrossEntropy()(logits, labels), expected)


@pytest.mark.usefixtures("unchecked_shapes")
def test_all_compile_without_graph_break():
    losses = [make(name) for name in (*LOSSES, "bce")]
    logits, labels = batch(torch.float32)
    labels[0, 0] = -1

    def values(z):
        return torch.stack([loss(z, labels) for loss in losses])

    compiled = torch.compile(values, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits), values(logits))


@every_loss
def test_per_example_gradients_by_vmap_and_copies(name):
    logits, labels = batch(torch.float32)
    loss = make(name)
    gradient = torch.func.grad(lambda z, y: loss(z[None], y[None]))
    by_vmap = torch.func.vmap(gradient)(logits, labels)
    one_by_one = torch.stack([gradient(z, y) for z, y in zip(logits, labels, strict=True)])
    torch.testing.assert_close(by_vmap, one_by_one)
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        torch.testing.assert_close(twin(logits, labels), loss(logits, labels))


def test_each_label_may_have_a_loss_of_its_own():
    matrices = [np.array([[1.0, m], [0.0, 1 - m]]) for m in (0.1, 0.3, 0.5)]
    loss = nb.PerLabel([nb.ForwardCrossEntropy(each) for each in matrices], reduction="none")
    logits, labels = batch()
    found = loss(logits, labels)
    for k, matrix in enumerate(matrices):
        alone = nb.PerLabel(nb.ForwardCrossEntropy(matrix), reduction="none")
        torch.testing.assert_close(
            found[:, k : k + 1], alone(logits[:, k : k + 1], labels[:, k : k + 1])
        )
    mixed = nb.PerLabel([nb.Focal(), *(nb.ForwardCrossEntropy(m) for m in matrices[1:])])
    losses = torch.cat(
        [make("focal", reduction="none")(logits[:, :1], labels[:, :1]), found[:, 1:]], 1
    )
    torch.testing.assert_close(mixed(logits, labels), losses.mean())
    soft = 0.8 * labels.double() + 0.1
    expected = sum(p * loss(logits, torch.full((N, K), y)) for y, p in ((0, 1 - soft), (1, soft)))
    torch.testing.assert_close(loss(logits, soft), expected)
    extreme = torch.tensor([[1e4, -1e4, 0.0]]).half().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(extreme, torch.tensor([[0, 1, 1]])).sum(), extreme)
    assert torch.isfinite(gradient).all()
    bound = nb.noise_bound(loss, ([0.1, 0.3, 0.5], 0.0), 3, class_prior=0.2)
    single = [nb.transition_bound(nb.CrossEntropy(), each, [0.8, 0.2]) for each in matrices]
    assert bound == pytest.approx(np.mean(single))
    with pytest.raises(ValueError, match=r"entropy\(loss.label_losses"):
        nb.entropy(loss, [0.5, 0.5])
    with pytest.raises(ValueError, match="made for 3 labels"):
        loss(logits[:, :2], labels[:, :2])


def test_positions_are_examples():
    logits, labels = batch()
    loss = nb.PerLabel(nb.Focal())
    positions = logits.view(3, 4, K).mT, labels.view(3, 4, K).mT
    torch.testing.assert_close(loss(*positions), loss(logits, labels))


def test_weights_of_the_two_classes():
    logits, labels = batch()
    loss = nb.PerLabel(nb.CrossEntropy(weight=[1.0, 4.0]))
    weights = torch.where(labels == 1, 4.0, 1.0)
    expected = (weights * reference("ce", logits, labels)).sum() / weights.sum()
    torch.testing.assert_close(loss(logits, labels), expected)
    with pytest.raises(ValueError, match="weighs or ignores classes"):
        nb.noise_bound(loss, (0.2, 0.0), K, class_prior=0.5)


@functools.cache
def floor_of(name, missed, added, prior):
    return nb.noise_bound(make(name), (missed, added), 1, class_prior=prior)


class TestFloors:
    """No model has a lower noisy risk, and the true posterior of separable data reaches it."""

    @pytest.mark.parametrize("name", [name for name in LOSSES if name != "backward"])
    @settings(max_examples=30)
    @given(st.floats(0, 0.6), st.floats(0, 0.3), st.floats(0.01, 0.99), st.integers(0, 2**31))
    def test_no_prediction_is_below(self, name, missed, added, prior, seed):
        if name.startswith("asymmetric") or name == "ldr-kl":
            missed, added, prior = 0.4, 0.05, 0.3  # these floors are searched or tabulated
        loss, floor = make(name), floor_of(name, missed, added, prior)
        z = 3 * torch.randn(2, 1, generator=torch.Generator().manual_seed(seed)).double()
        # Truly absent, then truly present: each with its noise as a soft target.
        noisy = torch.tensor([[added], [1 - missed]], dtype=torch.float64)
        risk = (1 - prior) * loss(z[:1], noisy[:1]) + prior * loss(z[1:], noisy[1:])
        assert risk.item() >= floor - 1e-6

    @pytest.mark.parametrize("name", ["ce", "gce", "sce", "focal", "mse"])
    def test_the_true_posterior_reaches_it(self, name):
        loss, prior = make(name), 0.2
        noisy = torch.tensor([[ADDED], [1 - MISSED]], dtype=torch.float64)
        p = torch.cat([1 - noisy, noisy], 1)
        inner = loss.label_losses[0]
        best = p if loss.noise_model is None else loss.noise_model.inverse(p)
        if name == "focal":
            best = inner.best_prediction(p)
        else:
            torch.testing.assert_close(loss.noise_model.forward(best), p)
        z = (best[:, 1:] / best[:, :1]).log()
        risk = (1 - prior) * loss(z[:1], noisy[:1]) + prior * loss(z[1:], noisy[1:])
        floor = nb.noise_bound(loss, (MISSED, ADDED), 1, class_prior=prior)
        assert risk.item() == pytest.approx(floor, abs=1e-9)

    def test_formula(self):
        rates, prior = (np.array([0.4, 0.1, 0.0]), 0.05), np.array([0.5, 0.1, 0.9])
        h = lambda p: nb.entropy(nb.CrossEntropy(), [p, 1 - p])  # noqa: E731
        expected = np.mean(
            [q * h(m) + (1 - q) * h(0.05) for q, m in zip(prior, rates[0], strict=True)]
        )
        loss = nb.BinaryCrossEntropy()
        assert nb.noise_bound(loss, rates, 3, class_prior=prior) == pytest.approx(expected)
        matrices = np.array([[[0.95, m], [0.05, 1 - m]] for m in rates[0]])
        assert nb.transition_bound(loss, matrices, prior) == pytest.approx(expected)
        assert nb.noise_bound(loss, 0.2, 3) == pytest.approx(h(0.2))
        assert nb.entropy(loss, [0.9, 0.1]) == pytest.approx(h(0.1))
        assert nb.posterior_bound(loss, [[0.4, 0.05]]) == pytest.approx((h(0.4) + h(0.05)) / 2)

    def test_backward_correction_has_the_clean_floor(self):
        loss = make("backward")
        assert nb.noise_bound(loss, (MISSED, ADDED), K) == pytest.approx(0, abs=1e-9)
        assert loss.predicts_true_class
        assert loss.on_observed_labels() is None
        observed = make("forward").on_observed_labels()
        assert isinstance(observed.label_losses[0], nb.CrossEntropy)


class TestBounding:
    def test_the_prior_follows_from_the_labels_of_all_batches(self):
        g = torch.Generator().manual_seed(0)
        true = (torch.rand(4000, 2, generator=g) < torch.tensor([0.5, 0.05])).long()
        noisy = nb.corrupt(true, "missing", 0.4, generator=g).labels
        noisy[::4, 1] = -1
        running = nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), (0.4, 0.0), 2)
        logits = torch.zeros(4000, 2)
        for part in torch.arange(4000).split(100):
            running(logits[part], noisy[part])
        given = (noisy >= 0).sum(0).double()
        prior = (noisy == 1).sum(0) / given / 0.6
        entropy = nb.entropy(nb.CrossEntropy(), [0.4, 0.6])
        assert running.bound == pytest.approx(float((given * prior).sum() / given.sum()) * entropy)
        assert running.bound == pytest.approx(
            nb.noise_bound(nb.BinaryCrossEntropy(), (0.4, 0.0), 2, class_prior=[0.5, 0.05]), rel=0.2
        )
        resumed = nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), (0.4, 0.0), 2)
        resumed.load_state_dict(running.state_dict())
        resumed(logits[:10], noisy[:10]), running(logits[:10], noisy[:10])
        assert resumed.bound == running.bound
        before = running.bound
        running.eval()(logits[:10], 1 - true[:10])
        assert running.bound == before

    def test_value_and_sign(self):
        logits, labels = batch()
        criterion = nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), (0.4, 0.0), K, class_prior=0.5)
        mean = nb.BinaryCrossEntropy()(logits, labels)
        means = nb.BinaryCrossEntropy(reduction="none")(logits, labels).mean(0)
        value = criterion(logits, labels)
        torch.testing.assert_close(value, (means - criterion.bound).abs().mean())
        assert criterion.raw_mean == pytest.approx(mean.item())
        torch.testing.assert_close(criterion.eval()(logits, labels), mean)
        torch.testing.assert_close(criterion.train()(logits, labels), value)

    def test_each_label_is_held_at_its_own_floor(self):
        """A label below its floor is raised while another one above it is lowered."""
        logits = torch.tensor([[6.0, 0.0], [-6.0, 0.0]], requires_grad=True)
        labels = torch.tensor([[1, 1], [0, 0]])
        criterion = nb.NoiseBoundedLoss(
            nb.BinaryCrossEntropy(), ([0.4, 0.1], 0.0), 2, class_prior=[0.5, 0.5]
        )
        (gradient,) = torch.autograd.grad(criterion(logits, labels), logits)
        (plain,) = torch.autograd.grad(nb.BinaryCrossEntropy()(logits, labels), logits)
        torch.testing.assert_close(gradient, plain * torch.tensor([-1.0, 1.0]))

    @pytest.mark.usefixtures("unchecked_shapes")
    def test_compiles(self):
        logits, labels = batch(torch.float32)
        eager, compiled = (
            nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), (0.4, 0.0), K) for _ in "ab"
        )
        run = torch.compile(compiled, fullgraph=True, backend="aot_eager")
        for _ in range(3):
            torch.testing.assert_close(run(logits, labels), eager(logits, labels))
        assert compiled.bound == eager.bound

    def test_step_bound_is_exact_over_micro_batches(self):
        logits, labels = batch()
        labels[::5, 0] = -1
        loss = nb.BinaryCrossEntropy()
        bound = 1.2 * loss(logits, labels).item()
        whole, parts = (logits.clone().requires_grad_() for _ in range(2))
        nb.BoundedLoss(loss, bound)(whole, labels).backward()
        optimizer = torch.optim.SGD([parts], lr=1.0)
        step_bound = nb.StepBound(optimizer, bound)
        count = (labels >= 0).sum()
        for part in torch.arange(N).split(5):
            mean, given = loss(parts[part], labels[part]), (labels[part] >= 0).sum()
            step_bound.observe(mean, given)
            (mean * given / count).backward()
        optimizer.step()
        torch.testing.assert_close(parts.detach(), logits - whole.grad)
        assert step_bound.is_below


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda z, y: nb.BinaryCrossEntropy()(z, 2 * y), "0, 1, a probability, or -1.*got 2"),
        (lambda z, y: nb.BinaryCrossEntropy()(z, y - 0.5), "got -0.5"),
        (lambda z, y: nb.BinaryCrossEntropy()(z, y[:, 0]), "the same shape"),
        (lambda z, y: nb.BinaryCrossEntropy(weight=[1, 2]), "does not take `weight`"),
        (lambda z, y: nb.PerLabel(nb.BinaryCrossEntropy()), "does not apply to each label"),
        (lambda z, y: nb.PerLabel(nb.Curriculum(0.1)), "does not apply to each label"),
        (lambda z, y: nb.PerLabel(F.cross_entropy), "must be a noisebound loss"),
        (
            lambda z, y: nb.PerLabel(nb.PriorCrossEntropy(0.3, 5)),
            "two classes, absent and present, and this loss was made for 5",
        ),
        (lambda z, y: nb.noise_bound(nb.BinaryCrossEntropy(), (0.4, 0.0), K), "`class_prior`"),
        (lambda z, y: nb.noise_bound(nb.BinaryCrossEntropy(), (0.4, 0, 0), K), "pair"),
        (lambda z, y: nb.noise_bound(nb.BinaryCrossEntropy(), (1.4, 0), K), r"lie in \[0, 1\]"),
        (
            lambda z, y: nb.noise_bound(nb.BinaryCrossEntropy(), ([0.4, 0.1], 0), K),
            "one number or one per label, 3",
        ),
        (
            lambda z, y: nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), (0.6, 0.4), K),
            "sum to one or more",
        ),
        (
            lambda z, y: nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), (0.4, 0.0), 4)(z, y),
            "computed for 4 labels",
        ),
        (lambda z, y: nb.entropy_interval(nb.BinaryCrossEntropy(), 0.2, K), "absent and present"),
        (lambda z, y: nb.nonuniform_bound(nb.BinaryCrossEntropy(), [0.2], K), "posterior_bound"),
        (lambda z, y: nb.posterior_bound(nb.BinaryCrossEntropy(), [[1.2]]), r"in \[0, 1\]"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call(*batch())


def test_bytes_of_255_are_no_missing_labels():
    labels = torch.tensor([[0, 255], [1, 0]], dtype=torch.uint8)
    with pytest.raises(nb.NoiseboundError, match="got 255"):
        nb.BinaryCrossEntropy()(torch.zeros(2, 2), labels)


@pytest.mark.parametrize("rates", [[0.4, 0.0], np.array([0.4, 0.0]), torch.tensor([0.4, 0.0])])
def test_rates_may_be_any_pair(rates):
    loss = nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), rates, 3)
    assert loss.noise_rate == pytest.approx((0.4, 0.0))
    assert "noise_rate=(0.4" in repr(loss)


def test_the_bound_of_floors_cannot_be_set():
    loss = nb.NoiseBoundedLoss(nb.BinaryCrossEntropy(), (0.4, 0.0), 3)
    with pytest.raises(nb.NoiseboundError, match="its own floor"):
        loss.bound = 0.3


def test_one_matrix_stands_for_all_labels():
    loss, matrix, prior = nb.BinaryCrossEntropy(), [[1.0, 0.4], [0.0, 0.6]], [0.5, 0.1, 0.1]
    bound = nb.transition_bound(loss, matrix, prior)
    assert bound == pytest.approx(nb.noise_bound(loss, (0.4, 0.0), 3, class_prior=prior))
