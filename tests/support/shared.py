"""A database for many tests, each with tenants of its own: a fresh one for each would cost more than the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from steersman.library import Steersman
from tests.support.postgres import PostgresCluster

__all__ = ["shared_database"]


@contextmanager
def shared_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Steersman]:
    """Open the library over a new database on the backend that the fixture's parameter names."""
    if request.param == "sqlite":
        url = str(tmp_path_factory.mktemp("shared") / "steersman.db")
    else:
        server: PostgresCluster = request.getfixturevalue("postgres_server")
        url = server.url(server.create_database(template=request.getfixturevalue("postgres_template")))
    with Steersman.open(url) as library:
        yield library
