"""API keys, row-level security on servers, and which releases the schema is for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
phase = "before"

_TABLES = (
    "audit",
    "bases",
    "cells",
    "decisions",
    "episodes",
    "learning_steps",
    "opening_cells",
    "policy_versions",
    "rewards",
    "state_heads",
    "tenants",
)

# A query of its own is hashed once for a statement. As `= ANY(array)` the planner searches the array for each row, or
# takes it for the key to look rows up by.
_ADMITTED = """
tenant IN (SELECT unnest(COALESCE(NULLIF(current_setting('steersman.tenants', true), ''), '{}')::text[]))
"""

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the tables; on a server, hold all roles but the owner to the tenants that a transaction names."""
    op.create_table(
        "api_keys",
        sa.Column("key_id", _TEXT, nullable=False),
        sa.Column("tenant", _TEXT, nullable=True),
        sa.Column("scopes", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name="pk_api_keys"),
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant", "key_id"], unique=False)
    op.create_table(
        "schema_floor",
        sa.Column("revision", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_schema_floor"),
    )
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY tenants ON {table} USING ({_ADMITTED}) WITH CHECK ({_ADMITTED})")
        op.execute(f"CREATE POLICY owner ON {table} TO CURRENT_USER USING (true) WITH CHECK (true)")
