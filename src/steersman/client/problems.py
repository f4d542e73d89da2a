"""Problem documents (RFC 9457) as the errors that they stand for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from steersman import errors
from steersman.errors import SteersmanError

__all__ = ["Refusal", "error_of", "error_of_problem"]


class Refusal(Protocol):
    """An answer that is no success."""

    @property
    def status(self) -> int:
        """The status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, their names in lower case."""

    @property
    def body(self) -> bytes:
        """The body."""


def _tree(kind: type[SteersmanError]) -> Iterator[type[SteersmanError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)


_KINDS = {kind.code(): kind for kind in _tree(SteersmanError)}

# For answers without a code that is known: those of a later release, or of something between here and the service.
_BY_STATUS: dict[int, type[SteersmanError]] = {
    401: errors.UnauthorizedError,
    403: errors.AccessError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    410: errors.ArchivedError,
    429: errors.AccessError,
    502: errors.StoreUnavailableError,
    503: errors.StoreUnavailableError,
    504: errors.StoreUnavailableError,
    507: errors.StoreFullError,
}

_OF_ERROR = {"message", "where", "hint"}
"""What every error has; the other parameters of a class are facts of its own."""


def error_of(refusal: Refusal, url: str) -> SteersmanError:
    """Return the error that an answer of `url` stands for, whether or not it is a problem document."""
    try:
        document = msgspec.json.decode(refusal.body)
    except (msgspec.DecodeError, RecursionError):
        document = None
    if isinstance(document, dict) and isinstance(document.get("detail"), str):
        return error_of_problem(document, refusal.status)
    kind = _kind_by_status(refusal.status)
    return kind(
        f"expected an answer of the service, got status {refusal.status} without a problem document",
        where=url,
    )


def error_of_problem(document: Mapping[str, Any], status: int) -> SteersmanError:
    """Return the error that a problem document stands for: message, hint and facts; a note names the request id.

    A code that is not known, or facts that are missing, leave a class that the `status` suggests.
    """
    kind = _KINDS.get(str(document.get("code")))
    if kind is None or not _facts_of(kind) <= document.keys():
        kind = _kind_by_status(status)
    hint = document.get("hint")
    # The facts come as they are, so the initialiser of a class that words its own message is passed by.
    error = kind.__new__(kind)
    SteersmanError.__init__(error, str(document["detail"]), hint=hint if isinstance(hint, str) else None)
    for name in _facts_of(kind):
        setattr(error, name, document[name])
    if isinstance(document.get("request_id"), str):
        error.add_note(f"request id: {document['request_id']}")
    return error


def _facts_of(kind: type[SteersmanError]) -> set[str]:
    return set(inspect.signature(kind).parameters) - _OF_ERROR


def _kind_by_status(status: int) -> type[SteersmanError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return errors.InvalidInputError if 400 <= status < 500 else SteersmanError
