"""A model in one file gives the probabilities of the run."""

import json

import numpy as np
import onnxruntime
import pytest
import torch

import noisebound as nb
from noisebound.errors import InvalidValueError, RunError
from noisebound.learners.stored import Ensemble

pytestmark = pytest.mark.usefixtures("unchecked_shapes")  # tracing knows no sizes
RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, size=(120, 4)).astype(np.float32)
Y = np.where(X[:, 0] > 3, "high", np.where(X[:, 1] > 4, "mid", "low"))
IMAGES = RNG.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
QUICK = {"show": False, "report": False}
NETWORK = {"epochs": 2, "noise_rate": 0.1, **QUICK}


def probabilities(path, inputs):
    session = onnxruntime.InferenceSession(str(path))
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    return classes, session.run(["probabilities"], {"inputs": inputs})[0]


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("count", [1, 120])
def test_network_of_features(tmp_path, count):
    run = nb.fit((X, Y), **NETWORK)
    classes, probs = probabilities(run.export(tmp_path / "model.onnx"), X[:count])
    assert classes == ["high", "low", "mid"]
    assert_same(probs, run.predict_proba(X[:count]))


def test_network_of_images_takes_their_bytes(tmp_path):
    run = nb.fit((IMAGES, Y[:60]), model="small_cnn", **NETWORK)
    pixels = IMAGES.transpose(0, 3, 1, 2)
    _, probs = probabilities(run.export(tmp_path / "model.onnx"), pixels)
    assert_same(probs, run.predict_proba(IMAGES))
    program = torch.export.load(run.export(tmp_path / "model.pt2")).module()
    assert_same(program(torch.from_numpy(pixels[:7])).detach(), run.predict_proba(IMAGES[:7]))


@pytest.mark.parametrize("learner", ["linear", "trees"])
def test_estimators(tmp_path, learner):
    run = nb.fit((X, Y), learner=learner, recipe="plain", ensemble_size=1, **QUICK)
    _, probs = probabilities(run.export(tmp_path / "model.onnx"), X)
    assert_same(probs, run.predict_proba(X))
    with pytest.raises(RunError, match=r"as \.pt2, are not exported: train with"):
        run.export(tmp_path / "model.pt2")


def test_a_module_of_ones_own(tmp_path):
    class Twice(torch.nn.Linear):
        def forward(self, inputs):
            return 2 * super().forward(inputs)

    run = nb.fit((X, Y), model=Twice(4, 3), **NETWORK)
    _, probs = probabilities(run.export(tmp_path / "model.onnx"), X)
    assert_same(probs, run.predict_proba(X))


def test_what_is_not_exported(tmp_path):
    run = nb.fit((X, Y), learner="neighbors", recipe="plain", **QUICK)
    with pytest.raises(RunError, match="this model is not exported"):
        run.export(tmp_path / "model.onnx")
    run.saved_model.model = Ensemble([run.model, run.model])
    with pytest.raises(RunError, match="an average with estimators"):
        run.export(tmp_path / "model.onnx")
    with pytest.raises(InvalidValueError, match=r"as \.onnx or \.pt2, got model\.bin"):
        run.export(tmp_path / "model.bin")
    assert not list(tmp_path.iterdir())
