"""Engines for the two databases: how their connections are set up."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pysqlite3
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from steersman.errors import MissingExtraError, UnsupportedStoreError
from steersman.settings import Settings
from steersman.store.filesystem import refuse_network_file_system
from steersman.store.forks import refuse_tainted

__all__ = ["SQLITE_PRAGMAS", "WAL_SAFE_SQLITE", "begin_writing", "engine_at", "sqlite_version"]

WAL_SAFE_SQLITE = (3, 51, 3)
"""Older SQLite libraries can corrupt a database in WAL mode that several processes write."""

SQLITE_PRAGMAS = ("synchronous=FULL", "cache_size=-65536", "wal_autocheckpoint=8000")
"""How every SQLite connection is set: durable commits, 64 MiB of cache, a checkpoint every 8,000 pages.

A checkpoint costs a sync of its own and rewrites each page once, however often it changed in between.
"""


def sqlite_version() -> tuple[int, ...]:
    """Return the version of the SQLite library that is used."""
    return tuple(int(part) for part in pysqlite3.sqlite_version.split("."))


def engine_at(url: str | None, settings: Settings) -> Engine:
    """Return an engine for the database at `url` (default: the settings'); nothing is connected yet.

    Raises UnsupportedStoreError or MissingExtraError.
    """
    target = _parse_url(url or settings.database_url)
    sqlite = target.get_backend_name() == "sqlite"
    return _sqlite_engine(target, settings) if sqlite else _postgres_engine(target, settings)


def _parse_url(url: str) -> URL:
    if "://" not in url:
        return URL.create("sqlite", database=url)
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise UnsupportedStoreError("expected a file, sqlite:///file or postgresql://user@host/database")
    return parsed


def _sqlite_engine(url: URL, settings: Settings) -> Engine:
    if not url.database or url.database == ":memory:":
        raise UnsupportedStoreError(
            "expected a database file: learning in memory would not outlive the process"
        )
    given = Path(url.database)
    if not given.parent.is_dir():
        raise UnsupportedStoreError(f"expected an existing folder, got {given.parent}", where=str(given))
    path = given.absolute()
    refuse_network_file_system(path)
    refuse_tainted(str(path))
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

    @event.listens_for(engine, "do_connect")
    def make_private(*_: object) -> None:
        # What steers the draws is in it. SQLite gives the files beside it the same mode.
        with suppress(OSError):  # it is there; or it cannot be made, which SQLite tells of
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        for pragma in (f"journal_mode={journal}", *SQLITE_PRAGMAS):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        if connection.get_execution_options().get("steersman_reads", False):
            driver.execute("BEGIN")  # type: ignore[union-attr]
        elif not driver.in_transaction:  # type: ignore[union-attr]  # it joins one that runs otherwise
            patience = connection.get_execution_options().get("steersman_patience", settings.patience)
            begin_writing(driver, patience, usual=settings.patience)

    return engine


def begin_writing(connection: Any, patience: float, *, usual: float) -> None:
    """Begin a transaction on a connection of SQLite's driver with the write lock, waiting at most `patience` seconds.

    `usual` is how long its statements wait otherwise.

    SQLite's own waiting asks ever more seldom, so that newcomers overtake whoever has waited longest. Asking at
    random moments of one distribution gives every waiter the same chance.
    """
    connection.execute("PRAGMA busy_timeout=0")
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except pysqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.0005, 0.005))
    finally:
        connection.execute(f"PRAGMA busy_timeout={int(usual * 1000)}")


def _postgres_engine(url: URL, settings: Settings) -> Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise MissingExtraError("postgres", purpose="a PostgreSQL database") from None
    # A prepared plan may be made while a table is empty, when a scan looks cheap, and be kept as it grows.
    options = f"-c enable_seqscan=off -c lock_timeout={max(1, int(settings.patience * 1000))}"
    given = url.query.get("options", "")
    connect_args = {
        "options": f"{given if isinstance(given, str) else ' '.join(given)} {options}",
        "connect_timeout": max(2, int(settings.patience)),
    }
    return create_engine(
        url.set(drivername="postgresql+psycopg").difference_update_query(["options"]),
        pool_size=settings.pool_size,
        max_overflow=0,
        pool_timeout=settings.patience,
        isolation_level="READ COMMITTED",
        connect_args=connect_args,
    )
