"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "audit",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("audit_id", _TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("actor", _TEXT, nullable=False),
        sa.Column("verb", _TEXT, nullable=False),
        sa.Column("detail", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "audit_id", name="pk_audit"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bases",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("spec", _TEXT, nullable=False),
        sa.Column("active_version", sa.Integer(), nullable=True),
        sa.Column("latest_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_bases"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "cells",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("action", _TEXT, nullable=False),
        sa.Column("q", sa.Double(), nullable=False),
        sa.Column("visits", sa.BigInteger(), nullable=False),
        sa.Column("updates", sa.BigInteger(), nullable=False),
        sa.Column("borrowed", sa.Double(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "version", "state", "action", name="pk_cells"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "decisions",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("decision_id", _TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("latest_version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("action", _TEXT, nullable=False),
        sa.Column("propensity", sa.Double(), nullable=False),
        sa.Column("explored", sa.SmallInteger(), nullable=False),
        sa.Column("explore", sa.SmallInteger(), nullable=False),
        sa.Column("epsilon", sa.Double(), nullable=False),
        sa.Column("c", sa.Double(), nullable=False),
        sa.Column("feasible", _TEXT, nullable=True),
        sa.Column("seen", _TEXT, nullable=False),
        sa.Column("episode", _TEXT, nullable=True),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("metadata", _TEXT, nullable=True),
        sa.Column("reasons", _TEXT, nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("void_version", sa.Integer(), nullable=True),
        sa.Column("void_state", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "decision_id", name="pk_decisions"),
    )
    op.create_index(
        "ix_decisions_episode",
        "decisions",
        ["tenant", "episode", "step"],
        unique=True,
        sqlite_where=sa.text("episode IS NOT NULL"),
        postgresql_where=sa.text("episode IS NOT NULL"),
    )
    op.create_index(
        "ix_decisions_open",
        "decisions",
        ["tenant", "created_at"],
        unique=False,
        sqlite_where=sa.text("status = 'open'"),
        postgresql_where=sa.text("status = 'open'"),
    )
    op.create_table(
        "episodes",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("episode", _TEXT, nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("touched_at", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Double(), nullable=True),
        sa.Column("kind", _TEXT, nullable=True),
        sa.Column("decisions", sa.Integer(), nullable=True),
        sa.Column("learned", sa.Integer(), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "episode", name="pk_episodes"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_episodes_open",
        "episodes",
        ["tenant", "touched_at"],
        unique=False,
        sqlite_where=sa.text("status = 'open'"),
        postgresql_where=sa.text("status = 'open'"),
    )
    op.create_table(
        "learning_steps",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("action", _TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("decision_id", _TEXT, nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("reward", sa.Double(), nullable=False),
        sa.Column("discount", sa.Double(), nullable=False),
        sa.Column("bootstrap", sa.Double(), nullable=False),
        sa.Column("target", sa.Double(), nullable=False),
        sa.Column("step_size", sa.Double(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "version", "state", "action", "number", name="pk_learning_steps"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "opening_cells",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("action", _TEXT, nullable=False),
        sa.Column("q", sa.Double(), nullable=False),
        sa.Column("visits", sa.BigInteger(), nullable=False),
        sa.Column("updates", sa.BigInteger(), nullable=False),
        sa.Column("borrowed", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "version", "state", "action", name="pk_opening_cells"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "policy_versions",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=True),
        sa.Column("state_size", sa.Integer(), nullable=False),
        sa.Column("states", _TEXT, nullable=False),
        sa.Column("actions", _TEXT, nullable=False),
        sa.Column("settings", _TEXT, nullable=False),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("origin", _TEXT, nullable=False),
        sa.Column("provenance", _TEXT, nullable=False),
        sa.Column("operation_id", _TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "version", name="pk_policy_versions"),
        sa.UniqueConstraint("tenant", "name", name="uq_policy_versions_name"),
        sa.UniqueConstraint("tenant", "operation_id", name="uq_policy_versions_operation_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rewards",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("reward_id", _TEXT, nullable=False),
        sa.Column("decision_id", _TEXT, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("effect", _TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "reward_id", name="pk_rewards"),
    )
    op.create_index("ix_rewards_decision", "rewards", ["tenant", "decision_id"], unique=False)
    op.create_table(
        "state_heads",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "version", "state", name="pk_state_heads"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tenants",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("spec", _TEXT, nullable=False),
        sa.Column("active_version", sa.Integer(), nullable=True),
        sa.Column("latest_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_tenants"),
        sqlite_with_rowid=False,
    )
