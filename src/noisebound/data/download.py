"""Published files from the network: known hash, progress, resumable, never half there."""

from pathlib import Path

import pooch
import requests
from filelock import FileLock

from noisebound.errors import DataError
from noisebound.progress import transfer

_CHUNK = 1 << 16
_TIMEOUT = (10, 60)  # seconds to connect, and between two pieces


def download(url: str, known_hash: str, path: Path) -> Path:
    """Download to ``path``; an interrupted download goes on where it was.

    Raises:
        DataError: there is no network, or what came is not what was published; it says what to
            put where by hand.
    """
    by_hand = f"or put it there by hand: {path}, {known_hash}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # another process may want the same file: the second waits, and finds it there
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
    except ValueError as error:  # pooch's word for a wrong hash
        raise DataError(
            f"what {url} sent is not {path.name} as published (its hash should be {known_hash}); "
            f"try again, {by_hand}"
        ) from error
    return path


def _download_resumably(url: str, target: Path, final: Path) -> None:
    """Collect the bytes in a file that outlives an interruption, and hand it over when complete."""
    part = final.with_name(f"{final.name}.part")
    done = part.stat().st_size if part.exists() else 0
    # a server that compresses on the way would change the bytes that are counted and hashed
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            part.replace(target)  # everything is here; the hash decides
            return
        response.raise_for_status()
        resumes = response.status_code == requests.codes.partial_content
        done = done if resumes else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with part.open("ab" if resumes else "wb") as file, transfer(final.name, total, done) as bar:
            for piece in response.iter_content(_CHUNK):
                file.write(piece)
                bar.advance(len(piece))
    if total is not None and part.stat().st_size != total:
        raise requests.ConnectionError(f"the connection ended after {part.stat().st_size} bytes")
    part.replace(target)


def _root_cause(error: BaseException) -> str:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error) or type(error).__name__
