"""The names of the networks, which options need before torch is imported."""

from typing import Literal, TypeAlias, get_args

# A literal, because pydantic, the command line and mypy read it; a test holds it to MODELS.
ModelName: TypeAlias = Literal[
    "mlp",
    "small_mlp",
    "small_cnn",
    "strided_cnn",
    "resnet18",
    "resnet34",
    "linear",
    "mlp_head",
    "wide_head",
]
MODEL_NAMES: tuple[ModelName, ...] = get_args(ModelName)

DEFAULT_HEAD: ModelName = "mlp_head"
"""The network on the embeddings of a backbone."""

FOR_IMAGES: tuple[ModelName, ...] = ("small_cnn", "strided_cnn", "resnet18", "resnet34")
"""The networks that take images alone."""
