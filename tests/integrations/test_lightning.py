"""Lightning's real Trainer with the callback, against a bare loop with BoundedLoss."""

import subprocess
import sys
import warnings
from pathlib import Path

import lightning.pytorch as pl
import pytest
import pytorch_lightning
import torch
from lightning.pytorch.plugins import MixedPrecision
from lightning_ranks import (
    BATCH,
    CLASSES,
    EPOCHS,
    FEATURES,
    STEPS,
    Classifier,
    batches_of,
    make_trainer,
)
from torch import nn
from torch.utils.data import DataLoader, Subset

import noisebound as nb
from noisebound.integrations.lightning import MemorizationCallback, NoiseBoundCallback

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated"),
]
# The mean loss stays between 1.2 and 1.7: always above 0, always below 9, crossed at 1.42.
BOUNDS = {"above the bound": 0.0, "below the bound": 9.0, "crossed": 1.42}
CROSSED = BOUNDS["crossed"]
every_bound = pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)


def bare_loop(bound, clip=None):
    """The definition: |mean - B| of each whole batch."""
    model, criterion = Classifier(), nb.BoundedLoss(nb.CrossEntropy(), bound)
    optimizer = model.configure_optimizers()
    for _ in range(EPOCHS):
        for inputs, labels in batches_of(BATCH):
            optimizer.zero_grad()
            criterion(model.net(inputs), labels).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    return model, criterion.share_below


def fit(folder, callback, batch_size=BATCH, model=None, **options):
    model = Classifier() if model is None else model
    trainer = make_trainer(folder, callback, **options)
    trainer.fit(model, batches_of(batch_size))
    return model, trainer


def ready(batches):
    """Return the batches as a loader, as Lightning takes a list for several loaders."""
    return DataLoader(list(batches), batch_size=None)


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.net.parameters()])


def assert_same(found, expected):
    torch.testing.assert_close(weights(found), weights(expected), rtol=0, atol=1e-9)


@every_bound
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_a_step_is_that_of_one_big_batch(bound, micro_batches, tmp_path):
    callback = NoiseBoundCallback(bound, average_epochs=0)
    model, trainer = fit(
        tmp_path, callback, BATCH // micro_batches, accumulate_grad_batches=micro_batches
    )
    expected, share = bare_loop(bound)
    assert_same(model, expected)
    assert callback.share_below == share
    assert (0 < share < 1) == (bound == CROSSED)
    assert trainer.global_step == EPOCHS * STEPS


