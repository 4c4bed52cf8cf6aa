"""A convolutional network that two CPU cores can train."""

from collections.abc import Sequence

from torch import nn


def small_cnn(
    input_shape: Sequence[int], num_classes: int, channels: Sequence[int] = (32, 64, 128)
) -> nn.Sequential:
    """Return a network of convolutional blocks, a mean over all positions and a linear layer.

    A block is a 3×3 convolution, batch norm, ReLU and max pooling by two.

    Args:
        input_shape: shape of one image, ``(channels, height, width)``
        num_classes: number of classes, which is the number of logits
        channels: number of output channels of each block
    """
    size, before = min(input_shape[1:]), input_shape[0]
    layers: list[nn.Module] = []
    for after in channels:
        convolution = nn.Conv2d(before, after, kernel_size=3, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
        if size >= 2:
            layers.append(nn.MaxPool2d(2))
        size, before = size // 2, after
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes)]
    return nn.Sequential(*layers, *head)
