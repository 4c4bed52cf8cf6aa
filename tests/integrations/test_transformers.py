"""Hugging Face's real Trainer with the loss function, against BoundedLoss on whole batches."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from accelerate.utils.deepspeed import DeepSpeedOptimizerWrapper
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import BertConfig, BertLMHeadModel, Trainer, TrainerCallback
from transformers_ranks import (
    BATCH,
    CLASSES,
    EPOCHS,
    STEPS,
    bounded_at,
    make_arguments,
    make_data,
    make_model,
    train,
)

import noisebound as nb
from noisebound.integrations.transformers import BoundedLossFunction

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*'pin_memory' argument is set as true but no accelerator"
)
# The mean loss stays near 1.4, or climbs to 4: always above 0, always below 9, crossed at 1.386.
BOUNDS = {"above the bound": 0.0, "below the bound": 9.0, "crossed": 1.386}
CROSSED = BOUNDS["crossed"]
every_bound = pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
every_kind = pytest.mark.parametrize("kind", ["sequences", "tokens"])
IN_FOUR = {"per_device_train_batch_size": BATCH // 4, "gradient_accumulation_steps": 4}


def train_with(kind, folder, loss_function, callbacks=(), data=None, **options):
    """Train with any kind of loss function."""
    trainer = Trainer(
        make_model(kind),
        make_arguments(folder, **options),
        train_dataset=make_data(kind) if data is None else data,
        compute_loss_func=loss_function,
        callbacks=list(callbacks),
    )
    trainer.train()
    return trainer


def train_on_whole_batches(kind, folder, bound, **options):
    """The definition: |mean - B| of each whole batch."""
    criterion = nb.BoundedLoss(nb.CrossEntropy(), bound)

    def bounded_mean(outputs, labels, num_items_in_batch=None):
        return criterion(outputs.logits.movedim(-1, 1), labels)

    return train_with(kind, folder, bounded_mean, **options), criterion.share_below


@pytest.fixture(scope="module")
def on_whole_batches(tmp_path_factory):
    """Return a function that trains on whole batches, once for each kind of model and bound."""
    folder = tmp_path_factory.mktemp("whole")
    return cache(lambda kind, bound: train_on_whole_batches(kind, folder, bound))


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def assert_same(found, expected):
    torch.testing.assert_close(weights(found), weights(expected), rtol=0, atol=1e-9)


@every_kind
@every_bound
@pytest.mark.parametrize("parts", [1, 4])
def test_a_step_is_that_of_one_big_batch(kind, bound, parts, on_whole_batches, tmp_path):
    bounded = bounded_at(bound)
    trainer = train(
        kind,
        tmp_path,
        bounded,
        per_device_train_batch_size=BATCH // parts,
        gradient_accumulation_steps=parts,
    )
    expected, share = on_whole_batches(kind, bound)
    assert_same(trainer, expected)
    assert bounded.share_below == share
    assert (0 < share < 1) == (bound == CROSSED)
    assert trainer.state.global_step == EPOCHS * STEPS


@every_kind
def test_bounding_each_part_would_be_wrong(kind, tmp_path):
    """Each part's sum is divided by all labels: a quarter of the mean, so training goes uphill."""
    loss, bound, fractions = nb.CrossEntropy(reduction="sum"), 1.0, []

    def naive(outputs, labels, num_items_in_batch=None):
        fraction = loss(outputs.logits.movedim(-1, 1), labels) / num_items_in_batch
        fractions.append(fraction.item())
        return (fraction - bound).abs()

    train_with(kind, tmp_path, naive, num_train_epochs=8, learning_rate=0.3, **IN_FOUR)
    _, share = train_on_whole_batches(kind, tmp_path, bound)
    assert share == 0  # whole batches are never below
    assert max(fractions[:4]) < bound < sum(fractions[:4]) < 1.5
    assert max(sum(fractions[step : step + 4]) for step in range(0, len(fractions), 4)) > 3


@every_bound
def test_gradient_clipping(bound, tmp_path):
    trainer = train("sequences", tmp_path, bounded_at(bound), max_grad_norm=0.1, **IN_FOUR)
    expected, _ = train_on_whole_batches("sequences", tmp_path, bound, max_grad_norm=0.1)
    assert_same(trainer, expected)


