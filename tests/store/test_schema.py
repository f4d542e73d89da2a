"""The schema: what migrations make is what is declared, on both databases, from every release on."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, UniqueConstraint, inspect, text

from steersman.errors import SchemaError, StoreCorruptError
from steersman.library import Steersman
from steersman.settings import Settings
from steersman.store import schema
from steersman.store.backends import engine_at
from steersman.store.engine import Database
from steersman.store.schema import HEAD, READY, Phase, alembic_config, floor_of, known_phases
from steersman.store.tables import TENANT_TABLES, api_keys, audit, metadata, operations, schema_floor
from steersman.usecases.database import Upgrade, database_status, upgrade_database
from steersman.usecases.verify import verify
from tests.store.released.make import DECISIONS, Q_HOLD, TENANT
from tests.store.released.record import TENANT as RECORDED
from tests.store.released.record import load, send
from tests.support.company import Company

RELEASED = Path(__file__).parent / "released"


@pytest.fixture(params=["sqlite", "empty_postgres"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """A database without any table."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def engine(empty_url: str) -> Iterator[Engine]:
    engine = engine_at(empty_url, Settings())
    yield engine
    engine.dispose()


def mark(engine: Engine, revision: str, *, floor: str) -> None:
    """Make the database say that it has the schema of `revision`, for releases that know `floor`."""
    with engine.begin() as connection:
        connection.execute(
            text("CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL)")
        )
        connection.execute(text("DELETE FROM alembic_version"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})
        connection.execute(text("UPDATE schema_floor SET revision = :floor"), {"floor": floor})


def test_the_head_that_is_expected_is_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [HEAD]
    assert list(known_phases())[-1] == HEAD
    assert next(iter(known_phases())) == "0001"


def test_every_migration_but_the_first_says_its_phase() -> None:
    phases = known_phases()
    assert set(phases.values()) <= {"before", "after"}
    # What this release needs is there before it starts; the rest is what it runs once it is alone.
    assert phases[READY] == "before"
    assert {phase for revision, phase in phases.items() if revision > READY} <= {"after"}
    assert all(re.fullmatch(r"\d{4}", revision) for revision in phases)  # they are compared as texts


@pytest.mark.parametrize(
    ("phases", "floor"),
    [
        ({"0001": "before"}, "0001"),
        ({"0001": "before", "0002": "before"}, "0001"),
        ({"0001": "before", "0002": "before", "0003": "after", "0004": "before"}, "0003"),
    ],
)
def test_a_release_works_with_what_was_only_added_to(phases: dict[str, Phase], floor: str) -> None:
    assert floor_of(phases) == floor


def test_what_migrations_make_is_what_is_declared(empty_url: str, engine: Engine) -> None:
    Database.open(empty_url, upgrade=True).close()
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []


def test_a_difference_would_be_found(empty_url: str, engine: Engine) -> None:
    Database.open(empty_url, upgrade=True).close()
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE cells ADD COLUMN extra INTEGER"))
        connection.execute(text("DROP INDEX ix_rewards_decision"))
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), metadata)
    assert {difference[0] for difference in found} == {"remove_column", "add_index"}


def test_keys_and_indices_begin_with_the_tenant(empty_url: str, engine: Engine) -> None:
    Database.open(empty_url, upgrade=True).close()
    inspector = inspect(engine)
    for table in metadata.tables.values():
        if "tenant" not in table.columns:
            assert table is schema_floor
            continue
        if table is api_keys:  # found before the tenant is known
            assert inspector.get_pk_constraint(table.name)["constrained_columns"] == ["key_id"]
            assert [index["column_names"][0] for index in inspector.get_indexes(table.name)] == ["tenant"]
            continue
        assert next(iter(table.primary_key.columns)).name == "tenant"
        assert {next(iter(index.columns)).name for index in table.indexes} <= {"tenant"}
        unique = [part for part in table.constraints if isinstance(part, UniqueConstraint)]
        assert {next(iter(part.columns)).name for part in unique} <= {"tenant"}
        assert inspector.get_pk_constraint(table.name)["constrained_columns"][0] == "tenant"
        assert {index["column_names"][0] for index in inspector.get_indexes(table.name)} <= {"tenant"}
    assert set(metadata.tables.values()) == {*TENANT_TABLES, audit, operations, schema_floor}


def test_sqlite_is_made_and_upgraded_when_it_is_opened(sqlite_url: str) -> None:
    assert Database.revision_at(sqlite_url) is None
    Database.open(sqlite_url).close()
    assert Database.revision_at(sqlite_url) == HEAD
    Database.open(sqlite_url).close()


def test_sqlite_is_not_upgraded_when_that_is_not_wanted(sqlite_url: str) -> None:
    with pytest.raises(SchemaError, match="got an empty database"):
        Database.open(sqlite_url, upgrade=False)
    assert Database.revision_at(sqlite_url) is None


def test_a_server_is_upgraded_on_demand_alone(empty_postgres_url: str) -> None:
    with pytest.raises(
        SchemaError, match=f"expected a schema of revision {HEAD}, got an empty database"
    ) as caught:
        Database.open(empty_postgres_url)
    assert caught.value.hint == "run: steersman db upgrade"
    assert Database.revision_at(empty_postgres_url) is None
    Database.open(empty_postgres_url, upgrade=True).close()
    assert Database.revision_at(empty_postgres_url) == HEAD
    Database.open(empty_postgres_url).close()


