"""Errors of drivers and libraries never reach a caller: each is provoked for real, on a real database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pysqlite3
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from steersman.errors import (
    ConflictError,
    SteersmanError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from steersman.library import Steersman
from steersman.settings import Settings
from steersman.store.engine import Database
from steersman.store.failures import is_transient, translated, translation
from steersman.usecases.database import upgrade_database
from steersman.usecases.isolation import grant_roles, serving_problems
from tests.support.company import Company
from tests.support.drivers import driver_cursor
from tests.support.postgres import OPERATOR, SERVING, PostgresCluster, url_as

HASTY = Settings(patience=0.2)


def call_everything(company: Company) -> Iterator[Callable[[], object]]:
    """Every use case that touches the hot tables."""
    library = company.library
    yield lambda: library.decide(company.name, 0, decision_id="new")
    yield lambda: library.reward(company.name, "old", 0.5)
    yield lambda: library.close_episode(company.name, "e", 0.5)
    yield lambda: library.void(company.name, "old")
    yield lambda: library.expire(company.name)
    yield lambda: library.create_tenant("another", {"actions": ["a"], "states": 1})


def require_error(calls: Iterator[Callable[[], object]], error: type[StoreError], message: str) -> None:
    """Every call raises `error`, whose cause is what the driver raised."""
    for call in calls:
        with pytest.raises(error, match=message) as caught:
            call()
        assert type(caught.value) is error
        assert caught.value.__cause__ is not None


@pytest.fixture
def library(sqlite_url: str) -> Iterator[Steersman]:
    with Steersman.open(sqlite_url, settings=HASTY) as opened:
        yield opened


def prepared(library: Steersman) -> Company:
    company = Company.found(library, reward_wait=0, default_reward=0.5)
    company.decide(decision_id="old", episode="e")
    return company


# SQLite


def test_a_locked_file(library: Steersman, sqlite_url: str) -> None:
    company = prepared(library)
    other = Database.open(sqlite_url)
    with other.transaction():
        calls = [
            call for number, call in enumerate(call_everything(company)) if number != 4
        ]  # expire reads first
        require_error(iter(calls), StoreUnavailableError, "kept the database busy: database is locked")
    other.close()


def test_a_missing_table(library: Steersman) -> None:
    company = prepared(library)
    with library.database.transaction() as connection:
        for table in ("tenants", "audit"):
            connection.execute(text(f"ALTER TABLE {table} RENAME TO hidden_{table}"))
    require_error(call_everything(company), StoreError, "the database refused: no such table: tenants")


def test_a_file_without_room(library: Steersman) -> None:
    company = prepared(library)

    def fill(connection: Connection) -> None:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {pages}"))
        connection.execute(text("CREATE TABLE filler (a BLOB)"))
        connection.execute(text("INSERT INTO filler VALUES (zeroblob(10000000))"))

    with pytest.raises(StoreFullError, match="database or disk is full") as caught:
        library.database.run(fill)
    assert "free disk space" in (caught.value.hint or "")
    assert company.decide(decision_id="old", episode="e").decision_id == "old"  # reading goes on


def test_a_damaged_page(sqlite_url: str, tmp_path: Path) -> None:
    with Steersman.open(sqlite_url) as library:
        company = prepared(library)
    path = tmp_path / "steersman.db"
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 200] = b"\xff" * 200
    path.write_bytes(content)

    def decide() -> None:
        with Steersman.open(sqlite_url) as library:
            Company(library, company.name).decide()

    with pytest.raises(StoreCorruptError, match="no sound database"):
        decide()


def test_a_folder_where_a_file_was_expected(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        Database.open(str(tmp_path / "folder"))


def test_a_statement_that_breaks_a_rule_of_the_schema(library: Steersman) -> None:
    prepared(library)

    def breaks(connection: Connection) -> None:
        connection.execute(text("UPDATE cells SET q = NULL"))

    with pytest.raises(StoreError, match="NOT NULL constraint failed"):
        library.database.run(breaks)


def test_a_value_that_the_driver_cannot_send(library: Steersman) -> None:
    def binds(connection: Connection) -> None:
        driver_cursor(connection).execute("SELECT ?", (object(),))

    with pytest.raises(StoreError, match="the database refused"):
        library.database.run(binds)


# PostgreSQL


@pytest.fixture
def server_library(postgres_url: str) -> Iterator[Steersman]:
    with Steersman.open(postgres_url, settings=Settings(patience=0.2)) as opened:
        yield opened


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="not available") as caught:
        Database.open(f"postgresql://tester@/steersman?host={tmp_path}", settings=HASTY)
    assert "same ids" in (caught.value.hint or "")


def test_a_database_or_role_that_is_not_there(postgres_server: PostgresCluster) -> None:
    for url, part in (
        (postgres_server.url("nowhere"), "the database's name"),
        (postgres_server.url("template1").replace("tester", "nobody"), "the role or the password"),
    ):
        with pytest.raises(StoreUnavailableError, match="does not exist") as caught:
            Database.open(url, settings=HASTY)
        assert f"correct {part}" in (caught.value.hint or "")


def test_a_role_that_is_not_let_in(private_postgres: PostgresCluster) -> None:
    url = private_postgres.url("template1")
    private_postgres.administer("ALTER ROLE tester PASSWORD 'right'")
    private_postgres.administer("REVOKE ALL ON DATABASE template1 FROM PUBLIC")
    (private_postgres.folder / "pg_hba.conf").write_text(
        "local all postgres trust\nlocal all all scram-sha-256\n"
    )
    private_postgres.restart("fast")
    for who, message, hint in (
        ("tester", "no password supplied", "correct the role or the password"),
        ("tester:wrong", "password authentication failed", "correct the role or the password"),
        ("tester:right", "permission denied for database", "GRANT CONNECT"),
    ):
        with pytest.raises(StoreUnavailableError, match=message) as caught:
            Database.open(url.replace("tester", who))
        assert hint in (caught.value.hint or "")
        assert caught.value.__cause__ is not None
        assert not is_transient(caught.value.__cause__)  # it is said at once


def test_a_missing_table_on_a_server(server_library: Steersman) -> None:
    company = prepared(server_library)
    with server_library.database.transaction() as connection:
        connection.execute(text("ALTER TABLE tenants RENAME TO hidden"))
    require_error(
        call_everything(company), StoreError, 'the database refused: relation "tenants" does not exist'
    )


def test_a_role_that_may_not(server_library: Steersman) -> None:
    company = prepared(server_library)
    with server_library.database.transaction() as connection:
        connection.execute(text("REVOKE ALL ON tenants FROM tester"))
    require_error(call_everything(company), StoreError, "permission denied for table tenants")


def test_a_role_that_is_not_the_owner_is_told_who_may(empty_postgres_url: str, postgres_url: str) -> None:
    with Steersman.open(url_as(OPERATOR, postgres_url)) as operators:
        for work, message in (
            (lambda: upgrade_database(url_as(SERVING, empty_postgres_url)), "denied for schema public"),
            (lambda: grant_roles(operators.database, serving=SERVING, operator=OPERATOR), "must be owner of"),
        ):
            with pytest.raises(StoreError, match=message) as caught:
                work()
            assert type(caught.value) is StoreError
            assert "run as the owner" in (caught.value.hint or "")


def test_a_connection_that_the_server_ends(
    server_library: Steersman, postgres_server: PostgresCluster
) -> None:
    company = prepared(server_library)

    def is_ended(connection: Connection) -> None:
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with postgres_server._connect() as administrator:
            administrator.execute("SELECT pg_terminate_backend(%s)", [own])
        driver_cursor(connection).execute("SELECT 1")

    with pytest.raises(StoreUnavailableError, match="not available"):
        server_library.database.run(is_ended)
    assert company.reward("old", 0.5).effect == "waits"  # the pool has sound connections again


def test_a_server_that_refuses_writes_for_a_while(
    postgres_url: str, postgres_server: PostgresCluster
) -> None:
    name = urlsplit(postgres_url).path.removeprefix("/")
    with Steersman.open(postgres_url, settings=HASTY) as library:
        company = prepared(library)
        postgres_server.administer("ALTER DATABASE {} SET default_transaction_read_only = on", name)
        library.database.close()  # as a server that was demoted ends its sessions
        require_error(call_everything(company), StoreUnavailableError, "read-only transaction")
        assert serving_problems(library.database) == ["the database is read-only"]
        postgres_server.administer("ALTER DATABASE {} RESET default_transaction_read_only", name)
        # No session that was begun meanwhile is left in the pool.
        assert company.decide(decision_id="new").decision_id == "new"
        assert company.reward("old", 0.5).effect == "waits"
        assert "the database is read-only" not in serving_problems(library.database)


def test_a_deadlock_is_tried_again(postgres_url: str) -> None:
    with Steersman.open(postgres_url) as library:
        companies = [prepared(library) for _ in range(2)]
        meeting = threading.Barrier(2, timeout=30)
        attempts: list[int] = []

        def lock(order: int, connection: Connection) -> int:
            attempts.append(order)
            for place, company in enumerate(companies[::order]):
                if place and len(attempts) <= 2:
                    meeting.wait()
                connection.execute(
                    text("SELECT 1 FROM tenants WHERE tenant = :name FOR UPDATE"), {"name": company.name}
                )
            return order

        done: list[int] = []
        threads = [
            threading.Thread(
                target=lambda work: done.append(library.database.run(work)), args=[partial(lock, order)]
            )
            for order in (1, -1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == [-1, 1]
        assert len(attempts) > 2  # one of the two was ended by the server and tried again


def test_a_text_that_the_server_cannot_keep(server_library: Steersman) -> None:
    def sends(connection: Connection) -> None:
        driver_cursor(connection).execute("SELECT %s::text", ("a\x00b",))

    with pytest.raises(StoreError, match="NUL"):
        server_library.database.run(sends)


# The table of translations, for what cannot be provoked here


@pytest.mark.parametrize(
    ("state", "error", "again"),
    [
        ("40001", StoreUnavailableError, True),  # serialization failure
        ("40P01", StoreUnavailableError, True),  # deadlock
        ("23505", ConflictError, True),  # unique violation
        ("08006", StoreUnavailableError, True),  # connection failure
        ("57P01", StoreUnavailableError, True),  # administrator's shutdown
        ("57P03", StoreUnavailableError, True),  # starting up
        ("53300", StoreUnavailableError, True),  # too many connections
        ("25006", StoreUnavailableError, True),  # a standby, or a server that was told to refuse writes
        ("53100", StoreFullError, False),  # disk full
        ("42P01", StoreError, False),  # undefined table
        ("22003", StoreError, False),  # numeric value out of range
        ("23502", StoreError, False),  # not null violation
    ],
)
def test_states_of_a_server(state: str, error: type[SteersmanError], again: bool) -> None:
    raised = psycopg.errors.lookup(state)("the server's words")
    assert type(translation(raised)) is error
    # Callers of the service are told of a conflict, and what the server says names its constraints.
    assert ("the server's words" in str(translation(raised))) == (error is not ConflictError)
    assert is_transient(raised) == again


def test_whatever_a_driver_raises_is_translated_and_nothing_else_is() -> None:
    raisable = [
        *(
            kind
            for kind in vars(psycopg).values()
            if isinstance(kind, type) and issubclass(kind, psycopg.Error)
        ),
        *(kind for name, kind in vars(pysqlite3.dbapi2).items() if name.endswith("Error")),
        PoolTimeoutError,
    ]
    assert len(raisable) > 15
    for kind in raisable:
        with pytest.raises(SteersmanError), translated():
            raise kind("words")
    for other in (ValueError, KeyError, KeyboardInterrupt):
        with pytest.raises(other), translated():
            raise other


def test_errors_of_the_engine_are_translated() -> None:
    with pytest.raises(SteersmanError), translated():
        create_engine("sqlite://").connect().execute(text("SELECT missing"))
