"""The schema: what migrations make is what is declared, on both databases, from every release on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, UniqueConstraint, inspect, text

from steersman.errors import SchemaError, StoreCorruptError
from steersman.library import Steersman
from steersman.settings import Settings
from steersman.store.backends import engine_at
from steersman.store.engine import Database
from steersman.store.schema import HEAD, alembic_config, known_revisions
from steersman.store.tables import TENANT_TABLES, api_keys, audit, metadata
from steersman.usecases.verify import verify
from tests.store.released.make import DECISIONS, Q_HOLD, TENANT
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


def mark(engine: Engine, revision: str) -> None:
    """Make the database say that it has the schema of `revision`."""
    with engine.begin() as connection:
        connection.execute(
            text("CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL)")
        )
        connection.execute(text("DELETE FROM alembic_version"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})


def test_the_head_that_is_expected_is_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [HEAD]
    assert known_revisions()[-1] == HEAD
    assert known_revisions()[0] == "0001"


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
    assert set(metadata.tables.values()) == {*TENANT_TABLES, audit}


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
    mark(engine, "9999")
    for upgrade in (None, True, False):
        with pytest.raises(SchemaError, match="got '9999', which a newer release made") as caught:
            Database.open(empty_url, upgrade=upgrade)
        assert caught.value.hint == "install that release, or open a backup"
    assert Database.revision_at(empty_url) == "9999"


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


@pytest.mark.parametrize("revision", known_revisions())
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
