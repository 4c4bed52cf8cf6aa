"""The web application behind the review page: addresses, and what answers them."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from noisebound.errors import NoiseboundError
from noisebound.pages.review.pictures import SIZES
from noisebound.pages.review.session import (
    AskedDecisions,
    AskedUndo,
    DecidedElsewhereError,
    ReviewSession,
)

_Asked = TypeVar("_Asked", bound=BaseModel)
_MOST_BYTES = 2**20  # of what the page may send: a choice, far above what it does send
_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def create_application(session: ReviewSession) -> Starlette:
    """Return the application of a review; it trusts whoever calls it, so a `Guard` must not."""
    assets = _assets()

    def answer(method: Callable[..., Any]) -> Callable[[Request], Response]:
        """Return an endpoint that calls a method with the position in the address."""
        return lambda request: JSONResponse(method(**request.path_params))

    def queue(request: Request) -> Response:
        given = request.query_params
        found = session.queue(
            _whole(given.get("offset", "0")),
            _whole(given.get("count", "50")),
            given.get("label"),
            given.get("suggested"),
            waiting="waiting" in given,
        )
        return JSONResponse(found)

    def picture(request: Request) -> Response:
        size = request.path_params["size"]
        if size not in SIZES:
            raise HTTPException(404)
        try:
            content, media_type = session.picture(request.path_params["position"], size)
        except OSError as error:  # such as a file that was removed, or is no image any more
            raise HTTPException(404, f"the picture cannot be shown: {error}") from error
        # The address tells one run's pictures from another's, since it holds the token.
        kept = {"Cache-Control": "private, max-age=86400"}
        return Response(content, media_type=media_type, headers=kept)

    async def decide(request: Request) -> Response:
        asked = await _asked(request, AskedDecisions)
        return JSONResponse(await run_in_threadpool(session.decide, asked))

    async def undo(request: Request) -> Response:
        asked = await _asked(request, AskedUndo)
        return JSONResponse(await run_in_threadpool(session.undo, asked))

    def labels(request: Request) -> Response:
        return Response(session.labels(), media_type="text/csv")

    def asset(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in assets:
            raise HTTPException(404)
        content, media_type = assets[name]
        return Response(content, media_type=media_type)

    return Starlette(
        routes=[
            Route("/", asset),
            Route("/api/about", answer(session.about)),
            Route("/api/progress", answer(session.progress)),
            Route("/api/audit", answer(session.audit)),
            Route("/api/queue", queue),
            Route("/api/filters", answer(session.filters)),
            Route("/api/finish", answer(session.finish)),
            Route("/api/examples/{position:int}", answer(session.example)),
            Route("/api/neighbors/{position:int}", answer(session.neighbors)),
            Route("/api/look-alikes/{position:int}", answer(session.look_alikes)),
            Route("/api/decisions", decide, methods=["POST"]),
            Route("/api/undo", undo, methods=["POST"]),
            Route("/pictures/{position:int}/{size}", picture),
            Route("/labels.csv", labels),
            Route("/{name}", asset),
        ],
        exception_handlers={
            NoiseboundError: _refused,
            ValidationError: _refused,
            HTTPException: _failed,
        },
    )


def _assets() -> dict[str, tuple[bytes, str]]:
    """Return the page's own files and their media types, by name.

    They are in memory, so that no request names a path.
    """
    found = [*files("noisebound.pages.review").joinpath("page").iterdir()]
    found.append(files("noisebound.report").joinpath("templates", "colors.css"))
    return {
        each.name: (each.read_bytes(), _MEDIA_TYPES[each.name[each.name.rindex(".") :]])
        for each in found
    }


async def _asked(request: Request, model: type[_Asked]) -> _Asked:
    """Return what the page sends, after a check of its type and its size."""
    if request.headers.get("content-type") != "application/json":
        raise HTTPException(415, "JSON is expected")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _MOST_BYTES:
            raise HTTPException(413, "that is too much at once")
    return model.model_validate_json(content)


def _whole(text: str) -> int:
    """Return a whole number that is not negative."""
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise HTTPException(400, f"a whole number is expected, got {text[:20]!r}")
    return int(text)


def _refused(request: Request, error: Exception) -> Response:
    status = 409 if isinstance(error, DecidedElsewhereError) else 400
    return JSONResponse({"error": str(error)}, status)


def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(error.detail, error.status_code)
