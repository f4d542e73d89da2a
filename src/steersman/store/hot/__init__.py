"""The few statements that every decide, reward and close runs, on the driver's own connection and cursor.

SQLAlchemy's cost per statement is several times that of the work here, so these are written out, once for each
database. Each takes a `Cursor` and a list, and asks for or changes one table. A key is a tuple that begins with
the tenant. Keys to lock come sorted, so that two transactions never wait for each other in a circle.
"""

from __future__ import annotations

from typing import Any, Protocol

from steersman.store.hot.postgres import PostgresStatements
from steersman.store.hot.sqlite import SQLiteStatements
from steersman.store.hot.text import Key, Row

__all__ = ["HotStatements", "hot_statements"]


class HotStatements(Protocol):
    """The hot statements of one database. Rows that are read have the columns of `hot.text`, in its order."""

    shares_database: bool
    """Whether other transactions write while this one does, so that what was read before a lock may be old."""

    def lock_tenants(self, cursor: Any, tenants: list[str]) -> list[Row]:
        """Return the rows of tenants as `head_of` reads them, locked against a change of version and archiving."""
        ...

    def find_decisions(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Return the rows of decisions by (tenant, decision id)."""
        ...

    def find_archived(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Return what is left of archived decisions by (tenant, decision id)."""
        ...

    def open_chains(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Return the decisions of (tenant, episode) from its first open one on, in step order."""
        ...

    def whole_chains(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Return every decision of (tenant, episode), in step order."""
        ...

    def find_rewards(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Return the rows of rewards by (tenant, reward id)."""
        ...

    def find_archived_rewards(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Return the rows of archived rewards by (tenant, reward id)."""
        ...

    def rewards_of(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Return (tenant, decision id, value) of every reward of (tenant, decision id)."""
        ...

    def open_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Insert episodes (tenant, episode, opened at) that are not there yet."""
        ...

    def lock_episodes(self, cursor: Any, keys: list[Key]) -> list[Row]:
        """Return the rows of episodes by (tenant, episode), locked."""
        ...

    def touch_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Set (steps, touched at) of episodes: rows of (steps, touched at, tenant, episode)."""
        ...

    def drop_episodes(self, cursor: Any, keys: list[Key]) -> None:
        """Delete episodes (tenant, episode) that got no decision."""
        ...

    def close_episodes(self, cursor: Any, rows: list[Row]) -> None:
        """Close episodes: rows of (outcome, kind, decisions, learned, closed at, tenant, episode)."""
        ...

    def lock_states(self, cursor: Any, keys: list[Key]) -> None:
        """Lock the cells of (tenant, version, state), whether or not there are any yet."""
        ...

    def read_cells(self, cursor: Any, keys: list[Key]) -> list[list[Row]]:
        """Return for each (tenant, version, state) its cells: (action, q, visits, updates, borrowed, steps)."""
        ...

    def write_cells(self, cursor: Any, rows: list[Row]) -> None:
        """Insert or replace whole rows of cells, whose states are locked."""
        ...

    def insert_decisions(self, cursor: Any, rows: list[Row]) -> None:
        """Insert whole rows of decisions."""
        ...

    def insert_rewards(self, cursor: Any, rows: list[Row]) -> None:
        """Insert whole rows of rewards."""
        ...

    def insert_steps(self, cursor: Any, rows: list[Row]) -> None:
        """Insert whole rows of learning steps."""
        ...

    def mark_decisions(self, cursor: Any, rows: list[Row]) -> None:
        """Set the status of decisions: rows of (status, void version, void state, tenant, decision id)."""
        ...


def hot_statements(dialect: str) -> HotStatements:
    """Return the hot statements of a `dialect`: `sqlite` or `postgresql`."""
    return SQLiteStatements() if dialect == "sqlite" else PostgresStatements()
