"""What both clients tell the HTTP library, and what they make of its answers."""

from __future__ import annotations

import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from steersman.client.exchange import Call, Effect, Lost, Outcome, Patience, Reply, Request, tries
from steersman.errors import InvalidInputError

__all__ = ["Connected", "headers_of", "lost", "reply_of"]

_T = TypeVar("_T")

_KEPT = 30.0  # seconds that a connection without requests is kept; a service keeps them for longer


class Connected(ABC):
    """What a client is made of, whether it blocks or not."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 10.0,
        deadline: float = 30.0,
        retries: int = 10,
        connections: int = 32,
    ) -> None:
        """Take the URL of the service and a key's text; nothing is sent yet.

        `timeout` is in seconds and holds for each step of one try: connecting, sending, waiting for the answer.
        `deadline`, in seconds too, holds for a request with all its tries and pauses, of which at most `retries` are
        made; a long list is several requests. A blocking client looks at the clock whenever a part of an answer's body
        arrives, so that it may end one `timeout` later. At most `connections` are open at a time, and they are kept
        for the calls that follow; further calls wait for their turn, in order and within their deadline. Raises
        InvalidInputError.
        """
        self._patience = Patience(timeout, deadline, retries)
        self._url = _check_target(url, key, connections)
        self._draw = random.Random().random
        self._options: dict[str, Any] = {
            "base_url": self._url,
            "headers": {"authorization": f"Bearer {key}", "content-type": "application/json"},
            "limits": httpx.Limits(max_keepalive_connections=1, keepalive_expiry=_KEPT),
            "verify": httpx.create_ssl_context(),  # of all lanes, since it takes long to make
        }
        self._connections = connections
        self._moving = threading.Lock()
        self._process = os.getpid()
        self._connect()

    @abstractmethod
    def _connect(self) -> None:
        """Make the lanes of this process, and the turns in which calls use them."""

    def _steps(self, call: Call[_T]) -> Generator[Effect, Outcome, _T]:
        if self._process != os.getpid():
            self._leave_parent()
        return tries(call, self._patience, url=self._url, clock=time.monotonic, draw=self._draw)

    def _leave_parent(self) -> None:
        """Open connections of this process's own: those of before the fork carry what the parent says."""
        with self._moving:
            if self._process != os.getpid():
                self._draw = random.Random().random
                self._connect()
                self._process = os.getpid()


def headers_of(request: Request) -> dict[str, str]:
    """Return the headers of a request that are not those of all."""
    return {} if request.operation_id is None else {"idempotency-key": request.operation_id}


def reply_of(response: httpx.Response, body: bytes) -> Reply:
    """Return an answer, of which `body` was read, as the exchange takes it."""
    return Reply(response.status_code, dict(response.headers), body)


def lost(error: httpx.RequestError) -> Lost:
    """Return what an error of the HTTP library says: there is no answer."""
    return Lost(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _check_target(url: str, key: str, connections: int) -> str:
    """Return the URL of a service without a slash at its end; raise InvalidInputError."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname and not (parts.query or parts.fragment)
        named = "@" in parts.netloc
    except ValueError:
        known, named = False, "@" in url
    if named:
        # It would be sent in place of the key, and be seen wherever the URL is.
        raise InvalidInputError("url: expected one without a user and a password; the key is what lets in")
    if not known:
        raise InvalidInputError(f"url: expected http:// or https:// and the host of a service, got {url!r}")
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        # A text that is no key may be another secret.
        raise InvalidInputError("key: expected the text of a key", hint="make one: steersman keys create")
    if not 1 <= connections <= 10_000:
        raise InvalidInputError(f"connections: expected 1 to 10000, got {connections!r}")
    return url.rstrip("/")