def test_signs_of_single_micro_batches_would_be_wrong(tmp_path):
    """Why there is a callback: a BoundedLoss in training_step bounds each micro-batch."""
    model = Classifier(nb.BoundedLoss(nb.CrossEntropy(), CROSSED))
    make_trainer(tmp_path, accumulate_grad_batches=4).fit(model, batches_of(BATCH // 4))
    expected, _ = bare_loop(CROSSED)
    assert (weights(model) - weights(expected)).abs().max() > 1e-3


@every_bound
def test_gradient_clipping(bound, tmp_path):
    model, _ = fit(tmp_path, NoiseBoundCallback(bound, average_epochs=0), gradient_clip_val=0.05)
    expected, _ = bare_loop(bound, clip=0.05)
    assert_same(model, expected)


def test_an_incomplete_last_step_is_held_against_its_own_mean(tmp_path):
    """Lightning divides by 4 even if 2 are left: the step is shorter, but keeps its sign."""

    class Halved(nn.Module):
        """The loss that Lightning minimizes: 16, 16, …, and at the end half of the mean of 8."""

        def __init__(self):
            super().__init__()
            self.bounded = nb.BoundedLoss(nb.CrossEntropy(), CROSSED)

        def forward(self, logits, labels):
            return self.bounded(logits, labels) * len(labels) / BATCH

    n = 3 * BATCH + BATCH // 2
    data = Subset(batches_of(BATCH).dataset, range(n))
    model, expected = Classifier(), Classifier(Halved())
    callback = NoiseBoundCallback(CROSSED, average_epochs=0)
    small, big = (DataLoader(data, size) for size in (BATCH // 4, BATCH))
    make_trainer(tmp_path, callback, accumulate_grad_batches=4, max_epochs=4).fit(model, small)
    make_trainer(tmp_path, max_epochs=4).fit(expected, big)
    assert_same(model, expected)
    assert callback.share_below == expected.criterion.bounded.share_below


def test_the_mean_matches_the_gradient_of_lightning(tmp_path):
    """For 12 and 4 examples, Lightning takes the mean of the two means; so does the callback."""
    callback = NoiseBoundCallback(9.0, average_epochs=0)
    inputs, labels = batches_of(BATCH).dataset[:BATCH]
    parts = [(inputs[:12], labels[:12]), (inputs[12:], labels[12:])]
    model, start = Classifier(), Classifier()
    make_trainer(tmp_path, callback, accumulate_grad_batches=2, max_epochs=1).fit(
        model, ready(parts)
    )
    means = [nb.CrossEntropy()(start.net(x), y).item() for x, y in parts]
    assert callback.raw_mean == pytest.approx(sum(means) / 2, abs=1e-12)
    assert abs(callback.raw_mean - nb.CrossEntropy()(start.net(inputs), labels).item()) > 1e-3


def test_the_loss_in_a_dictionary(tmp_path):
    class InDictionary(Classifier):
        def training_step(self, batch, batch_idx):
            return {"loss": super().training_step(batch, batch_idx), "more": 1}

    model, _ = fit(tmp_path, NoiseBoundCallback(CROSSED, average_epochs=0), model=InDictionary())
    assert_same(model, bare_loop(CROSSED)[0])


def test_skipped_batches(tmp_path):
    """``training_step`` may return None; no gradients, no step, nothing counted."""

    class Choosy(Classifier):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx) if batch_idx % 2 else None

    callback = NoiseBoundCallback(CROSSED, average_epochs=0)
    with pytest.warns(UserWarning, match="returned `None`"):
        fit(tmp_path, callback, model=Choosy())
    assert int(callback.monitor.batches) == EPOCHS * STEPS / 2


def test_an_abandoned_step_leaves_nothing_behind(tmp_path):
    """The module steps only at every second batch, and zeroes the other gradients."""

    class Hesitant(Classifier):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
            if batch_idx % 2:
                optimizer.step(closure=optimizer_closure)
            else:
                optimizer_closure()

    callback = NoiseBoundCallback(9.0, average_epochs=0)
    model, start = Hesitant(), Classifier()
    batches = list(batches_of(BATCH))[:2]
    make_trainer(tmp_path, callback, max_epochs=1).fit(model, ready(batches))
    assert callback.raw_mean == nb.CrossEntropy()(start.net(batches[1][0]), batches[1][1]).item()


@every_bound
def test_mixed_precision_with_steps_that_the_scaler_skips(bound, tmp_path):
    """Scaled by 2¹⁶ and more, some gradients overflow; their losses must be dropped."""

    class Overflowing(Classifier):
        def on_after_backward(self):
            if self.trainer.fit_loop.epoch_loop.batch_idx % 3 == 1:
                self.net[0].weight.grad[0, 0] = float("inf")

    def train(model, *callbacks):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)
        precision = MixedPrecision("16-mixed", "cpu", scaler)
        trainer = make_trainer(tmp_path, *callbacks, plugins=precision, gradient_clip_val=0.5)
        trainer.fit(model.float(), ready((x.float(), y) for x, y in batches_of(BATCH)))
        assert scaler.get_scale() < 2.0**8  # some were skipped
        return weights(model)

    expected = train(Overflowing(nb.BoundedLoss(nb.CrossEntropy(), bound)))
    found = train(Overflowing(), NoiseBoundCallback(bound, average_epochs=0))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)  # half precision


def test_readings_are_logged(tmp_path):
    callback = NoiseBoundCallback(CROSSED, average_epochs=0)
    _, trainer = fit(tmp_path, callback, max_epochs=1)
    assert trainer.callback_metrics["share_below"].item() == pytest.approx(callback.share_below)
    assert 1.2 < trainer.callback_metrics["raw_mean"].item() < 1.7


def test_two_ranks_equal_one(tmp_path):
    """Two real processes with two micro-batches each, joined by gloo."""
    script = Path(__file__).parent / "lightning_ranks.py"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        script, tmp_path, *map(str, BOUNDS.values()),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=300)
    for bound in BOUNDS.values():
        results = [torch.load(tmp_path / f"{bound}-rank{rank}.pt") for rank in range(2)]
        expected, share = bare_loop(bound)
        for state, found_share, _ in results:
            for name, value in expected.net.state_dict().items():
                torch.testing.assert_close(state[name], value, rtol=0, atol=1e-9)
            assert found_share == share
        (_, _, readings), (_, _, others) = results
        assert readings == others
        assert (readings["memorizing_since"] > 0) == (readings["mean_training_loss"] < bound)


