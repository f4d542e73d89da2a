"""Everything a tenant has logged, streamed for those who audit it: in the order of decisions, episodes or cells.

Streams in the same order can be merged, so that no table is ever held in memory. What is read here may have been
changed behind our backs: a column can hold a value of another type, and a text need not be UTF-8.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Double,
    Integer,
    LargeBinary,
    Select,
    Table,
    Text,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    select,
    union_all,
)

from steersman.store import tables
from steersman.store.access import require_sight
from steersman.store.hot.text import DECISIONS, Row

__all__ = [
    "archive_file_rows",
    "archived_chain_stream",
    "archived_reward_stream",
    "archived_stream",
    "archived_totals",
    "chain_stream",
    "checkpoint_stream",
    "count_logged",
    "decision_stream",
    "episode_stream",
    "is_text",
    "lenient_texts",
    "misfits",
    "opening_stream",
    "owner_names",
    "owner_rows",
    "position_of",
    "reward_stream",
    "step_stream",
    "stored_stream",
    "stranger_rows",
    "value_at",
    "version_rows",
    "visit_stream",
]

_PAGE = 500
_KINDS: tuple[tuple[type[Any], type], ...] = ((Integer, int), (Double, float), (LargeBinary, bytes))
_COLUMNS = {
    table.name: tuple(
        (
            column.name,
            next((kind for sql, kind in _KINDS if isinstance(column.type, sql)), str),
            column.nullable,
        )
        for column in table.columns
    )
    for table in tables.metadata.tables.values()
}


@contextmanager
def lenient_texts(connection: Connection) -> Iterator[None]:
    """Read texts that are not UTF-8 with surrogates for the stray bytes, instead of failing.

    A server refuses such texts when they are written; SQLite keeps whatever bytes are in the file.
    """
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name != "sqlite":
        yield
        return
    usual = driver.text_factory
    driver.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = usual


def misfits(table: str, row: Row) -> list[tuple[str, Any]]:
    """Return (column, value) of every value in a row of `table` that is no value of ours for its column.

    SQLite keeps values of any type in a column; numbers of ours are finite and texts Unicode.
    """
    return [
        (name, value)
        for (name, kind, nullable), value in zip(_COLUMNS[table], row, strict=True)
        if not (value is None and nullable) and not _fits(value, kind)
    ]


def _fits(value: Any, kind: type) -> bool:
    if not isinstance(value, kind):
        return False
    if isinstance(value, float):
        return isfinite(value)
    return not isinstance(value, str) or value.isascii() or _is_unicode(value)


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def position_of(value: Any) -> tuple[int, Any]:
    """Return a key that orders stored values as SQLite does: NULL, numbers, texts by their bytes, then bytes."""
    if value is None:
        return -1, None
    if isinstance(value, str):
        return 1, value.encode("utf-8", "surrogateescape")
    return (2, value) if isinstance(value, bytes) else (0, value)


def value_at(position: tuple[int, Any]) -> Any:
    """Return the value that `position_of` made the key of."""
    kind, value = position
    return value.decode("utf-8", "surrogateescape") if kind == 1 else value


def owner_names(connection: Connection) -> list[Any]:
    """Return the names of every tenant and, with their `@`, every base; what is no name there as it is.

    Raises as `require_sight` does.
    """
    require_sight(connection)
    names = union_all(select(tables.tenants.c.tenant), select(tables.bases.c.tenant))
    return sorted(connection.execute(names).scalars(), key=position_of)


def is_text(value: Any) -> bool:
    """Return whether a stored value is a text of ours, which both databases take as a parameter."""
    return _fits(value, str)


def owner_rows(connection: Connection, owner: str) -> list[tuple[str, Row]]:
    """Return (table, row) of a tenant or base."""
    return [
        (table.name, tuple(row))
        for table in (tables.tenants, tables.bases)
        for row in connection.execute(select(table).where(table.c.tenant == owner))
    ]


def version_rows(connection: Connection, owner: str) -> list[tuple[Any, Row]]:
    """Return (number, row) of the versions of a tenant or base, ascending by number."""
    key = tables.policy_versions.c
    rows = connection.execute(
        select(key.version, *tables.policy_versions.columns).where(key.tenant == owner).order_by(key.version)
    )
    return [(row[0], tuple(row[1:])) for row in rows]


def count_logged(connection: Connection, owner: str) -> int:
    """Return how many rows the streams of decisions, rewards, stubs, episodes, steps and cells of an owner yield."""
    parts = (
        tables.decisions,
        tables.archived_decisions,
        tables.rewards,
        tables.archived_rewards,
        tables.episodes,
        tables.learning_steps,
        tables.cells,
    )
    return sum(
        connection.execute(select(func.count()).select_from(part).where(part.c.tenant == owner)).scalar_one()
        for part in parts
    )


def stranger_rows(connection: Connection) -> list[tuple[str, str, int]]:
    """Return (table, tenant, number of rows) of rows that belong to no tenant and no base; the audit may keep such."""
    known = set(owner_names(connection))
    found = []
    for table in tables.TENANT_TABLES:
        after: Any = None
        while True:
            # One step through the index for each tenant, instead of a look at every row.
            query = select(func.min(table.c.tenant))
            after = connection.execute(
                query if after is None else query.where(table.c.tenant > _parameter(after))
            ).scalar()
            if after is None:
                break
            if after not in known:
                count = select(func.count()).select_from(table).where(table.c.tenant == _parameter(after))
                found.append((table.name, after, connection.execute(count).scalar_one()))
    return found


def _parameter(value: Any) -> ColumnElement[Any]:
    """Return a stored value as a parameter; a text that is not UTF-8 goes in by its bytes, as it is in the file."""
    if isinstance(value, str) and not is_text(value):
        return cast(literal(value.encode("utf-8", "surrogateescape"), LargeBinary), Text)
    return literal(value, LargeBinary if isinstance(value, bytes) else Text)


def decision_stream(connection: Connection, tenant: str) -> Generator[tuple[Row, tuple[Any, Any, bool]]]:
    """Yield each decision's row by id, with (status, outcome of its episode, whether it is the last one there).

    Status and outcome are None without an episode; the last is the last that is not void.
    """
    made, episode, later = tables.decisions.c, tables.episodes.c, tables.decisions.alias("later").c
    followed = exists().where(
        later.tenant == made.tenant,
        later.episode == made.episode,
        later.step > made.step,
        later.status != "void",
    )
    query = (
        select(*tables.decisions.columns, episode.status, episode.outcome, case((followed, 1), else_=0))
        .select_from(
            tables.decisions.outerjoin(
                tables.episodes, and_(episode.tenant == made.tenant, episode.episode == made.episode)
            )
        )
        .where(made.tenant == tenant)
        .order_by(made.tenant, made.decision_id)
    )
    width = len(DECISIONS)
    for row in _streamed(connection, query):
        yield row[:width], (row[width], row[width + 1], not row[width + 2])


def archived_stream(connection: Connection, tenant: str) -> Generator[Row]:
    """Yield what stays of archived decisions, by id."""
    key = tables.archived_decisions.c
    query = select(tables.archived_decisions).where(key.tenant == tenant)
    return _streamed(connection, query.order_by(key.tenant, key.decision_id))


def reward_stream(connection: Connection, tenant: str) -> Generator[Row]:
    """Yield the rows of rewards by the decision that they are for."""
    return _by_decision(connection, tables.rewards, tenant)


def archived_reward_stream(connection: Connection, tenant: str) -> Generator[Row]:
    """Yield what stays of archived rewards by the decision that they were for."""
    return _by_decision(connection, tables.archived_rewards, tenant)


def step_stream(connection: Connection, owner: str, *, by_decision: bool) -> Generator[Row]:
    """Yield the rows of learning steps, by decision or by cell and number."""
    key = tables.learning_steps.c
    order = [key.decision_id] if by_decision else [key.version, key.state, key.action, key.number]
    query = select(tables.learning_steps).where(key.tenant == owner).order_by(key.tenant, *order)
    return _streamed(connection, query)


def stored_stream(connection: Connection, owner: str) -> Generator[Row]:
    """Yield the rows of the cells of every version, by version, state and action."""
    return _by_cell(connection, tables.cells, owner)


def opening_stream(connection: Connection, owner: str) -> Generator[Row]:
    """Yield the rows of the cells that every version started with, by version, state and action."""
    return _by_cell(connection, tables.opening_cells, owner)


def checkpoint_stream(connection: Connection, owner: str) -> Generator[Row]:
    """Yield the rows of the cells as what was archived left them, by version, state and action."""
    return _by_cell(connection, tables.cell_checkpoints, owner)


def visit_stream(connection: Connection, tenant: str) -> Generator[Row]:
    """Yield (version, state, action, decisions made there, visits taken back there) by version, state and action."""
    key = tables.decisions.c
    one, none = literal(1), literal(0)
    made = select(key.version, key.state, key.action, one.label("made"), none.label("taken"))
    taken = select(key.void_version, key.void_state, key.action, none, one)
    where = union_all(
        made.where(key.tenant == tenant),
        taken.where(
            key.tenant == tenant,
            key.status == "void",
            key.void_version.is_not(None),
            key.void_state.is_not(None),
        ),
    ).subquery()
    cell = (where.c.version, where.c.state, where.c.action)
    counts = (cast(func.sum(where.c.made), BigInteger), cast(func.sum(where.c.taken), BigInteger))
    return _streamed(connection, select(*cell, *counts).group_by(*cell).order_by(*cell))


def episode_stream(connection: Connection, tenant: str) -> Generator[Row]:
    """Yield the rows of episodes by name."""
    key = tables.episodes.c
    query = select(tables.episodes).where(key.tenant == tenant).order_by(key.tenant, key.episode)
    return _streamed(connection, query)


def chain_stream(connection: Connection, tenant: str) -> Generator[Row]:
    """Yield what the decisions of each episode are, by episode.

    (episode, decisions, of them not void, of them open, first step, last step, those that only a close can have
    learned, those that a reward has learned for certain).
    """
    key, reward = tables.decisions.c, tables.rewards.c
    rewards = exists().where(reward.tenant == key.tenant, reward.decision_id == key.decision_id)
    # Before the close nothing is learned without a reward. One that is sent later finds its decision learned: its
    # effect is "further", or "parked" like that of one that was in time for an older version.
    only_by_close = and_(key.status != "void", ~rewards.where(reward.effect != "further"))
    by_reward = and_(key.status != "void", rewards.where(reward.effect == "learned"))
    query = (
        select(
            key.episode,
            func.count(),
            func.count(case((key.status != "void", 1))),
            func.count(case((key.status == "open", 1))),
            func.min(key.step),
            func.max(key.step),
            func.count(case((only_by_close, 1))),
            func.count(case((by_reward, 1))),
        )
        .where(key.tenant == tenant, key.episode.is_not(None))
        .group_by(key.episode)
        .order_by(key.episode)
    )
    return _streamed(connection, query)


def archived_chain_stream(connection: Connection, tenant: str) -> Generator[Row]:
    """Yield (episode, archived decisions, of them not void) by episode."""
    key = tables.archived_decisions.c
    query = (
        select(key.episode, func.count(), func.count(case((key.status != "void", 1))))
        .where(key.tenant == tenant, key.episode.is_not(None))
        .group_by(key.episode)
        .order_by(key.episode)
    )
    return _streamed(connection, query)


def archived_totals(connection: Connection, tenant: str) -> list[tuple[str, int, int]]:
    """Return (table, rows in the files of an archive, rows that went by what stays of them).

    Without the rewards where decisions were archived of whose rewards nothing stayed.
    """
    file, stub, cell = tables.archive_files.c, tables.archived_decisions.c, tables.cell_checkpoints.c
    reward = tables.archived_rewards.c
    in_files = select(func.coalesce(func.sum(file.rows), 0)).where(file.tenant == tenant)
    gone = [
        ("decisions", select(func.count()).where(stub.tenant == tenant)),
        ("learning_steps", select(func.coalesce(func.sum(cell.steps), 0)).where(cell.tenant == tenant)),
    ]
    bare = select(stub.decision_id).where(stub.tenant == tenant, stub.rewards.is_(None)).limit(1)
    if connection.execute(bare).first() is None:
        gone.append(("rewards", select(func.count()).where(reward.tenant == tenant)))
    return [
        (
            name,
            connection.execute(in_files.where(file.holds == name)).scalar_one(),
            connection.execute(count).scalar_one(),
        )
        for name, count in gone
    ]


def archive_file_rows(connection: Connection, tenant: str) -> list[Row]:
    """Return the rows of the files of an archive."""
    table = tables.archive_files
    return [tuple(row) for row in connection.execute(select(table).where(table.c.tenant == tenant))]


def _by_decision(connection: Connection, table: Table, tenant: str) -> Generator[Row]:
    key = table.c
    query = select(table).where(key.tenant == tenant).order_by(key.tenant, key.decision_id)
    return _streamed(connection, query)


def _by_cell(connection: Connection, table: Table, owner: str) -> Generator[Row]:
    key = table.c
    query = select(table).where(key.tenant == owner).order_by(key.tenant, key.version, key.state, key.action)
    return _streamed(connection, query)


def _streamed(connection: Connection, query: Select[Any]) -> Generator[Row]:
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as result:
        for row in result:
            yield tuple(row)
