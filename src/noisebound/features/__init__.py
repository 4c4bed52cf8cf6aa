"""Pretrained backbones: raw images and texts become vectors, once, cached on disk."""

from noisebound.features.auto import load_for_training
from noisebound.features.backbone import Backbone
from noisebound.features.custom import BackboneLike, parse_backbone
from noisebound.features.embed_once import EmbeddingCacheWarning, UnsuitedTextWarning, embed_once
from noisebound.features.examples import Examples, ImageFiles, ImageTensor, Rows, Texts
from noisebound.features.load import load_embedded

__all__ = [
    "Backbone",
    "BackboneLike",
    "EmbeddingCacheWarning",
    "Examples",
    "ImageFiles",
    "ImageTensor",
    "Rows",
    "Texts",
    "UnsuitedTextWarning",
    "embed_once",
    "load_embedded",
    "load_for_training",
    "parse_backbone",
]
