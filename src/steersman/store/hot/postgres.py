"""The hot statements for PostgreSQL: one round trip each, however long the list.

Lists travel as one array a column and are unfolded with `unnest`. Sequential scans are switched off on these
connections (see `engine`), so that a plan made while a table was empty does not stay when it has grown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Double, Integer, LargeBinary, SmallInteger, Table

from steersman.store import tables
from steersman.store.hot.text import (
    ARCHIVED,
    CELL,
    DECISIONS,
    EPISODES,
    REWARDS,
    TENANT_GATE,
    TENANT_HEAD,
    Key,
    Row,
    column_list,
    key_of,
)

__all__ = ["PostgresStatements", "as_array"]

# The array type of each kind of column; SmallInteger and BigInteger are kinds of Integer, so they come first.
_ARRAYS = (
    (SmallInteger, "smallint[]"),
    (BigInteger, "bigint[]"),
    (Integer, "integer[]"),
    (Double, "float8[]"),
    (LargeBinary, "bytea[]"),
)


def _array_of(table: Table, name: str) -> str:
    kind = table.columns[name].type
    return next((array for cls, array in _ARRAYS if isinstance(kind, cls)), "text[]")


def _unnest(table: Table, names: Sequence[str]) -> str:
    arrays = ", ".join(f"%s::{_array_of(table, name)}" for name in names)
    return f"unnest({arrays}) AS k({', '.join(names)})"


def _select(table: Table, columns: Sequence[str], key: Sequence[str]) -> str:
    shown = ", ".join(f"t.{name}" for name in columns)
    return f"SELECT {shown} FROM {_unnest(table, key)} JOIN {table.name} t USING ({', '.join(key)})"


def _select_rare(table: Table, columns: Sequence[str]) -> str:
    """Select rows by their key, of a table that can be all but empty for long.

    A join of it would be planned as a walk through all of it.
    """
    key = key_of(table)
    same = " AND ".join(f"a.{name} = k.{name}" for name in key)
    return (
        f"SELECT {', '.join(f't.{name}' for name in columns)} FROM {_unnest(table, key)} "
        f"CROSS JOIN LATERAL (SELECT * FROM {table.name} a WHERE {same} LIMIT 1) t"
    )


def _insert(table: Table) -> str:
    names = column_list(table)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {', '.join(names)} FROM {_unnest(table, names)}"


def _upsert(table: Table) -> str:
    key = key_of(table)
    rest = [name for name in column_list(table) if name not in key]
    changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
    return f"{_insert(table)} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


def _update(table: Table, changed: Sequence[str], fixed: str = "") -> str:
    key = [name for name in ("tenant", "episode", "decision_id") if name in key_of(table)]
    changes = ", ".join([f"{name} = k.{name}" for name in changed] + ([fixed] if fixed else []))
    same = " AND ".join(f"t.{name} = k.{name}" for name in key)
    return f"UPDATE {table.name} t SET {changes} FROM {_unnest(table, [*changed, *key])} WHERE {same}"


_STATE = ("tenant", "version", "state")
_EPISODE = ("tenant", "episode")

# Sharers of a row lock never let a waiting changer in, as long as new ones come; a shared advisory lock queues behind
# whoever asked for it alone. A changer takes it before the row (see `store.tenants`).
_LOCK_TENANTS = (
    f"SELECT {TENANT_HEAD}, pg_advisory_xact_lock_shared({TENANT_GATE}, hashtext(tenant)) "
    "FROM tenants WHERE tenant = ANY(%s::text[]) ORDER BY tenant FOR SHARE"
)
_FIND_DECISIONS = _select(tables.decisions, DECISIONS, ("tenant", "decision_id"))
_FIND_ARCHIVED = _select_rare(tables.archived_decisions, ARCHIVED)
_FIND_ARCHIVED_REWARDS = _select_rare(tables.archived_rewards, REWARDS)
_WHOLE_CHAINS = _select(tables.decisions, DECISIONS, _EPISODE) + " ORDER BY tenant, episode, t.step"
# While nothing is known of the table, the planner takes the key that answers most of a condition, and keeps that plan.
# So the step bounds both scans, and `status` is asked for in a way that the index of open decisions does not answer.
_OPEN_CHAINS = (
    f"SELECT {', '.join(f't.{name}' for name in DECISIONS)} FROM {_unnest(tables.decisions, _EPISODE)} "
    "CROSS JOIN LATERAL (SELECT min(o.step) AS first FROM decisions o WHERE o.tenant = k.tenant "
    "AND o.episode = k.episode AND o.step >= 0 AND o.status NOT IN ('learned', 'void')) f "
    "JOIN decisions t ON t.tenant = k.tenant AND t.episode = k.episode AND t.step >= f.first "
    "ORDER BY t.tenant, t.episode, t.step"
)
_FIND_REWARDS = _select(tables.rewards, REWARDS, ("tenant", "reward_id"))
_REWARDS_OF = _select(tables.rewards, ("tenant", "decision_id", "value"), ("tenant", "decision_id"))
_OPEN_EPISODES = (
    "INSERT INTO episodes (tenant, episode, status, steps, opened_at, touched_at) "
    "SELECT tenant, episode, 'open', 0, opened_at, opened_at "
    f"FROM {_unnest(tables.episodes, (*_EPISODE, 'opened_at'))} "
    "ON CONFLICT (tenant, episode) DO NOTHING"
)
_LOCK_EPISODES = _select(tables.episodes, EPISODES, _EPISODE) + " ORDER BY tenant, episode FOR UPDATE OF t"
_TOUCH_EPISODES = _update(tables.episodes, ("steps", "touched_at"))
_DROP_EPISODES = (
    f"DELETE FROM episodes t USING {_unnest(tables.episodes, _EPISODE)} "
    "WHERE t.tenant = k.tenant AND t.episode = k.episode AND t.steps = 0"
)
_CLOSE_EPISODES = _update(
    tables.episodes, ("outcome", "kind", "decisions", "learned", "closed_at"), "status = 'closed'"
)
_MAKE_HEADS = (
    f"INSERT INTO state_heads (tenant, version, state) SELECT * FROM {_unnest(tables.state_heads, _STATE)} "
    "ON CONFLICT (tenant, version, state) DO NOTHING"
)
_LOCK_HEADS = (
    _select(tables.state_heads, ("state",), _STATE) + " ORDER BY tenant, version, state FOR UPDATE OF t"
)
_READ_CELLS = (
    f"SELECT k.place, {', '.join(f't.{name}' for name in CELL)} FROM "
    f"unnest({', '.join(f'%s::{_array_of(tables.cells, name)}' for name in _STATE)}) "
    f"WITH ORDINALITY AS k({', '.join(_STATE)}, place) JOIN cells t USING ({', '.join(_STATE)})"
)
_WRITE_CELLS = _upsert(tables.cells)
_INSERT_DECISIONS = _insert(tables.decisions)
_INSERT_REWARDS = _insert(tables.rewards)
_INSERT_STEPS = _insert(tables.learning_steps)
_MARK_DECISIONS = _update(tables.decisions, ("status", "void_version", "void_state"))


class PostgresStatements:
    """See `HotStatements`."""

    shares_database = True

    def lock_tenants(self, cursor: Any, tenants: list[str]) -> list[Row]:
        """Read tenants by id, locked against a change of their active version."""
        return [row[:-1] for row in cursor.execute(_LOCK_TENANTS, [as_array(tuple(tenants))]).fetchall()]

    def find_decisions(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read decisions by id."""
        return _fetch(cursor, _FIND_DECISIONS, keys)

    def find_archived(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read what is left of archived decisions by id."""
        return _fetch(cursor, _FIND_ARCHIVED, keys)

    def open_chains(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read the decisions of episodes from the first open one on."""
        return _fetch(cursor, _OPEN_CHAINS, keys)

    def whole_chains(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read the decisions of episodes."""
        return _fetch(cursor, _WHOLE_CHAINS, keys)

    def find_rewards(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read rewards by id."""
        return _fetch(cursor, _FIND_REWARDS, keys)

    def find_archived_rewards(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read archived rewards by id."""
        return _fetch(cursor, _FIND_ARCHIVED_REWARDS, keys)

    def rewards_of(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read the values of the rewards of decisions."""
        return _fetch(cursor, _REWARDS_OF, keys)

    def open_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Insert episodes that are new."""
        _send(cursor, _OPEN_EPISODES, rows)

    def lock_episodes(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read episodes, locked."""
        return _fetch(cursor, _LOCK_EPISODES, keys)

    def touch_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Write the length and latest time of episodes."""
        _send(cursor, _TOUCH_EPISODES, rows)

    def drop_episodes(self, cursor: Any, keys: list[Key]) -> None:
        """Delete episodes without decisions."""
        _send(cursor, _DROP_EPISODES, keys)

    def close_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Close episodes."""
        _send(cursor, _CLOSE_EPISODES, rows)

    def lock_states(self, cursor: Any, keys: list[Key]) -> None:
        """Make the head rows that are missing and lock them all; cells are read in a later statement.

        Under READ COMMITTED a statement sees what was committed before it began, so cells that are read
        by the locking statement itself could be older than the lock.
        """
        _send(cursor, _MAKE_HEADS, keys)
        _send(cursor, _LOCK_HEADS, keys)

    def read_cells(self, cursor: Any, keys: list[Key]) -> list[list[Row]]:
        """Read the cells of each state."""
        found: list[list[Row]] = [[] for _ in keys]
        for place, *cell in _fetch(cursor, _READ_CELLS, keys):
            found[place - 1].append(tuple(cell))
        return found

    def write_cells(self, cursor: Any, rows: list[Row]) -> None:
        """Write cells."""
        _send(cursor, _WRITE_CELLS, rows)

    def insert_decisions(self, cursor: Any, rows: list[Row]) -> None:
        """Insert decisions."""
        _send(cursor, _INSERT_DECISIONS, rows)

    def insert_rewards(self, cursor: Any, rows: list[Row]) -> None:
        """Insert rewards."""
        _send(cursor, _INSERT_REWARDS, rows)

    def insert_steps(self, cursor: Any, rows: list[Row]) -> None:
        """Insert learning steps."""
        _send(cursor, _INSERT_STEPS, rows)

    def mark_decisions(self, cursor: Any, rows: list[Row]) -> None:
        """Write the status of decisions."""
        _send(cursor, _MARK_DECISIONS, rows)


def _send(cursor: Any, statement: str, rows: list[Row]) -> None:
    if rows:
        cursor.execute(statement, [as_array(column) for column in zip(*rows, strict=True)])


def _fetch(cursor: Any, statement: str, keys: list[Key]) -> list[Row]:
    if not keys:
        return []
    _send(cursor, statement, keys)
    found: list[Row] = cursor.fetchall()
    return found


def as_array(column: Row) -> str:
    """Return a column as the text of an array, which psycopg takes six times as long for.

    A column holds numbers, texts or bytes, and None for NULL.
    """
    return "{" + ",".join(["NULL" if value is None else _element(value) for value in column]) + "}"


def _element(value: float | str | bytes) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f'"\\\\x{value.hex()}"' if isinstance(value, bytes) else str(value)
