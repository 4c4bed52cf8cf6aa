"""Who may talk to the review page's server: only the browser window that was given its address."""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADERS = {
    # Scripts, styles and pictures come from this server alone, and nothing leaves it.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",  # since the address holds the token
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def new_token() -> str:
    """Return a random word that nobody can guess, for the address."""
    return secrets.token_urlsafe(24)


class Guard:
    """An application that answers only requests which know the token and come from its own page.

    The token is the first part of every path, so that pictures and scripts carry it too. The
    ``Host`` must be this machine, or else another site's name could be made to lead here. A
    request that changes something must name this server as its ``Origin``, as browsers do.

    Args:
        application: what answers; it sees the path without the token
        token: the first part of the path
        port: the port that the server listens on
    """

    def __init__(self, application: Application, token: str, port: int) -> None:
        self.application, self.token = application, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await PlainTextResponse(refusal, 403)(scope, receive, _with_headers(send))
            return
        path = scope["path"].removeprefix(f"/{self.token}")
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}
        await self.application(inner, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> str | None:
        """Return why a request is refused; None if it is not."""
        headers = Headers(scope=scope)
        if headers.getlist("host") != [headers.get("host")] or headers["host"] not in self.hosts:
            return "This server answers to 127.0.0.1 only."
        origin = headers.get("origin")
        if origin is None and scope["method"] not in ("GET", "HEAD"):
            return "A request that changes something must name its Origin."
        if origin is not None and origin not in self.origins:
            return "This server answers to its own page only."
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "This server answers to its own page only."
        given = scope["path"].split("/", 2)[1] if scope["path"].startswith("/") else ""
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return "The address lacks the token: open the address that noisebound review printed."
        return None


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers
