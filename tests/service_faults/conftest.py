"""Fixtures for tests of the service under faults; they bear the mark of the long ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.service_faults.servers import Deployment, deploy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The hook sees the items of every folder.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("reliability")


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Callable[..., Deployment]]:
    """A function that prepares the database at a URL for the service; what it started is ended with the test."""
    with ExitStack() as stack:

        def make(url: str, **settings: Any) -> Deployment:
            return stack.enter_context(deploy(url, tmp_path, **settings))

        yield make
