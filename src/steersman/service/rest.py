"""The FastAPI application of all routes that are not hot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from steersman import __version__
from steersman.errors import InvalidInputError, SteersmanError
from steersman.service.openapi import describe, queries_of
from steersman.service.problems import HttpRefusalError
from steersman.service.routes import changing, opening, operating, reading

__all__ = ["build_rest"]


def build_rest() -> FastAPI:
    """Return the application; each request finds its exchange in its scope under `steersman`."""
    app = FastAPI(
        title="Steersman",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for module in (reading, changing, operating, opening):
        app.include_router(module.router)
    document = describe(app.routes)
    app.openapi = lambda: document  # type: ignore[method-assign]
    app.state.document = msgspec.json.encode(document)
    app.state.queries = queries_of(document)
    app.add_exception_handler(SteersmanError, _refuse)
    app.add_exception_handler(HttpRefusalError, _refuse)
    app.add_exception_handler(HTTPException, _translated(_of_routing))
    app.add_exception_handler(RequestValidationError, _translated(_of_parameters))
    app.add_exception_handler(Exception, _refuse)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    status, headers, body = request.scope["steersman"].refusal(error)
    return Response(body, status, {name.decode(): value.decode() for name, value in headers})


def _translated(
    translate: Callable[[Request, Exception], Exception],
) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handler(request: Request, error: Exception) -> Response:
        return await _refuse(request, translate(request, error))

    return handler


def _of_routing(request: Request, error: Exception) -> Exception:
    assert isinstance(error, HTTPException)  # noqa: S101  (it is registered for these)
    if error.status_code == 405:
        known = request.app.state.queries
        path = request.scope["route"].path_format
        allowed = ", ".join(sorted(method for method, found in known if found == path))
        return HttpRefusalError(405, "method-not-allowed", f"expected {allowed}", {"allow": allowed})
    return HttpRefusalError(404, "no-such-route", "there is no such route")


def _of_parameters(_: Request, error: Exception) -> Exception:
    assert isinstance(error, RequestValidationError)  # noqa: S101  (it is registered for these)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    message: str = first["msg"]
    return InvalidInputError(f"{message[0].lower()}{message[1:]}", where=place)
