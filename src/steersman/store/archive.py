"""Archiving as rows: what leaves the tables, what stays of it, and how far the cells have gone with it.

A decision leaves a stub: its row without what came of it, under the seal that it had. A learning step leaves when every
lower one of its cell has left; the cell's checkpoint is then the cell after it, with the visits of every archived
decision.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Integer,
    LargeBinary,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from steersman.domain.records import CellKey
from steersman.store import tables
from steersman.store.clock import now
from steersman.store.hot.text import ARCHIVED, DECISIONS, Row
from steersman.store.seals import seal

__all__ = [
    "ArchiveFile",
    "CellState",
    "archivable_steps",
    "column_types",
    "decisions_alone",
    "decisions_of_episodes",
    "delete_steps",
    "find_archived",
    "insert_file",
    "list_files",
    "move_decisions",
    "next_episodes",
    "pack_checkpoint",
    "read_checkpoint",
    "rewards_of",
    "row_of_stub",
    "set_archived_before",
    "stub_of_row",
    "write_checkpoint",
]

_AT = {name: index for index, name in enumerate(DECISIONS)}
_ANSWER = slice(_AT["version"], _AT["fingerprint"])
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file that rows of a tenant were moved to."""

    tenant: str
    file: str  # its name within the folder of the tenant
    run_id: str
    holds: str  # decisions, rewards or learning_steps
    rows: int
    digest: bytes  # 32 bytes, SHA-256 of the file
    created_at: int  # microseconds since 1970, UTC


@dataclass(slots=True)
class CellState:
    """A cell as archived visits and steps left it, or as its version opened with it."""

    q: float
    visits: int
    updates: int
    borrowed: float
    steps: int  # that were archived


def stub_of_row(row: Row) -> Row:
    """Return what stays of a decision, of its row."""
    answer = msgspec.json.encode(row[_ANSWER]).decode()
    at = _AT
    return (*row[:2], row[at["episode"]], row[at["status"]], answer, row[at["fingerprint"]], row[at["seal"]])


def row_of_stub(stub: Row) -> Row:
    """Return the row of a decision of which a stub stays; where its visit was taken back from is not known any more.

    Raises what decoding raises, when somebody else wrote the stub.
    """
    tenant, decision_id, _, status, answer, fingerprint, sealed = stub
    return (tenant, decision_id, *msgspec.json.decode(answer), fingerprint, sealed, status, None, None)


def find_archived(connection: Connection, tenant: str, decision_id: str) -> Row | None:
    """Return the stub of a decision, or None."""
    stubs = tables.archived_decisions
    query = select(stubs).where(stubs.c.tenant == tenant, stubs.c.decision_id == decision_id)
    row = connection.execute(query).first()
    return None if row is None else tuple(row)


def set_archived_before(connection: Connection, tenant: str, before: int) -> None:
    """Say of a tenant that decisions from before a time may be archived."""
    there = tables.tenants.c
    later = or_(there.archived_before.is_(None), there.archived_before < before)
    connection.execute(
        update(tables.tenants).where(there.tenant == tenant, later).values(archived_before=before)
    )


def decisions_alone(connection: Connection, tenant: str, *, before: int, after: str, limit: int) -> list[Row]:
    """Return rows of decisions outside of episodes that are learned or void and were made before a time.

    By id, those behind the id `after`.
    """
    made = tables.decisions.c
    query = select(tables.decisions).where(
        made.tenant == tenant,
        made.decision_id > after,
        made.episode.is_(None),
        made.status.in_(("learned", "void")),
        made.created_at < before,
    )
    return [tuple(row) for row in connection.execute(query.order_by(made.decision_id).limit(limit))]


def next_episodes(
    connection: Connection, tenant: str, *, before: int, after: str, limit: int
) -> list[tuple[str, int]]:
    """Return (episode, number of decisions) of episodes closed before a time whose decisions are there, by name."""
    episode, made = tables.episodes.c, tables.decisions.c
    there = exists().where(made.tenant == episode.tenant, made.episode == episode.episode)
    query = select(episode.episode, episode.steps).where(
        episode.tenant == tenant,
        episode.episode > after,
        episode.status == "closed",
        episode.closed_at < before,
        there,
    )
    return [(name, steps) for name, steps in connection.execute(query.order_by(episode.episode).limit(limit))]


def decisions_of_episodes(connection: Connection, tenant: str, episodes: Collection[str]) -> list[Row]:
    """Return the rows of all decisions of episodes."""
    made = tables.decisions.c
    query = select(tables.decisions).where(made.tenant == tenant, made.episode.in_(sorted(episodes)))
    return [tuple(row) for row in connection.execute(query.order_by(made.episode, made.step))]


def rewards_of(connection: Connection, tenant: str, decision_ids: Sequence[str]) -> list[Row]:
    """Return the rows of the rewards of decisions."""
    given = tables.rewards.c
    query = select(tables.rewards).where(given.tenant == tenant, given.decision_id.in_(decision_ids))
    return [tuple(row) for row in connection.execute(query.order_by(given.reward_id))]


