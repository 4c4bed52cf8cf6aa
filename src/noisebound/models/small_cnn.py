"""A convolutional network that two CPU cores can train."""

from collections.abc import Sequence

from torch import nn


def small_cnn(
    input_shape: Sequence[int], num_classes: int, channels: Sequence[int] = (32, 64, 128)
) -> nn.Sequential:
    """Blocks of 3×3 convolution, batch norm, ReLU and pooling by two; then the mean, then logits.

    Args:
        input_shape: ``(channels, height, width)``
        num_classes: the number of logits
        channels: of each block
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
