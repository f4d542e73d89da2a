"""Opening a database, and its transactions."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import pysqlite3
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from steersman.errors import MissingExtraError, SteersmanError, UnsupportedStoreError
from steersman.settings import Settings
from steersman.store import schema
from steersman.store.failures import is_transient, translated
from steersman.store.filesystem import refuse_network_file_system
from steersman.store.hot import HotStatements, hot_statements

__all__ = ["SQLITE_PRAGMAS", "WAL_SAFE_SQLITE", "Database", "sqlite_version"]

T = TypeVar("T")

WAL_SAFE_SQLITE = (3, 51, 3)
"""Older SQLite libraries can corrupt a database in WAL mode that several processes write."""

SQLITE_PRAGMAS = ("synchronous=FULL", "cache_size=-65536", "wal_autocheckpoint=8000")
"""How every SQLite connection is set: durable commits, 64 MiB of cache, a checkpoint every 8,000 pages.

A checkpoint costs a sync of its own and rewrites each page once, however often it changed in between.
"""

_ATTEMPTS = 50
_CACHE_SIZE = 8192


def sqlite_version() -> tuple[int, ...]:
    """Return the version of the SQLite library that is used."""
    return tuple(int(part) for part in pysqlite3.sqlite_version.split("."))


class Database:
    """One database and the connections to it; safe to share among threads, and usable again after a fork."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        """Take an engine that `open` has set up."""
        self.engine = engine
        self.settings = settings
        self.hot: HotStatements = hot_statements(engine.dialect.name)
        self._cache: dict[tuple[Any, ...], Any] = {}
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._random = random.Random()

    @classmethod
    def open(
        cls, url: str | None = None, *, settings: Settings | None = None, upgrade: bool | None = None
    ) -> Self:
        """Open the database at `url`: a file, `sqlite:///file`, or `postgresql://...`.

        A SQLite file is made or upgraded as needed; a server's schema only when `upgrade` says so.
        Raises UnsupportedStoreError, SchemaError, StoreUnavailableError or MissingExtraError.
        """
        settings = settings or Settings.read()
        target = _parse_url(url or settings.database_url)
        sqlite = target.get_backend_name() == "sqlite"
        with translated():
            engine = _sqlite_engine(target, settings) if sqlite else _postgres_engine(target, settings)
            try:
                schema.ensure(engine, upgrade=sqlite if upgrade is None else upgrade)
            except BaseException:
                engine.dispose()
                raise
        return cls(engine, settings)

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that writes; commit at the end, roll back on any error."""
        self._leave_parent_connections()
        with translated(), self.engine.connect() as connection, _abandoning(connection), connection.begin():
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection that reads one unchanging state of the database and writes nothing."""
        self._leave_parent_connections()
        options: dict[str, Any] = {"steersman_reads": True}
        if self.dialect != "sqlite":
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with (
            translated(),
            self.engine.connect() as connection,
            _abandoning(connection),
            connection.execution_options(**options).begin(),
        ):
            yield connection

    def run(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` does in one transaction of its own, tried again after conflicts and lost connections.

        `work` must name what it makes before: a try whose COMMIT was lost is then found by the next one.
        """
        deadline = time.monotonic() + self.settings.patience
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self.transaction() as connection:
                    return work(connection)
            except Exception as error:
                # Errors are translated by now; what the driver said is their cause.
                cause = error.__cause__ if isinstance(error, SteersmanError) else error
                if (
                    cause is None
                    or not is_transient(cause)
                    or attempt == _ATTEMPTS
                    or time.monotonic() > deadline
                ):
                    raise
            # Full jitter keeps writers that collided from colliding again.
            time.sleep(self._random.uniform(0, min(1.0, 0.005 * 2**attempt)))
        raise AssertionError("the last attempt returns or raises")

    def cached(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return what `make` returns, made once for `key`; only for what never changes.

        The database is the only source of truth, so nothing else is kept here: a version's states, actions,
        settings and parent, under a key that begins with the tenant's secret, which tells a tenant from a
        namesake that was erased.
        """
        found = self._cache.get(key)
        if found is None:
            found = make()
            with self._lock:
                if len(self._cache) >= _CACHE_SIZE:
                    self._cache.clear()
                self._cache[key] = found
        return found  # type: ignore[no-any-return]

    def _leave_parent_connections(self) -> None:
        # A child must not use, nor close, the connections that it inherited: SQLite would drop its locks.
        if self._process != os.getpid():
            with self._lock:
                if self._process != os.getpid():
                    self.engine.dispose(close=False)
                    self._process = os.getpid()


@contextmanager
def _abandoning(connection: Connection) -> Iterator[None]:
    """Throw a connection away when the driver found it broken, so that the pool does not hand it out again."""
    try:
        yield
    except BaseException:
        driver = connection.connection.driver_connection if not connection.invalidated else None
        if getattr(driver, "broken", False) or getattr(driver, "closed", False):
            connection.invalidate()
        raise


def _parse_url(url: str) -> URL:
    if "://" not in url:
        return URL.create("sqlite", database=url)
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise UnsupportedStoreError("expected a file, sqlite:///file or postgresql://user@host/database")
    return parsed


def _sqlite_engine(url: URL, settings: Settings) -> Engine:
    if not url.database or url.database == ":memory:":
        raise UnsupportedStoreError(
            "expected a database file: learning in memory would not outlive the process"
        )
    path = Path(url.database)
    if not path.parent.is_dir():
        raise UnsupportedStoreError(f"expected an existing folder, got {path.parent}", where=str(path))
    refuse_network_file_system(path)
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        module=pysqlite3.dbapi2,
        pool_size=settings.pool_size,
        max_overflow=-1,
        connect_args={
            "timeout": settings.patience,
            "check_same_thread": False,
            "isolation_level": None,
            "cached_statements": 256,
        },
    )
    journal = "WAL" if sqlite_version() >= WAL_SAFE_SQLITE else "DELETE"

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        for pragma in (f"journal_mode={journal}", *SQLITE_PRAGMAS):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("steersman_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _postgres_engine(url: URL, settings: Settings) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise MissingExtraError("postgres", purpose="a PostgreSQL database") from None
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_size=settings.pool_size,
        max_overflow=0,
        pool_timeout=settings.patience,
        isolation_level="READ COMMITTED",
        # A prepared plan may be made while a table is empty, when a scan looks cheap, and be kept as it grows.
        connect_args={"options": "-c enable_seqscan=off"},
    )
