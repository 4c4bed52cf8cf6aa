"""A model on a pretrained encoder is exported with its encoder."""

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from test_backbones import small_bert

import noisebound as nb
from noisebound.features.backbone import padded

pytestmark = pytest.mark.usefixtures("unchecked_shapes")  # tracing knows no sizes
QUICK = {"epochs": 2, "noise_rate": 0.1, "show": False, "report": False}


def probabilities(path, inputs):
    session = onnxruntime.InferenceSession(str(path))
    return session.run(["probabilities"], {"inputs": inputs.numpy()})[0]


def test_images(photos, tmp_path):
    convolution = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    run = nb.fit(photos, backbone=convolution, image_size=32, **QUICK)
    path = run.export(tmp_path / "model.onnx")
    files = sorted(photos.rglob("*.png"))
    images = [run.backbone.prepare(Image.open(file).convert("RGB")) for file in files]
    found = probabilities(path, torch.stack(images))
    np.testing.assert_allclose(found, run.predict_proba(photos), atol=1e-5)


def test_texts(reviews, minilm, tmp_path):
    texts, labels = reviews
    small_bert(tmp_path / "bert", minilm).save_pretrained(tmp_path / "bert")
    run = nb.fit((texts, labels), backbone=f"hf:{tmp_path / 'bert'}", **QUICK)
    path = run.export(tmp_path / "model.onnx")
    found = probabilities(path, padded(run.backbone.tokenize(texts)))
    np.testing.assert_allclose(found, run.predict_proba(texts), atol=1e-5)


def test_a_function_is_left_out(photos, tmp_path):
    run = nb.fit(photos, backbone=lambda images: images.mean((2, 3)), image_size=32, **QUICK)
    vectors = torch.rand(5, 3)
    found = probabilities(run.export(tmp_path / "model.onnx"), vectors)
    np.testing.assert_allclose(found, run.saved_model.probabilities(vectors), atol=1e-5)
