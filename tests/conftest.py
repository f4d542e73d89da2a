"""Fixtures that every test may use: a database on either backend, and a PostgreSQL server to be cruel to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from steersman.store.engine import Database
from steersman.usecases.isolation import grant_roles
from tests.support.postgres import OPERATOR, SERVING, PostgresCluster, temporary_cluster

# A loaded machine is slow, which says nothing about what is tested. In continuous integration Hypothesis itself
# drops the deadline, and the seed as well.
settings.register_profile("local", deadline=None)
if "CI" not in os.environ:
    settings.load_profile("local")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresCluster]:
    """A running server, one per test process: a second one costs less than sharing the first would."""
    with temporary_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresCluster) -> str:
    """A migrated database that `postgres_url` copies, roles granted: a copy costs less than the migrations."""
    name = postgres_server.create_database()
    database = Database.open(postgres_server.url(name), upgrade=True)
    grant_roles(database, serving=SERVING, operator=OPERATOR)
    database.close()
    return name


@pytest.fixture
def postgres_url(postgres_server: PostgresCluster, postgres_template: str) -> Iterator[str]:
    """The URL of a fresh, migrated database that belongs to an ordinary role."""
    name = postgres_server.create_database(template=postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresCluster) -> Iterator[str]:
    """The URL of an empty database that belongs to an ordinary role."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def private_postgres() -> Iterator[PostgresCluster]:
    """A running server for this test alone, which may stop, crash and restart it."""
    with temporary_cluster() as cluster:
        yield cluster


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite database that is not there yet."""
    return f"sqlite:///{tmp_path / 'steersman.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A fresh database: the test runs once on each backend."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
