"""Pretrained backbones: raw images and texts become vectors, once, cached on disk."""

from noisebound.features.backbone import Backbone, NetworkBackbone
from noisebound.features.embed import EmbeddingCacheWarning, UnsuitedTextWarning, embed_once
from noisebound.features.examples import Examples, ImageFiles, TensorExamples, Texts
from noisebound.features.load import load_embedded, load_for_training
from noisebound.features.parse import BackboneLike, parse_backbone

__all__ = [
    "Backbone",
    "BackboneLike",
    "EmbeddingCacheWarning",
    "Examples",
    "ImageFiles",
    "NetworkBackbone",
    "TensorExamples",
    "Texts",
    "UnsuitedTextWarning",
    "embed_once",
    "load_embedded",
    "load_for_training",
    "parse_backbone",
]
