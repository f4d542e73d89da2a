"""What stays of archived decisions, and the cells as far as their learning was archived."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
phase = "before"

_TABLES = ("archive_files", "archived_decisions", "cell_checkpoints")

_ADMITTED = """
tenant IN (SELECT unnest(COALESCE(NULLIF(current_setting('steersman.tenants', true), ''), '{}')::text[]))
"""

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables, held as the others are, and let a tenant say up to when it was archived."""
    op.add_column("tenants", sa.Column("archived_before", sa.BigInteger(), nullable=True))
    op.create_table(
        "archived_decisions",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("decision_id", _TEXT, nullable=False),
        sa.Column("episode", _TEXT, nullable=True),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("answer", _TEXT, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "decision_id", name="pk_archived_decisions"),
    )
    op.create_table(
        "cell_checkpoints",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("action", _TEXT, nullable=False),
        sa.Column("q", sa.Double(), nullable=False),
        sa.Column("visits", sa.BigInteger(), nullable=False),
        sa.Column("updates", sa.BigInteger(), nullable=False),
        sa.Column("borrowed", sa.Double(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "version", "state", "action", name="pk_cell_checkpoints"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "archive_files",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("file", _TEXT, nullable=False),
        sa.Column("run_id", _TEXT, nullable=False),
        sa.Column("holds", _TEXT, nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "file", name="pk_archive_files"),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenants ON {table} USING ({_ADMITTED}) WITH CHECK ({_ADMITTED})")
        op.execute(f"CREATE POLICY owner ON {table} TO CURRENT_USER USING (true) WITH CHECK (true)")
