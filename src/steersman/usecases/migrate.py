"""Migrate: change what a tenant declares, and carry its learning over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from steersman.domain.answers import MigrationPlan, Owner
from steersman.domain.records import Cell, PolicyVersion
from steersman.domain.settings import TenantSpec
from steersman.errors import InvalidInputError, TenantRetiredError
from steersman.store import audit, cells, tenants, versions
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import Operation, name_operation
from steersman.usecases.declarations import check_base, read_spec
from steersman.usecases.make_version import make_version, moved_cell
from steersman.usecases.migration_plan import Moves, Tally, changed_parts, remarks_on, trace_moves
from steersman.usecases.operations import Unchanged, record_form, run_once

__all__ = [
    "Change",
    "change_declaration",
    "change_operation",
    "change_within",
    "locked_tenant",
    "migrate",
    "not_retired",
    "unchanged_plan",
]

Change: TypeAlias = Callable[[TenantSpec], TenantSpec]

_PLAN = record_form(MigrationPlan)


def migrate(
    database: Database,
    tenant: str,
    declaration: TenantSpec | Mapping[str, Any],
    *,
    dry_run: bool = False,
    operation_id: str | None = None,
    actor: str = "library",
) -> MigrationPlan:
    """Make `declaration` what the tenant declares, and return what that did; with `dry_run` what it would do.

    A new version is made when the ordered action ids, the states or the settings differ from the active one's.
    Every cell whose action id and state meaning survive keeps its four numbers, and one that returns has those
    of the nearest ancestor that knew it. A retired tenant can be asked to be as it is. Under the same
    `operation_id` it is done once and answered as before; a dry run takes none. Raises NotFoundError,
    TenantRetiredError, IdReusedError, or InvalidSpecError, also for a base that does not exist.
    """
    spec = read_spec(declaration)
    operation = change_operation("migrate", operation_id, dry_run=dry_run, content=spec.to_json())
    return change_declaration(database, tenant, lambda _: spec, operation, actor=actor)


def change_operation(
    verb: str, operation_id: str | None, *, dry_run: bool, content: Mapping[str, Any]
) -> Operation | None:
    """Return the operation of a change; None for a dry run. Raises InvalidInputError for a dry run with an id."""
    if not dry_run:
        return name_operation(verb, operation_id, content=content)
    if operation_id is not None:
        raise InvalidInputError("operation_id: expected none for a dry run, which does nothing")
    return None


def change_declaration(
    database: Database, tenant: str, change: Change, operation: Operation | None, *, actor: str
) -> MigrationPlan:
    """Do as `migrate` does; `change` makes the new declaration of the present one, and a dry run is no operation."""
    if operation is None:
        with database.snapshot() as connection:
            owner = tenants.get_tenant(connection, tenant)
            spec = change(owner.spec)
            return unchanged_plan(owner, spec) or _foresee(connection, not_retired(owner), spec)
    named = operation.operation_id

    def work(connection: Connection) -> MigrationPlan | Unchanged[MigrationPlan]:
        plan = change_within(connection, tenant, change, named, actor=actor)
        return plan if plan.changed else Unchanged(plan)

    return run_once(database, tenant, operation, _PLAN, work)


def change_within(
    connection: Connection, tenant: str, change: Change, operation_id: str, *, actor: str
) -> MigrationPlan:
    """Change the declaration of a tenant within a transaction; see `migrate`."""
    owner = tenants.get_tenant(connection, tenant, lock=True)
    spec = change(owner.spec)
    unchanged = unchanged_plan(owner, spec)
    if unchanged is not None:
        return unchanged
    not_retired(owner)
    check_base(connection, spec)
    changed = changed_parts(owner.spec, spec)
    tenants.set_spec(connection, tenant, spec)
    active = _version_to_leave(connection, owner, spec)
    if active is None:
        plan = MigrationPlan(tenant, owner.active_version, None, needs_version=False, changed=changed)
    else:
        plan = _move(connection, owner, spec, active, operation_id)
    detail = {
        "changed": list(changed),
        "before": owner.spec.to_json(),
        "after": spec.to_json(),
        "version": plan.version,
        "cells": {fate: getattr(plan.cells, fate).count for fate in ("kept", "moved", "parked", "restored")},
    }
    audit.write_line(connection, tenant, actor=actor, verb="change", detail=detail)
    return plan


def unchanged_plan(owner: Owner, spec: TenantSpec) -> MigrationPlan | None:
    """Return what a change to the declaration that `owner` has already does: nothing; None for another one."""
    if changed_parts(owner.spec, spec):
        return None
    return MigrationPlan(owner.tenant, owner.active_version, None, needs_version=False, changed=())


def locked_tenant(connection: Connection, tenant: str) -> Owner:
    """Return a tenant locked against every decide and change; raise NotFoundError or TenantRetiredError."""
    return not_retired(tenants.get_tenant(connection, tenant, lock=True))


def not_retired(owner: Owner) -> Owner:
    """Return `owner`, or raise TenantRetiredError."""
    if owner.status != "active":
        raise TenantRetiredError(f"tenant {owner.tenant!r} is retired")
    return owner


def _foresee(connection: Connection, owner: Owner, spec: TenantSpec) -> MigrationPlan:
    check_base(connection, spec)
    changed = changed_parts(owner.spec, spec)
    active = _version_to_leave(connection, owner, spec)
    if active is None:
        return MigrationPlan(owner.tenant, owner.active_version, None, needs_version=False, changed=changed)
    moves = _trace(connection, owner, spec, active)
    tally = Tally(moves)
    deque(_migrated_cells(connection, moves, tally), maxlen=0)
    return _plan(owner, moves, tally, changed, version=None)


def _move(
    connection: Connection, owner: Owner, spec: TenantSpec, active: PolicyVersion, operation_id: str
) -> MigrationPlan:
    moves = _trace(connection, owner, spec, active)
    tally = Tally(moves)
    changed = changed_parts(owner.spec, spec)
    retired = {action: owner.spec.label_of(action) for action in moves.actions.parked.shown}
    version = make_version(
        connection,
        owner,
        operation_id=operation_id,
        origin="migrated",
        states=spec.states,
        actions=spec.actions,
        settings=spec.settings,
        opening=lambda: _migrated_cells(connection, moves, tally),
        parent=active.number,
        provenance={"changed": list(changed), "restored_from": _ancestors(moves), "retired_labels": retired},
    )
    return _plan(owner, moves, tally, changed, version=version.number)


def _ancestors(moves: Moves) -> list[int]:
    return [source.version.number for source in moves.sources[1:]]


def _version_to_leave(connection: Connection, owner: Owner, spec: TenantSpec) -> PolicyVersion | None:
    """Return the active version if `spec` needs another one."""
    if owner.active_version is None:
        return None
    active = versions.get_version(connection, owner.tenant, owner.active_version)
    same = (
        active.actions.ids == spec.actions.ids
        and active.states.fingerprint == spec.states.fingerprint
        and active.settings.to_json() == spec.settings.to_json()
    )
    return None if same else active


def _trace(connection: Connection, owner: Owner, spec: TenantSpec, active: PolicyVersion) -> Moves:
    new = replace(
        active,
        number=owner.latest_version + 1,
        states=spec.states,
        actions=spec.actions,
        settings=spec.settings,
        parent=active.number,
    )
    return trace_moves(new, [active, *versions.ancestors(connection, active)])


def _migrated_cells(connection: Connection, moves: Moves, tally: Tally) -> Iterator[Cell]:
    for index, source in enumerate(moves.sources):
        number, some = source.version.number, source.gives.keys() if index else None
        for cell in cells.iterate_cells(connection, moves.new.tenant, number, actions=some):
            state = tally.move(source, cell)
            if state is not None:
                yield moved_cell(cell, state=state)


def _plan(
    owner: Owner, moves: Moves, tally: Tally, changed: tuple[str, ...], *, version: int | None
) -> MigrationPlan:
    became = tally.fate()
    return MigrationPlan(
        owner.tenant,
        owner.active_version,
        version,
        needs_version=True,
        changed=changed,
        actions=moves.actions,
        states=moves.states,
        cells=became,
        remarks=remarks_on(moves, became),
    )
