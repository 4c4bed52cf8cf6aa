"""``noise_rate="auto"``: estimated before training, told in the result, as good as known."""

import json
from functools import cache

import pytest
import torch

import noisebound as nb
from noisebound.estimation import EstimatedNoise
from noisebound.runs import train_run
from noisebound.runs.noise_record import noise_record
from noisebound.search import cross_fit, estimate_label_noise
from noisebound.training import TrainingConfig, UnknownNoiseWarning
from training_data import NOISE_RATE, noisy_clouds


def config(**changes):
    settings = {"epochs": 30, "batch_size": 30, "learning_rate": 3e-3, "average_epochs": 3}
    settings |= {"loss": None if "recipe" in changes else "fce+b"}
    settings |= {"measure_every": 30}  # no test looks at the accuracies before the end
    return TrainingConfig(**(settings | changes))


def many_clouds(kind="symmetric", rate=NOISE_RATE):
    splits = noisy_clouds(n=2000)
    clean = splits.train.true_labels
    generator = torch.Generator().manual_seed(1)
    noisy = nb.corrupt(clean, kind, rate, 4, generator=generator) if rate else None
    train = splits.train.with_labels(clean if noisy is None else noisy.labels)
    return type(splits)("clouds", train, splits.test, source="made")


@pytest.fixture(scope="module")
def default_run(tmp_path_factory):
    """A third of 2,000 labels wrong, nothing given; trained once for the tests that only read."""
    return train_run(many_clouds(), config(), tmp_path_factory.mktemp("default") / "run")


@pytest.fixture(scope="module")
def found_noise():
    """A function that estimates the noise of two in five of 2,000 labels, once for each kind."""
    return cache(
        lambda kind: estimate_label_noise(many_clouds(kind, 0.4).train, config(model="mlp"))
    )


def test_it_is_the_default(default_run):
    run = default_run
    result, noise = run.result, run.noise
    assert noise.rate == pytest.approx(NOISE_RATE, abs=0.04)
    low, high = noise.interval
    assert low < NOISE_RATE < high
    assert result.bound == pytest.approx(nb.noise_bound(nb.CrossEntropy(), 1 / 3, 4), abs=0.08)
    assert result.chosen.origin in ("estimated transition", "measured floor")
    assert "measured" in result.chosen.reason or "out-of-fold" in result.chosen.reason
    stored = json.loads(run.folder.result.read_text())
    assert stored["noise"] == noise_record(noise)
    assert stored["bound_reason"] == result.chosen.reason
    assert noise.cross_entropy_floor.level == pytest.approx(result.bound, abs=0.15)
    assert result.final.averaged_test_top1 > 0.95


@pytest.mark.parametrize("kind", ["symmetric", "pairwise"])
def test_the_structure_of_the_noise_is_found(kind, found_noise):
    found = found_noise(kind).estimate
    truth = nb.corrupt(
        many_clouds(kind, 0.4).train.true_labels, kind, 0.4, 4, exact=True
    ).transition
    torch.testing.assert_close(found.transition, truth, atol=0.12, rtol=0)


def test_clean_labels_are_left_in_peace(tmp_path):
    run = train_run(many_clouds(rate=0.0), config(), tmp_path / "run")
    assert run.noise.rate < 0.03
    assert run.result.bound < 0.15
    assert run.result.final.averaged_test_top1 > 0.95


@pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")
@pytest.mark.parametrize("loss", ["ce+b", "sce+b", "gce+b", "cep+b", "fce", "backward+b", "mse+b"])
def test_for_any_loss_that_needs_it(tmp_path, loss):
    run = train_run(noisy_clouds(), config(loss=loss, epochs=6), tmp_path / "run")
    found = run.noise.estimate
    assert 0 < found.noise_rate < 0.75
    assert (run.result.bound is not None) == loss.endswith("+b")
    assert run.folder.out_of_fold().exists()


