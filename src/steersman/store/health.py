"""What the doctor asks of a database: how it is set up, and sums over what a tenant has logged."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from sqlalchemy import Connection, Double, case, cast, func, inspect, select, text, union_all

from steersman.store.access import require_sight
from steersman.store.hot.text import Row
from steersman.store.schema import HEAD, READY, current_revision
from steersman.store.tables import cells, decisions, episodes, metadata, rewards, tenants

__all__ = [
    "EdgeCounts",
    "Overdue",
    "action_evidence",
    "database_identity",
    "edge_counts",
    "integrity_problems",
    "journal_mode",
    "latest_decisions",
    "overdue_decision_count",
    "overdue_episode_count",
    "refuses_writes",
    "schema_gaps",
    "synchronous_commit",
    "tenant_statuses",
]

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Overdue:
    """What has waited for too long: how many, and the id of the one that has waited longest, and since when."""

    count: int
    oldest: str | None
    since: int | None  # microseconds since 1970, UTC


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    """Rewards and outcomes that callers gave: how many, and how many at or beyond either end of a range."""

    total: int
    low: int
    high: int


def journal_mode(connection: Connection) -> str | None:
    """Return SQLite's journal mode, `wal` or `delete`; None on a server."""
    if connection.dialect.name != "sqlite":
        return None
    return str(connection.execute(text("PRAGMA journal_mode")).scalar_one())


def database_identity(connection: Connection) -> str:
    """Return what tells a database from any other, whatever the address, role or pool that led to it."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(text("PRAGMA database_list")).mappings()
        return next(str(row["file"]) for row in rows if row["name"] == "main")
    asked = "SELECT system_identifier, oid FROM pg_control_system(), pg_database WHERE datname = current_database()"
    return "/".join(map(str, connection.execute(text(asked)).one()))


def refuses_writes(connection: Connection) -> bool:
    """Return whether a server lets this connection begin no transaction that writes: a standby, or one set so."""
    if connection.dialect.name == "sqlite":
        return False
    asked = "SELECT pg_is_in_recovery() OR CAST(current_setting('default_transaction_read_only') AS boolean)"
    return bool(connection.execute(text(asked)).scalar_one())


def synchronous_commit(connection: Connection) -> str | None:
    """Return PostgreSQL's `synchronous_commit` of this connection; None on SQLite."""
    if connection.dialect.name == "sqlite":
        return None
    return str(connection.execute(text("SHOW synchronous_commit")).scalar_one())


def integrity_problems(connection: Connection) -> list[str]:
    """Return what SQLite's own check finds wrong with the file and its indexes; a server checks its own pages."""
    if connection.dialect.name != "sqlite":
        return []
    found = connection.execute(text("PRAGMA integrity_check")).scalars()
    return [str(line) for line in found if line != "ok"]


def schema_gaps(connection: Connection) -> list[str]:
    """Return in words how the schema differs from this release's: revision, tables and indexes."""
    revision = current_revision(connection)
    gaps = []
    if revision is None or not READY <= revision <= HEAD:
        gaps.append(f"its revision is {revision}, this release knows {READY} to {HEAD}")
    inspector = inspect(connection)
    present = set(inspector.get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in present:
            gaps.append(f"the table {table.name} is missing")
            continue
        indexes = {str(index["name"]) for index in inspector.get_indexes(table.name)}
        gaps += [
            f"the index {index.name} is missing" for index in table.indexes if str(index.name) not in indexes
        ]
    return gaps


def tenant_statuses(connection: Connection) -> dict[str, str]:
    """Return the status of each tenant by its id, in order, whatever else can be read of it; see `require_sight`."""
    require_sight(connection)
    query = select(tenants.c.tenant, tenants.c.status).order_by(tenants.c.tenant)
    return {row.tenant: row.status for row in connection.execute(query)}


def action_evidence(connection: Connection, owner: str, version: int) -> dict[str, tuple[int, float]]:
    """Return (visits, borrowed evidence) of each action, over all states of a version that have a cell for it."""
    query = (
        # As floats: SQLite fails where whole numbers that are damaged add up to one that it cannot hold.
        select(cells.c.action, func.sum(cast(cells.c.visits, Double)), func.sum(cells.c.borrowed))
        .where(cells.c.tenant == owner, cells.c.version == version)
        .group_by(cells.c.action)
    )
    return {action: (int(visits), float(borrowed)) for action, visits, borrowed in connection.execute(query)}


def overdue_decision_count(connection: Connection, tenant: str, *, before: int) -> Overdue:
    """Return the open decisions outside of episodes that were made before a time."""
    made = decisions.c
    where = (made.tenant == tenant, made.status == "open", made.created_at < before, made.episode.is_(None))
    count = connection.execute(select(func.count()).select_from(decisions).where(*where)).scalar_one()
    first = select(made.decision_id, made.created_at).where(*where).order_by(made.created_at).limit(1)
    oldest = connection.execute(first).first()
    return Overdue(int(count), *(oldest if oldest is not None else (None, None)))


def overdue_episode_count(connection: Connection, tenant: str, *, before: int) -> Overdue:
    """Return the open episodes that were last touched before a time."""
    made = episodes.c
    where = (made.tenant == tenant, made.status == "open", made.touched_at < before)
    count = connection.execute(select(func.count()).select_from(episodes).where(*where)).scalar_one()
    first = select(made.episode, made.touched_at).where(*where).order_by(made.touched_at).limit(1)
    oldest = connection.execute(first).first()
    return Overdue(int(count), *(oldest if oldest is not None else (None, None)))


def edge_counts(connection: Connection, tenant: str, *, low: float, high: float) -> EdgeCounts:
    """Return how many rewards and outcomes there are, and how many are at `low` or `high`; defaults do not count."""
    given = union_all(
        select(rewards.c.value.label("value")).where(rewards.c.tenant == tenant, rewards.c.kind == "reward"),
        select(episodes.c.outcome).where(
            episodes.c.tenant == tenant, episodes.c.kind == "close", episodes.c.outcome.is_not(None)
        ),
    ).subquery()
    at_low = func.count(case((given.c.value <= low, 1)))
    at_high = func.count(case((given.c.value >= high, 1)))
    return EdgeCounts(*connection.execute(select(func.count(given.c.value), at_low, at_high)).one())


def latest_decisions(connection: Connection, tenant: str, *, limit: int) -> Generator[Row]:
    """Yield the rows of the decisions with the largest ids that are not void, streamed.

    Ids that the store gives grow with time, so these are the latest; those that callers give are as good as any.
    """
    made = decisions.c
    query = (
        select(decisions)
        .where(made.tenant == tenant, made.status != "void")
        .order_by(made.tenant.desc(), made.decision_id.desc())
        .limit(limit)
    )
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as result:
        for row in result:
            yield tuple(row)
