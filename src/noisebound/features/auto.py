"""``backbone="auto"``: photos and texts start from a pretrained encoder where one can be had."""

from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from noisebound.data import Dataset, ReadingOptions, Splits
from noisebound.data.load import image_folder, read
from noisebound.errors import DataError, MissingExtraError, install_command
from noisebound.features.backbone import Backbone
from noisebound.features.custom import BackboneLike, parse_backbone
from noisebound.features.examples import Examples, Modality, Texts
from noisebound.features.hub import cached_model, fetch_model
from noisebound.features.load import Log, embedded, load_embedded, raw_splits
from noisebound.features.packaged import EXTRAS, PackagedName, missing_package

_PATIENCE = 3.0  # seconds for the hub's first answer (heuristic)
_SAMPLED = 200  # texts, to find out whether the encoder knows their language (heuristic)


@dataclass(frozen=True)
class _Default:
    """The encoders of one kind of examples: on the hub, and in a package."""

    hub: str
    packaged: PackagedName
    otherwise: str  # how to train without an encoder


_DEFAULTS: dict[Modality, _Default] = {
    "image": _Default(
        "facebook/dinov2-small", "efficientnet-lite0", "the network trains from scratch"
    ),
    "text": _Default(
        "sentence-transformers/all-MiniLM-L6-v2", "all-minilm-l6-v2", "texts become TF-IDF"
    ),
}


def load_for_training(
    source: Any,
    backbone: BackboneLike | None,
    options: ReadingOptions,
    *,
    is_from_pixels: bool = False,
    log: Log = lambda note: None,
) -> tuple[Splits, Backbone | None]:
    """Return a data set as the embeddings of a backbone, and the backbone; or as it was read.

    Args:
        source: the same as for `load`
        backbone: an encoder; ``"auto"`` for one that fits a folder of images or texts, and none
            for other data; or ``"none"``
        options: how to read the data
        is_from_pixels: True if the network takes pixels, so that ``"auto"`` means none
        log: called with each log line
    """
    if backbone is None or backbone == "none":
        return read(source, options), None
    if backbone != "auto":
        encoder = parse_backbone(backbone, options.image_size)
        return load_embedded(source, encoder, options, log=log), encoder
    if image_folder(source) is not None:
        is_scratch = is_from_pixels or options.image_size is not None
        found = None if is_scratch else default_backbone("image", log)
        if found is None:
            return read(source, options), None
        return load_embedded(source, found, options, log=log), found
    splits = read(source, options)
    if is_from_pixels or isinstance(source, Splits | Dataset) or not _is_texts(splits):
        return splits, None
    raw = raw_splits(splits)
    found = default_backbone("text", log, raw.train.examples)
    # TF-IDF takes empty texts, so they are no reason to stop.
    return (splits, None) if found is None else (embedded(raw, found, True, log), found)


def _is_texts(splits: Splits) -> bool:
    """True if the examples are texts alone, without columns beside them."""
    encoder = splits.encoder
    if encoder is None or splits.embedded_by is not None:
        return False
    return 0 < len(encoder.text_columns) == len(encoder.columns)


def default_backbone(
    modality: Modality, log: Log, examples: Examples | None = None
) -> Backbone | None:
    """Return the best encoder that can be had, or None; ``log`` gets one line that says which.

    Args:
        modality: the kind of examples
        log: called with the line, and before a download
        examples: the examples, if it matters whether the encoder knows their language
    """
    otherwise = _DEFAULTS[modality].otherwise
    try:
        found = needed_backbone(modality, log)
    except MissingExtraError:
        install = install_command(EXTRAS[_DEFAULTS[modality].packaged])
        log(
            f"no pretrained encoder is installed, so {otherwise}; an encoder is usually more "
            f"accurate: {install}"
        )
        return None
    if isinstance(examples, Texts) and _is_foreign(found, examples):
        log(
            f"the encoder {found.name} does not know the words of most texts, so {otherwise}; a "
            "multilingual `backbone` may be more accurate"
        )
        return None
    log(f"using the pretrained encoder {found.name}; `backbone` none does without it")
    return found


def needed_backbone(modality: Modality, log: Log) -> Backbone:
    """Return the best encoder that can be had for examples of this kind, or raise an error.

    Args:
        modality: the kind of examples
        log: called before a download
    """
    default = _DEFAULTS.get(modality)
    if default is None:
        raise DataError("there is no default encoder for rows of numbers: name the `backbone`")
    return _from_hub(default, log) or parse_backbone(f"package:{default.packaged}")


def _from_hub(default: _Default, log: Log) -> Backbone | None:
    """Return the model of the hub, if it is cached or can be fetched."""
    if find_spec("transformers") is None:
        return None
    with suppress(DataError):  # the cache lacks some of its files
        if cached_model(default.hub) is not None:
            return parse_backbone(f"hf:{default.hub}")
    is_same = default.hub.lower().endswith(default.packaged)  # the package has its weights
    if is_same and missing_package(default.packaged) is None:
        return None
    with suppress(DataError):  # no network
        fetch_model(default.hub, _PATIENCE, log)
        return parse_backbone(f"hf:{default.hub}")
    return None


def _is_foreign(backbone: Backbone, examples: Texts) -> bool:
    """True if most texts consist mostly of words that the encoder does not know."""
    step = -(-len(examples) // _SAMPLED)
    sample = [text for text in examples.texts[::step] if text and text.strip()]
    counts = backbone.count_texts(sample) if sample else None
    return counts is not None and 2 * counts.unknown > counts.texts
