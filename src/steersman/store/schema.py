"""The schema's revision: checked when a database is opened, upgraded by migrations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from steersman.errors import SchemaError

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["HEAD", "alembic_config", "current_revision", "ensure", "known_revisions", "upgrade"]

HEAD = "0002"
"""The revision that this release works with."""

# Any number will do, as long as every process of this program takes the same lock.
_UPGRADE_LOCK = 7_236_401_559


def alembic_config(connection: Connection | None = None) -> Config:
    """Return the configuration of the migrations, run over `connection`."""
    # Alembic takes longer to load than all else together, and is needed only by an upgrade.
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def known_revisions() -> list[str]:
    """Return every revision that this release knows, oldest first."""
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(alembic_config())
    return [revision.revision for revision in script.walk_revisions()][::-1]


def current_revision(connection: Connection) -> str | None:
    """Return the revision of a database; None for one that is empty. Raises SchemaError for a foreign one."""
    names = set(inspect(connection).get_table_names())
    if "alembic_version" in names:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if found is not None:
            return str(found)
    if names:
        raise SchemaError(
            f"expected an empty database or one of ours, got tables {sorted(names)} without a revision of ours"
        )
    return None


def ensure(engine: Engine, *, upgrade: bool) -> None:
    """Leave the database at the revision of this release, or raise SchemaError and tell what to do."""
    # A look takes no lock, so that nobody who only reads waits for those who write.
    with engine.connect().execution_options(steersman_reads=True) as connection:
        if not upgrade or _is_current(connection):
            _refuse_unless_current(current_revision(connection))
            return
    with engine.begin() as connection:
        _upgrade_within(connection)


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Upgrade the database to this release; return the revisions before and after."""
    with engine.begin() as connection:
        return _upgrade_within(connection), HEAD


def _is_current(connection: Connection) -> bool:
    return current_revision(connection) == HEAD


def _upgrade_within(connection: Connection) -> str | None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
    # Read behind the lock: another process may have upgraded in the meantime.
    before = current_revision(connection)
    if before != HEAD:
        _refuse_newer(before)
        from alembic import command

        command.upgrade(alembic_config(connection), "head")
    return before


def _refuse_newer(revision: str | None) -> None:
    known = known_revisions()
    if revision is not None and revision not in known:
        raise SchemaError(
            f"expected a schema of revision {HEAD} or older, got {revision!r}, which a newer release made",
            hint="install that release, or open a backup",
        )


def _refuse_unless_current(revision: str | None) -> None:
    if revision == HEAD:
        return
    _refuse_newer(revision)
    found = "an empty database" if revision is None else f"revision {revision}"
    raise SchemaError(f"expected a schema of revision {HEAD}, got {found}", hint="run: steersman db upgrade")
