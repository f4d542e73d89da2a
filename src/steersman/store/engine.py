"""Opening a database, and its transactions."""

from __future__ import annotations

import copy
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, PoolProxiedConnection

from steersman.errors import NotFoundError, SteersmanError, StoreUnavailableError
from steersman.settings import Settings
from steersman.store import forks, schema
from steersman.store.access import admit, begin_admitting, check_owners
from steersman.store.backends import begin_writing, engine_at
from steersman.store.failures import is_transient, outlives_its_use, translated
from steersman.store.hot import HotStatements, hot_statements
from steersman.store.transactions import HotTransaction

__all__ = ["Database"]

_T = TypeVar("_T")

_ATTEMPTS = 50
_CACHE_SIZE = 8192
_RESTART = 5.0  # seconds


class Database:
    """One database and the connections to it; safe to share among threads, and usable again after a fork."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        """Take an engine that `open` has set up."""
        self.engine = engine
        self.settings = settings
        self.hot: HotStatements = hot_statements(engine.dialect.name)
        self._cache: dict[tuple[Any, ...], Any] = {}
        self._file = engine.url.database if engine.dialect.name == "sqlite" else None
        self._lock = threading.Lock()
        self._random = random.Random()
        self.admitted: frozenset[str] | None = None
        self._opened: tuple[int, int] | None = None
        self._patience = settings.patience  # of which views may have less
        forks.watch(self)

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        upgrade: bool | None = None,
        create: bool = True,
    ) -> Self:
        """Open the database at `url`: a file, `sqlite:///file`, or `postgresql://...`.

        A SQLite file is made, unless `create` is false, and upgraded as needed; a server's schema is upgraded only
        when `upgrade` says so. Raises NotFoundError for a file that is not there and not to be made,
        UnsupportedStoreError, SchemaError, StoreUnavailableError or MissingExtraError.
        """
        settings = settings or Settings.read()
        with translated():
            engine = engine_at(url, settings)
        sqlite = engine.dialect.name == "sqlite"
        if sqlite and not create and not Path(str(engine.url.database)).exists():
            raise NotFoundError(
                f"there is no database at {engine.url.database}",
                hint="one is made with: steersman tenant create",
            )
        database = cls(engine, settings)

        def look() -> None:
            with translated():
                schema.ensure(engine, upgrade=sqlite if upgrade is None else upgrade)

        try:
            # A server that starts anew is back within seconds; an address where none is should not take minutes.
            database.patiently(look, at_most=_RESTART)
        except BaseException:
            engine.dispose()
            raise
        database._opened = database._place() if sqlite else None
        return database

    @staticmethod
    def revision_at(url: str | None = None, *, settings: Settings | None = None) -> str | None:
        """Return the revision of the schema at `url`, None for an empty database; raise as `open` does."""
        with translated():
            engine = engine_at(url, settings or Settings.read())
            try:
                with engine.connect() as connection:
                    return schema.current_revision(connection)
            finally:
                engine.dispose()

    def for_tenants(self, tenants: Iterable[str]) -> Self:
        """Return a view for the length of a call: its transactions touch rows of these tenants and bases alone.

        That is so on a server, for a role that row-level security holds (see `access`); of a view, the view is of
        those that are in both. A base is named by `@` and its name. Raises InvalidInputError for what is no name.
        """
        view = copy.copy(self)
        owners = check_owners(tenants)
        view.admitted = owners if self.admitted is None else owners & self.admitted
        return view

    @staticmethod
    def upgrade_at(url: str | None = None, *, settings: Settings | None = None, phase: schema.Phase) -> str:
        """Run the migrations of a phase at `url` and return the revision then; raise as `open` does.

        An address that does not answer is given up at once: who upgrades is there to try again.
        """
        with translated():
            engine = engine_at(url, settings or Settings.read())
            try:
                return schema.upgrade(engine, phase)
            finally:
                engine.dispose()

    def with_patience(self, seconds: float) -> Self:
        """Return a view that waits at most so many seconds, more than 0, for a busy or restarting database."""
        view = copy.copy(self)
        view.settings = replace(self.settings, patience=min(seconds, self.settings.patience))
        return view

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def refuse_misplaced(self) -> None:
        """Raise StoreUnavailableError where the file was moved, removed or replaced since it was opened.

        What is written then would be in a file that nobody opens again.
        """
        if self._opened is not None and self._place() != self._opened:
            raise StoreUnavailableError(
                "the database file was moved, removed or replaced since it was opened",
                where=self._file,
                hint="end this process and start it anew",
            )

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that writes; commit at the end, roll back on any error."""
        forks.refuse_tainted(self._file)
        self.refuse_misplaced()
        with translated(), self.engine.connect() as connection, _abandoning(connection):
            connection.execution_options(steersman_patience=self.settings.patience)
            with connection.begin():
                self._admit_to(connection)
                yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection that reads one unchanging state of the database and writes nothing."""
        forks.refuse_tainted(self._file)
        with translated(), self._reader() as connection, _abandoning(connection):
            yield connection

    def run(self, work: Callable[[Connection], _T]) -> _T:
        """Return what `work` does in one transaction of its own, tried again after conflicts and lost connections.

        `work` must name what it makes before: a try whose COMMIT was lost is then found by the next one.
        """

        def once() -> _T:
            with self.transaction() as connection:
                return work(connection)

        return self.patiently(once)

    def run_hot(self, work: Callable[[HotTransaction], _T], *, tenants: Iterable[str]) -> _T:
        """Do as `run` does, in a hot transaction (see `transactions`).

        It touches the rows of `tenants` alone, of a view those that the view admits as well.
        """
        admitted = frozenset(tenants) if self.admitted is None else self.admitted.intersection(tenants)

        def once() -> _T:
            forks.refuse_tainted(self._file)
            self.refuse_misplaced()
            with translated():
                raw = self.engine.raw_connection()
                transaction = HotTransaction(self.engine, raw)
                try:
                    self.begin_hot(raw, admitted)
                    transaction.open()
                    answer = work(transaction)
                    self.commit_hot(transaction)
                except BaseException as error:
                    transaction.undo(useless=_is_useless(raw.driver_connection, error))
                    raise
                finally:
                    raw.close()
            return answer

        return self.patiently(once)

    def begin_hot(self, raw: PoolProxiedConnection, tenants: Iterable[str]) -> None:
        """Send the BEGIN of a transaction of `tenants` that writes."""
        driver: Any = raw.driver_connection
        if self._file is not None:
            begin_writing(driver, self.settings.patience, usual=self._patience)
            return
        hasty = self.settings.patience < self._patience
        begin_admitting(driver, tenants, at_most=self.settings.patience if hasty else None)

    def commit_hot(self, transaction: HotTransaction) -> None:
        """Commit a hot transaction."""
        transaction.commit()

    def patiently(self, once: Callable[[], _T], *, at_most: float = math.inf) -> _T:
        """Return what `once` does, tried again while that may help, for the patience of the settings or `at_most`."""
        deadline = time.monotonic() + min(self.settings.patience, at_most)
        for attempt in count(1):
            try:
                return once()
            except Exception as error:
                if not self._may_try_again(error, attempt, deadline):
                    raise
        raise AssertionError("a try returns or raises")

    def _place(self) -> tuple[int, int] | None:
        """Return what tells the file from any other that has its name; None where there is none."""
        try:
            found = os.stat(self._file or "")  # noqa: PTH116  (a Path for each transaction costs more than the look)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _admit_to(self, connection: Connection) -> None:
        if self.admitted is not None:
            admit(connection, self.admitted)

    def _reader(self) -> Connection:
        """Return a connection that reads and has answered: one from the pool may be of a server that is gone."""
        options: dict[str, Any] = {"steersman_reads": True}
        if self.dialect != "sqlite":
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

        def once() -> Connection:
            connection = self.engine.connect()
            try:
                connection.execution_options(**options).begin()
                connection.exec_driver_sql("SELECT 1")
                self._admit_to(connection)
            except BaseException:
                connection.invalidate()
                connection.close()
                raise
            return connection

        return self.patiently(once)

    def _may_try_again(self, error: Exception, attempt: int, deadline: float) -> bool:
        """Return whether `error` may be gone at the next try, after a little sleep; False when patience is over."""
        # Errors may be translated already; what the driver said is their cause then.
        cause = error.__cause__ if isinstance(error, SteersmanError) else error
        if cause is None or not is_transient(cause) or attempt == _ATTEMPTS or time.monotonic() > deadline:
            return False
        # Full jitter keeps writers that collided from colliding again.
        time.sleep(self._random.uniform(0, min(1.0, 0.005 * 2**attempt)))
        return True

    def cached(self, key: tuple[Any, ...], make: Callable[[], _T]) -> _T:
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
        return found

    def close_before_fork(self) -> str | None:
        """Close idle connections to a file; return the file when others are in use (see `forks`)."""
        if self._file is None:
            return None
        in_use = self.engine.pool.checkedout() > 0  # type: ignore[attr-defined]
        self.engine.dispose()
        return self._file if in_use else None

    def leave_parent(self) -> None:
        """Forget, in a child, the parent's connections without closing them, and a lock that may be held."""
        self.engine.dispose(close=False)
        self._lock = threading.Lock()


@contextmanager
def _abandoning(connection: Connection) -> Iterator[None]:
    """Throw a connection away when it is of no more use, so that the pool does not hand it out again."""
    try:
        yield
    except BaseException as error:
        if not connection.invalidated and _is_useless(connection.connection.driver_connection, error):
            connection.invalidate()
        raise


def _is_useless(driver: Any, error: BaseException) -> bool:
    return bool(getattr(driver, "broken", False) or getattr(driver, "closed", False)) or outlives_its_use(
        error
    )