@pytest.mark.parametrize("changes", [{"loss": "ce"}, {"loss": "elr"}, {"loss": "ce+b", "bound": 1}])
def test_and_for_no_other(tmp_path, changes):
    run = train_run(noisy_clouds(), config(epochs=2, **changes), tmp_path / "run")
    assert not run.noise.is_known
    assert run.noise.warnings == ()
    assert not (tmp_path / "run" / "cross-fit").exists()


@pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")
def test_a_given_bound_does_not_say_what_to_correct(tmp_path):
    run = train_run(noisy_clouds(), config(epochs=4, loss="fce+b", bound=0.7), tmp_path / "run")
    assert run.folder.out_of_fold().exists()
    assert (run.result.chosen.level, run.result.chosen.origin) == (0.7, "given")


def test_the_bound_is_the_lower_of_theory_and_measurement(found_noise):
    noise = found_noise("pairwise")
    plain = nb.CrossEntropy()
    chosen = noise.bound(plain)
    assert chosen.level == pytest.approx(
        min(nb.noise_bound(plain, noise.rate, 4), noise.floor(plain).cautious_level)
    )
    assert chosen.origin == "measured floor"  # which knows that the noise is not symmetric
    corrected = noise.bound(nb.ForwardCrossEntropy(noise.transition))
    theory = nb.transition_bound(plain, noise.transition, noise.estimate.class_prior)
    assert corrected.level == pytest.approx(min(theory, noise.floor(plain).cautious_level))
    assert noise.bound(nb.BackwardCrossEntropy(noise.transition)).level == pytest.approx(
        0, abs=1e-6
    )


def test_a_correction_by_name_and_as_an_object_have_one_bound(default_run):
    """The loss itself says what it predicts; symmetric corrections are classes of their own."""
    noise = default_run.noise
    assert isinstance(noise, EstimatedNoise)
    symmetric = nb.BackwardCrossEntropy.symmetric(noise.rate, 4)
    for loss in (nb.BackwardCrossEntropy(noise.transition), symmetric):
        assert noise.bound(loss).level == pytest.approx(0, abs=1e-6)
        assert noise.bound(loss).origin == "estimated transition"
    forward, by_rate = (
        noise.bound(loss).level
        for loss in (
            nb.ForwardCrossEntropy(noise.transition),
            nb.ForwardCrossEntropy.symmetric(noise.rate, 4),
        )
    )
    assert forward == pytest.approx(by_rate, abs=0.05)


def test_a_training_that_is_stuck_is_told(tmp_path, default_run):
    """At this rate a network is soon sure and wrong, and the correction has no gradient there."""
    stuck = train_run(many_clouds(), config(learning_rate=3e-2), tmp_path / "stuck").result
    assert stuck.final.averaged_test_top1 < 0.8
    assert stuck.is_stuck
    assert not default_run.result.is_stuck


