"""Fixtures for tests of the client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from steersman.client import Client
from tests.client.proxy import Proxy, proxying
from tests.support.served import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server over SQLite that the tests of a module share."""
    path: Path = tmp_path_factory.mktemp("served") / "steersman.db"
    with serving(f"sqlite:///{path}") as running:
        yield running


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A proxy in front of the server."""
    with proxying(server.url) as running:
        yield running


@pytest.fixture
def tenant(server: Server) -> str:
    """A tenant of two actions and two states."""
    name = f"company-{uuid4().hex}"
    server.library.create_tenant(name, {"actions": ["hold", "trade"], "states": 2})
    return name


@pytest.fixture
def key(server: Server, tenant: str) -> str:
    """A key of the tenant that may do everything."""
    return server.library.create_key(tenant, name="test").text


@pytest.fixture
def client(server: Server, key: str) -> Iterator[Client]:
    """A client of the tenant, with nothing between it and the server."""
    with Client(server.url, key) as connected:
        yield connected
