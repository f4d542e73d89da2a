"""Compare two versions: the cells whose values changed most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.records import PolicyVersion
from steersman.policies.tabular import opening_row
from steersman.store import cells, tenants
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.usecases.cell_table import pack_cells
from steersman.usecases.versions import find_version

__all__ = ["CellChange", "VersionDiff", "diff_versions"]


@dataclass(frozen=True, slots=True)
class CellChange:
    """One cell in two versions, matched by action id and the meaning of its state."""

    state: int  # in the later version
    meaning: str
    action: str
    label: str
    q_before: float
    q_after: float
    evidence_before: float  # visits + borrowed
    evidence_after: float


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """How two versions differ. A cell without a row counts as it opened: at its prior, or at 0."""

    before: int
    after: int
    changes: tuple[CellChange, ...]  # the largest |q_after - q_before| first
    changed: int  # cells whose q differs, in all
    only_before: int  # rows whose action or state the later version does not have
    only_after: int


def diff_versions(
    database: Database, owner: str, before: int | str, after: int | str | None = None, *, top: int = 20
) -> VersionDiff:
    """Return the `top` cells that changed most from one version to another (default: the active one).

    `owner` is a tenant, or a base as `@NAME`; versions go by number or name. Raises NotFoundError.
    """
    with database.snapshot() as connection:
        found = tenants.get_owner(connection, owner)
        old, new = (find_version(connection, found, version) for version in (before, after))
        moved, only_before = _in_places_of(connection, old, new)
        there, only_after = _matched(connection, old, new)
    keys = np.union1d(moved["key"], there["key"])
    q_old, n_old = _filled(keys, moved, old, new)
    q_new, n_new = _filled(keys, there, new, new)
    gap = np.abs(q_new - q_old)
    # The largest first, and among equals by state and position.
    order = np.lexsort((keys, -gap))[: min(top, int(np.count_nonzero(gap)))]
    changes = []
    for index in order.tolist():
        state, position = divmod(int(keys[index]), len(new.actions))
        action = new.actions.ids[position]
        changes.append(
            CellChange(
                state,
                new.states.describe(state),
                action,
                found.spec.label_of(action),
                float(q_old[index]),
                float(q_new[index]),
                float(n_old[index]),
                float(n_new[index]),
            )
        )
    return VersionDiff(
        old.number, new.number, tuple(changes), int(np.count_nonzero(gap)), only_before, only_after
    )


def _in_places_of(connection: Connection, old: PolicyVersion, new: PolicyVersion) -> tuple[NDArray[Any], int]:
    """Return the cells of `old` at the keys that they have in `new`, [n] of CELL, and how many have none."""
    table = pack_cells(cells.iterate_cells(connection, old.tenant, old.number), old.actions)
    state, position = np.divmod(table["key"], len(old.actions))
    state, position = old.states.remap(new.states)[state], old.actions.remap(new.actions)[position]
    fits = (state >= 0) & (position >= 0)
    table["key"] = state * len(new.actions) + position
    table = table[fits]
    return table[np.argsort(table["key"])], int(np.count_nonzero(~fits))


def _matched(connection: Connection, old: PolicyVersion, new: PolicyVersion) -> tuple[NDArray[Any], int]:
    """Return the cells of `new` that `old` has a place for, [n] of CELL, and how many it has none for."""
    table = pack_cells(cells.iterate_cells(connection, new.tenant, new.number), new.actions)
    state, position = np.divmod(table["key"], len(new.actions))
    reached = np.zeros(new.states.size, dtype=bool)
    moved = old.states.remap(new.states)
    reached[moved[moved >= 0]] = True
    known = np.array([action in old.actions.position for action in new.actions.ids])
    fits = reached[state] & known[position]
    return table[fits], int(np.count_nonzero(~fits))


def _filled(
    keys: NDArray[np.int64], table: NDArray[Any], version: PolicyVersion, new: PolicyVersion
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return q and evidence at `keys` ([n], of `new`) of the cells of `version` in `table`, as opened without."""
    opened = opening_row(version.actions, version.settings)
    # Every key belongs to an action of both versions.
    places = new.actions.remap(version.actions)[keys % len(new.actions)]
    q, evidence = np.array(opened.q)[places], np.array(opened.borrowed)[places]
    at = np.searchsorted(keys, table["key"])
    q[at] = table["q"]
    evidence[at] = table["visits"] + table["borrowed"]
    return q, evidence
