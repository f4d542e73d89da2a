"""Tenants: create, show, list, retire, export and erase."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from steersman.domain.identifiers import check_name
from steersman.domain.settings import TenantSpec
from steersman.errors import InvalidSpecError, NotFoundError
from steersman.store import audit, tenants
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.tenants import Owner

__all__ = ["create_tenant", "list_tenants", "read_spec", "show_tenant"]


def read_spec(declaration: TenantSpec | Mapping[str, Any]) -> TenantSpec:
    """Return a declaration, read from a mapping where it is not one yet; raise InvalidSpecError."""
    return declaration if isinstance(declaration, TenantSpec) else TenantSpec.from_json(declaration)


def create_tenant(
    database: Database, tenant: str, declaration: TenantSpec | Mapping[str, Any], *, actor: str = "library"
) -> Owner:
    """Create a tenant; its first version is made by its first decide.

    Raises InvalidSpecError, also for a base that does not exist, and ConflictError when the id is taken.
    """
    check_name(tenant, what="tenant")
    spec = read_spec(declaration)
    secret = secrets.token_bytes(32)

    def work(connection: Connection) -> Owner:
        check_base(connection, spec)
        tenants.insert_tenant(connection, tenant, spec, secret)
        audit.write_line(connection, tenant, actor=actor, verb="create", detail={"after": spec.to_json()})
        return tenants.get_tenant(connection, tenant)

    return database.run(work)


def check_base(connection: Connection, spec: TenantSpec) -> None:
    """Raise InvalidSpecError when `spec` names a base that does not exist."""
    if spec.base is not None:
        try:
            tenants.get_base(connection, spec.base)
        except NotFoundError:
            raise InvalidSpecError(
                f"base: there is no base {spec.base!r}",
                hint=f"create it with: steersman base create {spec.base}",
            ) from None


def show_tenant(database: Database, tenant: str) -> Owner:
    """Return one tenant; raise NotFoundError."""
    with database.snapshot() as connection:
        return tenants.get_tenant(connection, tenant)


def list_tenants(database: Database) -> list[Owner]:
    """Return every tenant, by id."""
    with database.snapshot() as connection:
        return tenants.list_tenants(connection)
