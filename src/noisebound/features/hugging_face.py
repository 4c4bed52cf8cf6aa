"""``hf:NAME_OR_FOLDER``: an encoder from Hugging Face transformers, for images or texts."""

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int32, Int64, Shaped
from PIL import Image
from torch import Tensor, nn

from noisebound.data.files import as_data_error
from noisebound.errors import DataError, InvalidValueError, MissingExtraError, needed_for
from noisebound.features.backbone import NetworkBackbone, hash_of_file, usual_device
from noisebound.features.examples import Example, Modality

_TEXT_FILES = ("*.json", "*.txt", "*.model")
_SAFETENSORS, _PICKLES = "*.safetensors", "pytorch_model*.bin"
_TIMEOUT = 10.0  # seconds (heuristic)
_CONFIGS: dict[Modality, tuple[str, ...]] = {
    "image": ("preprocessor_config.json", "processor_config.json"),
    "text": ("tokenizer_config.json", "tokenizer.json", "vocab.txt"),
}
# Parts of the names of weights that many models lack and vectors do not depend on.
_OFTEN_UNUSED = ("pooler", "mask_token", "logit_scale")
_LONGEST = 512  # tokens: the limit for encoders that name none (heuristic)

_POOLINGS = {
    "cls": "the vector of its first token",
    "mean": "the mean of its token vectors",
    "last": "the vector of its last token",
    "pooler": "the network's own pooling",
    "features": "the network's own projection",
}
# In files of sentence-transformers, older and newer ones.
_CONFIGURED = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
_CONFIGURED |= {"cls": "cls", "mean": "mean"}


class Pooling(NamedTuple):
    """How token vectors become one vector, which may be scaled to length one."""

    name: str
    is_normalized: bool = False

    def __str__(self) -> str:
        return _POOLINGS[self.name] + (", scaled to length one" if self.is_normalized else "")


class HuggingFaceBackbone(NetworkBackbone):
    """An encoder with its tokenizer or image processor; no code of its folder is ever executed.

    ``place`` is a folder or the name of a model on the hub; ``pooling`` overrides the config.
    """

    def __init__(self, place: str, pooling: str | None = None) -> None:
        if pooling not in (None, *_POOLINGS):
            raise InvalidValueError(
                f"`backbone` hf: pooling must be one of {', '.join(_POOLINGS)}; got {pooling!r}"
            )
        self.folder, self._pooling = _find_model_folder(place), pooling
        shown = str(Path(place).resolve()) if Path(place).is_dir() else place
        self.name = f"hf:{shown}" + (f"?pooling={pooling}" if pooling else "")
        self.modalities = frozenset(
            modality
            for modality, names in _CONFIGS.items()
            if any((self.folder / name).exists() for name in names)
        )
        if not self.modalities:
            raise DataError(
                f"{self.folder} has neither an image processor ({_CONFIGS['image'][0]}) nor a "
                f"tokenizer ({_CONFIGS['text'][0]}): copy the whole model folder"
            )

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self._pooling}".encode())
        for path in _model_files(self.folder):
            digest.update(f"{path.relative_to(self.folder)} {hash_of_file(path)}\n".encode())
        return digest.hexdigest()

    def describe(self, modality: Modality) -> str:
        pooling = self._pooling_for(modality)
        if modality == "text":
            return f"{pooling}, of its first {self._limit} tokens"
        return f"{pooling}, after {type(self._processor).__name__}"

    def count_unsuited(self, texts: Sequence[str]) -> tuple[int, int]:
        if not texts:
            return 0, 0
        tokens = self._tokens(texts, self._limit + 1)  # one above the limit: the text is cut
        cut = sum(len(ids) > self._limit for ids in tokens)
        unknown = self._tokenizer.unk_token_id
        if unknown is None or unknown == self._tokenizer.eos_token_id:
            return cut, 0
        special = set(self._tokenizer.all_special_ids) - {unknown}
        words = [[each for each in ids if each not in special] for ids in tokens]
        return cut, sum(2 * each.count(unknown) > len(each) for each in words)

    def prepare(self, example: Example) -> Tensor | str:
        """Return the pixels of an image, as the processor makes them; a text unchanged."""
        if isinstance(example, str):
            return example
        assert isinstance(example, Image.Image)
        inputs = self._processor(images=example.convert("RGB"), return_tensors="pt")
        pixels: Tensor = inputs["pixel_values"][0]
        return pixels

    def tokenize(self, texts: Sequence[str]) -> list[Int32[Tensor, " _"]]:
        return [torch.tensor(ids).int() for ids in self._tokens(texts, self._limit)]

    def _tokens(self, texts: Sequence[str], longest: int) -> list[list[int]]:
        tokens = self._tokenizer(list(texts), truncation=True, max_length=longest)
        return list(tokens["input_ids"])

    def network_for(self, modality: Modality) -> nn.Module:
        padding = None if modality == "image" else self._tokenizer.pad_token_id or 0
        return PooledEncoder(self._network[0], self._pooling_for(modality), padding)

    def _pooling_for(self, modality: Modality) -> Pooling:
        """Return how outputs become one vector: as given, or chosen from the config."""
        if self._pooling is not None:
            return Pooling(self._pooling)
        configured = _sentence_pooling(self.folder) if modality == "text" else None
        if configured is not None:
            return configured
        network, missing = self._network
        if hasattr(network, f"get_{modality}_features"):
            return Pooling("features")
        if modality == "text":
            return Pooling("mean")
        ends = ("cls_token", "class_embedding")
        if any(name.endswith(ends) for name, _ in network.named_parameters()):
            return Pooling("cls")
        lacks_pooler = any("pooler" in name for name in missing)
        if not lacks_pooler and any("pool" in name for name, _ in network.named_children()):
            return Pooling("pooler")
        return Pooling("mean")

    @cached_property
    def _limit(self) -> int:
        path = self.folder / "sentence_bert_config.json"
        longest = _read_json(path).get("max_seq_length") if path.exists() else None
        config = _read_json(self.folder / "config.json")
        config = config.get("text_config", config)
        limits = (longest, self._tokenizer.model_max_length, config.get("max_position_embeddings"))
        return min([each for each in limits if isinstance(each, int) and each > 0] + [_LONGEST])

    @cached_property
    def _tokenizer(self) -> Any:
        return self._read("AutoTokenizer")

    @cached_property
    def _processor(self) -> Any:
        return self._read("AutoImageProcessor")

    @cached_property
    def _network(self) -> tuple[nn.Module, Sequence[str]]:
        """The encoder, and the names of the weights that the folder lacks."""
        network, about = self._read(
            "AutoModel",
            use_safetensors=any(self.folder.glob("*.safetensors")),
            weights_only=True,  # from a pickle, only tensors are read
            output_loading_info=True,
        )
        missing = sorted(about["missing_keys"])
        if network.config.is_encoder_decoder:
            network = network.get_encoder()
            missing = [name for name in missing if not name.startswith("decoder")]
        # transformers draws missing weights at random, without a warning.
        unused = _OFTEN_UNUSED if self._pooling != "pooler" else _OFTEN_UNUSED[1:]
        needed = [name for name in missing if not any(part in name for part in unused)]
        if needed:
            raise DataError(
                f"{self.folder} lacks {len(needed)} of the weights that its config.json asks for, "
                f"such as {needed[0]}: they are of another model; copy the whole model folder"
            )
        return network.eval().to(usual_device()), missing

    def _read(self, kind: str, **options: bool) -> Any:
        """Read a part of the folder by one of transformers' classes, without its log lines."""
        with needed_for(f"the backbone {self.name}", "transformers", "hf"):
            import transformers
            from transformers.utils import logging as transformers_logging
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


