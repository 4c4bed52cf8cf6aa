"""StepBound does over micro-batches and ranks what BoundedLoss does on one big batch."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import noisebound as nb

FEATURES, CLASSES, STEPS, BATCH = 6, 4, 12, 16
# The mean loss stays between 1.2 and 1.7, so that it crosses only the bound 1.4.
BOUNDS = {"above the bound": 0.0, "below the bound": 9.0, "crossed": 1.4}
every_bound = pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)


def make_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    return model.double()


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        inputs = torch.randn(BATCH, FEATURES, generator=generator, dtype=torch.float64)
        yield inputs, torch.randint(CLASSES, (BATCH,), generator=generator)


def make_optimizer(model):
    """Return one with two parameter groups, momentum, and a weight decay that is not flipped."""
    first, last = model[0].parameters(), model[2].parameters()
    return torch.optim.SGD(
        [{"params": first, "lr": 0.3}, {"params": last, "lr": 0.1, "weight_decay": 0.01}],
        momentum=0.5,
    )


def parameters_of(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def train_on_whole_batches(bound, clip=None):
    """Train with |mean - B| of each whole batch, which is the definition."""
    model = make_model()
    optimizer, criterion = make_optimizer(model), nb.BoundedLoss(nb.CrossEntropy(), bound)
    for inputs, labels in batches():
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return parameters_of(model), criterion.share_below


def train_on_micro_batches(bound, sizes, clip=None, zero_grad_first=True):
    model = make_model()
    optimizer = make_optimizer(model)
    step_bound = nb.StepBound(optimizer, bound)
    for inputs, labels in batches():
        if zero_grad_first:
            optimizer.zero_grad()
        for x, y in zip(inputs.split(sizes), labels.split(sizes), strict=True):
            loss = nb.CrossEntropy()(model(x), y)
            step_bound.observe(loss, count=len(y))
            if not zero_grad_first and len(y) == BATCH:
                optimizer.zero_grad()
            (loss * len(y) / BATCH).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return parameters_of(model), step_bound.share_below


@every_bound
@pytest.mark.parametrize("sizes", [[4, 4, 4, 4], [1, 7, 6, 2], [16]], ids=str)
def test_micro_batches_are_one_big_batch(bound, sizes):
    expected, expected_share = train_on_whole_batches(bound)
    found, share = train_on_micro_batches(bound, sizes)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert share == expected_share
    assert (0 < share < 1) == (bound == BOUNDS["crossed"])


def test_signs_of_single_micro_batches_would_be_wrong():
    """Bounding each micro-batch is a different training, so that StepBound is needed."""
    model = make_model()
    optimizer = make_optimizer(model)
    criterion = nb.BoundedLoss(nb.CrossEntropy(), BOUNDS["crossed"])
    for inputs, labels in batches():
        optimizer.zero_grad()
        for x, y in zip(inputs.split(4), labels.split(4), strict=True):
            (criterion(model(x), y) / 4).backward()
        optimizer.step()
    expected, _ = train_on_whole_batches(BOUNDS["crossed"])
    assert (parameters_of(model) - expected).abs().max() > 1e-3


@every_bound
def test_clipping_commutes_with_the_sign(bound):
    expected, _ = train_on_whole_batches(bound, clip=0.05)
    found, _ = train_on_micro_batches(bound, [8, 8], clip=0.05)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_zero_grad_may_come_between_forward_and_backward():
    expected, _ = train_on_whole_batches(BOUNDS["crossed"])
    found, _ = train_on_micro_batches(BOUNDS["crossed"], [16], zero_grad_first=False)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("known_as", [torch.Tensor.detach, torch.Tensor.item])
def test_losses_may_be_observed_as_numbers_and_before_any_backward(known_as):
    bound = BOUNDS["crossed"]
    model = make_model()
    optimizer = make_optimizer(model)
    step_bound = nb.StepBound(optimizer, bound)
    for inputs, labels in batches():
        optimizer.zero_grad()
        losses = [
            nb.CrossEntropy()(model(x), y)
            for x, y in zip(inputs.split(4), labels.split(4), strict=True)
        ]
        for loss in losses:
            step_bound.observe(known_as(loss), 4)
        (sum(losses) / 4).backward()
        optimizer.step()
    expected, _ = train_on_whole_batches(bound)
    torch.testing.assert_close(parameters_of(model), expected, rtol=0, atol=1e-9)


def test_exactly_at_the_bound_nothing_moves():
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    step_bound = nb.StepBound(optimizer, bound=1.0)
    loss = weight.mean()
    step_bound.observe(loss, 2)
    loss.backward()
    optimizer.step()
    assert weight.tolist() == [1.0, 1.0]


@every_bound
@pytest.mark.parametrize("zero_grad_first", [True, False])
def test_grad_scaler_with_steps_that_it_skips(bound, zero_grad_first):
    """The loss of a skipped step must not count in the next one."""

    def train(bounded):
        model = make_model().float()
        optimizer = make_optimizer(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)
        criterion = nb.BoundedLoss(nb.CrossEntropy(), bound)
        step_bound = None if bounded else nb.StepBound(optimizer, bound)
        skipped = 0
        for step, (inputs, labels) in enumerate(batches()):
            if zero_grad_first:
                optimizer.zero_grad()
            logits = model(inputs.float())
            if bounded:
                loss = criterion(logits, labels)
            else:
                loss = nb.CrossEntropy()(logits, labels)
                step_bound.observe(loss, len(labels))
            if not zero_grad_first:
                optimizer.zero_grad()
            scaler.scale(loss).backward()
            if step % 3 == 1:
                model[0].weight.grad[0, 0] = float("inf")
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            skipped += scaler.get_scale() < before
        assert skipped == 4
        return parameters_of(model)

    torch.testing.assert_close(train(bounded=False), train(bounded=True))


def observed_backward(model, step_bound, labels, count=None):
    loss = nb.CrossEntropy()(model(torch.ones(len(labels), FEATURES).double()), labels)
    step_bound.observe(loss, len(labels) if count is None else count)
    loss.backward()
    return loss.item()


def test_a_micro_batch_without_examples_counts_for_nothing():
    """Its mean is NaN, its count zero, its gradient zero."""
    model = make_model()
    optimizer = make_optimizer(model)
    step_bound = nb.StepBound(optimizer, 9.0)
    mean = observed_backward(model, step_bound, torch.tensor([0, 1]))
    observed_backward(model, step_bound, torch.tensor([-100, -100]), count=0)
    before = parameters_of(model)
    optimizer.step()
    assert step_bound.raw_mean == pytest.approx(mean)
    assert step_bound.is_below
    assert not torch.equal(parameters_of(model), before)


def test_an_abandoned_micro_batch_counts_for_nothing():
    model = make_model()
    optimizer = make_optimizer(model)
    step_bound = nb.StepBound(optimizer, 1.0)
    step_bound.observe(100 * sum(p.sum() for p in model.parameters()), 16)  # never backpropagated
    optimizer.zero_grad()
    mean = observed_backward(model, step_bound, torch.tensor([0, 1]))
    optimizer.step()
    assert step_bound.raw_mean == pytest.approx(mean)


def test_gradients_zeroed_through_the_model():
    model = make_model()
    optimizer = make_optimizer(model)
    step_bound = nb.StepBound(optimizer, 1.0)
    observed_backward(model, step_bound, torch.tensor([3, 3]))  # its step is skipped
    model.zero_grad()
    mean = observed_backward(model, step_bound, torch.tensor([0, 1]))
    optimizer.step()
    assert step_bound.raw_mean == pytest.approx(mean)


def test_a_second_one_is_refused():
    optimizer = make_optimizer(make_model())
    first = nb.StepBound(optimizer, 1.0)
    with pytest.raises(ValueError, match="already has a StepBound"):
        nb.StepBound(optimizer, 2.0)
    first.remove()
    nb.StepBound(optimizer, 2.0)


def test_forgotten_observation_is_an_error():
    model = make_model()
    optimizer = make_optimizer(model)
    step_bound = nb.StepBound(optimizer, 1.0)
    with pytest.raises(RuntimeError, match=r"step_bound\.observe\(loss, count\)"):
        optimizer.step()
    step_bound.remove()
    optimizer.step()


def test_one_observation_serves_one_step():
    model = make_model()
    optimizer = make_optimizer(model)
    step_bound = nb.StepBound(optimizer, 1.0)
    step_bound.observe(torch.tensor(1.0), 1)
    optimizer.step()
    with pytest.raises(RuntimeError, match="without an observed loss"):
        optimizer.step()


def test_remove_leaves_the_optimizer_as_it_was():
    optimizer = make_optimizer(make_model())
    zero_grad = optimizer.zero_grad
    nb.StepBound(optimizer, 1.0).remove()
    assert optimizer.zero_grad == zero_grad


def test_closures_are_refused():
    optimizer = make_optimizer(make_model())
    nb.StepBound(optimizer, 1.0).observe(torch.tensor(1.0), 1)
    with pytest.raises(RuntimeError, match="closure"):
        optimizer.step(lambda: torch.tensor(1.0))


@pytest.mark.parametrize(
    ("loss", "count", "message"),
    [
        (torch.ones(3), 3, r"one number, got a tensor of shape \(3,\)"),
        (torch.tensor(1.0), -1, "number of examples"),
        (torch.tensor(1.0), float("nan"), "number of examples"),
    ],
)
def test_invalid_observations_are_refused(loss, count, message):
    with pytest.raises(ValueError, match=message):
        nb.StepBound(make_optimizer(make_model()), 1.0).observe(loss, count)


def train_as_rank(rank, world_size, folder):
    """Train at each bound, and save what came of it."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world_size
    )
    found = [train_with_ddp(rank, world_size, bound) for bound in BOUNDS.values()]
    torch.save(found, f"{folder}/rank{rank}.pt")
    dist.barrier()  # the group must be unused, by DDP and on both ranks, before it is destroyed
    dist.destroy_process_group()
    # Without this, a worker died with "terminate called without an active exception" in 4 of about
    # 240 runs. Since workers skip the interpreter's shutdown, none has died in 140 runs.
    os._exit(0)


