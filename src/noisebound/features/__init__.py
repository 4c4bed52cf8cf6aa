"""Pretrained backbones: raw images and texts become vectors, once, cached on disk."""

from noisebound.features.backbone import Backbone as Backbone, NetworkBackbone as NetworkBackbone
from noisebound.features.embed import (
    EmbeddingCacheWarning as EmbeddingCacheWarning,
    UnsuitedTextWarning as UnsuitedTextWarning,
    embed_once as embed_once,
)
from noisebound.features.examples import (
    Examples as Examples,
    ImageFiles as ImageFiles,
    TensorExamples as TensorExamples,
    Texts as Texts,
)
from noisebound.features.load import (
    load_embedded as load_embedded,
    load_for_training as load_for_training,
)
from noisebound.features.parse import BackboneLike as BackboneLike, parse_backbone as parse_backbone
