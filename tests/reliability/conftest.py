"""The mark of tests that race, kill and starve: `pytest -m "not reliability"` leaves them out."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "reliability: takes seconds; races, kills, restarts and full disks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The hook sees the items of every folder.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("reliability")