def train_with_ddp(rank, world_size, bound):
    """Train on two micro-batches per rank; DDP averages the gradients over the ranks."""
    model = make_model()
    optimizer = make_optimizer(model)
    parallel = DistributedDataParallel(model)
    step_bound = nb.StepBound(optimizer, bound)
    share = slice(rank * BATCH // world_size, (rank + 1) * BATCH // world_size)
    for inputs, labels in batches():
        optimizer.zero_grad()
        x, y = inputs[share], labels[share]
        for micro in (slice(0, 3), slice(3, len(y))):
            loss = nb.CrossEntropy()(parallel(x[micro]), y[micro])
            step_bound.observe(loss, count=len(y[micro]))
            (loss * len(y[micro]) / len(y)).backward()
        optimizer.step()
    return parameters_of(model), step_bound.share_below


def test_two_ranks_are_one_big_batch(tmp_path):
    torch.multiprocessing.spawn(train_as_rank, args=(2, str(tmp_path)), nprocs=2)
    expected = [train_on_whole_batches(bound) for bound in BOUNDS.values()]
    for rank in range(2):
        found = torch.load(tmp_path / f"rank{rank}.pt")
        for (weights, share), (expected_weights, expected_share) in zip(
            found, expected, strict=True
        ):
            torch.testing.assert_close(weights, expected_weights, rtol=0, atol=1e-9)
            assert share == expected_share


class Wrapper:
    """An optimizer of another library, which has no hooks."""

    def __init__(self, optimizer):
        self.inner = optimizer

    def step(self):
        self.inner.step()


def test_an_optimizer_without_hooks_is_refused():
    optimizer = make_optimizer(make_model())
    with pytest.raises(TypeError, match="Wrapper has no hooks for its steps: pass"):
        nb.StepBound(Wrapper(optimizer), 1.0)


def test_state_is_saved_and_restored(tmp_path):
    model = make_model()
    optimizer = make_optimizer(model)
    step_bound = nb.StepBound(optimizer, 1.4)
    for inputs, labels in batches():
        optimizer.zero_grad()
        mean = nb.CrossEntropy()(model(inputs), labels)
        step_bound.observe(mean, count=len(labels))
        mean.backward()
        optimizer.step()
    step_bound.bound = 1.3
    torch.save(step_bound.state_dict(), tmp_path / "bound.pt")

    resumed = nb.StepBound(make_optimizer(make_model()), 0.0)
    resumed.load_state_dict(torch.load(tmp_path / "bound.pt", weights_only=True))
    assert resumed.bound == 1.3
    assert 0 < resumed.share_below == step_bound.share_below < 1
    assert resumed.monitor.batches == STEPS


@every_bound
def test_the_mean_is_over_all_labeled_tokens(bound):
    """Sentences of one batch have labels for 0 to 16 of their tokens; -100 labels the others."""
    whole, parts = make_model(), make_model()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.3) for model in (whole, parts)]
    criterion, step_bound = (
        nb.BoundedLoss(nb.CrossEntropy(), bound),
        nb.StepBound(optimizers[1], bound),
    )
    places = torch.arange(BATCH).repeat(4, 1)
    for tokens, tags in zip(batches(), [*batches()][::-1], strict=True):
        words = torch.stack([tokens[0], tags[0], -tokens[0], -tags[0]])
        labels = torch.stack([tokens[1], tags[1], tokens[1], tags[1]])
        labels[places >= torch.tensor([[16], [3], [0], [7]])] = -100
        for optimizer in optimizers:
            optimizer.zero_grad()
        criterion(whole(words).movedim(-1, 1), labels).backward()
        for x, y in zip(words.split(1), labels.split(1), strict=True):
            loss, count = nb.CrossEntropy()(parts(x).movedim(-1, 1), y), int((y != -100).sum())
            step_bound.observe(loss, count=count)
            (loss * count / 26 if count else loss).nan_to_num().backward()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(parameters_of(parts), parameters_of(whole), rtol=0, atol=1e-12)
    assert step_bound.share_below == criterion.share_below
    assert (0 < criterion.share_below < 1) == (bound == BOUNDS["crossed"])
