"""Columns of the hot statements, taken from the declared schema, and SQL that both databases read alike."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table

from steersman.store import tables

__all__ = [
    "ARCHIVED",
    "CELL",
    "DECISIONS",
    "EPISODES",
    "REWARDS",
    "STEPS",
    "TENANT_GATE",
    "TENANT_HEAD",
    "Key",
    "Row",
    "column_list",
    "key_of",
]

Key = tuple[Any, ...]
Row = tuple[Any, ...]

TENANT_GATE = 7236
"""The class of the advisory locks that stand before tenants on PostgreSQL."""

TENANT_HEAD = "tenant, secret, status, active_version, latest_version, archived_before"


def column_list(table: Table) -> tuple[str, ...]:
    """Return the names of the columns of `table`, in order."""
    return tuple(column.name for column in table.columns)


def key_of(table: Table) -> tuple[str, ...]:
    """Return the names of the columns of the primary key of `table`, in order."""
    return tuple(column.name for column in table.primary_key.columns)


ARCHIVED = column_list(tables.archived_decisions)
DECISIONS = column_list(tables.decisions)
REWARDS = column_list(tables.rewards)
STEPS = column_list(tables.learning_steps)
CELL = tuple(name for name in column_list(tables.cells) if name not in ("tenant", "version", "state"))
EPISODES = column_list(tables.episodes)
