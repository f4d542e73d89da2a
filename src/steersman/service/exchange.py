"""One request and its answer: its id, who asks, and what is counted and logged of it."""

from __future__ import annotations

import time

import msgspec

from steersman.errors import SteersmanError, StoreError, UnauthorizedError
from steersman.service.access import Access
from steersman.service.asgi import Scope
from steersman.service.core import Service
from steersman.service.problems import HttpRefusalError, problem, problem_headers, status_of
from steersman.service.request_ids import request_id_of

__all__ = ["Exchange"]

_encode = msgspec.json.Encoder().encode


class Exchange:
    """One request of the service."""

    __slots__ = (
        "_entered",
        "_header",
        "_works",
        "access",
        "has_operation",
        "request_id",
        "service",
        "started",
        "tenant",
    )

    def __init__(self, service: Service, scope: Scope) -> None:
        """Take the request as it arrived; an `X-Request-Id` of 1 to 64 letters, digits, `.`, `_`, `-` is kept."""
        self.service = service
        self.started = time.monotonic()
        self.access: Access | None = None
        self.tenant: str | None = None
        self.has_operation = False
        self._entered = False
        self._works = False
        given, shown = b"", []
        for name, value in scope["headers"]:
            if name == b"authorization":
                shown.append(value)
            elif name == b"x-request-id":
                given = value
            elif name == b"idempotency-key":
                self.has_operation = True
        # Several are none, whichever comes first, since whoever stands before us may have read another.
        self._header = (shown[0] if shown else b"") if len(shown) < 2 else None
        self.request_id = request_id_of(given)

    async def admit(self, scope: str) -> Access:
        """Return the key of the request, which has `scope`, and count it until `finish`.

        Raises AccessError, or StoreError where it could not be looked up.
        """
        header = self._header
        if header is None:
            raise UnauthorizedError("expected one Authorization header")
        keyring = self.service.keyring
        access = keyring.fresh(header, self.started) or await keyring.find(header)
        self.access = access
        self.tenant = access.tenant
        access.require(scope)
        access.limits.enter(self.started)
        self._entered = True
        return access

    def begin_work(self) -> None:
        """Take a slot for what is not hot, of a key that was admitted; raise RateLimitedError or OverloadedError."""
        if self.access is not None:
            self.service.slots.take(self.access.tenant)
            self._works = True

    def end_work(self) -> None:
        """Give the slot back, where there is one."""
        if self._works and self.access is not None:
            self.service.slots.give_back(self.access.tenant)
            self._works = False

    def refusal(self, error: Exception) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return status, headers and body for an error, and log what callers are not told."""
        self._log_hidden(error)
        return status_of(error), problem_headers(error), _encode(problem(error, self.request_id))

    def item_problem(self, error: SteersmanError) -> bytes:
        """Return the answer for one item of a list."""
        self._log_hidden(error)
        return _encode({"error": problem(error, self.request_id)})

    def finish(self, route: str, status: int, *, hot: bool) -> None:
        """Count and log the answer, and let the key's next request in."""
        self.end_work()
        if self._entered and self.access is not None:
            self.access.limits.leave()
        seconds = time.monotonic() - self.started
        self.service.count(self.service.metrics.answered, route, status, seconds)
        self.service.log.request(
            route=route,
            status=status,
            seconds=seconds,
            request_id=self.request_id,
            tenant=self.tenant,
            key_id=self.access.key_id if self.access else None,
            hot=hot,
        )

    def _log_hidden(self, error: Exception) -> None:
        if isinstance(error, StoreError):
            self.service.log.failure(error, request_id=self.request_id)
        elif not isinstance(error, (SteersmanError, HttpRefusalError)):
            self.service.log.defect(error, request_id=self.request_id)
