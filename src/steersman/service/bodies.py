"""Bodies of requests, as they arrive: whole, short enough and in time."""

from __future__ import annotations

import asyncio
from typing import Any

from steersman.service.asgi import Receive
from steersman.service.problems import HttpRefusalError
from steersman.service.strict import read_document

__all__ = ["Bodies"]

_WITHIN = 30.0  # seconds for a whole body
_LOOKED_EVERY = 1.0  # seconds


class Bodies:
    """Reads bodies, within one event loop.

    One look a second over all that are awaited ends those that are late: a timer for each costs more than reading it.
    """

    def __init__(self, limit: int) -> None:
        """Take how many bytes a body may have."""
        self._limit = limit
        self._within = _WITHIN
        self._loop = asyncio.get_running_loop()
        self._awaited: dict[asyncio.Task[Any], float] = {}  # the one that waits longest comes first
        self._late: set[asyncio.Task[Any]] = set()
        self._look()

    async def read_json(self, receive: Receive) -> Any:
        """Return the document that a request holds; no body at all stands for an empty object.

        Raises InvalidInputError, or HttpRefusalError for a body that is too long, breaks off or does not arrive in
        time.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (a coroutine is run by one)
        self._awaited[task] = self._loop.time()
        try:
            body = await self._read(receive)
        except asyncio.CancelledError:
            if task not in self._late or task.uncancel():
                raise
            raise HttpRefusalError(
                408,
                "body-too-slow",
                f"expected the body within {self._within:g} seconds",
                {"connection": "close"},
            ) from None
        finally:
            del self._awaited[task]
            self._late.discard(task)
        return read_document(body or b"{}")

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    async def _read(self, receive: Receive) -> bytes:
        message = await receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body", False):
            parts, size = [body], len(body)
            while message.get("more_body", False) and size <= self._limit:
                message = await receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
            body = b"".join(parts)
        if message["type"] == "http.disconnect":
            raise HttpRefusalError(400, "incomplete-body", "the body breaks off")
        if len(body) > self._limit:
            raise HttpRefusalError(
                413, "body-too-large", f"expected at most {self._limit} bytes", {"connection": "close"}
            )
        return body

    def _look(self) -> None:
        """End those that are late, and look again later."""
        due = self._loop.time() - self._within
        for task, since in self._awaited.items():
            if since > due:
                break
            if task not in self._late:
                self._late.add(task)
                task.cancel()
        self._timer = self._loop.call_later(_LOOKED_EVERY, self._look)
