"""The database itself: its schema's revision, and upgrading it."""

from __future__ import annotations

from dataclasses import dataclass

from steersman.settings import Settings
from steersman.store import schema, tenants
from steersman.store.engine import Database
from steersman.store.schema import Phase

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


def upgrade_database(
    url: str | None = None, *, settings: Settings | None = None, phase: Phase | None = None
) -> Upgrade:
    """Bring the schema at `url` (default: the settings') to this release, or only through a phase.

    `before` is what runs while processes of the release of before go on, `after` what runs once they have ended.
    Raises SchemaError for a schema that a newer release made, and for `after` where `before` has not run.
    """
    revision = Database.revision_at(url, settings=settings)
    for part in ("before", "after") if phase is None else (phase,):
        Database.upgrade_at(url, settings=settings, phase=part)
    return Upgrade(revision, Database.revision_at(url, settings=settings) or "")


def database_status(url: str | None = None, *, settings: Settings | None = None) -> DatabaseStatus:
    """Open the database at `url` and say which it is; raise as `Database.open` does."""
    database = Database.open(url, settings=settings, upgrade=False, create=False)
    try:
        with database.snapshot() as connection:
            revision = str(schema.current_revision(connection))
            return DatabaseStatus(database.dialect, revision, len(tenants.list_tenants(connection)))
    finally:
        database.close()
