"""API keys as rows. A key's text is never kept, only its digest."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, insert, or_, select, update
from sqlalchemy import Row as SqlRow

from steersman.domain.answers import ApiKey
from steersman.errors import NotFoundError
from steersman.store.clock import now
from steersman.store.tables import api_keys

__all__ = [
    "StoredKey",
    "find_stored_key",
    "find_stored_keys",
    "get_key",
    "insert_key",
    "list_keys",
    "note_use",
    "set_expiry",
    "set_revoked",
]


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key with the digest of its text."""

    key: ApiKey
    digest: bytes = field(repr=False)  # 32 bytes, SHA-256


def insert_key(
    connection: Connection,
    key_id: str,
    *,
    tenant: str | None,
    scopes: tuple[str, ...],
    name: str,
    digest: bytes,
) -> None:
    """Insert a new key."""
    connection.execute(
        insert(api_keys).values(
            key_id=key_id,
            tenant=tenant,
            scopes=json.dumps(scopes),
            name=name,
            digest=digest,
            created_at=now(),
        )
    )


def find_stored_key(connection: Connection, key_id: str) -> StoredKey | None:
    """Return a key with its digest, or None."""
    row = connection.execute(select(api_keys).where(api_keys.c.key_id == key_id)).first()
    return None if row is None else StoredKey(_key_of(row), bytes(row.digest))


def find_stored_keys(connection: Connection, key_ids: Collection[str]) -> dict[str, StoredKey]:
    """Return the keys of `key_ids` that there are, with their digests, by id."""
    rows = connection.execute(select(api_keys).where(api_keys.c.key_id.in_(sorted(key_ids))))
    return {row.key_id: StoredKey(_key_of(row), bytes(row.digest)) for row in rows}


def get_key(connection: Connection, key_id: str, *, lock: bool = False) -> ApiKey:
    """Return a key, with `lock` against every other change; raise NotFoundError."""
    query = select(api_keys).where(api_keys.c.key_id == key_id)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise NotFoundError(f"there is no key {key_id!r}", hint="see: steersman keys list")
    return _key_of(row)


def list_keys(connection: Connection, tenant: str | None) -> list[ApiKey]:
    """Return the keys of a tenant, or with None those of operators, oldest first."""
    owned = api_keys.c.tenant.is_(None) if tenant is None else api_keys.c.tenant == tenant
    query = select(api_keys).where(owned).order_by(api_keys.c.created_at, api_keys.c.key_id)
    return [_key_of(row) for row in connection.execute(query)]


def set_revoked(connection: Connection, key_id: str) -> None:
    """Revoke a key now."""
    connection.execute(update(api_keys).where(api_keys.c.key_id == key_id).values(revoked_at=now()))


def set_expiry(connection: Connection, key_id: str, expires_at: int) -> None:
    """Let a key end at a time."""
    connection.execute(update(api_keys).where(api_keys.c.key_id == key_id).values(expires_at=expires_at))


def note_use(connection: Connection, uses: Mapping[str, int]) -> None:
    """Record when keys (by id) were used last; a time that is older than the one recorded changes nothing."""
    used = api_keys.c.last_used_at
    key_id: BindParameter[str] = bindparam("of_key")
    at: BindParameter[int] = bindparam("used_at")
    statement = (
        update(api_keys)
        .where(api_keys.c.key_id == key_id, or_(used.is_(None), used < at))
        .values(last_used_at=at)
    )
    # In one order, so that two processes never wait for each other in a circle.
    rows = [{"of_key": key, "used_at": time} for key, time in sorted(uses.items())]
    if rows:
        connection.execute(statement, rows)


def _key_of(row: SqlRow[Any]) -> ApiKey:
    return ApiKey(
        row.key_id,
        row.tenant,
        tuple(json.loads(row.scopes)),
        row.name,
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.last_used_at,
    )