def _sentence_pooling(folder: Path) -> Pooling | None:
    """Return the pooling that a sentence-transformers folder configures."""
    path = folder / "modules.json"
    if not path.exists():
        return None
    modules = {str(each["type"]).rpartition(".")[2]: each["path"] for each in _read_json(path)}
    others = modules.keys() - {"Transformer", "Pooling", "Normalize"}
    if others:
        raise DataError(
            f"{path} has a module {min(others)}; supported are Transformer, Pooling and "
            "Normalize: choose another `backbone`"
        )
    if "Pooling" not in modules:
        return Pooling("mean", "Normalize" in modules)
    path = folder / modules["Pooling"] / "config.json"
    config, prefix = _read_json(path), "pooling_mode"
    if isinstance(config.get(prefix), str):  # newer files name the mode
        asked = [config[prefix]]
    else:
        asked = [name.removeprefix(f"{prefix}_") for name in config if prefix in name]
        asked = [name for name in asked if config[f"{prefix}_{name}"]]
    if len(asked) != 1 or asked[0] not in _CONFIGURED:
        raise DataError(
            f"{path} asks for {', '.join(asked) or 'no pooling'}; supported are "
            f"{', '.join(_CONFIGURED)}: choose another `backbone`"
        )
    return Pooling(_CONFIGURED[asked[0]], "Normalize" in modules)


