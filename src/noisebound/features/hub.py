"""Models of the Hugging Face hub: where they are on this machine, and how they are fetched."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

from noisebound.errors import DataError, MissingExtraError
from noisebound.features.pooling import read_json

TEXT_FILES = ("*.json", "*.txt", "*.model")
PICKLES = "pytorch_model*.bin"
_SAFETENSORS = "*.safetensors"
_TIMEOUT = 10.0  # seconds (heuristic)


def find_model_folder(place: str) -> Path:
    """Return the folder of a model.

    Args:
        place: the folder itself, or a name on the hub such as ``sentence-transformers/LaBSE``
    """
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
        model_files(folder)
    except Exception:  # an unknown name, or a download that was interrupted
        return None
    return folder


def fetch_model(
    name: str, seconds: float = _TIMEOUT, log: Callable[[str], None] = lambda note: None
) -> Path:
    """Download a model, and return its folder in the hub's cache.

    Args:
        name: the name on the hub
        seconds: the longest time to wait for the hub's first answer
        log: called with the size of the download before it starts
    """
    from huggingface_hub import constants, snapshot_download

    try:
        files = _listed(name, seconds)
        has_safetensors = any(file.rfilename.endswith(".safetensors") for file in files)
        patterns = [*TEXT_FILES, _SAFETENSORS if has_safetensors else PICKLES]
        size = sum(file.size or 0 for file in files if _matches(file.rfilename, patterns))
        log(f"downloading {name} from the Hugging Face hub: {size / 1e6:,.0f} MB")
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:  # of the hub, of the connection or of the disk
        message = str(error).strip().partition("\n")[0]
        raise DataError(
            f"hf:{name} is not on this machine (looked in {constants.HF_HUB_CACHE}) and cannot be "
            f"fetched ({type(error).__name__}: {message}): download it elsewhere, "
            "and point `backbone` to its folder, as hf:FOLDER"
        ) from error


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(Path(name).match(pattern) for pattern in patterns)


def _listed(name: str, seconds: float) -> Sequence[Any]:
    """Return the files of a model on the hub.

    The request has a thread of its own: the timeout of a connection holds for each address of the
    host, and not at all for the search for these addresses.
    """
    from huggingface_hub import model_info

    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(model_info(name, timeout=seconds, files_metadata=True).siblings or [])
        except Exception as error:
            found.append(error)

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    answer = found[0] if found else TimeoutError(f"no answer within {seconds:g} seconds")
    if isinstance(answer, Exception):
        raise answer
    files: Sequence[Any] = answer
    return files


def model_files(folder: Path) -> Sequence[Path]:
    """Return the files that determine the vectors: weights, configs, tokenizer."""
    folders = [folder]
    modules = folder / "modules.json"
    if modules.exists():
        folders += [folder / module["path"] for module in read_json(modules) if module["path"]]
    weights = [path for each in folders for path in sorted(each.glob(_SAFETENSORS))]
    if not weights:
        weights = [path for each in folders for path in sorted(each.glob(PICKLES))]
    if not weights:
        raise DataError(
            f"{folder} has no weights: expected model.safetensors, or pytorch_model.bin; copy the "
            "whole model folder"
        )
    texts = [path for each in folders for end in TEXT_FILES for path in sorted(each.glob(end))]
    return [*texts, *weights]
