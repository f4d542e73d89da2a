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
    """A write transaction, and a way back to SQLAlchemy for what is in no hurry."""

    __slots__ = ("_driver", "_engine", "_joined", "_pipeline", "_raw", "cursor")

    def __init__(self, engine: Engine, raw: PoolProxiedConnection) -> None:
        """Take the connection on which it will begin."""
        self._engine = engine
        self._raw = raw
        self._joined: Connection | None = None
        self._driver: Any = raw.driver_connection
        self._pipeline: Any = None
        self.cursor: Any = None

    def open(self) -> None:
        """Go on from the BEGIN that was sent."""
        if self._engine.dialect.name == "sqlite":
            self.cursor = self._driver.cursor()
        else:
            self._pipeline = self._driver.pipeline()
            self._pipeline.__enter__()
            self.cursor = _PipelinedCursor(self._driver)

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

    def undo(self, *, useless: bool) -> None:
        """Roll back, or throw the connection away where it is `useless` or that fails; it raises nothing of its own."""
        if not useless:
            # Whatever is still heard on the way out is of statements that are undone.
            with suppress(Exception):
                self._leave_pipeline()
            try:
                self._raw.rollback()
            except Exception:  # noqa: BLE001  (what went wrong before is what callers shall hear of)
                useless = True
        if useless or self._in_pipeline():
            self._raw.invalidate()
            with suppress(Exception):
                self._leave_pipeline()  # of a connection that is closed, or the driver would warn of it later

    def _in_pipeline(self) -> bool:
        """Whether the connection would go back to its pool in a state that nobody expects there."""
        status = getattr(getattr(self._driver, "pgconn", None), "pipeline_status", 0)
        return bool(status)

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
