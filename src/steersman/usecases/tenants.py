"""Tenants: create, show, list, change, retire, export and erase."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import uuid_utils

from steersman.domain.answers import Erased, MigrationPlan, Owner
from steersman.domain.identifiers import check_id, check_name
from steersman.domain.settings import TenantSpec
from steersman.errors import NotFoundError
from steersman.store import audit, tenants
from steersman.store.audit import AuditLine
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.usecases.declarations import check_base, read_spec
from steersman.usecases.migrate import change_declaration
from steersman.usecases.migration_plan import changed_parts

__all__ = [
    "audit_trail",
    "change_tenant",
    "create_tenant",
    "create_within",
    "erase",
    "list_tenants",
    "retire",
    "show_tenant",
    "unchanged_plan",
]

_SECTIONS = ("learning", "exploration")


def create_tenant(
    database: Database, tenant: str, declaration: TenantSpec | Mapping[str, Any], *, actor: str = "library"
) -> Owner:
    """Create a tenant; its first version is made by its first decide.

    Raises InvalidSpecError, also for a base that does not exist, and ConflictError when the id is taken.
    """
    check_name(tenant, what="tenant")
    spec = read_spec(declaration)
    secret = secrets.token_bytes(32)
    return database.run(lambda connection: create_within(connection, tenant, spec, secret, actor=actor))


def create_within(
    connection: Connection, tenant: str, spec: TenantSpec, secret: bytes, *, actor: str
) -> Owner:
    """Create a tenant within a transaction; see `create_tenant`. The `secret` tells a repeated try from another."""
    try:
        known = tenants.get_tenant(connection, tenant)
    except NotFoundError:
        known = None
    if known is not None and known.secret == secret:
        return known
    check_base(connection, spec)
    tenants.insert_tenant(connection, tenant, spec, secret)
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
    actor: str = "library",
) -> MigrationPlan:
    """Change some parts of a declaration, in the form that a declaration has; the others stay as they are.

    Of `learning` and `exploration` the parts that are given change, of any other name the whole. What that
    does, and what is raised, see `migrate`, which takes a declaration as a whole.
    """

    def changed(spec: TenantSpec) -> TenantSpec:
        body = spec.to_json()
        given = {
            name: {**body[name], **value} if name in _SECTIONS and isinstance(value, Mapping) else value
            for name, value in changes.items()
        }
        return read_spec(body | given)

    with database.snapshot() as connection:
        owner = tenants.get_tenant(connection, tenant)
        plan = unchanged_plan(owner, changed(owner.spec)) if owner.status == "retired" else None
    if plan is not None:  # a retired tenant can be asked to be as it is, and is never another again
        return plan
    return change_declaration(database, tenant, changed, dry_run=dry_run, actor=actor)


def unchanged_plan(owner: Owner, spec: TenantSpec) -> MigrationPlan | None:
    """Return what a change to the declaration that `owner` has already does: nothing; None for another one."""
    if changed_parts(owner.spec, spec):
        return None
    return MigrationPlan(owner.tenant, owner.active_version, None, needs_version=False, changed=())


def retire(database: Database, tenant: str, *, actor: str = "library") -> Owner:
    """Retire a tenant, which refuses decides and changes from then on, and return it; again changes nothing.

    Rewards of what it decided before are still recorded, and what it learned stays. Raises NotFoundError.
    """

    def work(connection: Connection) -> Owner:
        if tenants.get_tenant(connection, tenant, lock=True).status == "active":
            tenants.set_status(connection, tenant, "retired")
            audit.write_line(connection, tenant, actor=actor, verb="retire", detail={})
        return tenants.get_tenant(connection, tenant)

    return database.run(work)


def erase(database: Database, tenant: str, *, actor: str = "library") -> Erased:
    """Delete every row of a tenant, its audit trail too; a line of that stays and counts what there was.

    So do the lines of earlier erasures of a namesake.

    What a base was built from before stays in that base until its next build. Raises NotFoundError.
    """
    operation_id = str(uuid_utils.uuid7())

    def work(connection: Connection) -> Erased:
        try:
            tenants.get_tenant(connection, tenant, lock=True)
        except NotFoundError:
            last = audit.list_lines(connection, tenant, limit=1)
            if last and last[0].detail.get("operation") == operation_id:
                return Erased(tenant, last[0].detail["rows"])
            raise
        rows = tenants.count_rows(connection, tenant)
        tenants.delete_rows(connection, tenant)
        rows |= {"audit": tenants.forget_changes(connection, tenant)}
        detail = {"operation": operation_id, "rows": rows}
        audit.write_line(connection, tenant, actor=actor, verb="erase", detail=detail)
        return Erased(tenant, rows)

    return database.run(work)


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
    what can be no line's id.
    """
    if after is not None:
        check_id(after, what="after")
    with database.snapshot() as connection:
        return audit.list_lines(connection, owner, actor=actor, after=after, limit=limit)
