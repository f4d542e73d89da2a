"""What stays of archived rewards, and how many of them there were of each archived decision."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
phase = "before"

_ADMITTED = """
tenant IN (SELECT unnest(COALESCE(NULLIF(current_setting('steersman.tenants', true), ''), '{}')::text[]))
"""

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table, held as the others are; of what was archived before, nothing is known of the rewards."""
    op.add_column("archived_decisions", sa.Column("rewards", sa.Integer(), nullable=True))
    op.create_table(
        "archived_rewards",
        sa.Column("tenant", _TEXT, nullable=False),
        sa.Column("reward_id", _TEXT, nullable=False),
        sa.Column("decision_id", _TEXT, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("effect", _TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "reward_id", name="pk_archived_rewards"),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("ALTER TABLE archived_rewards ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE archived_rewards FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenants ON archived_rewards USING ({_ADMITTED}) WITH CHECK ({_ADMITTED})")
    op.execute("CREATE POLICY owner ON archived_rewards TO CURRENT_USER USING (true) WITH CHECK (true)")
