"""Operations as rows: which changes were asked for, under which ids, and what was answered.

A row is written in the transaction of its change, so that there is one if and only if the change was made. Where the
caller gave no id it has one of ours, and serves only the call itself, which may have lost its COMMIT. Rows of operators
themselves are kept under `@`, as their audit trail is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import uuid_utils
from sqlalchemy import Connection, delete, func, insert, select

from steersman.domain.identifiers import native
from steersman.domain.operation_ids import check_operation_id
from steersman.errors import IdReusedError, InvalidInputError
from steersman.store.clock import now
from steersman.store.seals import request_fingerprint
from steersman.store.tables import operations

__all__ = [
    "Operation",
    "drop_unknown",
    "find_answer",
    "insert_operation",
    "lock_operation",
    "name_operation",
]

_GATE = 7237  # the class of the advisory locks that stand before operations on PostgreSQL
_OURS = "own "  # before ids that we make: no caller's has a space
_WIDE = 2**63  # integers as far from 0 have no form in JSON that every reader takes
_KEPT = 86400  # seconds, and far more than any call goes on trying


@dataclass(frozen=True, slots=True)
class Operation:
    """One call that changes something."""

    operation_id: str
    verb: str
    fingerprint: bytes  # 32 bytes, of the verb and of what it was given

    @property
    def is_unknown(self) -> bool:
        """Whether we made the id, so that nobody can ask for it once the call has returned."""
        return self.operation_id.startswith(_OURS)


def name_operation(verb: str, operation_id: str | None, **content: object) -> Operation:
    """Return a call of `verb` that was given `content`, under the caller's id or a new one.

    A number is one content however it is written: 1 and 1.0 are the same. Raises InvalidInputError for what can be no
    id, and for content that JSON has no form for.
    """
    named = f"{_OURS}{uuid_utils.uuid7()}" if operation_id is None else check_operation_id(operation_id)
    try:
        plain = msgspec.to_builtins(content, str_keys=True, enc_hook=_plain)
        fingerprint = request_fingerprint((verb, _in_one_form(plain)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"{verb}: expected what JSON has a form for: {error}") from None
    return Operation(named, verb, fingerprint)


def _plain(value: object) -> object:
    """Return what is no JSON value itself, and is like one; raise TypeError."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    plain = native(value)
    if plain is value:
        raise TypeError(f"got {type(value).__name__}")
    return plain


def _in_one_form(value: Any) -> Any:
    """Return a JSON value with the whole numbers among its floats as integers of 64 bits, where they are that small."""
    if isinstance(value, dict):
        return {name: _in_one_form(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_one_form(item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _WIDE
    return int(value) if whole else value


def lock_operation(connection: Connection, owner: str, operation: Operation) -> None:
    """Let nobody else look for the same operation until the transaction ends; before any other lock is taken.

    A file needs no such thing, since one transaction writes at a time.
    """
    if connection.dialect.name == "postgresql":
        key = func.hashtext(f"{owner} {operation.operation_id}")
        connection.execute(select(func.pg_advisory_xact_lock(_GATE, key)))


def find_answer(connection: Connection, owner: str, operation: Operation) -> str | None:
    """Return the answer, as JSON, that was given to the same call before; None when there was no such call.

    Raises IdReusedError when the id was that of another verb or of other content.
    """
    row = connection.execute(
        select(operations).where(
            operations.c.tenant == owner, operations.c.operation_id == operation.operation_id
        )
    ).first()
    if row is None:
        return None
    stored, given = bytes(row.fingerprint).hex(), operation.fingerprint.hex()
    if stored != given:
        raise IdReusedError(
            f"operation {operation.operation_id!r} was another call: stored {stored} for {row.verb}, "
            f"now {given} for {operation.verb}",
            stored_fingerprint=stored,
            given_fingerprint=given,
        )
    return str(row.answer)


def insert_operation(connection: Connection, owner: str, operation: Operation, answer: str) -> None:
    """Keep the `answer`, as JSON, of a call that was not there yet."""
    connection.execute(
        insert(operations).values(
            tenant=owner,
            operation_id=operation.operation_id,
            verb=operation.verb,
            fingerprint=operation.fingerprint,
            answer=answer,
            created_at=now(),
        )
    )


def drop_unknown(connection: Connection, owner: str) -> None:
    """Delete the operations of a tenant, base or operators under ids of our own that are older than a day."""
    # Ours are ordered by time: they begin with the milliseconds since 1970.
    end = f"{now() // 1000 - _KEPT * 1000:012x}"
    at = operations.c.operation_id
    old = (operations.c.tenant == owner, at > _OURS, at < f"{_OURS}{end[:8]}-{end[8:]}")
    connection.execute(delete(operations).where(*old))