def test_a_newer_schema_is_refused(empty_url: str, engine: Engine) -> None:
    Database.open(empty_url, upgrade=True).close()
    mark(engine, "9999", floor="9998")
    for upgrade in (None, True, False):
        with pytest.raises(SchemaError, match="got '9999', which a newer release made") as caught:
            Database.open(empty_url, upgrade=upgrade)
        assert caught.value.hint == "install that release, or open a backup"
    assert Database.revision_at(empty_url) == "9999"


def test_a_newer_schema_that_was_only_added_to_is_opened(empty_url: str, engine: Engine) -> None:
    Database.open(empty_url, upgrade=True).close()
    mark(engine, "9999", floor=HEAD)
    for upgrade in (None, True, False):
        Database.open(empty_url, upgrade=upgrade).close()
    assert database_status(empty_url).revision == "9999"
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM schema_floor"))
    with pytest.raises(SchemaError, match="got '9999', which a newer release made"):
        Database.open(empty_url)


CONTRACTION = """
from alembic import op

revision, down_revision, phase = "9000", "{head}", "after"


def upgrade():
    op.drop_index("ix_episodes_open", "episodes")
"""


def next_release(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Become a release that takes an index away once the release of before has ended."""
    migrations = Path(schema.__file__).parent / "migrations"
    shutil.copytree(migrations, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "9000_contraction.py").write_text(CONTRACTION.format(head=HEAD))

    def configuration(connection: Connection | None = None) -> Config:
        config = alembic_config(connection)
        config.set_main_option("script_location", str(folder))
        return config

    monkeypatch.setattr(schema, "alembic_config", configuration)
    monkeypatch.setattr(schema, "HEAD", "9000")


def test_an_upgrade_in_two_phases(empty_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as later:
        next_release(later, tmp_path / "migrations")
        with pytest.raises(SchemaError, match="got an empty database") as caught:
            upgrade_database(empty_url, phase="after")
        assert caught.value.hint == "run: steersman db upgrade --phase before"
        assert upgrade_database(empty_url, phase="before") == Upgrade(None, READY)
        assert upgrade_database(empty_url, phase="before") == Upgrade(READY, READY)
    # Both releases work with it now.
    Database.open(empty_url, upgrade=False).close()
    with monkeypatch.context() as later:
        next_release(later, tmp_path / "again")
        Database.open(empty_url, upgrade=False).close()
        assert upgrade_database(empty_url, phase="after") == Upgrade(READY, "9000")
        assert upgrade_database(empty_url) == Upgrade("9000", "9000")
        Database.open(empty_url, upgrade=False).close()
    with pytest.raises(SchemaError, match="got '9000', which a newer release made"):
        Database.open(empty_url)


def test_the_release_of_before_works_with_the_new_schema(empty_url: str, engine: Engine) -> None:
    """What it sent is sent again, by the plain driver, to a schema that it made and this release has upgraded."""
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0001")
    first, *rest = load("0001", engine.dialect.name)
    with engine.connect() as connection:
        send(connection.connection.driver_connection, [first])
    upgrade_database(empty_url, phase="before")
    with engine.connect() as connection:
        assert send(connection.connection.driver_connection, rest) > 100
    with Steersman(Database.open(empty_url, upgrade=False)) as library:
        assert verify(library.database).differences == ()
        company = Company(library, RECORDED)
        assert len(company.rows("decisions")) == 8
        # Hold in state 0: rewards 0.25 and 0.75, then a further one of 0.5 at step size 1/2.
        assert company.q("hold") == (0.25 + 0.75) / 2 + 0.5 / 2
        assert company.decide(0, decision_id="last").feasible == ("hold", "trade", "walk")
        assert company.close("open", 0.5).learned == 1
        assert verify(library.database).differences == ()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE cells RENAME COLUMN steps TO count",
        "ALTER TABLE rewards ADD COLUMN more INTEGER NOT NULL",
    ],
)
def test_a_schema_that_the_release_of_before_cannot_use_would_be_found(
    empty_postgres_url: str, change: str
) -> None:
    engine = engine_at(empty_postgres_url, Settings())
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0001")
        connection.execute(text(change))
    with engine.connect() as connection, pytest.raises(psycopg.Error, match="column"):
        send(connection.connection.driver_connection, load("0001", engine.dialect.name))
    engine.dispose()


def test_tables_of_our_names_that_are_not_ours_are_refused(empty_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE tenants (name TEXT)"))
    with pytest.raises(SchemaError, match=r"got tables \['tenants'\] without a revision"):
        Database.open(empty_url, upgrade=True)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("These are notes, and no database.\n" * 100)
    with pytest.raises(StoreCorruptError, match="not a database"):
        Database.open(str(tmp_path / "notes.db"))
    assert (tmp_path / "notes.db").read_text().startswith("These are notes")


@pytest.mark.parametrize("revision", known_phases())
def test_a_file_of_every_released_schema_is_upgraded_and_learns_on(revision: str, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    shutil.copy(RELEASED / f"{revision}.sqlite3", path)
    with Steersman.open(str(path)) as library:
        assert Database.revision_at(str(path)) == HEAD
        assert verify(library.database).differences == ()
        company = Company(library, TENANT)
        assert len(company.rows("decisions")) == DECISIONS
        assert company.q("hold") == Q_HOLD
        company.teach("hold", 1.0)
        assert company.close("open at the release", 0.5).learned == 1
        assert verify(library.database).differences == ()
