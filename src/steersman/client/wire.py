"""What goes over the wire: requests as JSON, and answers as records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import uuid_utils

from steersman.client.problems import error_of_problem
from steersman.domain.answers import Owner
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.identifiers import check_finite, check_id, check_metadata, native
from steersman.domain.records import CloseRequest, DecideRequest, PolicyVersion, RewardRequest
from steersman.domain.settings import PolicySettings, TenantSpec
from steersman.domain.states import State, StateSpace
from steersman.errors import InvalidInputError, InvalidRewardError, InvalidStateError, SteersmanError

__all__ = [
    "close_body",
    "decide_body",
    "declaration_body",
    "encode",
    "new_id",
    "owner_of",
    "read",
    "read_items",
    "read_list",
    "reward_body",
    "segment",
    "version_of",
    "with_id",
]

_T = TypeVar("_T")


class _Refused(msgspec.Struct):
    error: dict[str, Any]


class _Problem(msgspec.Struct):
    detail: str
    status: int = 500


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


def encode(body: Mapping[str, Any]) -> bytes:
    """Return the JSON of a body without the parts that are None; raise InvalidInputError for what has none."""
    stated = {name: value for name, value in body.items() if value is not None}
    try:
        return json.dumps(stated, default=_plain, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"expected what JSON has a form for: {error}") from None


def _plain(value: object) -> Any:
    plain = native(value)
    if plain is not value:
        return plain
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return list(value)
    raise TypeError(f"got {type(value).__name__}")


def new_id() -> str:
    """Return an id that nobody else has: a UUID of version 7."""
    return str(uuid_utils.uuid7())


def with_id(request: DecideRequest) -> DecideRequest:
    """Return a request that has an id: the same, or one with a new id."""
    return request if request.decision_id is not None else replace(request, decision_id=new_id())


def decide_body(request: DecideRequest) -> bytes:
    """Return the body of a decide that has its id; raise InvalidInputError."""
    if request.metadata is not None:
        check_metadata(request.metadata)
    return encode(
        {
            "tenant": request.tenant,
            "state": _finite_state(request.state),
            "feasible": request.feasible,
            "episode": request.episode,
            "decision_id": request.decision_id,
            "explore": request.explore,
            "metadata": request.metadata,
            "reasons": request.reasons,
        }
    )


def _finite_state(state: State) -> Any:
    """Return a state whose numbers JSON can hold; raise InvalidStateError."""
    values = (
        {f"state factor {name!r}": value for name, value in state.items()}
        if isinstance(state, Mapping)
        else {}
    )
    for what, value in values.items() or [("state", state)]:
        if isinstance(native(value), float):
            check_finite(value, what=what, error=InvalidStateError)
    return native(state)


def reward_body(request: RewardRequest) -> bytes:
    """Return the body of a reward, whose id is the decision's unless it has its own; raise InvalidInputError."""
    value = check_finite(request.value, what="reward", error=InvalidRewardError)
    return encode(
        {
            "tenant": request.tenant,
            "decision_id": request.decision_id,
            "value": value,
            "reward_id": request.reward_id,
        }
    )


def close_body(request: CloseRequest) -> bytes:
    """Return the body of a close; raise InvalidInputError."""
    outcome = request.outcome
    if outcome is not None:
        outcome = check_finite(outcome, what="outcome", error=InvalidRewardError)
    return encode({"tenant": request.tenant, "episode": request.episode, "outcome": outcome})


def declaration_body(declaration: TenantSpec | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a declaration as JSON has it."""
    return declaration.to_json() if isinstance(declaration, TenantSpec) else declaration


def segment(text: str, *, what: str) -> str:
    """Return an id as one segment of a path, percent-encoded; raise InvalidInputError."""
    encoded = quote(check_id(text, what=what), safe="")
    # These two mean other places, and whatever tidies paths on the way would go there.
    return encoded.replace(".", "%2E") if encoded in {".", ".."} else encoded


def read(kind: type[_T]) -> Callable[[bytes], _T]:
    """Return what reads an answer as `kind`; it raises SteersmanError for what is none."""
    decoder = msgspec.json.Decoder(kind)

    def decode(body: bytes) -> _T:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _unreadable(kind, error) from None

    return decode


_read_any = read(dict[str, Any])
_read_items = read(_Items)
_read_refused = read(_Refused)


def read_items(body: bytes, read_one: Callable[[bytes], _T]) -> list[_T | SteersmanError]:
    """Return the answer of a list, item by item."""
    return [_item(bytes(raw), read_one) for raw in _read_items(body).items]


def _item(raw: bytes, read_one: Callable[[bytes], _T]) -> _T | SteersmanError:
    if not raw.startswith(b'{"error":'):
        return read_one(raw)
    problem = _read_refused(raw).error
    try:
        told = msgspec.convert(problem, _Problem)
    except msgspec.ValidationError as error:
        raise _unreadable(_Problem, error) from None
    return error_of_problem(problem, told.status)


def read_list(body: bytes, read_one: Callable[[bytes], _T]) -> tuple[list[_T], str | None]:
    """Return one page of a list, and the cursor of the next."""
    page = _read_page(body)
    return [read_one(bytes(raw)) for raw in page.items], page.next


class _Page(_Items):
    next: str | None = None


_read_page = read(_Page)


def owner_of(body: bytes) -> Owner:
    """Return a tenant or base, whose declaration is written in the form that declarations have."""
    return _convert(_read_any(body), Owner, spec=TenantSpec.from_json)


def version_of(body: bytes) -> PolicyVersion:
    """Return a version, whose states, actions and settings are written in the form that declarations have."""
    return _convert(
        _read_any(body),
        PolicyVersion,
        states=StateSpace.from_json,
        actions=ActionCatalogue.of,
        settings=PolicySettings.from_json,
    )


def _convert(document: dict[str, Any], kind: type[_T], **readers: Callable[[Any], Any]) -> _T:
    try:
        parts = {name: reader(document[name]) for name, reader in readers.items()}
        return msgspec.convert(document | parts, kind)
    except (KeyError, TypeError, SteersmanError, msgspec.ValidationError) as error:
        raise _unreadable(kind, error) from None


def _unreadable(kind: type[Any], error: Exception) -> SteersmanError:
    return SteersmanError(
        f"expected {kind.__name__.lstrip('_')} as this release knows it, got another answer: {error}",
        hint="compare the releases of client and service",
    )
