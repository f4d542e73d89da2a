"""The declared schema. Every primary key, unique constraint and index begins with the tenant.

API keys alone are found by an id of their own, since the tenant is not known before its key is; and what is said of
the schema itself is of no tenant.

Times are microseconds since 1970 (UTC) and booleans are 0 or 1, so that both databases hold the same numbers.
Texts compare by their bytes on both ("C" collation). A base is kept like a tenant, as `@` and its name.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = [
    "TENANT_TABLES",
    "api_keys",
    "archive_files",
    "archived_decisions",
    "archived_rewards",
    "audit",
    "bases",
    "cell_checkpoints",
    "cells",
    "decisions",
    "episodes",
    "learning_steps",
    "metadata",
    "opening_cells",
    "operations",
    "policy_versions",
    "rewards",
    "schema_floor",
    "state_heads",
    "tenants",
]

metadata = MetaData()

_Text = Text().with_variant(Text(collation="C"), "postgresql")


def _text(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, _Text, nullable=nullable)


def _table(name: str, *parts: Column[Any] | PrimaryKeyConstraint | UniqueConstraint | Index) -> Table:
    # Narrow tables that are read by key are stored in key order: one state's cells lie side by side.
    return Table(name, metadata, *parts, sqlite_with_rowid=False)


def _cell_columns() -> list[Column[Any]]:
    return [
        _text("tenant"),
        Column("version", Integer, nullable=False),
        Column("state", Integer, nullable=False),
        _text("action"),
        Column("q", Double, nullable=False),
        Column("visits", BigInteger, nullable=False),
        Column("updates", BigInteger, nullable=False),
        Column("borrowed", Double, nullable=False),
    ]


tenants = _table(
    "tenants",
    _text("tenant"),
    Column("secret", LargeBinary, nullable=False),
    _text("status"),  # active or retired
    _text("spec"),  # canonical JSON of the declaration
    Column("active_version", Integer),
    Column("latest_version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column(
        "archived_before", BigInteger
    ),  # some decisions from before then are archived; NULL: none ever was
    PrimaryKeyConstraint("tenant", name="pk_tenants"),
)

bases = _table(
    "bases",
    _text("tenant"),
    _text("spec"),
    Column("active_version", Integer),
    Column("latest_version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", name="pk_bases"),
)

policy_versions = _table(
    "policy_versions",
    _text("tenant"),
    Column("version", Integer, nullable=False),
    _text("kind"),
    _text("status"),  # active, superseded or frozen
    _text("name", nullable=True),
    Column("state_size", Integer, nullable=False),
    _text("states"),  # JSON of the factors, or of the plain size
    _text("actions"),  # JSON list of ids in order
    _text("settings"),  # JSON of learning, exploration, reward range and priors
    Column("parent", Integer),
    _text("origin"),  # empty, warm_start, migrated, imported or restored
    _text("provenance"),
    _text("operation_id"),  # of the call that made it
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "version", name="pk_policy_versions"),
    UniqueConstraint("tenant", "name", name="uq_policy_versions_name"),
    UniqueConstraint("tenant", "operation_id", name="uq_policy_versions_operation_id"),
)

state_heads = _table(
    "state_heads",  # what a server locks before it reads or writes the cells of a state
    _text("tenant"),
    Column("version", Integer, nullable=False),
    Column("state", Integer, nullable=False),
    PrimaryKeyConstraint("tenant", "version", "state", name="pk_state_heads"),
)

cells = _table(
    "cells",
    *_cell_columns(),
    Column("steps", BigInteger, nullable=False),  # learning steps of this cell in this version
    PrimaryKeyConstraint("tenant", "version", "state", "action", name="pk_cells"),
)

opening_cells = _table(
    "opening_cells",  # the cells that a version started with
    *_cell_columns(),
    PrimaryKeyConstraint("tenant", "version", "state", "action", name="pk_opening_cells"),
)

decisions = Table(
    "decisions",
    metadata,
    _text("tenant"),
    _text("decision_id"),
    Column("version", Integer, nullable=False),
    Column(
        "latest_version", Integer, nullable=False
    ),  # of the tenant at the time: what was made since has the visit
    Column("state", Integer, nullable=False),
    _text("action"),
    Column("propensity", Double, nullable=False),
    Column("explored", SmallInteger, nullable=False),
    Column("explore", SmallInteger, nullable=False),
    Column("epsilon", Double, nullable=False),
    Column("c", Double, nullable=False),
    _text("feasible", nullable=True),  # JSON list of ids; NULL for the whole catalogue
    _text("seen"),  # JSON [[q], [visits], [updates], [borrowed]] of the feasible actions
    _text("episode", nullable=True),
    Column("step", Integer),
    _text("metadata", nullable=True),
    _text("reasons", nullable=True),
    Column("created_at", BigInteger, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),  # of the request
    Column("seal", LargeBinary, nullable=False),  # of all columns above
    _text("status"),  # open, learned or void
    Column("void_version", Integer),  # the cell that the visit was taken back from
    Column("void_state", Integer),
    PrimaryKeyConstraint("tenant", "decision_id", name="pk_decisions"),
    Index(
        "ix_decisions_episode",
        "tenant",
        "episode",
        "step",
        unique=True,
        sqlite_where=text("episode IS NOT NULL"),
        postgresql_where=text("episode IS NOT NULL"),
    ),
    Index(
        "ix_decisions_open",
        "tenant",
        "created_at",
        sqlite_where=text("status = 'open'"),
        postgresql_where=text("status = 'open'"),
    ),
)

rewards = Table(
    "rewards",  # with row ids: of a table in key order, SQLite would find a decision's rewards by reading all
    metadata,
    _text("tenant"),
    _text("reward_id"),
    _text("decision_id"),
    Column("value", Double, nullable=False),
    _text("kind"),  # reward or default
    _text("effect"),  # learned, waits, further or parked
    Column("created_at", BigInteger, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "reward_id", name="pk_rewards"),
    Index("ix_rewards_decision", "tenant", "decision_id"),
)

learning_steps = _table(
    "learning_steps",
    _text("tenant"),
    Column("version", Integer, nullable=False),
    Column("state", Integer, nullable=False),
    _text("action"),
    Column("number", BigInteger, nullable=False),
    _text("decision_id"),
    _text("kind"),  # update or further
    Column("reward", Double, nullable=False),
    Column("discount", Double, nullable=False),
    Column("bootstrap", Double, nullable=False),
    Column("target", Double, nullable=False),
    Column("step_size", Double, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "version", "state", "action", "number", name="pk_learning_steps"),
)

episodes = _table(
    "episodes",
    _text("tenant"),
    _text("episode"),
    _text("status"),  # open or closed
    Column("steps", Integer, nullable=False),  # decisions made in it, voided ones included
    Column("opened_at", BigInteger, nullable=False),
    Column("touched_at", BigInteger, nullable=False),  # the latest decide or reward
    Column("outcome", Double),
    _text("kind", nullable=True),  # of the close: close or default
    Column("decisions", Integer),  # that were not void at the close
    Column("learned", Integer),  # at the close
    Column("closed_at", BigInteger),
    PrimaryKeyConstraint("tenant", "episode", name="pk_episodes"),
    Index(
        "ix_episodes_open",
        "tenant",
        "touched_at",
        sqlite_where=text("status = 'open'"),
        postgresql_where=text("status = 'open'"),
    ),
)

audit = _table(
    "audit",
    _text("tenant"),
    _text("audit_id"),
    Column("created_at", BigInteger, nullable=False),
    _text("actor"),
    _text("verb"),
    _text("detail"),  # JSON: what was before and after
    PrimaryKeyConstraint("tenant", "audit_id", name="pk_audit"),
)

operations = _table(
    "operations",  # calls that changed something, so that one that is repeated is answered as before
    _text("tenant"),  # or a base with its @, or @ for operators
    _text("operation_id"),
    _text("verb"),
    Column("fingerprint", LargeBinary, nullable=False),  # of the verb and of what it was given
    _text("answer"),  # JSON
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "operation_id", name="pk_operations"),
)

archived_decisions = Table(
    "archived_decisions",  # what stays of a decision
    metadata,
    _text("tenant"),
    _text("decision_id"),
    _text("episode", nullable=True),
    _text("status"),  # learned or void
    _text("answer"),  # JSON list of the columns of the decision from version to created_at
    Column("fingerprint", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),  # of the decision's row
    Column("rewards", Integer),  # that were archived with it; NULL where no stubs of them stayed
    PrimaryKeyConstraint("tenant", "decision_id", name="pk_archived_decisions"),
)

archived_rewards = _table(
    "archived_rewards",  # what stays of a reward: all of its row
    _text("tenant"),
    _text("reward_id"),
    _text("decision_id"),
    Column("value", Double, nullable=False),
    _text("kind"),
    _text("effect"),
    Column("created_at", BigInteger, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "reward_id", name="pk_archived_rewards"),
)

cell_checkpoints = _table(
    "cell_checkpoints",  # the cells as archived visits and learning steps left them
    *_cell_columns(),
    Column("steps", BigInteger, nullable=False),  # that were archived: the first so many of the cell
    Column("seal", LargeBinary, nullable=False),  # of all columns above
    PrimaryKeyConstraint("tenant", "version", "state", "action", name="pk_cell_checkpoints"),
)

archive_files = _table(
    "archive_files",
    _text("tenant"),
    _text("file"),  # its name within the folder of the tenant
    _text("run_id"),
    _text("holds"),  # decisions, rewards or learning_steps
    Column("rows", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the file
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "file", name="pk_archive_files"),
)

api_keys = Table(
    "api_keys",
    metadata,
    _text("key_id"),  # 12 hexadecimal digits
    _text("tenant", nullable=True),  # NULL for a key of an operator
    _text("scopes"),  # JSON list
    _text("name"),  # for people
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the key's text
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),
    PrimaryKeyConstraint("key_id", name="pk_api_keys"),
    Index("ix_api_keys_tenant", "tenant", "key_id"),
)

schema_floor = Table(
    "schema_floor",  # one row: releases that know this revision work with the schema, however new it is
    metadata,
    _text("revision"),
    PrimaryKeyConstraint("revision", name="pk_schema_floor"),
)

TENANT_TABLES = (
    api_keys,
    archive_files,
    archived_decisions,
    archived_rewards,
    cell_checkpoints,
    learning_steps,
    rewards,
    decisions,
    episodes,
    cells,
    opening_cells,
    state_heads,
    policy_versions,
    tenants,
    bases,
)
"""Every table with rows of a tenant but audit and operations, in an order that is safe to delete in."""
