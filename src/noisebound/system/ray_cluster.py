"""Connect to a Ray cluster, or start one here."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from noisebound.errors import InvalidValueError, needed_for


@contextmanager
def connected(cluster: str) -> Iterator[Any]:
    """Connect to a cluster, unless this process is connected already, and yield ``ray``.

    The cluster is an address, ``"auto"`` for the running local one, or ``"local"`` to start one.
    """
    with needed_for("a cluster", "Ray", "ray"):
        import ray
    try:
        if not ray.is_initialized():
            _check_listening(cluster)
            ray.init(
                address=None if cluster == "local" else cluster,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InvalidValueError(
            f"no Ray cluster answers at {cluster!r}: start one with  ray start --head , or pass "
            f"`cluster` 'local' to start one here ({first_line(error)})"
        ) from error
    yield ray


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]


def _check_listening(address: str) -> None:
    """Raise an error if no process listens at the address, where Ray would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(str(error)) from error
