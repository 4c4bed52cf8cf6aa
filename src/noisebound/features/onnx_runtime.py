"""``onnx:FILE``: an image encoder in an ONNX file, computed by onnxruntime."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float32
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from noisebound.errors import DataError, InvalidValueError, MissingExtraError
from noisebound.features.backbone import Backbone
from noisebound.features.content import hash_of_file
from noisebound.features.examples import Example, Modality
from noisebound.features.preparation import ImagePreparation

_CHANNELS = 3
_PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")


class _GraphOptions(BaseModel):
    """What the user says of the graph itself.

    Attributes:
        layout: where the channels are; None for where the graph's input has 3
        output: the name of the output that is the vector; None for the first that has two
            dimensions, or else the first
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    layout: Literal["nchw", "nhwc"] | None = None
    output: str | None = None


class OnnxBackbone(Backbone):
    """An image encoder in an ONNX file.

    Images are brought to the size of the graph's input, scaled to 0 … 1, and normalized by
    ImageNet's mean and deviation, unless the options, or a JSON file of the same name beside the
    graph, say otherwise.

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
        graph = {
            name: self._given[name] for name in _GraphOptions.model_fields.keys() & self._given
        }
        images = {name: value for name, value in self._given.items() if name not in graph}
        try:
            self._graph, self._wanted = _GraphOptions(**graph), ImagePreparation(**images)
        except ValidationError as error:
            first = error.errors()[0]
            known = ", ".join([*ImagePreparation.model_fields, *_GraphOptions.model_fields])
            raise InvalidValueError(
                f"`backbone` onnx:{self.path}: {'.'.join(map(str, first['loc']))}: {first['msg']}; "
                f"known options are {known}"
            ) from error

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name that leads to this backbone again."""
        return f"onnx:{self.path.resolve()}{_query(self._given)}"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the file, of weights that lie beside it, and of the options."""
        beside = [self.path.with_name(self.path.name + end) for end in (".data", "_data")]
        files = [self.path, *(path for path in beside if path.exists())]
        wanted = self._wanted.model_dump_json(exclude=None if "size" in self._given else {"size"})
        parts = [*map(hash_of_file, files), wanted, self._graph.model_dump_json()]
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
        missing = -len(images) % fixed  # the graph takes just so many images: fill up with the last
        filled = np.concatenate([images, images[-1:].repeat(missing, axis=0)])
        parts = [self._run(part) for part in np.split(filled, len(filled) // fixed)]
        return torch.cat(parts)[: len(images)]

    @cached_property
    def preparation(self) -> ImagePreparation:
        """How images are brought to the graph's input."""
        sides = [side for side in self._input.shape[1:] if isinstance(side, int) and side > 4]
        is_free = "size" in self._given or not sides
        return self._wanted if is_free else self._wanted.model_copy(update={"size": sides[0]})

    def _as_input(self, prepared: Sequence[NDArray[np.uint8]]) -> NDArray[Any]:
        if self._input.type == "tensor(uint8)":  # the graph scales by itself
            images = np.stack(prepared).transpose(0, 3, 1, 2)
        else:
            images = self.preparation.batch(prepared).numpy()
            images = images.astype(np.float16 if self._input.type == "tensor(float16)" else "f4")
        layout = self._graph.layout or ("nhwc" if self._input.shape[3] == _CHANNELS else "nchw")
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
            raise DataError(f"{self.path} is damaged, or is no ONNX graph: {error}") from error

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
        outputs, wanted = self._session.get_outputs(), self._graph.output
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
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is damaged: {error}") from error
        if not isinstance(found, dict):
            raise DataError(f"{path} must be an object of options, got {type(found).__name__}")
        return found


def _query(options: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

    return "?" + "&".join(f"{name}={text(options[name])}" for name in options) if options else ""
