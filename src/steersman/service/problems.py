"""Errors as problem documents (RFC 9457): a stable code and a status for every class of the tree."""

from __future__ import annotations

import inspect
import math
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from steersman import errors
from steersman.errors import SteersmanError, StoreError

__all__ = [
    "CODES",
    "COMMANDS",
    "PROBLEM_TYPE",
    "STATUS",
    "HttpRefusalError",
    "problem",
    "problem_headers",
    "status_of",
]

PROBLEM_TYPE = b"application/problem+json"

STATUS: dict[type[SteersmanError], int] = {
    errors.SteersmanError: 500,
    errors.InvalidInputError: 400,
    errors.InvalidActionError: 400,
    errors.InvalidStateError: 400,
    errors.InvalidRewardError: 400,
    errors.InvalidSpecError: 400,
    errors.InvalidTableError: 400,
    errors.InvalidRowError: 400,
    errors.InvalidCheckpointError: 400,
    errors.BindingMismatchError: 400,
    errors.NotFoundError: 404,
    errors.AccessError: 403,
    errors.UnauthorizedError: 401,
    errors.ForbiddenError: 403,
    errors.RateLimitedError: 429,
    errors.OverloadedError: 503,
    errors.ClientBusyError: 503,
    errors.ConflictError: 409,
    errors.NameTakenError: 409,
    errors.KeyTextShownError: 409,
    errors.IdReusedError: 422,
    errors.ArchivedError: 410,
    errors.EpisodeClosedError: 409,
    errors.DecisionVoidError: 409,
    errors.DecisionLearnedError: 409,
    errors.TenantRetiredError: 409,
    errors.OutputExistsError: 409,
    errors.StoreError: 500,
    errors.StoreUnavailableError: 503,
    errors.StoreFullError: 507,
    errors.StoreCorruptError: 500,
    errors.SchemaError: 503,
    errors.UnsupportedStoreError: 500,
    errors.FitError: 500,
    errors.DeviceUnavailableError: 500,
    errors.MissingExtraError: 501,
}
"""The status of each class."""

_OF_HTTP = (
    "body-too-large",
    "body-too-slow",
    "incomplete-body",
    "internal",
    "method-not-allowed",
    "no-such-route",
    "not-http",
    "not-ready",
)

CODES = tuple(sorted([*(kind.code() for kind in STATUS), *_OF_HTTP]))
"""Every code of a problem document."""

COMMANDS = {
    "base create": "POST /v1/bases",
    "base list": "GET /v1/bases",
    "keys create": "POST /v1/tenants/{tenant}/keys",
    "keys list": "GET /v1/tenants/{tenant}/keys",
    "keys revoke": "DELETE /v1/keys/{key_id}",
    "tenant create": "POST /v1/tenants",
    "tenant list": "GET /v1/tenants",
    "verify": "POST /v1/verify",
    "versions list": "GET /v1/versions",
}
"""The route that does what a command does, for callers that have no shell."""

_COMMON = {"message", "where", "hint"}
_RETRY_STORE = 1.0  # seconds after which a database that was not there may be back
_COMMAND = re.compile(r"steersman (verify|[a-z]+ [a-z]+)(?: ([^\s,;]+))?")
_IN_LOG = "what the database said is in the log of the service, under the request id"
_encode = msgspec.json.Encoder().encode


class HttpRefusalError(Exception):
    """What only HTTP can be wrong about: no such route, method, or size of a body."""

    def __init__(self, status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> None:
        """Take the status, a stable code, what to tell, and headers that the status calls for."""
        super().__init__(detail)
        self.status = status
        self.code = code
        self.headers = headers or {}


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error; 500 for one that is none of ours, which is a defect."""
    if isinstance(error, HttpRefusalError):
        return error.status
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem(error: Exception, request_id: str) -> dict[str, Any]:
    """Return the problem document of an error.

    What a database said names hosts, users and statements; it goes to the log alone, and so does a defect.
    """
    status = status_of(error)
    if isinstance(error, HttpRefusalError):
        title, code, detail = HTTPStatus(status).phrase, error.code, str(error)
    elif isinstance(error, SteersmanError):
        title, code, detail = type(error).title(), type(error).code(), error.message
        detail = f"{error.where}: {detail}" if error.where else detail
        if isinstance(error, StoreError):
            detail = _of_store(type(error))
    else:
        title, code, detail = "This is a defect of Steersman.", "internal", "see the log under the request id"
    document: dict[str, Any] = {
        "type": f"urn:steersman:problem:{code}",
        "title": title,
        "status": status,
        "code": code,
        "detail": detail,
        "request_id": request_id,
    }
    if isinstance(error, SteersmanError):
        document |= {name: value for name, value in vars(error).items() if name not in _COMMON}
        hint = None if isinstance(error, StoreError) else _without_commands(error.hint or "")
        if hint:
            document["hint"] = hint
    return document


def _of_store(kind: type[StoreError]) -> str:
    """Return what a class says beyond its title, and where the rest is told."""
    beyond = " ".join((inspect.getdoc(kind) or "").split("\n")[2:]).removesuffix(".")
    return f"{beyond[:1].lower()}{beyond[1:]}; {_IN_LOG}" if beyond else _IN_LOG


def _without_commands(hint: str) -> str:
    """Return a hint with routes in place of commands, and without the parts whose command has none."""
    return "; ".join(
        part
        for part in (_COMMAND.sub(_as_route, whole) for whole in hint.split("; "))
        if "steersman " not in part
    )


def _as_route(found: re.Match[str]) -> str:
    route = COMMANDS.get(found[1])
    if route is None:
        return found[0]
    return re.sub(r"\{\w+\}", quote(found[2], safe=""), route) if found[2] else route


def problem_headers(error: Exception) -> list[tuple[bytes, bytes]]:
    """Return the headers that an error's status calls for."""
    headers = [(b"content-type", PROBLEM_TYPE)]
    if isinstance(error, HttpRefusalError):
        headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
    if isinstance(error, errors.UnauthorizedError):
        headers.append((b"www-authenticate", b'Bearer realm="steersman"'))
    after = _RETRY_STORE if isinstance(error, errors.StoreUnavailableError) else None
    after = getattr(error, "retry_after", after)
    if after is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(after))).encode()))
    return headers
