"""Run the migrations over the connection that the store hands in, within its transaction."""

from __future__ import annotations

from alembic import context

from steersman.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
