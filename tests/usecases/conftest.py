"""Fixtures for tests of use cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steersman.library import Steersman
from tests.support.archived import live
from tests.support.company import Company
from tests.support.shared import shared_database


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def shared_library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Steersman]:
    """The library over a database that tests share; the test runs once on each backend."""
    with shared_database(request, tmp_path_factory) as library:
        yield library


@pytest.fixture
def company(shared_library: Steersman) -> Company:
    """A tenant of this test alone: actions hold and trade, two states, all settings at their defaults."""
    return Company.found(shared_library)


@pytest.fixture
def busy(company: Company) -> Company:
    """A tenant with something of everything to archive."""
    live(company)
    return company