def move_decisions(connection: Connection, tenant: str, rows: Sequence[Row]) -> None:
    """Put stubs in the place of decisions and delete their rewards."""
    stubs = [dict(zip(ARCHIVED, stub_of_row(row), strict=True)) for row in rows]
    connection.execute(insert(tables.archived_decisions), stubs)
    ids = [stub["decision_id"] for stub in stubs]
    for table in (tables.rewards, tables.decisions):
        connection.execute(delete(table).where(table.c.tenant == tenant, table.c.decision_id.in_(ids)))


def archivable_steps(
    connection: Connection, tenant: str, *, after: CellKey | None
) -> Generator[tuple[Row, bool]]:
    """Yield (row, whether its decision is archived) of learning steps, by cell and number, streamed.

    Those of the cells behind `after`.
    """
    step, stub = tables.learning_steps.c, tables.archived_decisions
    cell = (step.version, step.state, step.action)
    gone = and_(stub.c.tenant == step.tenant, stub.c.decision_id == step.decision_id)
    query = (
        select(*tables.learning_steps.columns, stub.c.decision_id.is_not(None))
        .select_from(tables.learning_steps.outerjoin(stub, gone))
        .where(step.tenant == tenant)
        .order_by(step.tenant, *cell, step.number)
    )
    if after is not None:
        query = query.where(tuple_(*cell) > (after.version, after.state, after.action))
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as result:
        for row in result:
            yield tuple(row[:-1]), bool(row[-1])


def delete_steps(connection: Connection, tenant: str, rows: Sequence[Row]) -> None:
    """Delete learning steps, given by their rows."""
    step = tables.learning_steps.c
    key = ("version", "state", "action", "number")
    statement = delete(tables.learning_steps).where(
        step.tenant == tenant, *(step[name] == bindparam(f"of_{name}") for name in key)
    )
    connection.execute(statement, [{f"of_{name}": row[i] for i, name in enumerate(key, 1)} for row in rows])


def read_checkpoint(connection: Connection, tenant: str, key: CellKey) -> CellState | None:
    """Return the checkpoint of a cell, or where it has none what its version opened with; None for neither."""
    found = connection.execute(_of_cell(tables.cell_checkpoints, tenant, key)).first()
    if found is not None:
        return CellState(found.q, found.visits, found.updates, found.borrowed, found.steps)
    found = connection.execute(_of_cell(tables.opening_cells, tenant, key)).first()
    return None if found is None else CellState(found.q, found.visits, found.updates, found.borrowed, 0)


def _of_cell(table: Any, tenant: str, key: CellKey) -> Any:
    cell = (
        table.c.tenant == tenant,
        table.c.version == key.version,
        table.c.state == key.state,
        table.c.action == key.action,
    )
    return select(table).where(*cell)


def pack_checkpoint(tenant: str, key: CellKey, cell: CellState) -> Row:
    """Return the sealed row of a checkpoint."""
    numbers = (cell.q, cell.visits, cell.updates, cell.borrowed, cell.steps)
    columns = (tenant, key.version, key.state, key.action, *numbers)
    return (*columns, seal(columns))


def write_checkpoint(connection: Connection, tenant: str, key: CellKey, cell: CellState) -> None:
    """Insert or replace the checkpoint of a cell, whose tenant is locked."""
    table = tables.cell_checkpoints
    old = (
        table.c[name] == value
        for name, value in zip(("version", "state", "action"), _parts(key), strict=True)
    )
    connection.execute(delete(table).where(table.c.tenant == tenant, *old))
    connection.execute(insert(table).values(pack_checkpoint(tenant, key, cell)))


def _parts(key: CellKey) -> tuple[int, int, str]:
    return key.version, key.state, key.action


def insert_file(
    connection: Connection, tenant: str, file: str, *, run_id: str, holds: str, rows: int, digest: bytes
) -> None:
    """Record a file that rows were moved to."""
    connection.execute(
        insert(tables.archive_files).values(
            tenant=tenant, file=file, run_id=run_id, holds=holds, rows=rows, digest=digest, created_at=now()
        )
    )


def list_files(connection: Connection, tenant: str, *, run_id: str | None = None) -> list[ArchiveFile]:
    """Return the files of a tenant's archive by name, optionally of one run."""
    table = tables.archive_files
    query = select(table).where(table.c.tenant == tenant).order_by(table.c.file)
    if run_id is not None:
        query = query.where(table.c.run_id == run_id)
    return [
        ArchiveFile(row.tenant, row.file, row.run_id, row.holds, row.rows, bytes(row.digest), row.created_at)
        for row in connection.execute(query)
    ]


def column_types(name: str) -> dict[str, type]:
    """Return the Python type of each column of a table: int, float, bytes or str."""
    return {column.name: _type_of(column) for column in tables.metadata.tables[name].columns}


def _type_of(column: Column[Any]) -> type:
    kinds = ((Integer, int), (BigInteger, int), (Double, float), (LargeBinary, bytes))
    return next((kind for sql, kind in kinds if isinstance(column.type, sql)), str)
