"""``hf:NAME_OR_FOLDER``: an encoder from Hugging Face transformers, for images or texts."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor, nn

from noisebound.errors import DataError, InvalidValueError, MissingExtraError
from noisebound.features.backbone import TextCounts, hash_of_file
from noisebound.features.examples import Example, Modality
from noisebound.features.hub import find_model_folder, model_files
from noisebound.features.pooling import (
    POOLING_NAMES,
    PooledEncoder,
    Pooling,
    PoolingName,
    read_json,
    sentence_pooling,
)
from noisebound.features.tunable import NetworkBackbone, Tunable, usual_device

_IMAGE_CONFIGS = ("preprocessor_config.json", "processor_config.json")
_TEXT_CONFIGS = ("tokenizer_config.json", "tokenizer.json", "vocab.txt")
# Parts of the names of weights that vectors do not depend on and that many models lack.
_OFTEN_UNUSED = ("pooler", "mask_token", "logit_scale")
_LONGEST = 512  # tokens: the limit for encoders that name none (heuristic)
_MOSTLY = 0.5
_TEXTS_AT_ONCE = 1000  # per call of the tokenizer: enough for full speed


class HuggingFaceBackbone(NetworkBackbone):
    """An encoder with its tokenizer or image processor; no code of its folder is ever executed.

    Args:
        place: a folder, or the name of a model on the hub
        options: ``pooling``, one of ``POOLING_NAMES``, in place of the one chosen from the config
    """

    def __init__(self, place: str, options: Mapping[str, Any] | None = None) -> None:
        unknown = set(options or {}) - {"pooling"}
        pooling = (options or {}).get("pooling")
        if unknown or pooling not in (None, *POOLING_NAMES):
            raise InvalidValueError(
                f"`backbone` hf:{place} has the option pooling, one of {', '.join(POOLING_NAMES)}; "
                f"got {dict(options or {})}"
            )
        self.folder = find_model_folder(place)
        self._pooling: PoolingName | None = pooling
        is_folder = Path(place).is_dir()
        shown = str(Path(place).resolve()) if is_folder else place
        self.name = f"hf:{shown}" + (f"?pooling={pooling}" if pooling else "")
        self.modalities = self._modalities()

    def _modalities(self) -> frozenset[Modality]:
        found: set[Modality] = set()
        if any((self.folder / name).exists() for name in _IMAGE_CONFIGS):
            found.add("image")
        if any((self.folder / name).exists() for name in _TEXT_CONFIGS):
            found.add("text")
        if not found:
            raise DataError(
                f"{self.folder} has neither an image processor ({_IMAGE_CONFIGS[0]}) nor a "
                f"tokenizer ({_TEXT_CONFIGS[0]}): copy the whole model folder"
            )
        return frozenset(found)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights, the configs and the tokenizer."""
        digest = hashlib.sha256(f"{self._pooling}".encode())
        for path in model_files(self.folder):
            digest.update(f"{path.relative_to(self.folder)} {hash_of_file(path)}\n".encode())
        return digest.hexdigest()

    def describe(self, modality: Modality) -> str:
        """Return how an example is pooled, and how long a text may be."""
        pooling = self.pooling(modality)
        if modality == "text":
            return f"{pooling}, of its first {self._limit} tokens"
        return f"{pooling}, after {type(self._processor).__name__}"

    def count_texts(self, texts: Sequence[str]) -> TextCounts:
        """Return how many texts are cut, or are in words that the encoder does not know."""
        cut = unknown = 0
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            # One token above the limit shows that a text is cut.
            tokens = self._tokenizer(
                list(texts[start : start + _TEXTS_AT_ONCE]),
                truncation=True,
                max_length=self._limit + 1,
            )
            cut += sum(len(ids) > self._limit for ids in tokens["input_ids"])
            unknown += sum(map(self._is_unknown, tokens["input_ids"]))
        return TextCounts(texts=len(texts), cut=cut, unknown=unknown, limit=self._limit)

    def _is_unknown(self, ids: Sequence[int]) -> bool:
        """True if most of these tokens stand for words that the tokenizer does not know."""
        unknown = self._tokenizer.unk_token_id
        if unknown is None or unknown == self._tokenizer.eos_token_id:
            return False
        special = self._special_tokens - {unknown}
        words = [each for each in ids if each not in special]
        return words.count(unknown) > _MOSTLY * len(words)

    def prepare(self, example: Example) -> Tensor | str:
        """Return the pixels of an image, as the processor makes them; a text unchanged."""
        return example if isinstance(example, str) else self._pixels(example)

    def _pixels(self, example: Example) -> Tensor:
        assert isinstance(example, Image.Image)
        inputs = self._processor(images=example.convert("RGB"), return_tensors="pt")
        pixels: Tensor = inputs["pixel_values"][0]
        return pixels

    def encoder(self, modality: Modality) -> Tunable:
        """Return the network with its pooling."""
        pooling = self.pooling(modality)
        if modality == "image":
            return Tunable(PooledEncoder(self.network, pooling, None), self._pixels)
        network = PooledEncoder(self.network, pooling, self._tokenizer.pad_token_id or 0)
        return Tunable(network, self._pixels, self._tokens)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        tokens = self._tokenizer(list(texts), truncation=True, max_length=self._limit)
        ids: list[list[int]] = tokens["input_ids"]
        return ids

    def pooling(self, modality: Modality) -> Pooling:
        """Return how outputs become one vector, chosen from the config unless it was given."""
        if self._pooling is not None:
            return Pooling(self._pooling, False, "as asked")
        configured = sentence_pooling(self.folder) if modality == "text" else None
        if configured is not None:
            return configured
        if hasattr(self.network, f"get_{modality}_features"):
            return Pooling("features", False, "a model of images and texts")
        if modality == "text":
            return Pooling("mean", False, "its config names no pooling")
        ends = ("cls_token", "class_embedding")
        if any(name.endswith(ends) for name, _ in self.network.named_parameters()):
            return Pooling("cls", False, "its config has a class token")
        network, missing = self._network_and_missing
        lacks_pooler = any("pooler" in name for name in missing)
        if not lacks_pooler and any("pool" in name for name, _ in network.named_children()):
            return Pooling("pooler", False, "its config has no class token")
        return Pooling("mean", False, "its config has neither a class token nor a pooling")

    @cached_property
    def _limit(self) -> int:
        path = self.folder / "sentence_bert_config.json"
        longest = read_json(path).get("max_seq_length") if path.exists() else None
        config = read_json(self.folder / "config.json")
        config = config.get("text_config", config)
        limits = (longest, self._tokenizer.model_max_length, config.get("max_position_embeddings"))
        return min([each for each in limits if isinstance(each, int) and each > 0] + [_LONGEST])

    @cached_property
    def _special_tokens(self) -> frozenset[int]:
        return frozenset(self._tokenizer.all_special_ids)

    @cached_property
    def _tokenizer(self) -> Any:
        return self._read("AutoTokenizer")

    @cached_property
    def _processor(self) -> Any:
        return self._read("AutoImageProcessor")

    @property
    def network(self) -> nn.Module:
        """The encoder, in evaluation mode."""
        return self._network_and_missing[0]

    @cached_property
    def _network_and_missing(self) -> tuple[nn.Module, Sequence[str]]:
        """The encoder, and the names of the weights that the folder lacks."""
        network, about = self._read(
            "AutoModel",
            use_safetensors=any(self.folder.glob("*.safetensors")),
            weights_only=True,  # of a pickle, nothing but tensors is read
            output_loading_info=True,
        )
        missing = sorted(about["missing_keys"])
        if network.config.is_encoder_decoder:
            network = network.get_encoder()
            missing = [name for name in missing if not name.startswith("decoder")]
        self._check_complete(missing)
        return network.eval().to(usual_device()), missing

    def _check_complete(self, missing: Sequence[str]) -> None:
        """Refuse a model with weights that transformers would draw at random, in silence."""
        unused = _OFTEN_UNUSED if self._pooling != "pooler" else _OFTEN_UNUSED[1:]
        needed = [name for name in missing if not any(part in name for part in unused)]
        if needed:
            raise DataError(
                f"{self.folder} lacks {len(needed)} of the weights that its config.json asks for, "
                f"such as {needed[0]}: they are of another model; copy the whole model folder"
            )

    def _read(self, kind: str, **options: bool) -> Any:
        """Read a part of the folder by one of transformers' classes, without its log lines."""
        try:
            import transformers
            from transformers.utils import logging as transformers_logging
        except ImportError as error:
            raise MissingExtraError(f"the backbone {self.name}", "transformers", "hf") from error
        before = transformers_logging.get_verbosity()
        transformers_logging.set_verbosity(logging.CRITICAL)
        transformers_logging.disable_progress_bar()
        try:
            return getattr(transformers, kind).from_pretrained(
                self.folder, trust_remote_code=False, local_files_only=True, **options
            )
        except MemoryError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:500] or "no reason given"
            if "trust_remote_code" in reason:
                reason = "it needs code from its folder, which is never executed"
            raise DataError(
                f"{self.folder} cannot be read by {kind} ({type(error).__name__}: {reason}): point "
                "`backbone` hf:FOLDER to a complete model folder with safetensors weights"
            ) from error
        finally:
            transformers_logging.set_verbosity(before)
            transformers_logging.enable_progress_bar()
