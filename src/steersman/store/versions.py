"""Versions as rows."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from steersman.domain.canonical import canonical_json
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import PolicyVersion
from steersman.domain.settings import PolicySettings
from steersman.domain.states import StateSpace
from steersman.errors import NotFoundError
from steersman.store.tables import policy_versions

__all__ = [
    "ancestors",
    "find_named_version",
    "get_version",
    "insert_version",
    "list_versions",
    "set_version_status",
]


def insert_version(connection: Connection, version: PolicyVersion, *, operation_id: str) -> None:
    """Insert a version that the call `operation_id` made."""
    connection.execute(
        insert(policy_versions).values(
            tenant=version.tenant,
            version=version.number,
            kind=version.kind,
            status=version.status,
            name=version.name,
            state_size=version.states.size,
            states=canonical_json(version.states.to_json()),
            actions=canonical_json(list(version.actions.ids)),
            settings=canonical_json(version.settings.to_json()),
            parent=version.parent,
            origin=version.origin,
            provenance=canonical_json(dict(version.provenance)),
            operation_id=operation_id,
            created_at=version.created_at,
        )
    )


def get_version(connection: Connection, tenant: str, number: int) -> PolicyVersion:
    """Return one version; raise NotFoundError."""
    query = select(policy_versions).where(
        policy_versions.c.tenant == tenant, policy_versions.c.version == number
    )
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(
            f"{_owner_shown(tenant)} has no version {number}", hint=f"see: steersman versions list {tenant}"
        )
    return _version_of(row)


def find_named_version(connection: Connection, tenant: str, name: str) -> PolicyVersion | None:
    """Return the version with `name`, if there is one."""
    query = select(policy_versions).where(policy_versions.c.tenant == tenant, policy_versions.c.name == name)
    row = connection.execute(query).first()
    return None if row is None else _version_of(row)


def list_versions(connection: Connection, tenant: str) -> list[PolicyVersion]:
    """Return every version of a tenant or base, oldest first."""
    query = (
        select(policy_versions).where(policy_versions.c.tenant == tenant).order_by(policy_versions.c.version)
    )
    return [_version_of(row) for row in connection.execute(query)]


def ancestors(connection: Connection, version: PolicyVersion) -> list[PolicyVersion]:
    """Return the ancestors of `version`, nearest first."""
    line: list[PolicyVersion] = []
    parent = version.parent
    while parent is not None:
        line.append(get_version(connection, version.tenant, parent))
        parent = line[-1].parent
    return line


def set_version_status(connection: Connection, tenant: str, number: int, status: str) -> None:
    """Set the status of a version: active, superseded or frozen."""
    connection.execute(
        update(policy_versions)
        .where(policy_versions.c.tenant == tenant, policy_versions.c.version == number)
        .values(status=status)
    )


def _version_of(row: Row[Any]) -> PolicyVersion:
    return PolicyVersion(
        tenant=row.tenant,
        number=row.version,
        kind=row.kind,
        status=row.status,
        name=row.name,
        states=StateSpace.from_json(json.loads(row.states)),
        actions=ActionCatalogue(tuple(json.loads(row.actions))),
        settings=PolicySettings.from_json(json.loads(row.settings)),
        parent=row.parent,
        origin=row.origin,
        provenance=json.loads(row.provenance),
        created_at=row.created_at,
    )


def _owner_shown(tenant: str) -> str:
    return f"base {tenant[1:]!r}" if tenant.startswith("@") else f"tenant {tenant!r}"
