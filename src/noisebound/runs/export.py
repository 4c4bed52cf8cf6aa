"""A trained model as one file for other programs: ONNX, or an exported program of torch."""

import json
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from jaxtyping import Float, Shaped
from PIL import Image
from torch import Tensor, nn

from noisebound.errors import InvalidValueError, RunError, needed_for
from noisebound.features.backbone import NetworkBackbone
from noisebound.features.examples import Modality
from noisebound.learners.stored import estimators_of
from noisebound.system.files import written_whole

if TYPE_CHECKING:
    from noisebound.runs.run import Run

_TRACED = 8  # tokens


def export(run: "Run", path: Path) -> None:
    """Write the model to an ``.onnx`` or a ``.pt2`` file, from inputs to class probabilities."""
    is_onnx, estimators = path.suffix.lower() == ".onnx", estimators_of(run.model)
    if not is_onnx and path.suffix.lower() != ".pt2":
        raise InvalidValueError(f"a model is exported as .onnx or .pt2, got {path.name}")
    with needed_for("an .onnx file", "onnxscript and skl2onnx", "onnx"), written_whole(path) as out:
        try:
            if all(each is None for each in estimators):
                _export_network(run, out, is_onnx=is_onnx)
            elif is_onnx and len(estimators) == 1 and len(run.saved_model.card.input_shape) == 1:
                _export_estimator(run, out, estimators[0])
            else:
                raise RunError(
                    "an average with estimators, and estimators of images or as .pt2, are not "
                    "exported: train with `learner` network, or with `ensemble_size` 1"
                )
        except (ImportError, RunError):
            raise
        except Exception as error:  # from exporters, for what they do not know
            reason = str(error).strip().partition("\n")[0]
            raise RunError(
                f"this model is not exported ({type(error).__name__}: {reason}): train with "
                "`learner` network or linear"
            ) from error


class _Whole(nn.Module):
    """A network with all that is before it and after it."""

    def __init__(self, run: "Run", encoder: nn.Module | None, example: Tensor) -> None:
        super().__init__()
        self.encoder, self.model = encoder, run.model
        kind = (example.ndim, example.dtype) if encoder is None else (2, torch.float32)
        self._normalize = run.saved_model.normalization.for_inputs(*kind, example.device)

    def forward(self, inputs: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n classes"]:
        vectors = inputs if self.encoder is None else self.encoder(inputs)
        probs: Tensor = self.model(self._normalize(vectors)).softmax(1)
        return probs


def _export_network(run: "Run", path: Path, *, is_onnx: bool) -> None:
    card, encoder, axes = run.saved_model.card, None, [0]
    example = torch.zeros(2, *card.input_shape, dtype=getattr(torch, card.input_dtype))
    backbone = None if card.backbone is None else run.backbone
    if isinstance(backbone, NetworkBackbone) and backbone.is_trainable and card.encoder is None:
        modality = cast(Modality, card.backbone and card.backbone.modality)
        encoder = backbone.trainable_copy(modality).requires_grad_(False)
        if modality == "image":
            example = torch.stack([backbone.prepare(Image.new("RGB", (224, 224)))] * 2)
        elif modality == "text":
            example, axes = torch.zeros(2, _TRACED, dtype=torch.int32), [0, 1]
    dynamic = {"inputs": dict.fromkeys(axes, torch.export.Dim.DYNAMIC)}
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # no lines about packages that are not needed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = _Whole(run, encoder, example).eval()
            program = torch.export.export(whole, (example,), dynamic_shapes=dynamic)
            if not is_onnx:
                torch.export.save(program, path, extra_files={"classes.json": _classes(run)})
                return
            names: Any = {"input_names": ["inputs"], "output_names": ["probabilities"]}
            found = torch.onnx.export(program, (), dynamo=True, verbose=False, **names)
            assert found is not None
            found.model.metadata_props["classes"] = _classes(run)
            found.save(path)
    finally:
        logger.setLevel(level)


def _export_estimator(run: "Run", path: Path, estimator: Any) -> None:
    """Export features to probabilities by skl2onnx, which knows scikit-learn's estimators."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    card = run.saved_model.card
    if len(estimator.classes_) != len(card.class_names):
        raise RunError("an estimator that has seen no example of some class is not exported")
    scaler, width = StandardScaler(), card.input_shape[0]
    scaler.mean_, scaler.scale_ = np.array(card.mean or [0.0]), np.array(card.std or [1.0])
    scaler.n_features_in_ = width
    pipeline, options = make_pipeline(scaler, estimator), {id(estimator): {"zipmap": False}}
    inputs = [("inputs", FloatTensorType([None, width]))]
    found = to_onnx(pipeline, initial_types=inputs, options=options)
    found.metadata_props.add(key="classes", value=_classes(run))
    path.write_bytes(found.SerializeToString())


def _classes(run: "Run") -> str:
    return json.dumps(run.saved_model.card.class_names)