@every_kind
def test_an_incomplete_last_step(kind, tmp_path):
    """Three and a half batches, in quarters: the last step has two of four parts."""
    data = make_data(kind)[: 3 * BATCH + BATCH // 2]
    bounded = bounded_at(CROSSED)
    trainer = train_with(kind, tmp_path, bounded, [bounded], data, num_train_epochs=4, **IN_FOUR)
    expected, share = train_on_whole_batches(kind, tmp_path, CROSSED, data=data, num_train_epochs=4)
    assert trainer.state.global_step == 4 * 4
    assert_same(trainer, expected)
    assert 0 < bounded.share_below == share < 1


@pytest.mark.parametrize(
    "loss",
    [
        nb.GeneralizedCrossEntropy(),
        nb.SymmetricCrossEntropy(),
        nb.CrossEntropy(label_smoothing=0.1),
        nb.ForwardCrossEntropy.symmetric(noise_rate=0.3, num_classes=CLASSES),
    ],
    ids=str,
)
def test_other_losses(loss, tmp_path):
    at_chance = loss(torch.zeros(1, CLASSES), torch.tensor([0])).item()  # where they begin
    criterion = nb.BoundedLoss(loss, at_chance)
    bounded = BoundedLossFunction(criterion, average_epochs=0)
    trainer = train("tokens", tmp_path, bounded, learning_rate=0.03, **IN_FOUR)
    expected = train_with(
        "tokens",
        tmp_path,
        lambda outputs, labels, **_: criterion(outputs.logits.movedim(-1, 1), labels),
        learning_rate=0.03,
    )
    assert_same(trainer, expected)
    assert 0 < bounded.share_below == criterion.share_below < 1


def test_class_weights_make_a_weighted_mean(tmp_path):
    loss = nb.CrossEntropy(weight=[1.0, 2.0, 3.0, 4.0])
    bounded = BoundedLossFunction(nb.BoundedLoss(loss, 0.0), average_epochs=0)
    data = make_data("tokens", num_batches=1)
    train_with("tokens", tmp_path, bounded, [bounded], data, num_train_epochs=1, **IN_FOUR)
    words, labels = (torch.stack([row[name] for row in data]) for name in ("input_ids", "labels"))
    logits = make_model("tokens")(words).logits.movedim(-1, 1)
    assert bounded.raw_mean == pytest.approx(loss(logits, labels).item(), abs=1e-12)


@every_kind
def test_evaluation_is_plain_and_leaves_no_trace(kind, tmp_path):
    """Evaluated within training, after every step."""
    data = make_data(kind)
    bounded, undisturbed = bounded_at(CROSSED), bounded_at(CROSSED)
    trainer = Trainer(
        make_model(kind),
        make_arguments(tmp_path, eval_strategy="steps", eval_steps=1, **IN_FOUR),
        train_dataset=data,
        eval_dataset=data[:BATCH],
        compute_loss_func=bounded,
        callbacks=[bounded],
    )
    trainer.train()
    assert_same(trainer, train(kind, tmp_path, undisturbed, **IN_FOUR))
    assert int(bounded.monitor.batches) == EPOCHS * STEPS
    words, labels = (
        torch.stack([row[name] for row in data[:8]]) for name in ("input_ids", "labels")
    )
    logits = trainer.model.eval()(words).logits.movedim(-1, 1)
    plain = nb.CrossEntropy()(logits, labels).item()
    found = trainer.evaluate(data[:8])["eval_loss"]  # one batch of eight
    assert found == pytest.approx(plain, abs=1e-6)  # the Trainer rounds to single precision


def test_readings_are_logged(tmp_path):
    class Listener(TrainerCallback):
        def __init__(self):
            self.heard = []

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.heard.append(dict(logs))

    bounded, listener = bounded_at(CROSSED), Listener()
    trainer = train_with(
        "sequences", tmp_path, bounded, [bounded, listener],
        logging_strategy="steps", logging_steps=4, **IN_FOUR,
    )  # fmt: skip
    entries = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(entries) == EPOCHS * STEPS / 4
    shares = [entry["share_below"] for entry in entries]
    assert sum(shares) / len(shares) == pytest.approx(bounded.share_below)
    assert entries[-1]["raw_mean"] == bounded.raw_mean
    assert [entry["share_below"] for entry in listener.heard if "loss" in entry] == shares


def test_the_trainers_own_reporters_get_the_readings(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "logs"))
    bounded = bounded_at(CROSSED)
    trainer = train("sequences", tmp_path, bounded, report_to="tensorboard", **IN_FOUR)
    trainer.train()  # a second time: one set of readings
    entries = [entry for entry in trainer.state.log_history if "loss" in entry]
    events = EventAccumulator(str(tmp_path / "logs")).Reload()
    values = [event.value for event in events.Scalars("train/share_below")]
    assert values[-EPOCHS:] == pytest.approx([entry["share_below"] for entry in entries])


