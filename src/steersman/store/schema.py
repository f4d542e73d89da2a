"""The schema's revision: checked when a database is opened, upgraded by migrations.

Each migration says its phase. One of phase `before` only adds, so that the release of before goes on working, and runs
before any process of the new release starts. One of phase `after` takes away what no release needs any more, and runs
when the last process of the release of before has ended. The database holds the oldest revision whose release works
with it, the floor: a release opens a newer schema that it does not know, as long as it knows the floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sqlalchemy import Connection, Engine, delete, insert, inspect, select, text

from steersman.errors import SchemaError
from steersman.store.tables import schema_floor

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = [
    "HEAD",
    "READY",
    "Phase",
    "alembic_config",
    "check_revision",
    "current_revision",
    "ensure",
    "floor_of",
    "known_phases",
    "upgrade",
]

Phase: TypeAlias = Literal["before", "after"]

HEAD = "0005"
"""The newest revision that this release knows."""

READY = "0005"
"""The oldest revision that this release works with: every migration of phase `before` has run."""

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


def known_phases() -> dict[str, Phase]:
    """Return the phase of each revision that this release knows, oldest first; nothing ran before the first."""
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(alembic_config())
    newest_first = [
        (item.revision, "before" if item.down_revision is None else item.module.phase)
        for item in script.walk_revisions()
    ]
    return dict(reversed(newest_first))


def floor_of(phases: Mapping[str, Phase]) -> str:
    """Return the oldest revision whose release works with a schema that these migrations made, oldest first."""
    return [name for name, phase in phases.items() if phase == "after" or name == next(iter(phases))][-1]


def ensure(engine: Engine, *, upgrade: bool) -> None:
    """Leave the database at a revision that this release works with, or raise SchemaError and tell what to do.

    With `upgrade` all migrations run that have not, unless a newer release has been there.
    """
    # A look takes no lock, so that nobody who only reads waits for those who write.
    with engine.connect().execution_options(steersman_reads=True) as connection:
        revision = current_revision(connection)
        if not upgrade or (revision is not None and revision >= HEAD):
            check_revision(connection, revision)
            return
    with engine.begin() as connection:
        _upgrade_within(connection, HEAD)


def upgrade(engine: Engine, phase: Phase) -> str:
    """Run the migrations of a phase, and of those before it, that have not run; return the revision then.

    Raises SchemaError for a schema that a newer release made, and where the other phase has to run first.
    """
    with engine.begin() as connection:
        before = current_revision(connection)
        if phase == "after" and (before is None or before < READY):
            raise SchemaError(
                f"expected a schema of revision {READY} or newer, got {before or 'an empty database'}",
                hint="run: steersman db upgrade --phase before",
            )
        _upgrade_within(connection, READY if phase == "before" else HEAD)
        return str(current_revision(connection))


def check_revision(connection: Connection, revision: str | None) -> None:
    """Raise SchemaError unless this release works with the schema, which is of `revision`."""
    if revision is None or revision < READY:
        found = "an empty database" if revision is None else f"revision {revision}"
        raise SchemaError(
            f"expected a schema of revision {READY}, got {found}", hint="run: steersman db upgrade"
        )
    if revision > HEAD:
        floor = connection.execute(select(schema_floor.c.revision)).scalar()
        if floor is None or floor > HEAD:
            raise SchemaError(
                f"expected a schema of revision {HEAD} or older, got {revision!r}, which a newer release made",
                hint="install that release, or open a backup",
            )


def _upgrade_within(connection: Connection, target: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
    # Read behind the lock: another process may have upgraded in the meantime.
    before = current_revision(connection)
    if before is not None and before >= target:
        check_revision(connection, before)
        return
    from alembic import command

    command.upgrade(alembic_config(connection), target)
    done = {name: phase for name, phase in known_phases().items() if name <= target}
    connection.execute(delete(schema_floor))
    connection.execute(insert(schema_floor).values(revision=floor_of(done)))
