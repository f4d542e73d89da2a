"""Defects that a server can be started with, most of them so that tests can show that they would see them.

Each replaces a part of the program in the process that calls `plant`, from outside.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Engine, event

from steersman.store import engine
from steersman.store.access import begin_admitting
from steersman.store.engine import Database
from steersman.store.hot.postgres import PostgresStatements
from steersman.store.transactions import HotTransaction

__all__ = ["DEFECTS", "plant"]

_HELD_BACK = 0.3  # seconds
_OF_TENANT = re.compile(r'\bdecisions\.tenant = (\?|%\(tenant_1\)s(::\w+)?( COLLATE "C")?)')


def plant(defect: str) -> None:
    """Make this process have the defect of that name."""
    DEFECTS[defect]()


def _answer_before_commit() -> None:
    """Answers are sent, and the commit comes a little later."""

    def run_hot(self: Database, work: Callable[[HotTransaction], Any], *, tenants: Iterable[str]) -> Any:
        raw = self.engine.raw_connection()
        transaction = HotTransaction(self.engine, raw)
        self.begin_hot(raw, tenants)
        transaction.open()
        answer = work(transaction)

        def commit() -> None:
            time.sleep(_HELD_BACK)
            self.commit_hot(transaction)
            raw.close()

        threading.Thread(target=commit, daemon=True).start()
        return answer

    Database.run_hot = run_hot  # type: ignore[method-assign]


def _forget_locks() -> None:
    """Cells are read, changed and written back with nothing locked in between."""
    PostgresStatements.lock_states = lambda *_: None  # type: ignore[method-assign]


def _drop_tenant() -> None:
    """Queries about decisions find those of every tenant."""

    @event.listens_for(Engine, "before_cursor_execute", retval=True)
    def rewrite(_c: Any, _d: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
        statement = _OF_TENANT.sub(r"(\g<0> OR true)", statement)
        return statement, parameters


def _set_for_the_session() -> None:
    """The tenants of a transaction stay admitted on its connection, which goes back to the pool."""

    class Widened:
        """A connection of libpq for which SET LOCAL is SET."""

        def __init__(self, pgconn: Any) -> None:
            self._pgconn = pgconn

        def exec_(self, command: bytes) -> Any:
            return self._pgconn.exec_(command.replace(b"SET LOCAL", b"SET"))

    class Driver:
        """What `begin_admitting` sees of a connection."""

        def __init__(self, driver: Any) -> None:
            self.pgconn = Widened(driver.pgconn)

    vars(engine)["begin_admitting"] = lambda driver, names, **how: begin_admitting(
        Driver(driver), names, **how
    )


def _clock_that_goes_back() -> None:
    """The clock is an hour behind from SIGUSR1 on; not a defect of ours, but of a machine."""
    plain = time.time_ns

    def set_back(*_: object) -> None:
        time.time_ns = lambda: plain() - 3600 * 10**9

    signal.signal(signal.SIGUSR1, set_back)


DEFECTS: dict[str, Callable[[], None]] = {
    "answer before commit": _answer_before_commit,
    "forget locks": _forget_locks,
    "drop tenant": _drop_tenant,
    "set for the session": _set_for_the_session,
    "clock that goes back": _clock_that_goes_back,
}
