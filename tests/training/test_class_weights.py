"""Class weights in a training: which examples count, and what follows for rare classes."""

import numpy as np
import pytest
import torch

import noisebound as nb
from noisebound.data.options import validated
from noisebound.errors import InvalidValueError
from noisebound.integrations.sklearn import NoiseBoundedClassifier
from noisebound.training.config import TrainingConfig

RNG = np.random.default_rng(0)
Y = np.where(RNG.random(1500) < 0.93, "common", "rare")
X = RNG.normal(size=(1500, 2)) + 1.2 * (Y == "rare")[:, None]
NEW_Y = np.repeat(["common", "rare"], 1000)
NEW_X = RNG.normal(size=(2000, 2)) + 1.2 * (NEW_Y == "rare")[:, None]


def recall_of_rare(predicted):
    return (predicted[NEW_Y == "rare"] == "rare").mean()


def test_balanced_classes_in_the_estimator():
    settings = {"hidden_layer_sizes": (), "learning_rate": 0.05, "alpha": 0.0, "max_iter": 20}
    settings |= {"noise_rate": 0.01, "random_state": 0}
    plain = NoiseBoundedClassifier(**settings).fit(X, Y)
    balanced = NoiseBoundedClassifier(**settings, class_weight="balanced").fit(X, Y)
    assert recall_of_rare(balanced.predict(NEW_X)) > recall_of_rare(plain.predict(NEW_X)) + 0.3
    assert balanced.bound_ != pytest.approx(plain.bound_)
    weights = {"common": 1.0, "rare": 5.0}
    given = NoiseBoundedClassifier(**settings, class_weight=weights).fit(X, Y)
    by_hand = NoiseBoundedClassifier(**settings, bound=given.bound_).fit(
        X, Y, sample_weight=np.where(Y == "rare", 5.0, 1.0)
    )
    # Sample weights also enter the scaling of features, and so the two are not the same.
    assert abs(recall_of_rare(given.predict(NEW_X)) - recall_of_rare(by_hand.predict(NEW_X))) < 0.1


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ("equal", "must be a mapping, 'balanced' or None; got 'equal'"),
        ({"none": 1.0}, "'none', which is none of the classes"),
        ({"rare": -1.0}, "must be finite and not negative"),
    ],
)
def test_wrong_weights_in_the_estimator(weights, complaint):
    with pytest.raises(ValueError, match=complaint):
        NoiseBoundedClassifier(class_weight=weights, max_iter=1).fit(X, Y)


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ({"rare": -1.0}, r"must be finite and not negative, got \{'rare': -1.0\}"),
        ({"rare": float("nan")}, "must be finite and not negative"),
        ({"rare": float("inf")}, "must be finite and not negative"),
        (
            ("rare=-1", "common=1"),
            r"must be finite and not negative, got \('rare=-1', 'common=1'\)",
        ),
        (("rare=much",), "must be finite and not negative"),
        (("rare",), r"expected balanced, or CLASS=WEIGHT for each class, got \('rare',\)"),
    ],
)
def test_wrong_weights_in_fit(weights, complaint):
    with pytest.raises(InvalidValueError, match=f"`class_weight`: .*{complaint}"):
        validated(TrainingConfig, {"class_weight": weights})


def test_weights_as_on_a_command_line():
    for words, weights in ((("rare=2", "a=b=0"), {"rare": 2.0, "a=b": 0.0}), ((), None)):
        assert validated(TrainingConfig, {"class_weight": words}).class_weight == weights
    assert validated(TrainingConfig, {"class_weight": ("balanced",)}).class_weight == "balanced"


def test_class_weights_in_fit(tmp_path):
    settings = {"noise_rate": 0.01, "epochs": 20, "learning_rate": 0.05, "model": "linear"}
    settings |= {"show": False, "report": False}
    plain = nb.fit((X, Y), out=tmp_path / "plain", **settings)
    balanced = nb.fit((X, Y), out=tmp_path / "balanced", class_weight="balanced", **settings)
    assert recall_of_rare(balanced.predict(NEW_X)) > recall_of_rare(plain.predict(NEW_X)) + 0.3
    assert "weighted mean of the classes' floors" in balanced.result.chosen.reason
    suspects = nb.load_run(tmp_path / "balanced").suspects((X, Y))
    assert np.isfinite(suspects["probability_wrong"].to_numpy()).all()
    with pytest.raises(ValueError, match="`class_weight` names 'odd', which is not a class"):
        nb.fit((X, Y), out=tmp_path / "odd", class_weight={"odd": 2.0}, **settings)
    weights = {"common": 0.0, "rare": 0.0}
    with pytest.raises(ValueError, match="is zero for every class"):
        nb.fit((X, Y), out=tmp_path / "zero", class_weight=weights, **settings)


def test_weights_follow_the_label_and_not_the_order(tmp_path):
    order = torch.randperm(len(Y)).numpy()
    settings = {"noise_rate": 0.1, "epochs": 1, "show": False, "report": False}
    one, other = (
        nb.fit((X[at], Y[at]), out=tmp_path / name, class_weight={"rare": 3.0}, **settings)
        for name, at in (("one", np.arange(len(Y))), ("other", order))
    )
    assert one.result.chosen.level == pytest.approx(other.result.chosen.level, abs=5e-3)


def test_a_class_may_count_nothing(tmp_path):
    """Its column of the matrix has no share, and whole batches may have no weight."""
    labels = np.where(RNG.random(1500) < 0.9, Y, "odd")
    settings = {"epochs": 2, "model": "linear", "batch_size": 4, "accumulate": 2}
    settings |= {"show": False, "report": False, "class_weight": {"common": 0.0, "odd": 0.0}}
    run = nb.fit((X[:400], labels[:400]), out=tmp_path / "run", recipe="ce+b", **settings)
    assert np.isfinite(run.result.chosen.level)
    assert np.isfinite(run.epochs[-1].train_loss)
