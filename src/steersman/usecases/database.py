"""The database itself: its schema's revision, and upgrading it."""

from __future__ import annotations

from dataclasses import dataclass

from steersman.settings import Settings
from steersman.store import schema, tenants
from steersman.store.engine import Database

__all__ = ["DatabaseStatus", "Upgrade", "database_status", "upgrade_database"]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The schema's revisions before and after; before is None for an empty database."""

    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """Which database it is."""

    dialect: str
    revision: str
    tenants: int


def upgrade_database(url: str | None = None, *, settings: Settings | None = None) -> Upgrade:
    """Bring the schema at `url` (default: the settings') to this release; raise SchemaError for a newer one."""
    before = Database.revision_at(url, settings=settings)
    Database.open(url, settings=settings, upgrade=True).close()
    return Upgrade(before, schema.HEAD)


def database_status(url: str | None = None, *, settings: Settings | None = None) -> DatabaseStatus:
    """Open the database at `url` and say which it is; raise as `Database.open` does."""
    database = Database.open(url, settings=settings, upgrade=False, create=False)
    try:
        with database.snapshot() as connection:
            return DatabaseStatus(database.dialect, schema.HEAD, len(tenants.list_tenants(connection)))
    finally:
        database.close()
