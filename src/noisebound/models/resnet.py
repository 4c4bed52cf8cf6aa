"""ResNet-18 and ResNet-34 (He et al., 2016), the paper's networks."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

# The largest height or width that keeps its resolution in the stem: CIFAR's, as is customary.
_SMALL = 32
_WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions with a shortcut around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module | None = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Float[Tensor, "batch before h w"]) -> Float[Tensor, "batch after h2 w2"]:
        around = x if self.downsample is None else self.downsample(x)
        inner = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(inner)) + around)


class ResNet(nn.Module):
    """A network of four stages of basic blocks: ResNet-18 has two per stage, ResNet-34 3, 4, 6, 3.

    Images of 32×32 and smaller enter through a 3×3 convolution without pooling. Larger images
    enter through the original stem, a 7×7 convolution with stride two and max pooling.
    """

    def __init__(self, blocks: Sequence[int], input_shape: Sequence[int], num_classes: int) -> None:
        super().__init__()
        channels, is_small = input_shape[0], max(input_shape[1:]) <= _SMALL
        kernel, stride = (3, 1) if is_small else (7, 2)
        self.conv1 = nn.Conv2d(channels, _WIDTHS[0], kernel, stride, kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(_WIDTHS[0])
        self.maxpool = nn.Identity() if is_small else nn.MaxPool2d(3, stride=2, padding=1)
        before = _WIDTHS[0]
        for stage, (after, count) in enumerate(zip(_WIDTHS, blocks, strict=True), start=1):
            first = BasicBlock(before, after, stride=1 if stage == 1 else 2)
            rest = [BasicBlock(after, after, stride=1) for _ in range(count - 1)]
            self.add_module(f"layer{stage}", nn.Sequential(first, *rest))
            before = after
        self.fc = nn.Linear(_WIDTHS[-1], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Float[Tensor, "batch channels h w"]) -> Float[Tensor, "batch classes"]:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        for stage in range(1, 5):
            x = self.get_submodule(f"layer{stage}")(x)
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits
