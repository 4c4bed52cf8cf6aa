"""A pretrained encoder as a transformer of scikit-learn's."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from noisebound.data.arrays import inputs_from_array
from noisebound.data.images import image_extensions
from noisebound.data.table_files import as_polars, is_frame
from noisebound.data.texts import as_texts
from noisebound.errors import DataError
from noisebound.features import (
    Backbone,
    BackboneLike,
    Examples,
    ImageFiles,
    Texts,
    embed_once,
    parse_backbone,
)
from noisebound.features.embed_once import refuse_bad
from noisebound.features.examples import PathFiles
from noisebound.features.load import examples_of


class Embedder(TransformerMixin, BaseEstimator):
    """Turns texts or images into the vectors of a pretrained encoder, which are cached on disk.

    There is nothing to learn: `fit` finds the encoder and looks at one of its vectors.

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
        """Find the encoder.

        Args:
            X: as in :meth:`transform`
            y: is not used
        """
        self.backbone_ = parse_backbone(self.backbone, self.image_size)
        first = _first_readable(_examples(X, self.backbone_))
        self.n_features_out_ = self._vectors(X if first is None else X[first : first + 1]).shape[1]
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return one vector per example.

        Args:
            X: a list, an array, a column or a frame of one column of texts, or of paths of images;
                or images
                ``[n, height, width, channels]`` or with channels first
        """
        check_is_fitted(self, "backbone_")
        return self._vectors(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return a name for each number of a vector.

        Args:
            input_features: is not used
        """
        check_is_fitted(self, "backbone_")
        return np.array(
            [f"embedding{place}" for place in range(self.n_features_out_)], dtype=object
        )

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
    if isinstance(values, list | tuple) and values and isinstance(values[0], Path):
        return ImageFiles(PathFiles(), list(map(str, values)))
    texts = as_texts(values)
    if texts is None:
        return examples_of(inputs_from_array(values))
    if "text" in backbone.modalities and not _are_images(texts, backbone):
        return Texts(texts)
    return ImageFiles(PathFiles(), list(map(str, texts)))


def _first_readable(examples: Examples) -> int | None:
    """Return the position of the first example that can be read, or None if none can."""
    with examples.reading():
        for position in range(len(examples)):
            with suppress(Exception):  # what Pillow raises on damaged files is not a closed list
                examples.read(position)
                return position
    return None


def _are_images(texts: Sequence[str | None], backbone: Backbone) -> bool:
    """True if an encoder of images and texts gets words that are all names of images."""
    extensions = image_extensions() if "image" in backbone.modalities else ()
    paths = [Path(text or "") for text in texts]
    return all(path.suffix.lower() in extensions and path.is_file() for path in paths)


def _one_column(X: Any) -> Any:
    """Return a column of texts or paths as a list, and all else as it is."""
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
