"""The driver below SQLAlchemy, for tests of what is said to it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

__all__ = ["driver_cursor"]


def driver_cursor(connection: Connection) -> Any:
    """Return a cursor of the driver, within the transaction of `connection`."""
    driver: Any = connection.connection.driver_connection
    return driver.cursor()