class PooledEncoder(nn.Module):
    """A transformer with its pooling, from pixels to vectors; or from tokens, if there is padding.

    ``padding`` is the token that fills short texts.
    """

    def __init__(self, network: nn.Module, pooling: Pooling, padding: int | None) -> None:
        super().__init__()
        self.network, self.pooling, self.padding = network, pooling, padding
        self.train(network.training)

    def forward(self, inputs: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch dimension"]:
        """Return one vector per image, or per text; tokens are negative after a text's end."""
        kind, mask, given = "image", None, {"pixel_values": inputs}
        if self.padding is not None:
            is_token = inputs >= 0
            if not torch.compiler.is_compiling():  # an exported program has one path
                longest = int(is_token.sum(1).max())  # a part of a batch may be shorter
                is_token, inputs = is_token[:, :longest], inputs[:, :longest]
            mask = is_token.long()
            ids = inputs.long().masked_fill(~is_token, self.padding)
            kind, given = "text", {"input_ids": ids, "attention_mask": mask}
        if self.pooling.name == "features":
            found = getattr(self.network, f"get_{kind}_features")(**given)
            # Newer versions of transformers wrap the vectors.
            vectors = found if isinstance(found, Tensor) else found.pooler_output
        elif self.pooling.name == "pooler":
            vectors = self.network(**given).pooler_output.flatten(1)
        else:
            hidden = self.network(**given).last_hidden_state
            if hidden.ndim == 4:  # maps, channels first
                hidden = hidden.flatten(2).transpose(1, 2)
            vectors = self._pooled(hidden, mask)
        return nn.functional.normalize(vectors) if self.pooling.is_normalized else vectors

    def _pooled(
        self, hidden: Float[Tensor, "batch tokens d"], mask: Int64[Tensor, "batch tokens"] | None
    ) -> Float[Tensor, "batch d"]:
        """Return one vector per example; the mask leaves padding out."""
        if self.pooling.name == "cls":
            return hidden[:, 0]
        if mask is None:
            mask = torch.ones(hidden.shape[:2], dtype=torch.int64, device=hidden.device)
        if self.pooling.name == "last":
            return hidden[torch.arange(len(hidden)), mask.cumsum(1).argmax(1)]
        weights = mask[..., None].to(hidden.dtype)
        return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def _find_model_folder(place: str) -> Path:
    """Return the folder of a model: the place itself, or the cache of this name on the hub."""
    folder = Path(place)
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise DataError(
                f"{folder} is not a model folder: it has no config.json; point `backbone` "
                "hf:FOLDER to the folder that has it beside the weights"
            )
        return folder
    if folder.is_absolute() or place.startswith((".", "~")) or place.count("/") > 1:
        raise DataError(f"there is no folder {place}: `backbone` hf:FOLDER names a model folder")
    if find_spec("huggingface_hub") is None:
        raise MissingExtraError(f"the backbone hf:{place}", "transformers", "hf")
    return cached_model(place) or fetch_model(place)


def cached_model(name: str) -> Path | None:
    """Return the folder of a model in the hub's cache, if its weights are there."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
        _model_files(folder)
    except Exception:  # an unknown name, or a download that was interrupted
        return None
    return folder


def fetch_model(
    name: str, seconds: float = _TIMEOUT, log: Callable[[str], None] = lambda note: None
) -> Path:
    """Download a model if the hub answers in time; ``log`` gets the size of the download."""
    from huggingface_hub import constants, snapshot_download

    try:
        files = _listed(name, seconds)
        has_safetensors = any(Path(file.rfilename).match(_SAFETENSORS) for file in files)
        patterns = [*_TEXT_FILES, _SAFETENSORS if has_safetensors else _PICKLES]
        wanted = [file for file in files if any(map(Path(file.rfilename).match, patterns))]
        size = sum(file.size or 0 for file in wanted)
        log(f"downloading {name} from the Hugging Face hub: {size / 1e6:,.0f} MB")
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # from the hub, the connection or the disk
        message = str(error).strip().partition("\n")[0] or f"no answer within {seconds:g} seconds"
        raise DataError(
            f"hf:{name} is not on this machine (looked in {constants.HF_HUB_CACHE}) and cannot be "
            f"fetched ({type(error).__name__}: {message}): download it elsewhere, "
            "and point `backbone` to its folder, as hf:FOLDER"
        ) from error


def _listed(name: str, seconds: float) -> Sequence[Any]:
    """Return the files of a model on the hub.

    The request runs in a thread, because the timeout of a connection applies to each address of
    the host separately, and not at all to the lookup of these addresses.
    """
    from huggingface_hub import model_info

    answer: Future[Sequence[Any]] = Future()

    def ask() -> None:
        try:
            found = model_info(name, timeout=seconds, files_metadata=True)
            answer.set_result(found.siblings or [])
        except Exception as error:
            answer.set_exception(error)

    Thread(target=ask, daemon=True).start()
    return answer.result(seconds)


def _model_files(folder: Path) -> Sequence[Path]:
    """Return the files that determine the vectors: configs, tokenizer, weights."""
    folders, modules = [folder], folder / "modules.json"
    if modules.exists():
        folders += [folder / module["path"] for module in _read_json(modules) if module["path"]]

    def matching(*patterns: str) -> list[Path]:
        return [path for each in folders for end in patterns for path in sorted(each.glob(end))]

    weights = matching(_SAFETENSORS) or matching(_PICKLES)
    if not weights:
        raise DataError(
            f"{folder} has no weights: expected model.safetensors, or pytorch_model.bin; copy the "
            "whole model folder"
        )
    return [*matching(*_TEXT_FILES), *weights]


def _read_json(path: Path) -> Any:
    """Return a JSON file's content, or an error that names the file."""
    with as_data_error(path, "copy the whole model folder"):
        return json.loads(path.read_text(encoding="utf-8"))