def test_a_resumed_training_goes_on(tmp_path):
    """Counts and weights are those of a training that was never interrupted."""
    whole = NoiseBoundCallback(CROSSED, average_epochs=0)
    expected, _ = fit(tmp_path, whole, max_epochs=4)
    first, second = (NoiseBoundCallback(CROSSED, average_epochs=0) for _ in range(2))
    _, trainer = fit(tmp_path, first, max_epochs=2)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    model = Classifier()
    resumed = make_trainer(tmp_path, second, max_epochs=4)
    resumed.fit(model, batches_of(BATCH), ckpt_path=tmp_path / "half.ckpt")
    assert_same(model, expected)
    assert int(second.monitor.batches) == int(whole.monitor.batches) == 4 * STEPS
    assert second.share_below == whole.share_below


def test_the_other_package_of_the_same_trainer(tmp_path):
    """``pytorch_lightning`` is the same code under another name."""

    class Other(pytorch_lightning.LightningModule):
        training_step = Classifier.training_step
        configure_optimizers = Classifier.configure_optimizers

        def __init__(self):
            super().__init__()
            self.criterion, self.net = nb.CrossEntropy(), Classifier().net

    model = Other()
    trainer = pytorch_lightning.Trainer(
        accelerator="cpu", max_epochs=EPOCHS, logger=False,
        callbacks=[NoiseBoundCallback(CROSSED, average_epochs=0)],
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(model, batches_of(BATCH))
    assert_same(model, bare_loop(CROSSED)[0])


def test_manual_optimization_is_refused(tmp_path):
    class Manual(Classifier):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def configure_optimizers(self):
            return [super().configure_optimizers(), super().configure_optimizers()]

    with pytest.raises(ValueError, match=r"Manual optimizes manually.*nb\.StepBound for each"):
        fit(tmp_path, NoiseBoundCallback(1.0), model=Manual())


def test_lbfgs_is_refused(tmp_path):
    class Searching(Classifier):
        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters())

    with pytest.raises(ValueError, match="LBFGS searches along a line"):
        fit(tmp_path, NoiseBoundCallback(1.0), model=Searching())


def test_a_loss_that_is_bounded_already_is_refused(tmp_path):
    model = Classifier(nb.BoundedLoss(nb.CrossEntropy(), 1.0))
    with pytest.raises(ValueError, match="would be bounded twice"):
        fit(tmp_path, NoiseBoundCallback(1.0), model=model)


def test_a_bound_must_be_a_number():
    with pytest.raises(ValueError, match="`bound` must be a finite number"):
        NoiseBoundCallback(float("inf"))
    callback = NoiseBoundCallback(1.0)
    with pytest.raises(ValueError, match="`bound` must be a finite number"):
        callback.bound = float("nan")


