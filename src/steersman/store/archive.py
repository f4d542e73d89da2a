"""Archiving as rows: what leaves the tables, what stays of it, and how far the cells have gone with it.

A decision leaves a stub: its row without what came of it, under the seal that it had, and how many rewards it had. Of
a reward all of its row stays. A learning step leaves when every lower one of its cell has left; the cell's checkpoint
is then the cell after it, with the visits of every archived decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Delete,
    Double,
    Integer,
    LargeBinary,
    Table,
    and_,
    bindparam,
    column,
    delete,
    exists,
    insert,
    or_,
    select,
    tuple_,
    update,
    values,
)

from steersman.domain.records import CellKey
from steersman.store import tables
from steersman.store.clock import now
from steersman.store.hot.text import ARCHIVED, DECISIONS, REWARDS, Row
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
    "read_checkpoints",
    "rewards_of",
    "row_of_stub",
    "set_archived_before",
    "stub_of_row",
    "write_checkpoints",
]

_AT = {name: index for index, name in enumerate(DECISIONS)}
_ANSWER = slice(_AT["version"], _AT["fingerprint"])
_REWARDED = REWARDS.index("decision_id")
_PAGE = 500
_CELL = ("version", "state", "action")


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


def stub_of_row(row: Row, *, rewards: int) -> Row:
    """Return what stays of a decision that had so many `rewards`, of its row."""
    answer = msgspec.json.encode(row[_ANSWER]).decode()
    at = _AT
    kept = (row[at["episode"]], row[at["status"]], answer, row[at["fingerprint"]], row[at["seal"]])
    return (*row[:2], *kept, rewards)


def row_of_stub(stub: Row) -> Row:
    """Return the row of a decision of which a stub stays; where its visit was taken back from is not known any more.

    Raises what decoding raises, when somebody else wrote the stub.
    """
    tenant, decision_id, _, status, answer, fingerprint, sealed, _ = stub
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


def move_decisions(
    connection: Connection, tenant: str, rows: Sequence[Row], *, rewards: Sequence[Row]
) -> None:
    """Put stubs in the place of decisions and of all their rewards."""
    had = Counter(row[_REWARDED] for row in rewards)
    stubs = [dict(zip(ARCHIVED, stub_of_row(row, rewards=had[row[1]]), strict=True)) for row in rows]
    connection.execute(insert(tables.archived_decisions), stubs)
    if rewards:
        connection.execute(
            insert(tables.archived_rewards), [dict(zip(REWARDS, row, strict=True)) for row in rewards]
        )
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


def delete_steps(connection: Connection, tenant: str, upto: Mapping[CellKey, int]) -> None:
    """Delete the learning steps of cells up to a number."""
    step = tables.learning_steps.c
    statement = _deletion_by_cell(tables.learning_steps, tenant).where(step.number <= bindparam("upto"))
    connection.execute(statement, [_of_cell(key) | {"upto": number} for key, number in upto.items()])


def read_checkpoints(
    connection: Connection, tenant: str, keys: Collection[CellKey]
) -> dict[CellKey, CellState]:
    """Return the checkpoints of cells, of those without one what their versions opened with, where that has a row."""
    found: dict[CellKey, CellState] = {}
    for table in (tables.opening_cells, tables.cell_checkpoints):
        for part in _parted(sorted(keys)):
            # A list of tuples to be in would be planned as so many conditions.
            wanted = values(*(column(name, table.c[name].type) for name in _CELL), name="wanted")
            named = wanted.data([_parts(key) for key in part]).cte("wanted")
            same = and_(table.c.tenant == tenant, *(table.c[name] == named.c[name] for name in _CELL))
            for row in connection.execute(select(table).join(named, same)):
                key = CellKey(row.version, row.state, row.action)
                steps = row.steps if table is tables.cell_checkpoints else 0
                found[key] = CellState(row.q, row.visits, row.updates, row.borrowed, steps)
    return found


def write_checkpoints(connection: Connection, tenant: str, cells: Mapping[CellKey, CellState]) -> None:
    """Insert or replace the checkpoints of cells, whose tenant is locked."""
    table = tables.cell_checkpoints
    connection.execute(_deletion_by_cell(table, tenant), [_of_cell(key) for key in cells])
    names = table.columns.keys()
    rows = [dict(zip(names, _pack(tenant, key, cell), strict=True)) for key, cell in cells.items()]
    connection.execute(insert(table), rows)


def _deletion_by_cell(table: Table, tenant: str) -> Delete:
    cell = (table.c[name] == bindparam(f"of_{name}") for name in _CELL)
    return delete(table).where(table.c.tenant == tenant, *cell)


def _of_cell(key: CellKey) -> dict[str, Any]:
    return {f"of_{name}": part for name, part in zip(_CELL, _parts(key), strict=True)}


def _pack(tenant: str, key: CellKey, cell: CellState) -> Row:
    numbers = (cell.q, cell.visits, cell.updates, cell.borrowed, cell.steps)
    columns = (tenant, *_parts(key), *numbers)
    return (*columns, seal(columns))


def _parts(key: CellKey) -> tuple[int, int, str]:
    return key.version, key.state, key.action


def _parted(keys: list[CellKey]) -> Iterator[list[CellKey]]:
    """Yield lists that are short enough for one statement."""
    for start in range(0, len(keys), _PAGE):
        yield keys[start : start + _PAGE]


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
