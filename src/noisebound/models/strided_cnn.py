"""A convolutional network that shrinks before it looks: quick, and quick to memorize."""

from collections.abc import Sequence

from torch import nn


def strided_cnn(
    input_shape: Sequence[int],
    num_classes: int,
    channels: Sequence[int] = (32, 64),
    hidden: int = 128,
) -> nn.Sequential:
    """3×3 convolutions of stride two with batch norm and ReLU; then a hidden layer; then logits.

    On a CPU an eighth of ``small_cnn``'s cost, most of which is its first block at full size.

    Args:
        input_shape: ``(channels, height, width)``
        num_classes: the number of logits
        channels: of each convolution
        hidden: the width of the layer between
    """
    before, height, width = input_shape
    layers: list[nn.Module] = []
    for after in channels:
        convolution = nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
        before, height, width = after, (height + 1) // 2, (width + 1) // 2
    layers += [nn.Flatten(), nn.Linear(before * height * width, hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, num_classes))