class TestMemorizationCallback:
    """The callback observes the training and does not change it."""

    def data(self):
        """Pure noise with more inputs than examples: it can only be memorized."""
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(22, FEATURES, generator=generator, dtype=torch.float64)
        return [
            (inputs[part], torch.arange(len(part)) % CLASSES)
            for part in torch.arange(22).split(6)  # the last one is of 4
        ]

    def watch(self, folder, floor, *callbacks, **options):
        callback, model = MemorizationCallback(floor), Classifier()
        trainer = make_trainer(folder, callback, *callbacks, **options)
        trainer.fit(model, ready(self.data()))
        return callback, model, trainer

    @pytest.mark.parametrize("micro_batches", [1, 2])
    def test_it_warns_once_and_logs_since_when(self, micro_batches, tmp_path):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", nb.MemorizationWarning)
            callback, _, trainer = self.watch(
                tmp_path, 1.3, max_epochs=25, accumulate_grad_batches=micro_batches
            )
        warned = [w for w in caught if issubclass(w.category, nb.MemorizationWarning)]
        since = callback.monitor.memorizing_since
        assert len(warned) == 1
        assert 1 < since < 25
        assert trainer.callback_metrics["memorizing_since"].item() == since
        last = callback.monitor.epoch_losses[-1]
        assert trainer.callback_metrics["mean_training_loss"].item() == pytest.approx(last)

    def test_the_mean_is_over_examples(self, tmp_path):
        callback, _, _ = self.watch(tmp_path, 0.0, max_epochs=1, accumulate_grad_batches=10)
        inputs, labels = (torch.cat(parts) for parts in zip(*self.data(), strict=True))
        mean = nb.CrossEntropy()(Classifier().net(inputs), labels).item()
        assert callback.monitor.epoch_losses == [pytest.approx(mean, abs=1e-12)]

    def test_an_epoch_that_was_broken_off_is_not_the_next_training_s(self, tmp_path):
        callback, model, _ = self.watch(tmp_path, 0.0, max_steps=2)
        assert callback.monitor.epoch_losses == []
        make_trainer(tmp_path, callback, max_epochs=1).fit(model, ready(self.data()))
        anew, again = MemorizationCallback(0.0), Classifier()
        make_trainer(tmp_path, max_steps=2).fit(again, ready(self.data()))
        make_trainer(tmp_path, anew, max_epochs=1).fit(again, ready(self.data()))
        assert callback.monitor.epoch_losses == anew.monitor.epoch_losses

    @pytest.mark.filterwarnings("ignore:`training_step` returned `None`")
    def test_batches_without_a_size_or_a_loss(self, tmp_path):
        """Without countable examples or losses, there is nothing to observe, and no error."""

        class Opaque:
            def __init__(self, pair):
                self.pair = pair

        class OnOpaque(Classifier):
            def training_step(self, batch, batch_idx):
                return super().training_step(batch.pair, batch_idx)

        class Idle(Classifier):
            def training_step(self, batch, batch_idx):
                return None

        for model, batches, epochs in (
            (OnOpaque(), [Opaque(pair) for pair in self.data()], 1),
            (Idle(), self.data(), 0),
        ):
            callback = MemorizationCallback(0.0)
            make_trainer(tmp_path, callback, max_epochs=1).fit(model, ready(batches))
            assert len(callback.monitor.epoch_losses) == epochs

    def test_it_changes_nothing(self, tmp_path):
        plain = Classifier()
        make_trainer(tmp_path).fit(plain, ready(self.data()))
        _, watched, _ = self.watch(tmp_path, 0.0)
        assert torch.equal(weights(watched), weights(plain))

    @pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists")
    @pytest.mark.parametrize("before_validation", [True, False])
    def test_resuming_keeps_the_epochs(self, before_validation, tmp_path):
        """A checkpoint of the validation comes before the epoch's end, but the epoch is in it."""
        saving = pl.callbacks.ModelCheckpoint(save_on_train_epoch_end=not before_validation)
        whole, _, _ = self.watch(tmp_path, 0.0, max_epochs=4)

        class Validating(Classifier):
            def validation_step(self, batch, batch_idx):
                pass

        first, second = MemorizationCallback(0.0), MemorizationCallback(0.0)
        data = ready(self.data())
        trainer = make_trainer(tmp_path, first, saving, max_epochs=2, enable_checkpointing=True)
        trainer.fit(Validating(), data, data)
        resumed = make_trainer(tmp_path, second, saving, max_epochs=4, enable_checkpointing=True)
        resumed.fit(Validating(), data, data, ckpt_path=saving.best_model_path)
        assert second.monitor.epoch_losses == pytest.approx(whole.monitor.epoch_losses, abs=1e-12)


