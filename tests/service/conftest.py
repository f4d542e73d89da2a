"""Fixtures for tests of the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.served import Caller, Server, serving


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that the tests of a module share; the test runs once on each backend."""
    if request.param == "sqlite":
        path: Path = tmp_path_factory.mktemp("served") / "steersman.db"
        with serving(f"sqlite:///{path}") as running:
            yield running
        return
    cluster = request.getfixturevalue("postgres_server")
    name = cluster.create_database(template=request.getfixturevalue("postgres_template"))
    with serving(cluster.url(name), roles=True) as running:
        yield running
    cluster.drop_database(name)


@pytest.fixture
def company(server: Server) -> Caller:
    """A tenant of this test alone, with a key that may do everything."""
    return server.company()
