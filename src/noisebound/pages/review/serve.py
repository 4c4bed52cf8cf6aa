"""The review page's server: it listens on this machine only."""

import errno
import socket
from collections.abc import Callable

import uvicorn

from noisebound.errors import InvalidValueError
from noisebound.pages.review.application import create_application
from noisebound.pages.review.security import Guard, new_token
from noisebound.pages.review.session import ReviewSession

_HOST = "127.0.0.1"
_WAITING = 128  # connections that may wait to be accepted


class ReviewServer:
    """A server of one review, at an address that holds a new token.

    Args:
        session: the review
        port: the port to listen on; None for any that is free
    """

    def __init__(self, session: ReviewSession, port: int | None = None) -> None:
        self._socket = _listening_socket(port or 0)
        self.port: int = self._socket.getsockname()[1]
        self.token = new_token()
        application = Guard(create_application(session), self.token, self.port)
        config = uvicorn.Config(
            application, log_level="warning", access_log=False, lifespan="off", server_header=False
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{_HOST}:{self.port}/{self.token}/"

    def run(self, tell: Callable[[str], object] = lambda address: None) -> None:
        """Answer until Ctrl-C or :meth:`stop`.

        Args:
            tell: is called with the address, at which the server already listens
        """
        tell(self.address)
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Make :meth:`run` return, from another thread."""
        self._server.should_exit = True


def _listening_socket(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
    except OSError as error:
        listening.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise InvalidValueError(
            f"`port` {port} cannot be used ({error.strerror}): choose another, or leave it out for "
            "one that is free"
        ) from error
    listening.listen(_WAITING)
    return listening
