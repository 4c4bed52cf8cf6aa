"""The server of the review page: its socket, its access checks and its routes."""

import errno
import os
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noisebound.errors import InvalidValueError, NoiseboundError
from noisebound.pages.examples import SIZES
from noisebound.pages.review.labels_session import AskedLabels, LabelsSession
from noisebound.pages.review.session import (
    AskedDecisions,
    AskedQueue,
    AskedUndo,
    DecidedElsewhereError,
    ReviewSession,
)

_Asked = TypeVar("_Asked", bound=BaseModel)

_HOST = "127.0.0.1"
_MOST_BYTES = 2**20  # per request; the page sends far less
_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    # Scripts, styles and pictures come from this server only, and the page sends nothing elsewhere.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",  # the address contains the token
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Review labels</title>
<meta http-equiv="refresh" content="0; url={address}">
<p><a href="{address}">Open the review page</a></p>
</html>
"""


class ReviewServer:
    """A local server for one review, at an address with a new secret token.

    Args:
        session: the review
        port: the port to listen on (default: any free port)
    """

    def __init__(self, session: ReviewSession | LabelsSession, port: int | None = None) -> None:
        self._socket = _listening_socket(port or 0)
        self.port: int = self._socket.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        application = Guard(create_application(session), self.token, self.port)
        config = uvicorn.Config(
            application, log_level="warning", access_log=False, lifespan="off", server_header=False
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{_HOST}:{self.port}/{self.token}/"

    def run(self, announce: Callable[[str], object] = lambda address: None) -> None:
        """Serve until Ctrl-C or :meth:`stop`; call ``announce`` with the address first."""
        announce(self.address)
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Make :meth:`run` return, from another thread."""
        self._server.should_exit = True


@contextmanager
def redirect_file(address: str) -> Iterator[Path]:
    """Yield a page that redirects to the address and that only its owner can read.

    All users of the machine can list command lines, including that of the browser. So the browser
    opens this file, and the token stays secret.
    """
    with tempfile.TemporaryDirectory(prefix="noisebound-review-") as folder:  # mode 0700
        path = Path(folder) / "review.html"
        path.touch(mode=0o600)
        path.write_text(_REDIRECT.format(address=escape(address)), encoding="utf-8")
        yield path


def _listening_socket(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise InvalidValueError(
            f"`port` {port} cannot be used ({os.strerror(error.errno)}): choose another, or leave "
            "it out for one that is free"
        ) from error


class Guard:
    """An application that answers only requests with the token, from its own page.

    The token is the first part of every path, so requests for pictures and scripts have it too. The
    ``Host`` must be this machine, against DNS rebinding. A request that changes something must have
    this server as its ``Origin``. Only the page itself may be opened from elsewhere, such as a
    bookmark or a local file, and only in a window of its own. The application receives paths
    without the token.
    """

    def __init__(self, application: ASGIApp, token: str, port: int) -> None:
        self.application, self.token = application, token
        self.hosts = {f"{_HOST}:{port}", f"localhost:{port}"}
        self.origins = {None, *(f"http://{host}" for host in self.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await PlainTextResponse(refusal, 403)(scope, receive, send_with_headers)
            return
        path = scope["path"].removeprefix(f"/{self.token}")
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}
        await self.application(inner, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> str | None:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        if headers.getlist("host") != [headers.get("host")] or headers["host"] not in self.hosts:
            return f"This server answers to {_HOST} only."
        origin = headers.get("origin")
        if origin is None and method not in ("GET", "HEAD"):
            return "A request that changes something must name its Origin."
        asked = method, headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        opens_page = path == f"/{self.token}/" and asked == ("GET", "navigate", "document")
        is_own = headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if origin not in self.origins or not (is_own or opens_page):
            return "This server answers to its own page only."
        given = path.split("/", 2)[1] if path.startswith("/") else ""
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return "The address lacks the token: open the address that noisebound review printed."
        return None


def create_application(session: ReviewSession | LabelsSession) -> Starlette:
    """Return the application of a review; it trusts every caller, so wrap it in a `Guard`."""
    # The page's files by name, so that no request opens a path.
    found = [*files("noisebound.pages.review").joinpath("page").iterdir()]
    found.append(files("noisebound.pages").joinpath("templates", "colors.css"))
    assets = {each.name: each.read_bytes() for each in found}

    def answer(method: Callable[..., Any]) -> Callable[[Request], Response]:
        return lambda request: JSONResponse(method(**request.path_params))

    def change(
        method: Callable[[_Asked], Any], model: type[_Asked]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            asked = await _asked(request, model)
            return JSONResponse(await run_in_threadpool(method, asked))

        return endpoint

    def picture(request: Request) -> Response:
        if request.path_params["size"] not in SIZES:
            raise HTTPException(404)
        try:
            content, media_type = session.picture(**request.path_params)
        except OSError as error:  # such as a file that was removed or damaged
            raise HTTPException(404, f"the picture cannot be shown: {error}") from error
        # Pictures of two runs have different addresses, because of the token.
        kept = {"Cache-Control": "private, max-age=86400"}
        return Response(content, media_type=media_type, headers=kept)

    def labels(request: Request) -> Response:
        return Response(session.labels(), media_type="text/csv")

    def asset(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in assets:
            raise HTTPException(404)
        return Response(assets[name], media_type=_MEDIA_TYPES[Path(name).suffix])

    if isinstance(session, LabelsSession):
        own = [
            Route("/api/next", answer(session.following)),
            Route("/api/decisions", change(session.decide, AskedLabels), methods=["POST"]),
        ]
    else:
        review = session

        def queue(request: Request) -> Response:
            asked = AskedQueue.model_validate(dict(request.query_params))
            return JSONResponse(review.queue(asked))

        own = [
            Route("/api/audit", answer(session.audit)),
            Route("/api/second", answer(session.second)),
            Route("/api/queue", queue),
            Route("/api/filters", answer(session.filters)),
            Route("/api/neighbors/{position:int}", answer(session.neighbors)),
            Route("/api/look-alikes/{position:int}", answer(session.look_alikes)),
            Route("/api/decisions", change(session.decide, AskedDecisions), methods=["POST"]),
        ]
    return Starlette(
        routes=[
            *own,
            Route("/", asset),
            Route("/api/about", answer(session.about)),
            Route("/api/progress", answer(session.progress)),
            Route("/api/finish", answer(session.finish)),
            Route("/api/examples/{position:int}", answer(session.example)),
            Route("/api/undo", change(session.undo, AskedUndo), methods=["POST"]),
            Route("/pictures/{position:int}/{size}", picture),
            Route("/labels.csv", labels),
            Route("/{name}", asset),
        ],
        exception_handlers=dict.fromkeys((NoiseboundError, ValidationError, OSError), _refused),
    )


async def _asked(request: Request, model: type[_Asked]) -> _Asked:
    """Return the content of a request, after checking its type and size."""
    if request.headers.get("content-type") != "application/json":
        raise HTTPException(415, "JSON is expected")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _MOST_BYTES:
            raise HTTPException(413, "the request is too large")
    return model.model_validate_json(content)


def _refused(request: Request, error: Exception) -> Response:
    status = 409 if isinstance(error, DecidedElsewhereError) else 400
    return JSONResponse({"error": str(error)}, status)
