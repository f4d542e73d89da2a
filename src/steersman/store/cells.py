"""Cells as rows: reading tables of a version, and copying them when a version is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from sqlalchemy import Connection, func, insert, select

from steersman.domain.records import Cell, CellKey
from steersman.store.tables import cells, opening_cells

__all__ = [
    "count_cells",
    "iterate_cells",
    "iterate_opening_cells",
    "open_cells",
    "state_cells",
    "step_counts",
]

_PAGE = 5000


def iterate_cells(connection: Connection, tenant: str, version: int) -> Iterator[Cell]:
    """Yield the cells of a version by state and action, streamed."""
    yield from _iterate(connection, tenant, version, opening=False)


def iterate_opening_cells(connection: Connection, tenant: str, version: int) -> Iterator[Cell]:
    """Yield the cells that a version started with, by state and action, streamed."""
    yield from _iterate(connection, tenant, version, opening=True)


def _iterate(connection: Connection, tenant: str, version: int, *, opening: bool) -> Iterator[Cell]:
    table = opening_cells if opening else cells
    query = (
        select(table)
        .where(table.c.tenant == tenant, table.c.version == version)
        .order_by(table.c.tenant, table.c.version, table.c.state, table.c.action)
    )
    for row in connection.execution_options(yield_per=_PAGE).execute(query):
        yield Cell(CellKey(row.version, row.state, row.action), row.q, row.visits, row.updates, row.borrowed)


def state_cells(connection: Connection, tenant: str, version: int, state: int) -> list[Cell]:
    """Return the cells of one state that have a row."""
    query = select(cells).where(cells.c.tenant == tenant, cells.c.version == version, cells.c.state == state)
    return [
        Cell(CellKey(row.version, row.state, row.action), row.q, row.visits, row.updates, row.borrowed)
        for row in connection.execute(query)
    ]


def count_cells(connection: Connection, tenant: str, version: int) -> int:
    """Return how many cells of a version have a row."""
    query = (
        select(func.count()).select_from(cells).where(cells.c.tenant == tenant, cells.c.version == version)
    )
    return int(connection.execute(query).scalar_one())


def open_cells(connection: Connection, tenant: str, version: int, opening: Iterable[Cell]) -> int:
    """Insert the cells that a new version starts with, and note them as its opening; return how many."""
    count = 0
    source = iter(opening)
    while page := list(islice(source, _PAGE)):
        rows = [
            {
                "tenant": tenant,
                "version": version,
                "state": cell.key.state,
                "action": cell.key.action,
                "q": cell.q,
                "visits": cell.visits,
                "updates": cell.updates,
                "borrowed": cell.borrowed,
            }
            for cell in page
        ]
        connection.execute(insert(opening_cells), rows)
        connection.execute(insert(cells), [row | {"steps": 0} for row in rows])
        count += len(rows)
    return count


def step_counts(connection: Connection, tenant: str, version: int) -> dict[CellKey, int]:
    """Return the number of learning steps that each cell of a version says it has."""
    query = select(cells.c.state, cells.c.action, cells.c.steps).where(
        cells.c.tenant == tenant, cells.c.version == version
    )
    return {CellKey(version, row.state, row.action): row.steps for row in connection.execute(query)}
