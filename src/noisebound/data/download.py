"""Resumable downloads of published files, which are kept only if their hash is the known one."""

from pathlib import Path

import pooch
import requests
from filelock import FileLock

from noisebound.errors import DataError
from noisebound.progress import counting

_CHUNK = 1 << 16  # bytes
_TIMEOUT = (10, 60)  # seconds to connect and between two chunks: a choice


def download(url: str, known_hash: str, path: Path) -> Path:
    """Download a file and return its path; an interrupted download is resumed.

    Args:
        url: address of the file
        known_hash: ``algorithm:digest`` of the file
        path: where to put it

    Raises:
        DataError: the server cannot be reached, or its file is not the published one; the message
            says which file to put where by hand
    """
    by_hand = f"or get the file with the hash {known_hash} by hand and put it at {path}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # If another process downloads the same file, this one waits and then finds it.
        with FileLock(path.with_name(f".{path.name}.lock")):
            pooch.retrieve(
                url,
                known_hash,
                fname=path.name,
                path=path.parent,
                downloader=lambda url, target, _: _download_resumably(url, Path(target), path),
            )
    except (requests.RequestException, OSError) as error:
        raise DataError(
            f"{path.name} could not be downloaded from {url} ({_root_cause(error)}); try again, "
            f"{by_hand}"
        ) from error
    except ValueError as error:  # raised by pooch for a wrong hash
        raise DataError(
            f"what {url} sent is not {path.name} as published (its hash should be {known_hash}); "
            f"try again, {by_hand}"
        ) from error
    return path


def _download_resumably(url: str, target: Path, final: Path) -> None:
    """Download to a ``.part`` file, which outlives an interruption, and move it when complete."""
    part = final.with_name(f"{final.name}.part")
    done = part.stat().st_size if part.exists() else 0
    # Uncompressed, because the bytes are counted and hashed as they arrive.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            part.replace(target)  # it is complete; the check of its hash follows
            return
        response.raise_for_status()
        resumes = response.status_code == requests.codes.partial_content
        done = done if resumes else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with (
            part.open("ab" if resumes else "wb") as file,
            counting(final.name, total, unit="bytes", done=done) as count,
        ):
            for piece in response.iter_content(_CHUNK):
                file.write(piece)
                count.advance(len(piece))
    if total is not None and part.stat().st_size != total:
        raise requests.ConnectionError(f"the connection ended after {part.stat().st_size} bytes")
    part.replace(target)


def _root_cause(error: BaseException) -> str:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error) or type(error).__name__
