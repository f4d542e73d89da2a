"""A database for many tests, each with tenants of its own: a fresh one for each would cost more than the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steersman.library import Steersman
from tests.support.company import Company
from tests.support.postgres import PostgresCluster


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def shared_library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Steersman]:
    """The library over a database that tests share; the test runs once on each backend."""
    if request.param == "sqlite":
        url = str(tmp_path_factory.mktemp("shared") / "steersman.db")
    else:
        server: PostgresCluster = request.getfixturevalue("postgres_server")
        url = server.url(server.create_database(template=request.getfixturevalue("postgres_template")))
    with Steersman.open(url) as library:
        yield library


@pytest.fixture
def company(shared_library: Steersman) -> Company:
    """A tenant of this test alone: actions hold and trade, two states, all settings at their defaults."""
    return Company.found(shared_library)
