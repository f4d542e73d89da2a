"""The service as one ASGI application: hot routes first, FastAPI for the rest."""

from __future__ import annotations

import asyncio
import sys
from typing import TextIO

from steersman.errors import OverloadedError
from steersman.service.asgi import JSON_TYPE, Message, Receive, Scope, Send
from steersman.service.core import Service
from steersman.service.exchange import Exchange
from steersman.service.hot import HotRoute, HotRoutes
from steersman.service.logs import Log
from steersman.service.metrics import Metrics
from steersman.service.rest import build_rest
from steersman.settings import Settings

__all__ = ["App", "create_app"]

_SWITCH = 0.0001  # seconds
"""How long a thread may hold the interpreter while another one wants it.

The thread that commits lets go of it in each statement, and would wait after each for up to 5 ms, Python's default,
while the event loop is busy.
"""
_RETRY_ENDED = 1.0  # seconds
_GONE = 499  # what is counted when a request was given up before it had an answer


def create_app() -> App:
    """Return the application as the settings have it; `uvicorn --factory` calls this in each worker."""
    return App(Settings.read())


class App:
    """The ASGI application; the databases are opened when the server starts it."""

    def __init__(self, settings: Settings, *, log_to: TextIO | None = None) -> None:
        """Take the settings, and where to log (default: the standard error)."""
        self._settings = settings
        self._log = Log(settings.log_requests, log_to)
        self._rest = build_rest()
        self.service: Service | None = None
        self._hot: HotRoutes | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or see the server's start and end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http" or self.service is None or self._hot is None:
            return
        exchange = Exchange(self.service, scope)
        route = self._hot.find(scope)
        if route is not None:
            await self._answer_hot(route, exchange, scope, receive, send)
        else:
            await self._answer_rest(exchange, scope, receive, send)

    async def _answer_hot(
        self, route: HotRoute, exchange: Exchange, scope: Scope, receive: Receive, send: Send
    ) -> None:
        status, headers = _GONE, [JSON_TYPE]
        try:
            try:
                body = await route.answer(exchange, scope, receive)
                status = 200
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (every error is an answer)
                status, headers, body = exchange.refusal(_told(error))
            await _send(send, exchange, status, headers, body)
        finally:
            exchange.finish(route.path, status, hot=True)

    async def _answer_rest(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        status = _GONE

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = (b"x-request-id", exchange.request_id.encode())
                message["headers"] = [*message.get("headers", ()), named]
            await send(message)

        # Ids are told apart by the slashes between them, so the routes see the path as it came.
        inner = {**scope, "path": scope["raw_path"].decode("latin-1"), "steersman": exchange}
        try:
            await self._rest(inner, receive, send_named)
        except asyncio.CancelledError as error:
            if status == _GONE:
                status, headers, body = exchange.refusal(_told(error))
                await _send(send, exchange, status, headers, body)
        except Exception:  # noqa: BLE001, S110  (it is answered and logged, and passed on for the server to log as well)
            pass
        finally:
            route = inner.get("route")
            exchange.finish(getattr(route, "path_format", "(none)"), status, hot=False)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self.service = Service(self._settings, log=self._log, metrics=Metrics())
            self._hot = HotRoutes(self.service)
            if not self.service.commits_inline:
                sys.setswitchinterval(_SWITCH)
        except Exception as error:  # noqa: BLE001  (the server is told, and ends)
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.service.close()
        await send({"type": "lifespan.shutdown.complete"})


def _told(error: BaseException) -> Exception:
    """Return what to answer to an error: nobody but a server that ends, and has waited long, cancels a request."""
    if isinstance(error, Exception):
        return error
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    return OverloadedError("the service ends; call again with the same ids", retry_after=_RETRY_ENDED)


async def _send(
    send: Send, exchange: Exchange, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    headers = [
        *headers,
        (b"content-length", str(len(body)).encode()),
        (b"x-request-id", exchange.request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
