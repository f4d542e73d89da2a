"""Making a version: what start, migrate, import, refresh, build, freeze and restore have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from steersman.domain.answers import Owner
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import Cell, CellKey, PolicyVersion
from steersman.domain.settings import PolicySettings
from steersman.domain.states import StateSpace
from steersman.policies.tabular import UCBQTablePolicy
from steersman.store import cells, tenants, versions
from steersman.store.clock import now
from steersman.store.connection import Connection

__all__ = ["make_version", "moved_cell"]


def moved_cell(cell: Cell, *, state: int) -> Cell:
    """Return `cell` with all four numbers, at `state` of another version (whose number is set when it is opened)."""
    return Cell(CellKey(0, state, cell.key.action), cell.q, cell.visits, cell.updates, cell.borrowed)


def make_version(
    connection: Connection,
    owner: Owner,
    *,
    operation_id: str,
    origin: str,
    states: StateSpace,
    actions: ActionCatalogue,
    settings: PolicySettings,
    opening: Callable[[], Iterable[Cell]],
    parent: int | None,
    provenance: Mapping[str, Any],
    frozen_as: str | None = None,
) -> PolicyVersion:
    """Insert the next version of a locked `owner` with its opening cells and return it.

    It becomes the active one and the one before is superseded; with `frozen_as` it is a frozen copy under that
    name instead, and the active version stays. `operation_id` is that of the call.
    """
    version = PolicyVersion(
        tenant=owner.tenant,
        number=owner.latest_version + 1,
        kind=UCBQTablePolicy.kind,
        status="active" if frozen_as is None else "frozen",
        name=frozen_as,
        states=states,
        actions=actions,
        settings=settings,
        parent=parent,
        origin=origin,
        provenance=provenance,
        created_at=now(),
    )
    versions.insert_version(connection, version, operation_id=operation_id)
    cells.open_cells(connection, owner.tenant, version.number, opening())
    active = owner.active_version
    if frozen_as is None:
        if active is not None:
            versions.set_version_status(connection, owner.tenant, active, "superseded")
        active = version.number
    tenants.set_active(connection, owner.tenant, active=active, latest=version.number)
    return version