@pytest.mark.filterwarnings("ignore::noisebound.training.UnknownNoiseWarning")
def test_interrupted_while_estimating(tmp_path, monkeypatch):
    undisturbed = train_run(noisy_clouds(), config(epochs=8), tmp_path / "whole")
    plain, calls = cross_fit._fold, []

    def interrupted(data, halves, number, *others):
        calls.append(number)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(data, halves, number, *others)

    monkeypatch.setattr(cross_fit, "_fold", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_run(noisy_clouds(), config(epochs=8), tmp_path / "run")
    resumed = train_run(noisy_clouds(), config(epochs=8), tmp_path / "run", resume=True)
    assert calls == [0, 1, 0, 1]
    assert noise_record(resumed.noise) == noise_record(undisturbed.noise)
    left, right = (tmp_path / run / "model.safetensors" for run in ("whole", "run"))
    assert left.read_bytes() == right.read_bytes()


class TestKnownTransition:
    matrix = ((0.7, 0.0, 0.0, 0.3), (0.3, 0.7, 0.0, 0.0), (0.0, 0.3, 0.7, 0.0), (0, 0, 0.3, 0.7))

    def test_it_is_used_for_the_loss_and_its_bound(self, tmp_path):
        run = train_run(noisy_clouds(), config(transition=self.matrix, epochs=3), tmp_path / "run")
        bound = nb.transition_bound(nb.CrossEntropy(), self.matrix)
        assert run.result.bound == pytest.approx(bound)
        assert run.result.chosen.origin == "given transition"
        assert run.noise.rate == pytest.approx(0.3)
        assert not (tmp_path / "run" / "cross-fit").exists()

    def test_of_other_classes(self, tmp_path):
        with pytest.raises(ValueError, match="`transition` is of 2 classes, the data has 4"):
            train_run(noisy_clouds(), config(transition=((1, 0), (0, 1))), tmp_path / "run")

    def test_not_beside_a_rate(self, tmp_path):
        with pytest.raises(ValueError, match="not both"):
            train_run(
                noisy_clouds(), config(transition=self.matrix, noise_rate=0.3), tmp_path / "run"
            )

    def test_its_transpose_is_refused(self, tmp_path):
        wrong = ((0.5, 0.5, 0.0, 0.0), (1, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))
        with pytest.raises(ValueError, match="pass its transpose"):
            train_run(noisy_clouds(), config(transition=wrong), tmp_path / "run")


class TestMemorizing:
    def test_plain_training_is_watched(self, tmp_path):
        settings = config(loss="ce", noise_rate=NOISE_RATE, epochs=60)
        result = train_run(noisy_clouds(), settings, tmp_path / "run").result
        assert 1 < result.memorizing_since < 60

    @pytest.mark.parametrize("changes", [{"loss": "ce+b", "noise_rate": 0.3}, {"loss": "ce"}])
    def test_not_with_a_bound_nor_without_a_rate(self, tmp_path, changes):
        result = train_run(noisy_clouds(), config(**changes), tmp_path / "run").result
        assert result.memorizing_since is None


SLOW = {"learning_rate": 3e-5, "batch_size": 400, "epochs": 16}


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    """A slow training without a bound, for comparison."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    return train_run(many_clouds(rate=0.0), config(loss="ce", **SLOW), folder)


class TestWhatCannotBeMeasured:
    """Then it is said, and no harm is done."""

    @pytest.mark.parametrize("loss", ["fce+b", "ce+b", "cep+b"])
    def test_training_is_plain(self, tmp_path, loss, plain_run):
        with pytest.warns(UnknownNoiseWarning, match="still learning when their epochs ended"):
            run = train_run(many_clouds(rate=0.0), config(loss=loss, **SLOW), tmp_path / "run")
        result = run.result
        assert result.chosen.origin == "noise unknown"
        assert result.bound == pytest.approx(0, abs=1e-6)
        assert "still learning when their epochs ended" in result.chosen.reason
        assert run.noise.warnings
        assert not run.noise.is_known
        if loss != "cep+b":
            assert result.final.test_top1 == plain_run.result.final.test_top1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "elr+b"}, r"elr has no noise-bound.*`bound`"),
        ({"loss": "truncated+b"}, "truncated has no noise-bound"),
        ({"loss": "ce+b", "bound_classes": 2}, "`bound_classes` enters the noise-bound of a"),
        ({"loss": "ce+b", "bound_classes": 2, "bound": 1.0}, "`bound_classes` enters"),
        ({"loss": "gce", "transition": TestKnownTransition.matrix}, "does not use a `transition`"),
        (
            {"loss": "mixup", "transition": TestKnownTransition.matrix},
            "does not use a `transition`",
        ),
    ],
)
def test_refused_before_anything_is_measured(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        train_run(noisy_clouds(), config(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_too_few_to_measure(tmp_path):
    """Then training is plain, and it is said, in `fit` as in the scikit-learn estimator."""
    with pytest.warns(UnknownNoiseWarning, match=r"too few to estimate their noise.*`noise_rate`"):
        run = train_run(noisy_clouds(n=52), config(epochs=2), tmp_path / "run")
    assert run.result.chosen.origin == "noise unknown"
    assert run.result.bound == pytest.approx(0, abs=1e-6)
    with pytest.raises(ValueError, match="44 training examples are too few"):
        estimate_label_noise(noisy_clouds(n=49).train, config())


def test_a_loss_by_any_spelling():
    assert config(loss="FCE+B") == config(loss="fce+b")
