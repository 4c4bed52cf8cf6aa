"""A pretrained encoder as a scikit-learn transformer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from noisebound.data.arrays import inputs_from_array
from noisebound.data.frames import as_polars, as_texts, is_frame
from noisebound.data.images import image_extensions
from noisebound.errors import DataError
from noisebound.features import (
    Backbone,
    BackboneLike,
    Examples,
    ImageFiles,
    TensorExamples,
    Texts,
    embed_once,
    parse_backbone,
)
from noisebound.features.embed import refuse_bad
from noisebound.features.examples import PathFiles, image_paths


class Embedder(TransformerMixin, BaseEstimator):
    """Turns texts or images into the vectors of a pretrained encoder, which are cached on disk.

    Args:
        backbone: ``"hf:NAME_OR_FOLDER"``, ``"onnx:FILE"``, ``"timm:NAME"``, ``"package:NAME"``,
            or an ``nn.Module`` or a function from a batch to vectors
        image_size: height and width of the images that a module or function gets

    Attributes:
        backbone_: the encoder
        n_features_out_: the length of its vectors

    Example:
        >>> def lengths(texts):
        ...     return [[len(text), text.count(" ")] for text in texts]
        >>> Embedder(lengths).fit_transform(["a text", "word"])
        array([[6., 1.],
               [4., 0.]], dtype=float32)
    """

    def __init__(self, backbone: BackboneLike, *, image_size: int | None = None) -> None:
        self.backbone = backbone
        self.image_size = image_size

    def fit(self, X: Any, y: Any = None) -> "Embedder":
        """Find the encoder, and embed the examples into the cache; ``y`` is not used."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.float32]:
        self.backbone_ = parse_backbone(self.backbone, self.image_size)
        vectors = self._vectors(X)
        self.n_features_out_ = vectors.shape[1]
        return vectors

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return one vector per example.

        ``X`` is a list, an array, a column or a frame of one column of texts, or of paths of
        images; or images ``[n, height, width, channels]`` or with channels first.
        """
        check_is_fitted(self, "backbone_")
        return self._vectors(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        check_is_fitted(self, "backbone_")
        names = [f"embedding{place}" for place in range(self.n_features_out_)]
        return np.array(names, dtype=object)

    def _vectors(self, X: Any) -> NDArray[np.float32]:
        examples = _examples(X, self.backbone_)
        found = embed_once(examples, self.backbone_)
        refuse_bad(examples, found)
        vectors: NDArray[np.float32] = found.vectors.numpy()
        return vectors

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = True
        return tags


def _examples(X: Any, backbone: Backbone) -> Examples:
    if isinstance(X, str):
        raise DataError("expected several texts or paths, got one: put it in a list")
    values = _one_column(X)
    paths = image_paths(values)
    if paths is not None and not _are_texts(values, backbone):
        return ImageFiles(PathFiles(), paths)
    texts = as_texts(values)
    return TensorExamples(inputs_from_array(values)) if texts is None else Texts(texts)


def _are_texts(values: Sequence[str | Path], backbone: Backbone) -> bool:
    """True if strings are texts to this encoder.

    For an encoder of images and texts, strings are images if all of them name one.
    """
    if "text" not in backbone.modalities or not any(isinstance(each, str) for each in values):
        return False
    extensions = image_extensions() if "image" in backbone.modalities else ()
    paths = map(Path, values)
    return not all(path.suffix.lower() in extensions and path.is_file() for path in paths)


def _one_column(X: Any) -> Any:
    """Return a column of texts or paths as a list, and anything else unchanged."""
    if is_frame(X):
        if X.shape[1] != 1:
            raise DataError(
                f"expected one column of texts or paths, got {X.shape[1]}: embed each by itself, "
                "as with scikit-learn's ColumnTransformer"
            )
        return as_polars(X).to_series().to_list()
    values = X.to_list() if hasattr(X, "to_list") else X  # a column of pandas or polars
    is_of_objects = isinstance(values, np.ndarray) and values.dtype.kind in "OU"
    if is_of_objects and values.size == len(values):
        return values.ravel().tolist()
    return values
