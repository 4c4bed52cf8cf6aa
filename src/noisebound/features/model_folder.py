"""The folder of a Hugging Face model: given, in the hub's cache, or fetched from the hub."""

from collections.abc import Sequence
from pathlib import Path

from noisebound.errors import DataError, MissingExtraError
from noisebound.features.pooling import read_json

_READ = ("*.json", "*.txt", "*.model", "*.safetensors")  # no code, and pickles only if need be
_PICKLES = "pytorch_model*.bin"
_SECONDS_TO_ANSWER = 10  # of the hub: a choice


def find_model_folder(place: str) -> Path:
    """Return the folder of a model.

    Args:
        place: the folder itself, or a name on the hub such as ``sentence-transformers/LaBSE``
    """
    folder = Path(place)
    if folder.is_dir():
        if not (folder / "config.json").exists():
            raise DataError(
                f"{folder} is no model folder: it has no config.json; point `backbone` hf:FOLDER "
                "to the folder that has it beside the weights"
            )
        return folder
    if folder.is_absolute() or place.startswith((".", "~")) or place.count("/") > 1:
        raise DataError(f"there is no folder {place}: `backbone` hf:FOLDER names a model folder")
    return _from_hub(place)


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import constants, snapshot_download
    except ImportError as error:
        raise MissingExtraError(f"the backbone hf:{name}", "transformers", "hf") from error
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except Exception as absent:
        reason = absent  # it is not in the cache, or the name is not one of the hub's
    if not constants.HF_HUB_OFFLINE:
        try:
            files = _readable(name)
            return Path(snapshot_download(name, allow_patterns=files))
        except (
            Exception
        ) as error:  # the hub's, requests' and the disk's errors have no common class
            reason = error
    said = str(reason).strip().partition("\n")[0]
    raise DataError(
        f"hf:{name} is not on this machine (looked in {constants.HF_HUB_CACHE}) and cannot be "
        f"fetched ({type(reason).__name__}: {said}): download the model where there is a network, "
        "and point `backbone` to its folder, as hf:FOLDER"
    ) from reason


def _readable(name: str) -> list[str]:
    """Return the patterns of the files to fetch.

    This first question fails at once without a network, where others are repeated for a minute.
    """
    from huggingface_hub import model_info

    files = model_info(name, timeout=_SECONDS_TO_ANSWER).siblings or []
    has_safetensors = any(file.rfilename.endswith(".safetensors") for file in files)
    return [*_READ] if has_safetensors else [*_READ, _PICKLES]


def model_files(folder: Path) -> Sequence[Path]:
    """Return the files that decide what a model computes: weights, configs, tokenizer."""
    folders = [folder]
    modules = folder / "modules.json"
    if modules.exists():
        folders += [folder / module["path"] for module in read_json(modules) if module["path"]]
    weights = [path for each in folders for path in sorted(each.glob("*.safetensors"))]
    if not weights:
        weights = [path for each in folders for path in sorted(each.glob(_PICKLES))]
    if not weights:
        raise DataError(
            f"{folder} has no weights: expected model.safetensors, or pytorch_model.bin; copy the "
            "whole model folder"
        )
    texts = [path for each in folders for end in _READ[:3] for path in sorted(each.glob(end))]
    return [*texts, *weights]
