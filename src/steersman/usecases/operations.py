"""Changes under an id: the first call is carried out, and whoever calls again is answered as the first was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import msgspec

from steersman.domain.answers import Owner
from steersman.domain.records import PolicyVersion
from steersman.domain.settings import TenantSpec
from steersman.store import tenants, versions
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import (
    Operation,
    drop_unknown,
    find_answer,
    insert_operation,
    lock_operation,
)

__all__ = [
    "OWNER",
    "VERSION",
    "Form",
    "Unchanged",
    "first_answer",
    "keep_answer",
    "record_form",
    "run_once",
]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Form(Generic[_T]):
    """How answers of one kind are kept: as a JSON value, and read with the rows of their owner at hand."""

    keep: Callable[[_T], Any]
    read: Callable[[Connection, str, Any], _T]


@dataclass(frozen=True, slots=True)
class Unchanged(Generic[_T]):
    """The answer to a call that found everything as it wants it, and changed nothing."""

    answer: _T


def record_form(kind: type[_T]) -> Form[_T]:
    """Return the form of a record of numbers, texts and other such records, or of a list of these."""
    return Form(msgspec.to_builtins, lambda _, __, body: msgspec.convert(body, kind))


def _kept_owner(owner: Owner) -> dict[str, Any]:
    """Return an owner without its secret, which is in one place alone."""
    return {
        "spec": owner.spec.to_json(),
        "status": owner.status,
        "active_version": owner.active_version,
        "latest_version": owner.latest_version,
        "created_at": owner.created_at,
    }


def _read_owner(connection: Connection, owner: str, body: dict[str, Any]) -> Owner:
    now = tenants.get_owner(connection, owner)
    return replace(now, **body | {"spec": TenantSpec.from_json(body["spec"])})


def _read_version(connection: Connection, owner: str, body: dict[str, Any]) -> PolicyVersion:
    # The rest of a version never changes.
    return replace(versions.get_version(connection, owner, body["version"]), status=body["status"])


OWNER = Form(_kept_owner, _read_owner)
"""The form of a tenant or base."""

VERSION: Form[PolicyVersion] = Form(
    lambda version: {"version": version.number, "status": version.status}, _read_version
)
"""The form of a version."""


def run_once(
    database: Database,
    owner: str,
    operation: Operation,
    form: Form[_T],
    work: Callable[[Connection], _T | Unchanged[_T]],
) -> _T:
    """Return what `work` does for a tenant, base or operators in one transaction, or what it once did.

    Calls of one id that come at the same time wait for each other, and a call whose COMMIT was lost finds what it
    did. What changed nothing is kept under a caller's id alone. Raises IdReusedError when the id was that of another
    call, and what `work` raises, which leaves no trace.
    """

    def once(connection: Connection) -> _T:
        lock_operation(connection, owner, operation)
        known = first_answer(connection, owner, operation, form)
        if known is not None:
            return known
        done = work(connection)
        if not isinstance(done, Unchanged):
            return keep_answer(connection, owner, operation, form, done)
        if operation.is_unknown:
            return done.answer
        return keep_answer(connection, owner, operation, form, done.answer)

    return database.run(once)


def first_answer(connection: Connection, owner: str, operation: Operation, form: Form[_T]) -> _T | None:
    """Return what was answered to the same call before, or None; raise IdReusedError."""
    answer = find_answer(connection, owner, operation)
    return None if answer is None else form.read(connection, owner, msgspec.json.decode(answer))


def keep_answer(connection: Connection, owner: str, operation: Operation, form: Form[_T], answer: _T) -> _T:
    """Keep the `answer` of a call that was carried out in this transaction, and return it.

    Those of calls that nobody can repeat any more go.
    """
    drop_unknown(connection, owner)
    # Names stay in their order, so that an answer is repeated byte for byte.
    insert_operation(connection, owner, operation, msgspec.json.encode(form.keep(answer)).decode())
    return answer