@every_kind
def test_resuming(kind, tmp_path):
    """Resumed after half of the steps, training ends with the same weights."""
    options = {"save_strategy": "epoch", **IN_FOUR}
    whole = train(kind, tmp_path / "whole", bounded_at(CROSSED), **options)
    bounded = bounded_at(CROSSED)
    resumed = Trainer(
        make_model(kind),
        make_arguments(tmp_path / "resumed", **options),
        train_dataset=make_data(kind),
        compute_loss_func=bounded,
        callbacks=[bounded],
    )
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{STEPS}"))
    assert_same(resumed, whole)
    assert int(bounded.monitor.batches) == STEPS


def test_repeated_label_counts_of_data_parallel():
    """DataParallel repeats the number of labels for each of its devices."""
    bounded = bounded_at(0.0)
    logits, labels = torch.randn(8, CLASSES), torch.randint(CLASSES, (8,))
    one = bounded({"logits": logits}, labels, torch.tensor(16))
    assert bounded((logits,), labels, torch.tensor([[16], [16]])).item() == one.item()
    assert one.item() == pytest.approx(nb.CrossEntropy()(logits, labels).item() / 2)
    assert bounded((logits,), labels).item() == pytest.approx(2 * one.item())


def test_two_ranks_equal_one(on_whole_batches, tmp_path):
    """Two real processes with two parts each, joined by gloo."""
    script = Path(__file__).parent / "transformers_ranks.py"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        script, tmp_path, *map(str, BOUNDS.values()),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=300)
    for kind in ("sequences", "tokens"):
        for bound in BOUNDS.values():
            expected, share = on_whole_batches(kind, bound)
            for rank in range(2):
                state, found_share, _ = torch.load(tmp_path / f"{kind}-{bound}-rank{rank}.pt")
                for name, value in expected.model.state_dict().items():
                    torch.testing.assert_close(state[name], value, rtol=0, atol=1e-9)
                assert found_share == share
    held, rank_means = zip(
        *(torch.load(tmp_path / f"rank-means-{rank}.pt") for rank in range(2)), strict=True
    )
    assert held == pytest.approx([sum(rank_means) / 2] * 2, abs=1e-12)


def test_not_given_as_a_callback(tmp_path):
    with pytest.raises(RuntimeError, match=r"not its callback.*callbacks=\[bounded\]"):
        train_with("sequences", tmp_path, bounded_at(1.0))


def test_not_given_as_the_loss(tmp_path):
    with pytest.raises(RuntimeError, match="compute_loss_func=bounded too"):
        train_with("sequences", tmp_path, None, [bounded_at(1.0)])


def test_a_removed_callback_is_noticed(tmp_path):
    """It was a callback of an earlier Trainer."""
    bounded = bounded_at(CROSSED)
    trainer = train("sequences", tmp_path, bounded)
    trainer.remove_callback(bounded)
    with pytest.raises(RuntimeError, match="not its callback"):
        trainer.train()


def test_an_optimizer_that_steps_in_the_backward_pass(tmp_path):
    """There are no gradients left to flip."""

    class Hasty(torch.optim.SGD):
        def __init__(self, params, lr):
            super().__init__(params, lr)
            for parameter in (p for group in self.param_groups for p in group["params"]):
                parameter.register_post_accumulate_grad_hook(self.step_at_once)

        @torch.no_grad()
        def step_at_once(self, parameter):
            parameter -= 0.1 * parameter.grad
            parameter.grad = None

    bounded, model = bounded_at(1.0), make_model("sequences")
    trainer = Trainer(
        model,
        make_arguments(tmp_path),
        train_dataset=make_data("sequences"),
        compute_loss_func=bounded,
        callbacks=[bounded],
        optimizers=(Hasty(model.parameters(), 0.1), None),
    )
    with pytest.raises(RuntimeError, match="leaves no gradients to flip"):
        trainer.train()


def test_deepspeed_is_refused(tmp_path):
    model, bounded = make_model("sequences"), bounded_at(1.0)
    optimizer = DeepSpeedOptimizerWrapper(torch.optim.SGD(model.parameters()))
    with pytest.raises(ValueError, match="DeepSpeed steps by itself"):
        bounded.on_train_begin(
            make_arguments(tmp_path), None, None, model=model, optimizer=optimizer
        )


def test_the_trainer_s_own_smoothing_is_refused(tmp_path):
    bounded = bounded_at(1.0)
    trainer = Trainer(
        make_model("sequences"),
        make_arguments(tmp_path, label_smoothing_factor=0.3),
        train_dataset=make_data("sequences"),
        compute_loss_func=bounded,
        callbacks=[bounded],
    )
    with pytest.raises(ValueError, match=r"label_smoothing_factor=.* belongs to the Trainer"):
        trainer.train()


