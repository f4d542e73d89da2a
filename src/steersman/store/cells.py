"""Cells as rows: reading tables of a version, and copying them when a version is made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, func, insert, literal, select, text

from steersman.domain.records import Cell, CellKey
from steersman.store.tables import cells, opening_cells

__all__ = [
    "cell_totals",
    "iterate_cells",
    "open_cells",
    "same_cells",
    "state_cells",
]

_PAGE = 5000
_NUMBERS = ("state", "action", "q", "visits", "updates", "borrowed")
_UNFOLD = text(
    f"INSERT INTO opening_cells (tenant, version, {', '.join(_NUMBERS)}) SELECT :tenant, :version, * FROM unnest("
    "CAST(:state AS integer[]), CAST(:action AS text[]), CAST(:q AS float8[]), CAST(:visits AS bigint[]), "
    "CAST(:updates AS bigint[]), CAST(:borrowed AS float8[]))"
)


def iterate_cells(
    connection: Connection, tenant: str, version: int, *, actions: Collection[str] | None = None
) -> Iterator[Cell]:
    """Yield the cells of a version by state and action, streamed; optionally of some `actions` alone."""
    query = _in_order(tenant, version, opening=False)
    if actions is not None:
        query = query.where(cells.c.action.in_(actions))
    yield from _stream(connection, query)


def _in_order(tenant: str, version: int, *, opening: bool) -> Select[Any]:
    columns = (opening_cells if opening else cells).c
    return (
        select(
            columns.version,
            columns.state,
            columns.action,
            columns.q,
            columns.visits,
            columns.updates,
            columns.borrowed,
        )
        .where(columns.tenant == tenant, columns.version == version)
        .order_by(columns.tenant, columns.version, columns.state, columns.action)
    )


def _stream(connection: Connection, query: Select[Any]) -> Iterator[Cell]:
    # Options of the statement: those of a connection would stay with whatever it runs next.
    options = {"yield_per": _PAGE}
    with connection.execute(query, execution_options=options) as rows:
        for version, state, action, q, visits, updates, borrowed in rows:
            yield Cell(CellKey(version, state, action), q, visits, updates, borrowed)


def state_cells(connection: Connection, tenant: str, version: int, state: int) -> list[Cell]:
    """Return the cells of one state that have a row."""
    query = select(cells).where(cells.c.tenant == tenant, cells.c.version == version, cells.c.state == state)
    return [
        Cell(CellKey(row.version, row.state, row.action), row.q, row.visits, row.updates, row.borrowed)
        for row in connection.execute(query)
    ]


def cell_totals(connection: Connection, tenant: str, version: int) -> tuple[int, int, int]:
    """Return how many cells of a version have a row, and the sums of their visits and updates."""
    total = (
        func.count(),
        func.coalesce(func.sum(cells.c.visits), 0),
        func.coalesce(func.sum(cells.c.updates), 0),
    )
    query = select(*total).where(cells.c.tenant == tenant, cells.c.version == version)
    count, visits, updates = connection.execute(query).one()
    return int(count), int(visits), int(updates)


def same_cells(connection: Connection, tenant: str, first: int, second: int) -> bool:
    """Return whether two versions hold the same cells with the same four numbers."""

    def rows(version: int) -> Select[Any]:
        columns = [cells.c[name] for name in _NUMBERS]
        return select(*columns).where(cells.c.tenant == tenant, cells.c.version == version)

    return not any(
        connection.execute(rows(one).except_(rows(other)).limit(1)).first()
        for one, other in ((first, second), (second, first))
    )


def open_cells(connection: Connection, tenant: str, version: int, opening: Iterable[Cell]) -> int:
    """Insert the cells that a new version starts with, and note them as its opening; return how many."""
    count = 0
    source = iter(opening)
    owner = {"tenant": tenant, "version": version}
    while page := list(islice(source, _PAGE)):
        rows = [
            (cell.key.state, cell.key.action, cell.q, cell.visits, cell.updates, cell.borrowed)
            for cell in page
        ]
        if connection.dialect.name == "postgresql":
            # The server takes a page in one statement far faster than in one for each row.
            columns = zip(_NUMBERS, map(list, zip(*rows, strict=True)), strict=True)
            connection.execute(_UNFOLD, owner | dict(columns))
        else:
            connection.execute(
                insert(opening_cells), [owner | dict(zip(_NUMBERS, row, strict=True)) for row in rows]
            )
        count += len(rows)
    names = ["tenant", "version", *_NUMBERS]
    opened = select(*(opening_cells.c[name] for name in names), literal(0)).where(
        opening_cells.c.tenant == tenant, opening_cells.c.version == version
    )
    connection.execute(insert(cells).from_select([*names, "steps"], opened))
    return count
