"""Tests that every loss must pass."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import noisebound as nb
from all_losses import ALL_LOSSES, BATCH, CLASSES, POINTWISE, STATELESS

every_loss = pytest.mark.parametrize("case", ALL_LOSSES, ids=repr)
every_stateless_loss = pytest.mark.parametrize("case", STATELESS, ids=repr)
every_pointwise_loss = pytest.mark.parametrize("case", POINTWISE, ids=repr)


def batch(dtype=torch.float64, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(BATCH, CLASSES, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (BATCH,), generator=generator)
    return logits.to(dtype), labels


def reference(case, logits, labels):
    q = np.exp(logits.double().numpy())
    q /= q.sum(1, keepdims=True)
    return torch.from_numpy(case.reference(q, labels.numpy()))


@every_loss
def test_value_is_the_reference(case):
    logits, labels = batch()
    torch.testing.assert_close(
        case.per_sample(logits, labels), reference(case, logits, labels), rtol=1e-11, atol=1e-11
    )


@every_loss
def test_reductions(case):
    logits, labels = batch()
    losses = case.per_sample(logits, labels)
    total = case.call(case.make(reduction="sum"), logits, labels)
    mean = case.call(case.make(), logits, labels)
    counted = BATCH
    if case.needs_batch:
        counted = case.make().weighted_losses(logits, labels)[1].sum()
    torch.testing.assert_close(total, losses.sum())
    torch.testing.assert_close(mean, losses.sum() / counted)


@every_loss
def test_one_hot_labels_are_class_indices(case):
    logits, labels = batch()
    torch.testing.assert_close(
        case.per_sample(logits, F.one_hot(labels, CLASSES).double()),
        case.per_sample(logits, labels),
    )


@every_pointwise_loss
def test_probabilities_give_the_expected_loss(case):
    logits, _ = batch()
    probabilities = torch.softmax(batch(seed=1)[0], dim=1)
    by_class = torch.stack(
        [case.per_sample(logits, torch.full((BATCH,), k)) for k in range(CLASSES)], dim=1
    )
    torch.testing.assert_close(
        case.per_sample(logits, probabilities), (probabilities * by_class).sum(1)
    )


@every_pointwise_loss
@pytest.mark.parametrize("soft", [False, True])
def test_positions_are_examples(case, soft):
    logits, labels = batch()
    positions = logits.reshape(4, 2, 2, CLASSES).movedim(-1, 1)
    targets = torch.softmax(batch(seed=1)[0], dim=1) if soft else labels
    target_positions = (
        targets.reshape(4, 2, 2, CLASSES).movedim(-1, 1) if soft else labels.reshape(4, 2, 2)
    )
    torch.testing.assert_close(
        case.per_sample(positions, target_positions),
        case.per_sample(logits, targets).reshape(4, 2, 2),
    )
    torch.testing.assert_close(
        case.make()(positions, target_positions), case.make()(logits, targets)
    )


@every_stateless_loss
@pytest.mark.parametrize("ignored", [-100, 2])
def test_ignored_examples_count_for_nothing(case, ignored):
    if case.needs_batch and ignored != -100:
        ignored = -100
    loss = case.make() if ignored == -100 else case.make(ignore_index=ignored)
    logits, labels = batch()
    if ignored == -100:
        labels[::3] = ignored
    kept = labels != ignored
    assert 0 < kept.sum() < BATCH
    logits.requires_grad_()
    value = loss(logits, labels)
    torch.testing.assert_close(value, loss(logits[kept], labels[kept]))
    (gradient,) = torch.autograd.grad(value, logits)
    assert not gradient[~kept].any()
    assert gradient[kept].any()


@every_loss
def test_gradient(case):
    logits, labels = batch(seed=2)
    logits, labels = logits[:4].requires_grad_(), labels[:4]
    loss = case.make(reduction="none").double()
    case.call(loss, logits, labels)
    loss.eval()  # the memory has no gradient and must not change
    assert torch.autograd.gradcheck(lambda z: case.call(loss, z, labels), logits)


@every_stateless_loss
def test_second_derivative(case):
    logits, labels = batch(seed=2)
    logits = logits[:3].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda z: case.per_sample(z, labels[:3]), logits)


@every_pointwise_loss
def test_gradient_at_probabilities(case):
    logits, _ = batch(seed=2)
    probabilities = torch.softmax(batch(seed=3)[0], dim=1)[:3]
    logits = logits[:3].requires_grad_()
    assert torch.autograd.gradcheck(lambda z: case.per_sample(z, probabilities), logits)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_precision(case, dtype):
    logits, labels = batch(dtype)
    logits.requires_grad_()
    losses = case.per_sample(logits, labels)
    assert losses.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    # The logits were rounded by the caller; from there on everything is float32 or better.
    expected = reference(case, logits.detach(), labels)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert gradient.dtype == dtype
    assert torch.isfinite(gradient).all()


@every_loss
@pytest.mark.parametrize("soft", [False, True])
def test_autocast_changes_nothing(case, soft):
    logits, labels = batch(torch.float32)
    if soft:
        labels = torch.softmax(batch(torch.float32, seed=1)[0], dim=1)
    plain = case.per_sample(logits, labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(case.per_sample(logits, labels), plain, rtol=0, atol=0)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("soft", [False, True])
def test_extreme_logits_stay_finite(case, dtype, soft):
    extremes = torch.tensor([[1e4, -1e4, 0.0, -1e4, -1e4], [-1e4] * 5, [1e4, 1e4, 0, 0, -1e4]])
    logits = extremes.to(dtype).repeat_interleave(CLASSES, 0)[:BATCH].requires_grad_()
    labels = torch.arange(CLASSES).repeat(3)
    if soft:
        labels = 0.9 * F.one_hot(labels, CLASSES) + 0.1 / CLASSES
    losses = case.per_sample(logits, labels)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert torch.isfinite(losses).all()
    assert torch.isfinite(gradient).all()


def compare_compiled(losses, labels, **options):
    """Compile the losses as one graph, which takes far less time than a graph for each."""
    logits, _ = batch(torch.float32)

    def values(*each):
        return [loss(one, labels) for loss, one in zip(losses, each, strict=True)]

    eager, compiled = ([logits.clone().requires_grad_() for _ in losses] for _ in range(2))
    expected, found = values(*eager), torch.compile(values, fullgraph=True, **options)(*compiled)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(sum(found), compiled), torch.autograd.grad(sum(expected), eager)
    )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.usefixtures("unchecked_shapes")
def test_all_compile_without_graph_break(soft):
    labels = batch()[1]
    if soft:
        labels = torch.softmax(batch(torch.float32, seed=1)[0], dim=1)
    compare_compiled([case.make() for case in STATELESS], labels, backend="aot_eager")


@pytest.mark.usefixtures("unchecked_shapes")
def test_inductor_gives_the_eager_values():
    losses = [
        nb.create_loss(name, noise_rate=0.3, num_classes=CLASSES) for name in ("gce", "cep", "fce")
    ]
    # Otherwise Inductor compiles a program for each kind of vector instruction, to try it.
    compare_compiled(losses, batch()[1], options={"cpp.vec_isa_ok": True})


@every_stateless_loss
def test_per_example_gradients_by_vmap(case):
    logits, labels = batch(torch.float32)
    loss = case.make()
    gradient = torch.func.grad(lambda z, y: loss(z.unsqueeze(0), y.unsqueeze(0)))
    by_vmap = torch.func.vmap(gradient)(logits, labels)
    one_by_one = torch.stack([gradient(z, y) for z, y in zip(logits, labels, strict=True)])
    torch.testing.assert_close(by_vmap, one_by_one)


@every_loss
def test_weight(case):
    logits, labels = batch()
    weight = torch.tensor([0.5, 1.0, 2.0, 0.0, 3.0])
    if not case.takes_weight:
        with pytest.raises(TypeError, match="weight"):
            case.make(weight=weight)
        return
    losses = case.per_sample(logits, labels)
    expected = (weight[labels] * losses).sum() / weight[labels].sum()
    torch.testing.assert_close(case.make(weight=weight)(logits, labels), expected)
    torch.testing.assert_close(
        case.per_sample(logits, labels, weight=weight), weight[labels] * losses
    )


@every_loss
def test_label_smoothing(case):
    if not case.takes_weight:
        with pytest.raises(TypeError, match="label_smoothing"):
            case.make(label_smoothing=0.1)
        return
    logits, labels = batch()
    smoothed = 0.9 * F.one_hot(labels, CLASSES).double() + 0.1 / CLASSES
    smoothing, expected = case.make(label_smoothing=0.1), case.make()(logits, smoothed)
    torch.testing.assert_close(smoothing(logits, labels), expected)
    torch.testing.assert_close(smoothing(logits, F.one_hot(labels, CLASSES).double()), expected)


@every_loss
def test_survives_copy_and_pickle(case):
    logits, labels = batch()
    for twin in (copy.deepcopy(case.make()), pickle.loads(pickle.dumps(case.make()))):
        torch.testing.assert_close(
            case.call(twin, logits, labels), case.call(case.make(), logits, labels)
        )


@every_loss
def test_accepts_small_integer_labels(case):
    logits, labels = batch()
    torch.testing.assert_close(
        case.per_sample(logits, labels.to(torch.int32)), case.per_sample(logits, labels)
    )


@every_loss
def test_touches_no_global_seed(case):
    state = torch.get_rng_state()
    case.per_sample(*batch())
    assert torch.equal(torch.get_rng_state(), state)


@every_loss
@pytest.mark.parametrize("label", [CLASSES, -1])
def test_label_out_of_range_is_refused(case, label):
    logits, labels = batch()
    labels[3] = label
    with pytest.raises(ValueError, match=rf"0 … {CLASSES - 1}.*got {label}"):
        case.per_sample(logits, labels)
    if not case.remembers:
        positions, labels = logits.reshape(4, 4, CLASSES).mT, labels.reshape(4, 4)
        with pytest.raises(ValueError, match=rf"0 … {CLASSES - 1}.*got {label}"):
            case.per_sample(positions, labels)


@every_pointwise_loss
def test_label_out_of_range_is_refused_beside_an_ignored_class(case):
    logits, labels = batch()
    labels[3] = CLASSES + 4
    with pytest.raises(ValueError, match=f"ignore_index=2, got {CLASSES + 4}"):
        case.per_sample(logits, labels, ignore_index=2)


@every_pointwise_loss
def test_an_ignored_class_has_no_meaning_for_probabilities(case):
    logits, _ = batch()
    with pytest.raises(ValueError, match="`ignore_index` has no meaning"):
        case.per_sample(logits, torch.softmax(logits, 1), ignore_index=2)


@every_loss
def test_mismatched_shapes_are_refused(case):
    logits, labels = batch()
    with pytest.raises(ValueError, match="must have shape"):
        case.per_sample(logits, labels[:-1])
    with pytest.raises(ValueError, match="class probabilities"):
        case.per_sample(logits, torch.rand(BATCH, CLASSES - 1))
    with pytest.raises(ValueError, match=r"labels\.long\(\)"):
        case.per_sample(logits, labels.float())
    with pytest.raises(ValueError, match="unsqueeze"):
        case.per_sample(logits[0], labels[0])
    with pytest.raises(TypeError, match="floating point"):
        case.per_sample(labels.unsqueeze(1).expand(-1, CLASSES), labels)
    with pytest.raises(TypeError, match="bool"):
        case.per_sample(logits, labels > 2)


@every_loss
def test_unknown_reduction_is_refused(case):
    with pytest.raises(ValueError, match="'mean', 'sum' or 'none'"):
        case.make(reduction="average")


@every_loss
def test_logits_that_are_nan_make_the_loss_nan(case):
    """A diverged training must be visible, whatever the loss."""
    logits, labels = batch()
    logits[2] = float("nan")
    assert case.call(case.make(), logits, labels).isnan()


@pytest.mark.parametrize("a", [0.1, 0.3, 0.4, 0.7, 0.9, 1.0])
def test_gradient_of_gce_is_exact(a):
    """It is ``q_y^a`` times the gradient of cross-entropy."""
    logits, labels = batch()
    logits.requires_grad_()
    loss = nb.GeneralizedCrossEntropy(a=a, reduction="sum")
    (gradient,) = torch.autograd.grad(loss(logits, labels), logits)
    q = torch.softmax(logits.detach(), 1)
    likelihood = q.gather(1, labels[:, None])
    expected = likelihood**a * (q - F.one_hot(labels, CLASSES))
    torch.testing.assert_close(gradient, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_bootstrapping_takes_masked_classes(mode, dtype):
    """A class with the logit -inf is left out, as if there were one class less."""
    logits, labels = batch(dtype)
    labels = labels.clamp(max=CLASSES - 2)
    masked = logits.clone()
    masked[:, -1] = -torch.inf
    masked.requires_grad_()
    loss = nb.Bootstrapping(mode=mode)
    value = loss(masked, labels)
    torch.testing.assert_close(value, loss(logits[:, :-1], labels))
    (gradient,) = torch.autograd.grad(value, masked)
    assert torch.isfinite(gradient).all()
