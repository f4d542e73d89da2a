"""The cold start of a tenant: from the base that it names, else empty."""

from __future__ import annotations

from collections.abc import Iterator

import uuid_utils

from steersman.domain.answers import Owner
from steersman.domain.records import Cell, CellKey, PolicyVersion
from steersman.domain.settings import TenantSpec
from steersman.store import audit, cells, tenants, versions
from steersman.store.access import admit
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.tenants import base_owner
from steersman.usecases.make_version import make_version

__all__ = ["borrowed_cells", "start"]


def start(database: Database, tenant: str, *, actor: str = "library") -> PolicyVersion:
    """Return the active version of `tenant`, made now when there is none yet.

    It starts from the active version of the base it names, by action id and state meaning, with borrowed
    evidence; or empty with the tenant's priors. Raises NotFoundError.
    """
    mine = database.for_tenants([tenant])
    return mine.run(lambda connection: _start_within(connection, tenant, actor))


def _start_within(connection: Connection, tenant: str, actor: str) -> PolicyVersion:
    owner = tenants.get_tenant(connection, tenant, lock=True)
    if owner.active_version is not None:
        return versions.get_version(connection, tenant, owner.active_version)
    spec = owner.spec
    if spec.base is not None:
        admit(connection, [base_owner(spec.base)])
    base = tenants.get_base(connection, spec.base) if spec.base is not None else None
    lent = (
        versions.get_version(connection, base.tenant, base.active_version)
        if base and base.active_version
        else None
    )
    warm = lent is not None and lent.settings.speaks_of_the_same(spec.settings)
    version = make_version(
        connection,
        owner,
        operation_id=str(uuid_utils.uuid7()),
        origin="warm_start" if warm else "empty",
        states=spec.states,
        actions=spec.actions,
        settings=spec.settings,
        opening=lambda: borrowed_cells(connection, base, spec) if base is not None and warm else iter(()),
        parent=None,
        provenance={"base": spec.base, "base_version": base.active_version}
        if base is not None and warm
        else {},
    )
    audit.write_line(
        connection,
        tenant,
        actor=actor,
        verb="start",
        detail={"version": version.number, "origin": version.origin},
    )
    return version


def borrowed_cells(connection: Connection, base: Owner, spec: TenantSpec) -> Iterator[Cell]:
    """Yield the cells that a tenant with `spec` borrows from the active version of `base`.

    Evidence that was borrowed counts at most `borrow_cap`, so that the tenant's own soon dominates.
    """
    if base.active_version is None:
        return
    version = versions.get_version(connection, base.tenant, base.active_version)
    moved = version.states.remap(spec.states)
    for cell in cells.iterate_cells(connection, base.tenant, version.number):
        state = int(moved[cell.key.state])
        if state >= 0 and cell.key.action in spec.actions.position and cell.updates:
            key = CellKey(0, state, cell.key.action)
            yield Cell(key, cell.q, 0, 0, min(spec.borrow_cap, float(cell.updates)))
