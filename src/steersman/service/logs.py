"""The log: one JSON object a line, with request id and tenant; no secrets, no bodies."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

__all__ = ["ADDRESS", "JsonHandler", "Log"]

ADDRESS = "_STEERSMAN_ADDRESS"
"""The variable by which the command tells its workers where they listen, for the log."""

_encode = msgspec.json.Encoder().encode
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})  # what machines ask all the time
_PROTOCOL = "httptools_impl"  # the module of uvicorn that reads requests


class Log:
    """Writes lines to a stream, the standard error by default."""

    def __init__(self, requests: str = "some", stream: TextIO | None = None) -> None:
        """Take which `requests` to log: all, some (what fails, or is neither hot nor a probe), or none."""
        self._requests = requests
        self._stream = sys.stderr if stream is None else stream

    def line(self, event: str, **facts: Any) -> None:
        """Write one line; where it cannot be written it is lost, since answers matter more than their log."""
        body = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
        # A reader that is gone is an OSError, and so is a full disk.
        with suppress(OSError):
            self._stream.write(_encode(body).decode() + "\n")
            self._stream.flush()

    def request(
        self,
        *,
        route: str,
        status: int,
        seconds: float,
        request_id: str,
        tenant: str | None,
        key_id: str | None,
        hot: bool,
    ) -> None:
        """Write the line of a request, where it is one that is to be logged."""
        expected = (hot or route in _PROBES) and status < 400
        if self._requests == "none" or (self._requests == "some" and expected):
            return
        self.line(
            "request",
            route=route,
            status=status,
            milliseconds=round(seconds * 1e3, 3),
            request_id=request_id,
            tenant=tenant,
            key=key_id,
        )

    def defect(self, error: BaseException, *, request_id: str) -> None:
        """Write what is no answer of ours: an error that nobody expected, with where it came from."""
        places = [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
        # What it says may quote what a caller sent, so its kind and place must do.
        self.line("defect", request_id=request_id, error=type(error).__name__, where=places[-8:])

    def failure(self, error: Exception, *, request_id: str) -> None:
        """Write what the database said, which callers are not told."""
        self.line("store", request_id=request_id, error=type(error).__name__, message=str(error))


class JsonHandler(logging.Handler):
    """Writes what a library logs as lines of the same log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; of an exception, its kind alone, since what it says may quote a caller.

        What the server warns of a request that is none is left out, since anybody could fill the log with it.
        """
        if record.module == _PROTOCOL and record.levelno <= logging.WARNING:
            return
        kind = record.exc_info[0] if record.exc_info else None
        facts = {} if kind is None else {"error": kind.__name__}
        Log().line("server", level=record.levelname.lower(), message=record.getMessage(), **facts)
