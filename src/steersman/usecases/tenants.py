"""Tenants: create, show, list, change, retire, export and erase."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from steersman.domain.answers import AuditLine, Erased, MigrationPlan, Owner
from steersman.domain.identifiers import check_id, check_limit, check_name
from steersman.domain.settings import TenantSpec
from steersman.store import audit, tenants
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import name_operation
from steersman.usecases.declarations import check_base, read_spec
from steersman.usecases.migrate import change_declaration, change_operation
from steersman.usecases.operations import OWNER, Unchanged, record_form, run_once

__all__ = [
    "audit_trail",
    "change_tenant",
    "create_tenant",
    "create_within",
    "erase",
    "list_tenants",
    "retire",
    "show_tenant",
]

_SECTIONS = ("learning", "exploration")
_ERASED = record_form(Erased)


def create_tenant(
    database: Database,
    tenant: str,
    declaration: TenantSpec | Mapping[str, Any],
    *,
    operation_id: str | None = None,
    actor: str = "library",
) -> Owner:
    """Create a tenant; its first version is made by its first decide.

    Under the same `operation_id` it is done once and answered as before, as long as the tenant is there. Raises
    InvalidSpecError, also for a base that does not exist, IdReusedError, and NameTakenError when the id is taken.
    """
    check_name(tenant, what="tenant")
    spec = read_spec(declaration)
    operation = name_operation("create_tenant", operation_id, declaration=spec.to_json())

    def work(connection: Connection) -> Owner:
        return create_within(connection, tenant, spec, actor=actor)

    return run_once(database, tenant, operation, OWNER, work)


def create_within(connection: Connection, tenant: str, spec: TenantSpec, *, actor: str) -> Owner:
    """Create a tenant within a transaction; see `create_tenant`."""
    check_base(connection, spec)
    tenants.insert_tenant(connection, tenant, spec, secrets.token_bytes(32))
    audit.write_line(connection, tenant, actor=actor, verb="create", detail={"after": spec.to_json()})
    return tenants.get_tenant(connection, tenant)


def show_tenant(database: Database, tenant: str) -> Owner:
    """Return one tenant; raise NotFoundError."""
    with database.snapshot() as connection:
        return tenants.get_tenant(connection, tenant)


def list_tenants(database: Database) -> list[Owner]:
    """Return every tenant, by id."""
    with database.snapshot() as connection:
        return tenants.list_tenants(connection)


def change_tenant(
    database: Database,
    tenant: str,
    changes: Mapping[str, Any],
    *,
    dry_run: bool = False,
    operation_id: str | None = None,
    actor: str = "library",
) -> MigrationPlan:
    """Change some parts of a declaration, in the form that a declaration has; the others stay as they are.

    Of `learning` and `exploration` the parts that are given change, of any other name the whole. What that
    does, what `operation_id` is for, and what is raised, see `migrate`, which takes a declaration as a whole.
    """
    operation = change_operation("change_tenant", operation_id, dry_run=dry_run, content=changes)

    def changed(spec: TenantSpec) -> TenantSpec:
        body = spec.to_json()
        given = {
            name: {**body[name], **value} if name in _SECTIONS and isinstance(value, Mapping) else value
            for name, value in changes.items()
        }
        return read_spec(body | given)

    return change_declaration(database, tenant, changed, operation, actor=actor)


def retire(
    database: Database, tenant: str, *, operation_id: str | None = None, actor: str = "library"
) -> Owner:
    """Retire a tenant, which refuses decides and changes from then on, and return it; again changes nothing.

    Rewards of what it decided before are still recorded, and what it learned stays. Under the same `operation_id`
    it is answered as before. Raises NotFoundError or IdReusedError.
    """
    operation = name_operation("retire_tenant", operation_id)

    def work(connection: Connection) -> Owner | Unchanged[Owner]:
        owner = tenants.get_tenant(connection, tenant, lock=True)
        if owner.status == "retired":
            return Unchanged(owner)
        tenants.set_status(connection, tenant, "retired")
        retired = replace(owner, status="retired")
        detail = {"before": {"status": owner.status}, "after": {"status": retired.status}}
        audit.write_line(connection, tenant, actor=actor, verb="retire", detail=detail)
        return retired

    return run_once(database, tenant, operation, OWNER, work)


def erase(
    database: Database, tenant: str, *, operation_id: str | None = None, actor: str = "library"
) -> Erased:
    """Delete every row of a tenant, its audit trail too; a line of that stays and counts what there was.

    So do the lines of earlier erasures of a namesake. Under the same `operation_id` it is answered as before, also
    when there is such a namesake since, which it leaves alone.

    What a base was built from before stays in that base until its next build. Raises NotFoundError or
    IdReusedError.
    """
    operation = name_operation("erase", operation_id)

    def work(connection: Connection) -> Erased:
        tenants.get_tenant(connection, tenant, lock=True)
        rows = tenants.count_rows(connection, tenant)
        tenants.delete_rows(connection, tenant)
        rows |= tenants.forget_changes(connection, tenant)
        audit.write_line(connection, tenant, actor=actor, verb="erase", detail={"rows": rows})
        return Erased(tenant, rows)

    return run_once(database, tenant, operation, _ERASED, work)


def audit_trail(
    database: Database,
    owner: str,
    *,
    actor: str | None = None,
    after: str | None = None,
    limit: int = 1000,
) -> list[AuditLine]:
    """Return who changed what of a tenant, the base `@NAME` or operators (`@`), newest first; also of who was erased.

    Optionally only what one `actor` changed, or what is older than the line `after`. Raises InvalidInputError for
    what can be no line's id or no limit.
    """
    limit = check_limit(limit)
    if after is not None:
        check_id(after, what="after")
    with database.snapshot() as connection:
        return audit.list_lines(connection, owner, actor=actor, after=after, limit=limit)
