"""One process owns a run folder while it trains there, by a lock that dies with the process."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from filelock import FileLock, Timeout

from noisebound.errors import DataError, FolderTakenError
from noisebound.runs.folder import RunFolder, read_json
from noisebound.system.files import write_json
from noisebound.training.devices import Devices, first_rank_does

_PATIENCE_SECONDS = 2.0
"""How long to wait for the lock: an owner that was killed a moment ago may still be dying, and one
that has just begun has not written down yet who it is."""


@contextmanager
def owned(folder: RunFolder, devices: Devices) -> Iterator[None]:
    """Own the folder within the context, on behalf of all ranks.

    Raises:
        FolderTakenError: another process owns it; the message says which
    """
    lock = FileLock(folder.owner_lock, timeout=_PATIENCE_SECONDS)
    first_rank_does(devices, partial(_take, lock, folder))
    try:
        yield
    finally:
        if devices.is_global_zero:
            folder.owner.unlink(missing_ok=True)
            lock.release()


def _take(lock: FileLock, folder: RunFolder) -> None:
    folder.check_place()
    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        lock.acquire()
    except Timeout as error:
        raise FolderTakenError(
            f"{folder.path} is in use: {_owner(folder)} is training there; wait until it ends, "
            "stop it, or choose another folder: `out`"
        ) from error
    try:
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
        write_json(folder.owner, {"pid": os.getpid(), "host": socket.gethostname(), "since": now})
        folder.remove_parts()
    except BaseException:
        lock.release()
        raise


def _owner(folder: RunFolder) -> str:
    """Return who owns the folder, in words."""
    try:
        owner = read_json(folder.owner)
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']},"
    except (OSError, DataError, KeyError, TypeError):
        return "another process"
