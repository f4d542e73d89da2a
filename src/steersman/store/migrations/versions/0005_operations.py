"""Which changes were asked for, under which ids, and what was answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
phase = "before"

_ADMITTED = """
tenant IN (SELECT unnest(COALESCE(NULLIF(current_setting('steersman.tenants', true), ''), '{}')::text[]))
"""

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table, held as the others are."""
    op.create_table(
        "operations",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("operation_id", _TEXT, nullable=False),
        sa.Column("verb", _TEXT, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("answer", _TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "operation_id", name="pk_operations"),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("ALTER TABLE operations ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE operations FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenants ON operations USING ({_ADMITTED}) WITH CHECK ({_ADMITTED})")
    op.execute("CREATE POLICY owner ON operations TO CURRENT_USER USING (true) WITH CHECK (true)")
