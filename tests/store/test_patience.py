"""How long callers wait for each other, and that nobody waits for ever."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pysqlite3
import pytest

from steersman.errors import SchemaError, StoreUnavailableError
from steersman.library import Steersman
from steersman.settings import Settings
from steersman.store.engine import Database
from steersman.usecases.tenants import create_tenant
from steersman.usecases.void import void
from tests.support.drivers import driver_cursor

DECLARED = {"actions": ["hold", "trade"], "states": 4}


def test_a_change_gets_its_turn_under_steady_decides(postgres_url: str) -> None:
    stop = threading.Event()
    with Steersman.open(postgres_url) as library:
        library.create_tenant("acme", DECLARED)
        library.decide("acme", 0)

        def go_on(state: int) -> None:
            while not stop.is_set():
                library.decide("acme", state)

        threads = [threading.Thread(target=go_on, args=(number % 4,)) for number in range(8)]
        for thread in threads:
            thread.start()
        try:
            changed = threading.Thread(
                target=lambda: library.change_tenant("acme", {"exploration": {"c": 2}}), daemon=True
            )
            changed.start()
            # Sharers that keep coming would put it off without end; this is only where the test gives up.
            changed.join(60)
            assert not changed.is_alive()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert library.show_tenant("acme").active_version == 2


def test_a_stuck_session_is_waited_for_only_so_long(postgres_url: str) -> None:
    settings = Settings(patience=1.0)
    with Steersman.open(postgres_url, settings=settings) as library:
        library.create_tenant("acme", DECLARED)
        library.decide("acme", 0)
        with library.database.transaction() as connection:
            driver_cursor(connection).execute("SELECT * FROM tenants FOR UPDATE")
            with pytest.raises(StoreUnavailableError, match="kept the rows locked"):
                library.decide("acme", 0)
        assert library.decide("acme", 0).version == 1


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://user@127.0.0.1:{silent.getsockname()[1]}/database"
        with pytest.raises(StoreUnavailableError):
            Database.open(url, settings=Settings(patience=2.0))
    assert not list(tmp_path.iterdir())


def test_options_of_a_url_are_kept(postgres_url: str) -> None:
    url = f"{postgres_url}&options=-c%20work_mem%3D7MB"
    with Steersman.open(url) as library, library.database.snapshot() as connection:
        assert driver_cursor(connection).execute("SHOW work_mem").fetchone() == ("7MB",)
        assert driver_cursor(connection).execute("SHOW enable_seqscan").fetchone() == ("off",)


def test_readers_do_not_wait_for_a_writer(sqlite_url: str) -> None:
    with Steersman.open(sqlite_url) as library:
        library.create_tenant("acme", DECLARED)
        with library.database.transaction():
            begin = time.monotonic()
            with Steersman.open(sqlite_url, settings=Settings(patience=60.0)) as reader:
                assert [owner.tenant for owner in reader.list_tenants()] == ["acme"]
            # Not how fast it is, but that it did not sit out its patience.
            assert time.monotonic() - begin < 30


def test_a_hasty_view_leaves_before_the_others_do(sqlite_url: str) -> None:
    with Steersman.open(sqlite_url) as library:
        hasty = library.database.with_patience(0.01)
        holder = library.database.engine.raw_connection()
        holder.driver_connection.execute("BEGIN IMMEDIATE")  # type: ignore[union-attr]
        threading.Timer(3.0, holder.rollback).start()
        for view in (hasty, hasty.with_patience(60.0)):  # a view of it is no more patient
            with pytest.raises(StoreUnavailableError, match="kept the database busy"):
                create_tenant(view, "acme", DECLARED)
            with pytest.raises(StoreUnavailableError, match="kept the database busy"):
                void(view, "acme", "d")
        assert create_tenant(library.database, "acme", DECLARED).tenant == "acme"
        holder.close()


def test_a_foreign_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"
    connection = pysqlite3.connect(str(path))
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.commit()
    with pytest.raises(SchemaError, match="customers"):
        Database.open(str(path))
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]
    connection.close()
