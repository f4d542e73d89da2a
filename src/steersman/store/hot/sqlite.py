"""The hot statements for SQLite. A write transaction holds the whole database, so nothing else is locked."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table

from steersman.store import tables
from steersman.store.hot.text import (
    ARCHIVED,
    CELL,
    DECISIONS,
    EPISODES,
    REWARDS,
    TENANT_HEAD,
    Key,
    Row,
    column_list,
    key_of,
)

__all__ = ["SQLiteStatements"]


def _insert(table: Table) -> str:
    columns = column_list(table)
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _upsert(table: Table) -> str:
    key = key_of(table)
    rest = [name for name in column_list(table) if name not in key]
    changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
    return f"{_insert(table)} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


_LOCK_TENANT = f"SELECT {TENANT_HEAD} FROM tenants WHERE tenant = ?"
_FIND_DECISION = f"SELECT {', '.join(DECISIONS)} FROM decisions WHERE tenant = ? AND decision_id = ?"
_FIND_ARCHIVED = f"SELECT {', '.join(ARCHIVED)} FROM archived_decisions WHERE tenant = ? AND decision_id = ?"
_WHOLE_CHAIN = f"SELECT {', '.join(DECISIONS)} FROM decisions WHERE tenant = ? AND episode = ? ORDER BY step"
_OPEN_CHAIN = (
    f"SELECT {', '.join(DECISIONS)} FROM decisions WHERE tenant = ?1 AND episode = ?2 AND step >= "
    "(SELECT min(step) FROM decisions WHERE tenant = ?1 AND episode = ?2 AND status = 'open') ORDER BY step"
)
_FIND_REWARD = f"SELECT {', '.join(REWARDS)} FROM rewards WHERE tenant = ? AND reward_id = ?"
_FIND_ARCHIVED_REWARD = (
    f"SELECT {', '.join(REWARDS)} FROM archived_rewards WHERE tenant = ? AND reward_id = ?"
)
_REWARDS_OF = "SELECT tenant, decision_id, value FROM rewards WHERE tenant = ? AND decision_id = ?"
_OPEN_EPISODE = (
    "INSERT INTO episodes (tenant, episode, status, steps, opened_at, touched_at) VALUES (?1, ?2, 'open', 0, ?3, ?3) "
    "ON CONFLICT (tenant, episode) DO NOTHING"
)
_LOCK_EPISODE = f"SELECT {', '.join(EPISODES)} FROM episodes WHERE tenant = ? AND episode = ?"
_TOUCH_EPISODE = "UPDATE episodes SET steps = ?, touched_at = ? WHERE tenant = ? AND episode = ?"
_DROP_EPISODE = "DELETE FROM episodes WHERE tenant = ? AND episode = ? AND steps = 0"
_CLOSE_EPISODE = (
    "UPDATE episodes SET status = 'closed', outcome = ?, kind = ?, decisions = ?, learned = ?, closed_at = ? "
    "WHERE tenant = ? AND episode = ?"
)
_READ_CELLS = f"SELECT {', '.join(CELL)} FROM cells WHERE tenant = ? AND version = ? AND state = ?"
_WRITE_CELL = _upsert(tables.cells)
_INSERT_DECISION = _insert(tables.decisions)
_INSERT_REWARD = _insert(tables.rewards)
_INSERT_STEP = _insert(tables.learning_steps)
_MARK_DECISION = (
    "UPDATE decisions SET status = ?, void_version = ?, void_state = ? WHERE tenant = ? AND decision_id = ?"
)


class SQLiteStatements:
    """See `HotStatements`. There is no round trip to save, so keys are looked up one by one."""

    shares_database = False

    def lock_tenants(self, cursor: Any, tenants: list[str]) -> list[Row]:
        """Read tenants by id."""
        return _each(cursor, _LOCK_TENANT, [(tenant,) for tenant in tenants])

    def find_decisions(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read decisions by id."""
        return _each(cursor, _FIND_DECISION, keys)

    def find_archived(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read what is left of archived decisions by id."""
        return _each(cursor, _FIND_ARCHIVED, keys)

    def open_chains(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read the decisions of episodes from the first open one on."""
        return _each(cursor, _OPEN_CHAIN, keys)

    def whole_chains(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read the decisions of episodes."""
        return _each(cursor, _WHOLE_CHAIN, keys)

    def find_rewards(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read rewards by id."""
        return _each(cursor, _FIND_REWARD, keys)

    def find_archived_rewards(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read archived rewards by id."""
        return _each(cursor, _FIND_ARCHIVED_REWARD, keys)

    def rewards_of(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read the values of the rewards of decisions."""
        return _each(cursor, _REWARDS_OF, keys)

    def open_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Insert episodes that are new."""
        cursor.executemany(_OPEN_EPISODE, rows)

    def lock_episodes(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Read episodes."""
        return _each(cursor, _LOCK_EPISODE, keys)

    def touch_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Write the length and latest time of episodes."""
        cursor.executemany(_TOUCH_EPISODE, rows)

    def drop_episodes(self, cursor: Any, keys: list[Key]) -> None:
        """Delete episodes without decisions."""
        cursor.executemany(_DROP_EPISODE, keys)

    def close_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Close episodes."""
        cursor.executemany(_CLOSE_EPISODE, rows)

    def lock_states(self, cursor: Any, keys: list[Key]) -> None:
        """Do nothing: the transaction holds the database."""

    def read_cells(self, cursor: Any, keys: list[Key]) -> list[list[Row]]:
        """Read the cells of each state."""
        return [cursor.execute(_READ_CELLS, key).fetchall() for key in keys]

    def write_cells(self, cursor: Any, rows: list[Row]) -> None:
        """Write cells."""
        cursor.executemany(_WRITE_CELL, rows)

    def insert_decisions(self, cursor: Any, rows: list[Row]) -> None:
        """Insert decisions."""
        cursor.executemany(_INSERT_DECISION, rows)

    def insert_rewards(self, cursor: Any, rows: list[Row]) -> None:
        """Insert rewards."""
        cursor.executemany(_INSERT_REWARD, rows)

    def insert_steps(self, cursor: Any, rows: list[Row]) -> None:
        """Insert learning steps."""
        cursor.executemany(_INSERT_STEP, rows)

    def mark_decisions(self, cursor: Any, rows: list[Row]) -> None:
        """Write the status of decisions."""
        cursor.executemany(_MARK_DECISION, rows)


def _each(cursor: Any, statement: str, keys: list[Key]) -> list[Row]:
    found: list[Row] = []
    for key in keys:
        found += cursor.execute(statement, key).fetchall()
    return found
