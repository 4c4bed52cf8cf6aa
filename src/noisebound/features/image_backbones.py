"""Image encoders, ``onnx:FILE`` and ``timm:NAME``, and how images become their inputs."""

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
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

from noisebound.errors import DataError, InvalidValueError, MissingExtraError
from noisebound.features.backbone import Backbone, hash_of_file, hash_of_weights
from noisebound.features.examples import Example, Modality
from noisebound.features.pooling import read_json
from noisebound.features.tunable import NetworkBackbone, Tunable, usual_device

_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
_Positive = Annotated[float, Field(gt=0)]


class ImagePreparation(BaseModel):
    """Size, crop and scale of the images that an encoder takes.

    Attributes:
        size: height and width in pixels
        resize: ``"crop"`` scales the shorter side and crops the center; ``"squash"`` scales both
            sides independently
        interpolation: the resampling filter
        mean: subtracted from each channel, on a scale from 0 to 1
        std: divides each channel afterwards
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    size: Annotated[int, Field(ge=1, le=4096)] = 224
    resize: Literal["crop", "squash"] = "crop"
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)  # ImageNet's
    std: tuple[_Positive, _Positive, _Positive] = (0.229, 0.224, 0.225)

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """Return the pixels ``[height, width, 3]`` at the encoder's size."""
        image = image.convert("RGB")
        wanted, method = (self.size, self.size), _FILTERS[self.interpolation]
        if image.size != wanted:
            if self.resize == "crop":
                image = ImageOps.fit(image, wanted, method)
            else:
                image = image.resize(wanted, method)
        return np.asarray(image)

    def batch(self, images: Sequence[NDArray[np.uint8]]) -> Float32[Tensor, "batch 3 height width"]:
        """Return scaled images with their channels first."""
        stacked = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
        mean, std = torch.tensor([self.mean, self.std]).view(2, 1, 3, 1, 1).unbind()
        return (stacked / 255 - mean) / std


_CHANNELS = 3
_PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")


class OnnxOptions(ImagePreparation):
    """The preparation of images, and options about the graph itself.

    Attributes:
        layout: the place of the channels, by default the dimension of size 3
        output: name of the output to use, by default the first with two dimensions, or the first
    """

    layout: Literal["nchw", "nhwc"] | None = None
    output: str | None = None


