"""Show: the table that a tenant has learned, for reading."""

from __future__ import annotations

from collections import defaultdict
from heapq import nlargest

from steersman.domain.answers import LearnedCell, LearnedState, LearnedTable
from steersman.domain.records import Cell, PolicyVersion
from steersman.domain.settings import TenantSpec
from steersman.policies.arithmetic import greedy_by_value
from steersman.policies.tabular import opening_row
from steersman.store import cells, tenants
from steersman.store.engine import Database
from steersman.usecases.versions import find_version

__all__ = ["show"]


def show(
    database: Database, owner: str, *, version: int | str | None = None, limit: int = 20
) -> LearnedTable:
    """Return the table of a tenant, or of the base `@NAME` (default: of the active version), at most `limit` states.

    Raises NotFoundError, also when nothing was decided yet.
    """
    with database.snapshot() as connection:
        found = tenants.get_owner(connection, owner)
        chosen = find_version(connection, found, version)
        evidence: dict[int, float] = defaultdict(float)
        tried: set[str] = set()
        for cell in cells.iterate_cells(connection, owner, chosen.number):
            weight = cell.visits + cell.borrowed if not found.is_base else float(cell.updates)
            if weight or cell.updates:
                evidence[cell.key.state] += weight
            if cell.visits or cell.updates:
                tried.add(cell.key.action)
        best = nlargest(limit, evidence, key=lambda state: (evidence[state], -state))
        states = tuple(
            _state(
                found.spec,
                chosen,
                state,
                evidence[state],
                cells.state_cells(connection, owner, chosen.number, state),
            )
            for state in best
        )
    never = tuple(found.spec.label_of(action) for action in chosen.actions.ids if action not in tried)
    return LearnedTable(owner, chosen.number, states, len(evidence), chosen.states.size, never)


def _state(
    spec: TenantSpec, version: PolicyVersion, state: int, evidence: float, stored: list[Cell]
) -> LearnedState:
    row = opening_row(version.actions, version.settings)
    for cell in stored:
        position = version.actions.position[cell.key.action]
        row.q[position], row.visits[position] = cell.q, cell.visits
        row.updates[position], row.borrowed[position] = cell.updates, cell.borrowed
    greedy = greedy_by_value(row.q, row.updates, row.borrowed)
    learned = tuple(
        LearnedCell(
            action,
            spec.label_of(action),
            row.q[position],
            row.visits[position],
            row.updates[position],
            row.borrowed[position],
            position in greedy,
        )
        for position, action in enumerate(version.actions.ids)
    )
    return LearnedState(state, version.states.describe(state), evidence, learned)
