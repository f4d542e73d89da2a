"""What routes that are not hot share: who calls, about which tenant, with which body, and how it is answered."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, TypeVar
from urllib.parse import quote

import msgspec
from fastapi import Depends, Header, Query, Request, Response
from pydantic import BeforeValidator
from starlette.convertors import Convertor, register_url_convertor

from steersman.console.plain import plain
from steersman.domain.identifiers import check_name
from steersman.domain.operation_ids import OPERATION_ID
from steersman.errors import InvalidInputError
from steersman.service.exchange import Exchange
from steersman.service.hot import id_of_path
from steersman.service.strict import read_as
from steersman.store.engine import Database
from steersman.usecases.tenants import audit_trail

__all__ = [
    "WHOLE",
    "After",
    "Call",
    "Limit",
    "OperationId",
    "allowed",
    "allowed_of_bases",
    "answer",
    "audit_page",
    "body_of",
    "listed",
    "operators",
    "version_of",
]

_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode

_NUMBER = re.compile(r"[1-9][0-9]{0,18}\Z")


def _whole(text: object) -> object:
    """Return a number of a query as it came; raise ValueError for what is another way to write one."""
    if isinstance(text, str) and not re.fullmatch("-?[0-9]{1,18}", text):
        raise ValueError("expected digits alone")
    return text


WHOLE = BeforeValidator(_whole)
"""Marks a whole number of a query, for which only one way of writing is taken."""

Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many, the newest."), WHOLE]
After = Annotated[str | None, Query(description="`next` of the page before.")]

_TenantQuery = Annotated[
    str | None, Query(description="The tenant; a tenant's key need not name it, an operator's must.")
]


_OwnerQuery = Annotated[
    str | None,
    Query(
        description="The tenant; a tenant's key need not name it, an operator's must, and may name a base as `@NAME`."
    ),
]


class _IdConvertor(Convertor[str]):
    """An id in a path, percent-encoded: the routes see paths as they came, so that an id may hold a slash."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return id_of_path(value.encode("latin-1"))

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


register_url_convertor("id", _IdConvertor())


class Call:
    """A call that was let in. What it is about belongs to `tenant`; an operator's call belongs to nobody."""

    def __init__(self, exchange: Exchange, tenant: str | None) -> None:
        """Take the exchange, whose key is known."""
        self.exchange = exchange
        self._tenant = tenant

    @property
    def actor(self) -> str:
        """Who the audit trail names."""
        assert self.exchange.access is not None  # noqa: S101  (a call was let in)
        return self.exchange.access.actor

    @property
    def tenant(self) -> str:
        """The tenant of a call that has one."""
        assert self._tenant is not None  # noqa: S101  (operators' calls do not ask)
        return self._tenant

    @cached_property
    def database(self) -> Database:
        """The database, of which this call sees the rows of its tenant."""
        return self.exchange.service.serving.for_tenants([self.tenant])

    @property
    def all_tenants(self) -> Database:
        """The database as operators see it."""
        return self.exchange.service.operators

    @contextmanager
    def ending_keys(self) -> Iterator[None]:
        """Look every key up anew after the block, before its answer is sent."""
        try:
            yield
        finally:
            self.exchange.service.keyring.forget()


def allowed(scope: str) -> Callable[..., Awaitable[Call]]:
    """Return a dependency: a call of a tenant with `scope`, or of an operator about a tenant."""

    async def call(request: Request, tenant: _TenantQuery = None) -> Call:
        exchange: Exchange = request.scope["steersman"]
        access = await exchange.admit(scope)
        _check_query(request)
        exchange.tenant = access.tenant_of(tenant)
        exchange.begin_work()
        return Call(exchange, exchange.tenant)

    return call


def allowed_of_bases(scope: str) -> Callable[..., Awaitable[Call]]:
    """Return a dependency as `allowed` does, with which an operator may also name a base, by `@` and its name."""

    async def call(request: Request, tenant: _OwnerQuery = None) -> Call:
        exchange: Exchange = request.scope["steersman"]
        access = await exchange.admit(scope)
        _check_query(request)
        if tenant is not None and tenant.startswith("@") and access.tenant is None:
            exchange.tenant = f"@{check_name(tenant[1:], what='base')}"
        else:
            exchange.tenant = access.tenant_of(tenant)
        exchange.begin_work()
        return Call(exchange, exchange.tenant)

    return call


async def _operation_id(
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            pattern=f"^{OPERATION_ID}$",
            description="An id of the call: made again under it, it changes nothing more and is answered as before.",
        ),
    ] = None,
) -> str | None:
    # Several are none, whichever comes first, since whoever stands before us may have read another.
    if len(request.headers.getlist("idempotency-key")) > 1:
        raise InvalidInputError("Idempotency-Key: expected one, got several")
    return key


OperationId = Annotated[str | None, Depends(_operation_id)]
"""The id of a change, for routes that change something and whose path and body hold no id of the call."""


async def operators(request: Request) -> Call:
    """Let an operator's call in."""
    exchange: Exchange = request.scope["steersman"]
    await exchange.admit("operator")
    _check_query(request)
    exchange.begin_work()
    return Call(exchange, None)


def body_of(kind: type[_T]) -> Callable[[Request], Awaitable[_T]]:
    """Return a dependency: the body of the request as `kind`, read after the caller was let in."""

    async def body(request: Request) -> _T:
        exchange: Exchange = request.scope["steersman"]
        # Whoever sends slowly shall keep nobody else out.
        exchange.end_work()
        document = await exchange.service.bodies.read_json(request.receive)
        exchange.begin_work()
        return read_as(kind, document)

    return body


def answer(record: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a record of the library as JSON, field for field."""
    return Response(_encode(plain(record)), status, headers, "application/json")


def listed(records: Sequence[object], *, following: str | None = None) -> Response:
    """Return a list as JSON; `following` is the cursor of the next page, where there is one."""
    return answer({"items": records, "next": following})


def audit_page(database: Database, owner: str, *, after: str | None, limit: int) -> Response:
    """Return a page of the audit trail of a tenant, the base `@NAME` or operators (`@`)."""
    found = audit_trail(database, owner, after=after, limit=limit)
    return listed(found, following=found[-1].audit_id if len(found) == limit else None)


def _check_query(request: Request) -> None:
    """Raise InvalidInputError for a parameter that the route does not have, or that comes twice."""
    known: set[str] = request.app.state.queries[request.method, request.scope["route"].path_format]
    given = [name for name, _ in request.query_params.multi_items()]
    if not known.issuperset(given) or len(set(given)) != len(given):
        raise InvalidInputError(f"query: expected each of {sorted(known)} at most once, got {given}")


def version_of(text: str) -> int | str:
    """Return the version that a text means: a number, or a name; raise InvalidInputError."""
    return int(text) if _NUMBER.match(text) else check_name(text, what="version")