class OnnxBackbone(Backbone):
    """An image encoder in an ONNX file.

    By default, images are cropped to the input size of the graph and normalized by ImageNet's mean
    and deviation. Options, or a JSON file of the same name beside the graph, override this.

    Args:
        path: the ``.onnx`` file
        options: ``size``, ``resize``, ``interpolation``, ``mean``, ``std``, ``layout`` and
            ``output``
    """

    modalities = frozenset[Modality]({"image"})

    def __init__(self, path: str | Path, options: Mapping[str, Any] | None = None) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise DataError(
                f"there is no file {self.path}: `backbone` onnx:FILE names an ONNX file"
            )
        self._given = {**self._beside(), **(options or {})}
        try:
            self._options = OnnxOptions(**self._given)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidValueError(
                f"`backbone` onnx:{self.path}: {'.'.join(map(str, first['loc']))}: {first['msg']}; "
                f"known options are {', '.join(OnnxOptions.model_fields)}"
            ) from error
        values = {
            name: ",".join(map(str, value)) if isinstance(value, list | tuple) else value
            for name, value in self._given.items()
        }
        query = "&".join(f"{name}={value}" for name, value in values.items())
        self.name = f"onnx:{self.path.resolve()}" + (f"?{query}" if query else "")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the file, of weights that lie beside it, and of the options."""
        of_images = set(ImagePreparation.model_fields)
        unset = set() if "size" in self._given else {"size"}
        options = (
            self._options.model_dump_json(include=of_images - unset),
            self._options.model_dump_json(exclude=of_images),
        )
        beside = [self.path.with_name(self.path.name + end) for end in (".data", "_data")]
        files = [self.path, *(path for path in beside if path.exists())]
        parts = [*map(hash_of_file, files), *options]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def describe(self, modality: Modality) -> str:
        """Return the size of the images, and which output is the vector."""
        size, output = self.preparation.size, self._output
        pooled = "" if len(output.shape) == 2 else ", its mean over all positions"
        return f"images of {size}×{size} pixels, the output {output.name!r}{pooled}"

    def prepare(self, example: Example) -> NDArray[np.uint8]:
        """Return the pixels at the encoder's size."""
        assert isinstance(example, Image.Image)
        return self.preparation.pixels(example)

    def embed(self, prepared: Sequence[NDArray[np.uint8]]) -> Float32[Tensor, "batch dimension"]:
        """Return the vectors of prepared images."""
        images = self._as_input(prepared)
        fixed = self._input.shape[0]
        if not isinstance(fixed, int):
            return self._run(images)
        missing = -len(images) % fixed  # the batch size is fixed: repeat the last image
        filled = np.concatenate([images, images[-1:].repeat(missing, axis=0)])
        parts = [self._run(part) for part in np.split(filled, len(filled) // fixed)]
        return torch.cat(parts)[: len(images)]

    @cached_property
    def preparation(self) -> ImagePreparation:
        """How images become inputs of the graph."""
        sides = [side for side in self._input.shape[1:] if isinstance(side, int) and side > 4]
        is_free = "size" in self._given or not sides
        return self._options if is_free else self._options.model_copy(update={"size": sides[0]})

    def _as_input(self, prepared: Sequence[NDArray[np.uint8]]) -> NDArray[Any]:
        if self._input.type == "tensor(uint8)":  # the graph scales by itself
            images = np.stack(prepared).transpose(0, 3, 1, 2)
        else:
            images = self.preparation.batch(prepared).numpy()
            images = images.astype(np.float16 if self._input.type == "tensor(float16)" else "f4")
        layout = self._options.layout or ("nhwc" if self._input.shape[3] == _CHANNELS else "nchw")
        return np.ascontiguousarray(images.transpose(0, 2, 3, 1) if layout == "nhwc" else images)

    def _run(self, images: NDArray[Any]) -> Float32[Tensor, "batch dimension"]:
        try:
            (found,) = self._session.run([self._output.name], {self._input.name: images})
        except Exception as error:  # onnxruntime's errors have no common class
            raise DataError(
                f"{self.path} cannot embed images of shape {list(images.shape[1:])}: "
                f"{str(error).strip()}; give their size as onnx:FILE?size=…"
            ) from error
        vectors = torch.from_numpy(np.asarray(found, dtype=np.float32))
        if vectors.ndim > 2:
            # Maps have their channels first, and tokens have theirs last.
            positions = tuple(range(2, vectors.ndim)) if vectors.ndim == 4 else (1,)
            vectors = vectors.mean(positions)
        return vectors

    @cached_property
    def _session(self) -> Any:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError(f"the backbone {self.name}", "onnxruntime", "onnx") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors alone
        try:
            usable = set(onnxruntime.get_available_providers())
            providers = [provider for provider in _PROVIDERS if provider in usable]
            return onnxruntime.InferenceSession(str(self.path), options, providers=providers)
        except Exception as error:
            raise DataError(f"{self.path} is damaged, or not an ONNX graph: {error}") from error

    @cached_property
    def _input(self) -> Any:
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            listed = ", ".join(f"{each.name} {each.shape}" for each in inputs)
            raise DataError(
                f"{self.path} takes {listed}: a backbone takes one batch of images, of shape "
                "[batch, 3, height, width]"
            )
        return inputs[0]

    @cached_property
    def _output(self) -> Any:
        outputs, wanted = self._session.get_outputs(), self._options.output
        if wanted is None:
            return next((each for each in outputs if len(each.shape) == 2), outputs[0])
        for each in outputs:
            if each.name == wanted:
                return each
        names = ", ".join(each.name for each in outputs)
        raise InvalidValueError(f"{self.path} has no output {wanted!r}; it has {names}")

    def _beside(self) -> dict[str, Any]:
        path = self.path.with_suffix(".json")
        if not path.exists():
            return {}
        found = read_json(path)
        if not isinstance(found, dict):
            raise DataError(f"{path} must be an object of options, got {type(found).__name__}")
        return found


class ImageNetwork(NetworkBackbone):
    """An image encoder of torch's, with one preparation for all images."""

    modalities = frozenset[Modality]({"image"})

    @property
    @abstractmethod
    def network(self) -> nn.Module:
        """The encoder without its classifier, in evaluation mode."""

    @property
    @abstractmethod
    def preparation(self) -> ImagePreparation:
        """How images become inputs of the network."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights and of the preparation."""
        preparation = hashlib.sha256(self.preparation.model_dump_json().encode()).hexdigest()
        model = self.name.partition(":")[2].partition("?")[0]
        return hash_of_weights(self.network.state_dict(), f"{model} {preparation}")

    def describe(self, modality: Modality) -> str:
        """Return the size of the images, and how they are pooled."""
        size = self.preparation.size
        return f"images of {size}×{size} pixels, the network's own pooling"

    def prepare(self, example: Example) -> Float32[Tensor, "3 height width"]:
        """Return the image, scaled and at the network's size."""
        assert isinstance(example, Image.Image)
        return self.preparation.batch([self.preparation.pixels(example)])[0]

    def encoder(self, modality: Modality) -> Tunable:
        """Return the network without its classifier."""
        return Tunable(self.network, self.prepare)


class TimmBackbone(ImageNetwork):
    """A timm network without its classifier, with its own preprocessing.

    Args:
        model: the name, as ``timm.list_models`` has it
        options: ``weights``, a safetensors file to use in place of a download
    """

    def __init__(self, model: str, options: Mapping[str, Any] | None = None) -> None:
        unknown = set(options or {}) - {"weights"}
        if unknown:
            raise InvalidValueError(
                f"`backbone` timm:{model} has the option weights, got {', '.join(sorted(unknown))}"
            )
        self.model, self.weights = model, (options or {}).get("weights")
        self.name = f"timm:{model}" + (f"?weights={self.weights}" if self.weights else "")

    @cached_property
    def preparation(self) -> ImagePreparation:
        """How images become inputs of the network."""
        network = self.network
        import timm.data

        found = timm.data.resolve_model_data_config(network)
        return ImagePreparation(
            size=found["input_size"][-1],
            resize="squash" if found.get("crop_mode") == "squash" else "crop",
            interpolation="bicubic" if found["interpolation"] == "bicubic" else "bilinear",
            mean=found["mean"],
            std=found["std"],
        )

    @cached_property
    def network(self) -> nn.Module:
        """The encoder without its classifier, in evaluation mode."""
        try:
            import timm
        except (ImportError, RuntimeError) as error:  # torchvision of another torch raises the last
            raise MissingExtraError(f"the backbone {self.name}", "timm", "timm") from error
        overlay = {"file": self.weights} if self.weights else None
        try:
            network: nn.Module = timm.create_model(
                self.model, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay
            )
        except Exception as error:  # of timm, of the hub or of the connection
            raise DataError(
                f"timm:{self.model} cannot be loaded ({type(error).__name__}: {error}): without a "
                "network, name its safetensors file as timm:NAME?weights=FILE"
            ) from error
        return network.eval().to(usual_device())
