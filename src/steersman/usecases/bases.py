"""Bases: create, list, build from what tenants learned, and refresh a tenant from its base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.answers import BaseBuild, Contribution, Owner, Refresh
from steersman.domain.identifiers import check_name
from steersman.domain.records import Cell, PolicyVersion
from steersman.domain.settings import TenantSpec
from steersman.errors import ConflictError
from steersman.store import audit, cells, tenants, versions
from steersman.store.access import admit
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.operations import Operation, lock_operation, name_operation
from steersman.store.tenants import base_owner
from steersman.usecases.cell_table import CELL, add_tables, pack_cells, unpack_cells
from steersman.usecases.declarations import read_base_spec
from steersman.usecases.make_version import make_version, moved_cell
from steersman.usecases.migrate import locked_tenant
from steersman.usecases.migration_plan import changed_parts
from steersman.usecases.operations import OWNER, Unchanged, first_answer, keep_answer, record_form, run_once
from steersman.usecases.start import borrowed_cells
from steersman.usecases.versions import find_version

__all__ = [
    "build_base",
    "change_base",
    "change_base_within",
    "create_base",
    "create_base_within",
    "list_bases",
    "refresh",
    "show_base",
]


_BUILD, _PARTS, _REFRESH = record_form(BaseBuild), record_form(tuple[str, ...]), record_form(Refresh)


@dataclass(frozen=True, slots=True, eq=False)
class _Merged:
    """What tenants learned, merged for a base as it was then."""

    base: Owner
    table: NDArray[Any]  # [n] of CELL
    contributions: tuple[Contribution, ...]


def create_base(
    database: Database,
    base: str,
    declaration: TenantSpec | Mapping[str, Any],
    *,
    operation_id: str | None = None,
    actor: str = "library",
) -> Owner:
    """Create a base; it holds nothing until it is built.

    Under the same `operation_id` it is done once and answered as before. Raises InvalidSpecError, IdReusedError, and
    NameTakenError when the name is taken.
    """
    check_name(base, what="base")
    spec = read_base_spec(declaration)
    operation = name_operation("create_base", operation_id, declaration=spec.to_json())

    def work(connection: Connection) -> Owner:
        return create_base_within(connection, base, spec, actor=actor)

    return run_once(database, base_owner(base), operation, OWNER, work)


def create_base_within(connection: Connection, base: str, spec: TenantSpec, *, actor: str) -> Owner:
    """Create a base within a transaction; see `create_base`."""
    owner = base_owner(base)
    tenants.insert_base(connection, base, spec)
    audit.write_line(connection, owner, actor=actor, verb="create", detail={"after": spec.to_json()})
    return tenants.get_base(connection, base)


def change_base(
    database: Database,
    base: str,
    declaration: TenantSpec | Mapping[str, Any],
    *,
    operation_id: str | None = None,
    actor: str = "library",
) -> tuple[str, ...]:
    """Replace the declaration of a base, by which it is built from now on; return the parts that changed.

    Under the same `operation_id` it is done once and answered as before. Raises NotFoundError, InvalidSpecError or
    IdReusedError.
    """
    spec = read_base_spec(declaration)
    operation = name_operation("change_base", operation_id, declaration=spec.to_json())

    def work(connection: Connection) -> tuple[str, ...] | Unchanged[tuple[str, ...]]:
        changed = change_base_within(connection, base, spec, actor=actor)
        return changed or Unchanged(changed)

    return run_once(database, base_owner(base), operation, _PARTS, work)


def change_base_within(connection: Connection, base: str, spec: TenantSpec, *, actor: str) -> tuple[str, ...]:
    """Replace the declaration of a base within a transaction; see `change_base`."""
    owner = tenants.get_base(connection, base, lock=True)
    changed = changed_parts(owner.spec, spec)
    if changed:
        tenants.set_spec(connection, owner.tenant, spec)
        detail = {"changed": list(changed), "before": owner.spec.to_json(), "after": spec.to_json()}
        audit.write_line(connection, owner.tenant, actor=actor, verb="change", detail=detail)
    return changed


def show_base(database: Database, base: str) -> Owner:
    """Return one base; its versions are those of `@NAME`. Raises NotFoundError."""
    with database.snapshot() as connection:
        return tenants.get_base(connection, base)


def list_bases(database: Database) -> list[Owner]:
    """Return every base, by name."""
    with database.snapshot() as connection:
        return tenants.list_bases(connection)


def build_base(
    database: Database, base: str, *, operation_id: str | None = None, actor: str = "library"
) -> BaseBuild:
    """Merge what contributing tenants learned into a new version of `base`, and return what went in.

    Of the active version of every tenant that names this base and contributes, each cell with updates counts,
    by action id and state meaning: q is the mean weighted by updates; visits and updates are summed. A tenant
    with another reward range is skipped, because its values mean something else. Under the same `operation_id` it
    is done once and answered as before. Raises NotFoundError or IdReusedError.
    """
    operation = name_operation("build_base", operation_id)
    while True:
        with database.snapshot() as connection:
            known = first_answer(connection, base_owner(base), operation, _BUILD)
            if known is not None:
                return known
            merged = _merge(connection, tenants.get_base(connection, base))
        keep = partial(_keep_merged, merged=merged, operation=operation, actor=actor)
        built = database.run(keep)
        if built is not None:
            return built


def _keep_merged(
    connection: Connection, *, merged: _Merged, operation: Operation, actor: str
) -> BaseBuild | None:
    """Keep what was merged as a version of the base, or return None when the base has changed meanwhile."""
    base, table, contributions = merged.base.tenant[1:], merged.table, merged.contributions
    lock_operation(connection, merged.base.tenant, operation)
    known = first_answer(connection, merged.base.tenant, operation, _BUILD)
    if known is not None:
        return known
    owner = tenants.get_base(connection, base, lock=True)
    if owner != merged.base:
        return None
    spec = owner.spec
    version = make_version(
        connection,
        owner,
        operation_id=operation.operation_id,
        origin="empty" if owner.active_version is None else "migrated",
        states=spec.states,
        actions=spec.actions,
        settings=spec.settings,
        opening=lambda: unpack_cells(table, spec.actions),
        parent=owner.active_version,
        provenance={"contributions": [asdict(contribution) for contribution in contributions]},
    )
    detail = {"version": version.number, "instead_of": owner.active_version, "cells": len(table)}
    audit.write_line(connection, owner.tenant, actor=actor, verb="build", detail=detail)
    built = BaseBuild(base, version.number, len(table), contributions)
    return keep_answer(connection, owner.tenant, operation, _BUILD, built)


def _merge(connection: Connection, base: Owner) -> _Merged:
    total = np.empty(0, dtype=CELL)
    contributions = []
    for tenant in tenants.list_tenants(connection):
        if not tenant.spec.contributes or tenant.spec.base != base.tenant[1:]:
            continue
        reason = _why_not(tenant, base.spec)
        if reason is not None:
            contributions.append(Contribution(tenant.tenant, tenant.active_version, 0, 0, reason))
            continue
        version = find_version(connection, tenant, None)
        given = pack_cells(_contributed(connection, version, base.spec), base.spec.actions)
        updates = int(given["updates"].sum())
        contributions.append(Contribution(tenant.tenant, version.number, len(given), updates))
        # The sum of q weighted by updates is kept in place of q, so that tenants can be added one by one.
        given["q"] *= given["updates"]
        total = add_tables(total, given)
    total["q"] /= total["updates"]
    return _Merged(base, total, tuple(contributions))


def _why_not(tenant: Owner, base: TenantSpec) -> str | None:
    if tenant.active_version is None:
        return "it has not decided anything yet"
    own, wanted = _range(tenant.spec), _range(base)
    return None if own == wanted else f"its reward range is {own}, and that of the base {wanted}"


def _range(spec: TenantSpec) -> list[float]:
    return [spec.settings.reward_low, spec.settings.reward_high]


def _contributed(connection: Connection, version: PolicyVersion, base: TenantSpec) -> Iterator[Cell]:
    moved = version.states.remap(base.states)
    for cell in cells.iterate_cells(connection, version.tenant, version.number):
        state = int(moved[cell.key.state])
        if cell.updates and state >= 0 and cell.key.action in base.actions.position:
            yield replace(moved_cell(cell, state=state), borrowed=0.0)


def refresh(
    database: Database, tenant: str, *, operation_id: str | None = None, actor: str = "library"
) -> Refresh:
    """Borrow anew what the base of `tenant` holds now, for cells with no visits and no updates.

    These become what a start from the base would make them today; all others keep their four numbers. No new
    version is made when that changes nothing. Under the same `operation_id` it is done once and answered as before.
    Raises NotFoundError, TenantRetiredError, IdReusedError, or ConflictError when the tenant names no base or the
    base was never built.
    """
    operation = name_operation("refresh", operation_id)

    def work(connection: Connection) -> Refresh | Unchanged[Refresh]:
        owner = locked_tenant(connection, tenant)
        done = _refresh_within(connection, owner, operation.operation_id, actor)
        return done if done.made else Unchanged(done)

    return run_once(database, tenant, operation, _REFRESH, work)


def _refresh_within(connection: Connection, owner: Owner, operation_id: str, actor: str) -> Refresh:
    active = find_version(connection, owner, None)
    base = _base_to_borrow_from(connection, owner)
    lending = find_version(connection, base, None).number
    table = pack_cells(cells.iterate_cells(connection, owner.tenant, active.number), active.actions)
    own = (table["visits"] > 0) | (table["updates"] > 0)
    kept, untouched = table[own], table[~own]
    lent = pack_cells(borrowed_cells(connection, base, owner.spec), active.actions)
    lent = lent[~np.isin(lent["key"], kept["key"])]
    dropped = int(np.count_nonzero(~np.isin(untouched["key"], lent["key"])))
    outcome = Refresh(
        tenant=owner.tenant,
        version=active.number,
        made=False,
        base_version=lending,
        borrowed=len(lent),
        dropped=dropped,
        kept=len(kept),
    )
    if np.array_equal(lent, untouched):
        return outcome
    version = make_version(
        connection,
        owner,
        operation_id=operation_id,
        origin="warm_start",
        states=active.states,
        actions=active.actions,
        settings=active.settings,
        opening=lambda: unpack_cells(np.sort(np.concatenate([kept, lent]), order="key"), active.actions),
        parent=active.number,
        provenance={"base": owner.spec.base, "base_version": lending},
    )
    outcome = replace(outcome, version=version.number, made=True)
    detail = asdict(outcome) | {"instead_of": active.number}
    audit.write_line(connection, owner.tenant, actor=actor, verb="refresh", detail=detail)
    return outcome


def _base_to_borrow_from(connection: Connection, owner: Owner) -> Owner:
    name = owner.spec.base
    if name is None:
        raise ConflictError(f"tenant {owner.tenant!r} names no base to refresh from")
    admit(connection, [base_owner(name)])
    base = tenants.get_base(connection, name)
    lent = (
        None
        if base.active_version is None
        else versions.get_version(connection, base.tenant, base.active_version)
    )
    if lent is not None and not lent.settings.speaks_of_the_same(owner.spec.settings):
        raise ConflictError(f"base {name!r} has another reward range than tenant {owner.tenant!r}")
    return base