def test_language_models_are_refused(tmp_path):
    config = BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, is_decoder=True,
    )  # fmt: skip
    bounded = bounded_at(1.0)
    trainer = Trainer(
        BertLMHeadModel(config),
        make_arguments(tmp_path),
        train_dataset=make_data("tokens"),
        compute_loss_func=bounded,
        callbacks=[bounded],
    )
    with pytest.raises(ValueError, match="predicts the next token"):
        trainer.train()


@pytest.mark.parametrize(
    ("criterion", "error", "message"),
    [
        (nb.CrossEntropy(), TypeError, "must be a bounded loss, such as"),
        (nb.BoundedLoss(nb.BinaryCrossEntropy(), 0.3), TypeError, "a floor for each label"),
        (
            nb.BoundedLoss(torch.nn.functional.cross_entropy, 1.0),
            TypeError,
            "one of noisebound's losses",
        ),
        (nb.BoundedLoss(nb.EarlyLearning(8, 4), 1.0), TypeError, "losses without a memory"),
        (nb.BoundedLoss(nb.CrossEntropy(ignore_index=0), 1.0), ValueError, "labels of -100"),
    ],
)
def test_invalid_criteria_are_refused(criterion, error, message):
    with pytest.raises(error, match=message):
        BoundedLossFunction(criterion)


@pytest.mark.parametrize("labels", [None, torch.ones(2, CLASSES)])
def test_invalid_labels_are_refused(labels):
    with pytest.raises(ValueError, match="takes class indices"):
        bounded_at(1.0)({"logits": torch.zeros(2, CLASSES)}, labels)


@pytest.mark.parametrize("package", ["transformers", "accelerate"])
def test_a_missing_package_names_the_extra(package):
    code = (
        f"import sys; sys.modules['{package}'] = None\nimport noisebound.integrations.transformers"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr.endswith("[transformers]'\n")


class TestAveragedWeights:
    """The model ends with the average, and so do its evaluations and checkpoints."""

    class Watching(TrainerCallback):
        def __init__(self):
            self.evaluated, self.trained = [], []

        def on_step_end(self, args, state, control, **others):
            if not (control.should_evaluate or control.should_save):
                self.trained.append(flat(others["model"]))

        def on_evaluate(self, args, state, control, **others):
            self.evaluated.append(flat(others["model"]))

    def train(self, folder, watching, resume=None, **options):
        bounded = BoundedLossFunction(nb.BoundedLoss(nb.CrossEntropy(), CROSSED))
        data = make_data("sequences")
        trainer = Trainer(
            make_model("sequences"),
            make_arguments(folder, **options),
            train_dataset=data,
            eval_dataset={"one": data, "another": data},
            compute_loss_func=bounded,
            callbacks=[watching, bounded],
        )
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    def averages(self, folder, **options):
        """Return the average after each step, of a training that keeps the last weights."""
        averages = []

        class Averaging(TrainerCallback):
            def on_train_begin(self, args, state, control, **others):
                steps = max(1.0, state.max_steps / 10)
                self.averaged = nb.AveragedWeights(others["model"], steps)

            def on_step_end(self, args, state, control, **others):
                self.averaged.update_parameters(others["model"])
                averages.append(flat(self.averaged.module))

        train_with(
            "sequences", folder, plain := bounded_at(CROSSED), [plain, Averaging()], **options
        )
        return averages

    EVALUATED = {"eval_strategy": "epoch", "save_strategy": "epoch"}  # noqa: RUF012

    def test_are_evaluated_saved_and_kept(self, tmp_path):
        longer = {"num_train_epochs": 12}
        expected = self.averages(tmp_path / "plain", **longer)
        watching = self.Watching()
        trainer = self.train(tmp_path / "averaged", watching, **longer, **self.EVALUATED)
        after_epochs = torch.stack(expected[STEPS - 1 :: STEPS])
        torch.testing.assert_close(torch.stack(watching.evaluated[::2]), after_epochs)
        torch.testing.assert_close(torch.stack(watching.evaluated[1::2]), after_epochs)
        torch.testing.assert_close(weights(trainer), expected[-1])
        saved = type(trainer.model).from_pretrained(
            tmp_path / "averaged" / f"checkpoint-{2 * STEPS}", dtype=trainer.model.dtype
        )
        torch.testing.assert_close(flat(saved), expected[2 * STEPS - 1])
        assert (watching.trained[-1] - expected[-1]).abs().max() > 1e-5

    def test_a_resumed_training_goes_on_from_the_last_weights(self, tmp_path):
        options = self.EVALUATED | {"num_train_epochs": 12}
        whole = self.train(tmp_path / "whole", self.Watching(), **options)
        checkpoint = str(tmp_path / "whole" / f"checkpoint-{STEPS}")
        resumed = self.train(tmp_path / "resumed", self.Watching(), checkpoint, **options)
        assert_same(resumed, whole)


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()
