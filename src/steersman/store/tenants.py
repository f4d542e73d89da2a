"""Tenants and bases as rows. A base is kept under `@` and its name, which no tenant can be called."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy import Row as SqlRow

from steersman.domain.answers import Owner
from steersman.domain.canonical import canonical_json
from steersman.domain.settings import TenantSpec
from steersman.errors import NameTakenError, NotFoundError
from steersman.store.access import require_sight
from steersman.store.clock import now
from steersman.store.hot.text import TENANT_GATE, Row
from steersman.store.tables import TENANT_TABLES, audit, bases, operations, tenants

__all__ = [
    "TenantHead",
    "base_owner",
    "count_rows",
    "delete_rows",
    "forget_changes",
    "get_base",
    "get_owner",
    "get_tenant",
    "head_of",
    "insert_base",
    "insert_tenant",
    "list_bases",
    "list_tenants",
    "set_active",
    "set_spec",
    "set_status",
]


@dataclass(frozen=True, slots=True)
class TenantHead:
    """What a decide or reward reads of a tenant."""

    tenant: str
    secret: bytes = field(repr=False)
    status: str  # active or retired
    active_version: int | None
    latest_version: int
    archived: bool  # whether a decision of it ever was


def base_owner(base: str) -> str:
    """Return the name under which the rows of `base` are kept."""
    return f"@{base}"


def head_of(row: Row) -> TenantHead:
    """Return the head of a tenant from a row of the hot statements."""
    tenant, secret, status, active, latest, archived_before = row
    return TenantHead(tenant, bytes(secret), status, active, latest, archived_before is not None)


def insert_tenant(connection: Connection, tenant: str, spec: TenantSpec, secret: bytes) -> None:
    """Insert a tenant without versions; raise NameTakenError when the id is taken."""
    if connection.execute(select(tenants.c.tenant).where(tenants.c.tenant == tenant)).first() is not None:
        raise NameTakenError(f"there is a tenant {tenant!r} already", hint="change it, or choose another id")
    connection.execute(
        insert(tenants).values(
            tenant=tenant,
            secret=secret,
            status="active",
            spec=canonical_json(spec.to_json()),
            active_version=None,
            latest_version=0,
            created_at=now(),
        )
    )


def insert_base(connection: Connection, base: str, spec: TenantSpec) -> None:
    """Insert a base without versions; raise NameTakenError when the name is taken."""
    owner = base_owner(base)
    if connection.execute(select(bases.c.tenant).where(bases.c.tenant == owner)).first() is not None:
        raise NameTakenError(f"there is a base {base!r} already")
    connection.execute(
        insert(bases).values(
            tenant=owner,
            spec=canonical_json(spec.to_json()),
            active_version=None,
            latest_version=0,
            created_at=now(),
        )
    )


def get_tenant(connection: Connection, tenant: str, *, lock: bool = False) -> Owner:
    """Return a tenant, with `lock` against every decide and change; raise NotFoundError."""
    query = select(tenants).where(tenants.c.tenant == tenant)
    if lock and connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(TENANT_GATE, func.hashtext(tenant))))
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        require_sight(connection)
        raise NotFoundError(f"there is no tenant {tenant!r}", hint="see: steersman tenant list")
    return _tenant_of(row)


def get_base(connection: Connection, base: str, *, lock: bool = False) -> Owner:
    """Return a base, with `lock` against every change; raise NotFoundError."""
    query = select(bases).where(bases.c.tenant == base_owner(base))
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        require_sight(connection)
        raise NotFoundError(f"there is no base {base!r}", hint="see: steersman base list")
    return _base_of(row)


def get_owner(connection: Connection, owner: str) -> Owner:
    """Return a tenant, or the base whose name behind `@` this is; raise NotFoundError."""
    return get_base(connection, owner[1:]) if owner.startswith("@") else get_tenant(connection, owner)


def list_tenants(connection: Connection) -> list[Owner]:
    """Return every tenant, by id; raise as `require_sight` does."""
    require_sight(connection)
    return [_tenant_of(row) for row in connection.execute(select(tenants).order_by(tenants.c.tenant))]


def list_bases(connection: Connection) -> list[Owner]:
    """Return every base, by name; raise as `require_sight` does."""
    require_sight(connection)
    return [_base_of(row) for row in connection.execute(select(bases).order_by(bases.c.tenant))]


def _tenant_of(row: SqlRow[Any]) -> Owner:
    return Owner(
        row.tenant,
        TenantSpec.from_json(json.loads(row.spec)),
        row.status,
        row.active_version,
        row.latest_version,
        row.created_at,
        bytes(row.secret),
    )


def _base_of(row: SqlRow[Any]) -> Owner:
    spec = TenantSpec.from_json(json.loads(row.spec))
    return Owner(row.tenant, spec, "active", row.active_version, row.latest_version, row.created_at)


def set_spec(connection: Connection, owner: str, spec: TenantSpec) -> None:
    """Replace the declaration of a tenant or base."""
    table = bases if owner.startswith("@") else tenants
    connection.execute(
        update(table).where(table.c.tenant == owner).values(spec=canonical_json(spec.to_json()))
    )


def set_active(connection: Connection, owner: str, *, active: int | None, latest: int) -> None:
    """Name the active and the latest version of a tenant or base."""
    table = bases if owner.startswith("@") else tenants
    connection.execute(
        update(table).where(table.c.tenant == owner).values(active_version=active, latest_version=latest)
    )


def set_status(connection: Connection, tenant: str, status: str) -> None:
    """Set the status of a tenant: active or retired."""
    connection.execute(update(tenants).where(tenants.c.tenant == tenant).values(status=status))


def count_rows(connection: Connection, owner: str) -> dict[str, int]:
    """Return how many rows of each table belong to a tenant or base."""
    return {
        table.name: connection.execute(
            select(func.count()).select_from(table).where(table.c.tenant == owner)
        ).scalar_one()
        for table in TENANT_TABLES
    }


def delete_rows(connection: Connection, owner: str) -> None:
    """Delete every row of a tenant or base but its audit trail and operations."""
    for table in TENANT_TABLES:
        connection.execute(delete(table).where(table.c.tenant == owner))


def forget_changes(connection: Connection, owner: str) -> dict[str, int]:
    """Delete the audit trail and the operations of a tenant or base but those of earlier erasures.

    Returns how many rows of each went. What stays lets a repeated erasure be told from that of a namesake.
    """
    return {
        table.name: int(
            connection.execute(delete(table).where(table.c.tenant == owner, table.c.verb != "erase")).rowcount
        )
        for table in (audit, operations)
    }
