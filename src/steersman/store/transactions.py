"""A hot transaction: on the driver's own connection, since SQLAlchemy's costs more than the work.

On PostgreSQL its statements go in a pipeline: one whose rows nobody asks for waits for no answer, so that a decide
waits for five answers, not for nine. What the server says of such a statement is heard with the next rows, and by the
commit at the latest.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Engine, PoolProxiedConnection

__all__ = ["HotTransaction"]


class HotTransaction:
    """A write transaction that has begun, and a way back to SQLAlchemy for what is in no hurry."""

    __slots__ = ("_driver", "_engine", "_joined", "_pipeline", "_raw", "cursor")

    def __init__(self, engine: Engine, raw: PoolProxiedConnection) -> None:
        """Take the connection on which it has begun."""
        self._engine = engine
        self._raw = raw
        self._joined: Connection | None = None
        driver: Any = raw.driver_connection
        self._driver, self._pipeline = driver, None
        if engine.dialect.name == "sqlite":
            self.cursor = driver.cursor()
        else:
            self.cursor = _PipelinedCursor(driver)
            self._pipeline = driver.pipeline()
            self._pipeline.__enter__()

    @property
    def connection(self) -> Connection:
        """A SQLAlchemy connection within this transaction, which it must not end."""
        if self._joined is None:
            self._leave_pipeline()  # SQLAlchemy looks at once at what a statement gave
            self._joined = Connection(self._engine, connection=self._raw)
        return self._joined

    def commit(self) -> None:
        """Commit, and raise what the driver does where that, or a statement before, has failed."""
        if self._pipeline is None:
            self._driver.commit()
        else:
            self.cursor.execute("COMMIT")
            self._leave_pipeline()

    def roll_back(self) -> None:
        """Undo everything."""
        # Whatever is still heard on the way out is of statements that are undone.
        with suppress(Exception):
            self._leave_pipeline()
        self._raw.rollback()

    def _leave_pipeline(self) -> None:
        """Wait for what is on its way; raise the first error of it."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.__exit__(None, None, None)


class _PipelinedCursor:
    """A cursor of psycopg for each statement, since one that waits for its rows cannot be used for another."""

    __slots__ = ("_connection", "_latest")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._latest: Any = None

    def execute(self, statement: str, parameters: Any = None) -> _PipelinedCursor:
        self._latest = self._connection.execute(statement, parameters)
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._latest.fetchall()
        return found