def test_a_missing_package_names_the_extra():
    code = (
        "import sys; sys.modules['lightning'] = None\n"
        "import noisebound.integrations.lightning"
    )  # fmt: skip
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr.endswith("[lightning]'\n")


class TestAveragedWeights:
    """The module ends with the average, and so do its validations and checkpoints."""

    class Watched(Classifier):
        def __init__(self):
            super().__init__()
            self.validated = []

        def validation_step(self, batch, batch_idx):
            if batch_idx == 0 and not self.trainer.sanity_checking:
                self.validated.append(weights(self))

    def bare_averages(self, epochs):
        """Return the average after each epoch of a bare loop, and the last weights."""
        model, criterion = Classifier(), nb.BoundedLoss(nb.CrossEntropy(), CROSSED)
        optimizer = model.configure_optimizers()
        averaged = nb.AveragedWeights(model, steps=max(1.0, epochs * STEPS / 10))
        after_epochs = []
        for _ in range(epochs):
            for inputs, labels in batches_of(BATCH):
                optimizer.zero_grad()
                criterion(model.net(inputs), labels).backward()
                optimizer.step()
                averaged.update_parameters(model)
            after_epochs.append(weights(averaged.module).clone())
        return after_epochs, weights(model)

    @pytest.mark.parametrize("micro_batches", [1, 4])
    def test_are_validated_and_kept(self, micro_batches, tmp_path):
        model = self.Watched()
        trainer = make_trainer(
            tmp_path, NoiseBoundCallback(CROSSED), accumulate_grad_batches=micro_batches
        )
        data = batches_of(BATCH // micro_batches)
        trainer.fit(model, data, data)
        averages, last = self.bare_averages(EPOCHS)
        torch.testing.assert_close(torch.stack(model.validated), torch.stack(averages))
        torch.testing.assert_close(weights(model), averages[-1])
        assert (averages[-1] - last).abs().max() > 1e-3

    @pytest.mark.parametrize("weights_only", [False, True])
    def test_are_in_the_checkpoint(self, weights_only, tmp_path):
        saving = pl.callbacks.ModelCheckpoint(tmp_path, save_weights_only=weights_only)
        trainer = make_trainer(
            tmp_path, NoiseBoundCallback(CROSSED), saving, enable_checkpointing=True
        )
        trainer.fit(Classifier(), batches_of(BATCH))
        saved = Classifier.load_from_checkpoint(saving.best_model_path)
        averages, _ = self.bare_averages(EPOCHS)
        torch.testing.assert_close(weights(saved), averages[-1])

    @pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
    def test_a_resumed_training_goes_on_from_the_last_weights(self, tmp_path):
        saving = pl.callbacks.ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}")
        trainer = make_trainer(
            tmp_path, NoiseBoundCallback(CROSSED), saving, enable_checkpointing=True
        )
        whole = Classifier()
        trainer.fit(whole, batches_of(BATCH))
        resumed = Classifier()
        make_trainer(tmp_path, NoiseBoundCallback(CROSSED), saving, enable_checkpointing=True).fit(
            resumed, batches_of(BATCH), ckpt_path=tmp_path / "epoch=0.ckpt"
        )
        assert_same(resumed, whole)

    def test_a_stream_without_a_length(self, tmp_path):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(batches_of(BATCH))

        callback = NoiseBoundCallback(CROSSED)
        trainer = make_trainer(tmp_path, callback, max_epochs=-1, max_steps=3)
        trainer.fit(Classifier(), DataLoader(Stream(), batch_size=None))
        assert trainer.global_step == 3
