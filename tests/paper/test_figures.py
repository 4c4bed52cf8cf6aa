"""The paper's figures show what the theory says."""

import numpy as np
import pytest
import torch
from PIL import Image

import noisebound as nb
from noisebound.paper.figures import (
    RATES,
    best_prediction,
    noise_models_figure,
    rate_sweep_figure,
    sensitivity,
    sensitivity_figure,
    write_figure,
)


@pytest.mark.parametrize("classes", [10, 200])
def test_ce_is_more_sensitive_than_the_others(classes):
    found = {
        loss: sensitivity(loss, classes)
        for loss in (nb.CrossEntropy(), nb.SymmetricCrossEntropy(), nb.GeneralizedCrossEntropy())
    }
    ce, *others = found.values()
    for lower, upper in found.values():
        assert (upper >= lower).all()
    for lower, upper in others:
        assert (upper / lower < ce[1] / ce[0]).all()
    rate = RATES[-1]
    binary = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
    assert ce[0][-1] == pytest.approx(binary)
    assert ce[1][-1] == pytest.approx(binary + rate * np.log(classes - 1))


@pytest.mark.parametrize(
    "loss",
    [
        nb.SymmetricCrossEntropy(A=8.0),
        nb.GeneralizedCrossEntropy(a=0.7),
        nb.ForwardCrossEntropy.symmetric(0.4, 2),
        nb.CrossEntropy(),
        nb.MeanAbsoluteError(),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_the_drawn_q_has_the_least_expected_loss(loss):
    p = np.array([0.05, 0.3, 0.45, 0.52, 0.8])
    drawn = torch.from_numpy(best_prediction(loss, p))
    every = torch.linspace(0, 1, 501, dtype=torch.float64)

    def expected(q, truth):
        logits = torch.stack([q.log(), (1 - q).log()], dim=-1).clamp(min=-1e3)
        zero, one = (loss(logits[None], torch.tensor([k])) for k in (0, 1))
        return float(truth * zero + (1 - truth) * one)

    for truth, q in zip(p, drawn, strict=True):
        best = min(expected(other, truth) for other in every)
        assert expected(q, truth) <= best + 1e-9


def test_png_and_svg(tmp_path):
    points = [
        {"method": method, "column": "mnist-0.4", "believed_rate": rate, "mean": 1.0, "std": std}
        for method in ("ce+b", "sce+b")
        for rate, std in ((0.2, None), (0.4, 0.1))
    ]
    for name, figure in {
        "sensitivity": sensitivity_figure(),
        "noise-models": noise_models_figure(),
        "rate-sweep": rate_sweep_figure(points),
    }.items():
        png, svg = write_figure(figure, tmp_path, name)
        with Image.open(png) as image:
            assert image.format == "PNG"
            assert min(image.size) > 400
        assert svg.read_text().startswith("<?xml")
