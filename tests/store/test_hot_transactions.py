"""Hot transactions: what they send arrives as it was, and what fails on its way undoes everything."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from steersman.errors import SteersmanError
from steersman.library import Steersman
from steersman.store import tables
from steersman.store.engine import Database
from steersman.store.hot.postgres import as_array
from steersman.store.transactions import HotTransaction
from steersman.usecases.decide import decide

_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
_COLUMNS = st.one_of(
    st.tuples(st.just("text"), st.lists(st.none() | _TEXTS)),
    st.tuples(st.just("bytea"), st.lists(st.none() | st.binary())),
    st.tuples(st.just("float8"), st.lists(st.none() | st.floats())),
    st.tuples(st.just("bigint"), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1))),
)
_HARD = ["NULL", "null", "", " ", '"', "\\", '\\"', "{}", "{", ",", "a,b", "\n", "é", "\U0001f600", "'", "%s"]


@pytest.fixture
def library(store_url: str) -> Iterator[Steersman]:
    database = Database.open(store_url)
    opened = Steersman(database)
    opened.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
    decide(database, "acme", 0, decision_id="first")
    yield opened
    database.close()


def _rows(database: Database) -> dict[str, int]:
    with database.snapshot() as connection:
        return {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in (tables.decisions, tables.cells, tables.rewards)
        }


def _row_of(transaction: HotTransaction, database: Database, decision_id: str) -> tuple[Any, ...]:
    """The row of a decision like the first."""
    (row,) = database.hot.find_decisions(transaction.cursor, [("acme", "first")])
    return (row[0], decision_id, *row[2:])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_COLUMNS)
@example(("text", _HARD))
@example(("bytea", [b"", b"\0", b"\\x", b'"', None]))
@example(("float8", [math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1]))
def test_a_column_arrives_as_it_was(
    psycopg_connection: psycopg.Connection[Any], column: tuple[str, list[Any]]
) -> None:
    kind, sent = column
    got = psycopg_connection.execute(f"SELECT unnest(%s::{kind}[])", [as_array(tuple(sent))]).fetchall()
    # Texts of floats tell -0.0 from 0.0 and NaN from what equals nothing.
    assert [repr(value) for (value,) in got] == [repr(value) for value in sent]


@pytest.fixture
def psycopg_connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url) as connection:
        yield connection


def test_a_statement_that_fails_unheard_fails_the_transaction(library: Steersman) -> None:
    database = library.database
    before = _rows(database)

    def twice(transaction: HotTransaction) -> str:
        row = _row_of(transaction, database, "second")
        database.hot.insert_decisions(transaction.cursor, [row])
        database.hot.insert_decisions(transaction.cursor, [row])
        return "acknowledged"

    # It is tried again for a while, since others may have made the same thing at once.
    with pytest.raises(SteersmanError, match=r"UNIQUE|the same thing at once"):
        database.with_patience(0.2).run_hot(twice, tenants=["acme"])
    assert _rows(database) == before
    assert decide(database, "acme", 0, decision_id="third").decision_id == "third"
    assert _rows(database)["decisions"] == before["decisions"] + 1


def test_what_fails_in_between_undoes_what_was_sent(library: Steersman) -> None:
    database = library.database
    before = _rows(database)

    def broken(transaction: HotTransaction) -> None:
        database.hot.insert_decisions(transaction.cursor, [_row_of(transaction, database, "second")])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run_hot(broken, tenants=["acme"])
    assert _rows(database) == before
    assert decide(database, "acme", 0, decision_id="second").decision_id == "second"


def test_sqlalchemy_joins_a_transaction_under_way(library: Steersman) -> None:
    database = library.database

    def mixed(transaction: HotTransaction) -> tuple[int, int]:
        row = _row_of(transaction, database, "second")
        database.hot.insert_decisions(transaction.cursor, [row])
        count = select(func.count()).select_from(tables.decisions)
        between = transaction.connection.scalar(count) or 0
        database.hot.insert_decisions(transaction.cursor, [(row[0], "third", *row[2:])])
        return between, transaction.connection.scalar(count) or 0

    assert database.run_hot(mixed, tenants=["acme"]) == (2, 3)
    assert _rows(database)["decisions"] == 3


def _end_backend(transaction: HotTransaction, url: str) -> None:
    """End the server's process behind a transaction that is under way."""
    transaction.cursor.execute("SELECT pg_backend_pid()", None)
    ((backend,),) = transaction.cursor.fetchall()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])


def _states_in_pool(database: Database) -> list[tuple[int, int]]:
    """Return (pipeline status, transaction status) of the connections that the pool hands out next."""
    taken = [database.engine.raw_connection() for _ in range(2)]
    drivers: list[Any] = [raw.driver_connection for raw in taken]
    found = [(int(d.pgconn.pipeline_status), int(d.pgconn.transaction_status)) for d in drivers]
    for raw in taken:
        raw.close()
    return found


@pytest.mark.parametrize("point", ["begun", "opened", "at work", "committed"])
def test_an_interrupt_leaves_no_connection_in_a_pipeline(
    postgres_url: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Steersman.open(postgres_url) as library:
        library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
        library.decide("acme", 0, decision_id="first")

        def interrupted(plain: Any) -> Any:
            def then(*arguments: Any) -> None:
                plain(*arguments)
                raise KeyboardInterrupt

            return then

        with monkeypatch.context() as patch:
            if point == "begun":
                patch.setattr(HotTransaction, "open", interrupted(lambda *_: None))
            elif point == "opened":
                patch.setattr(HotTransaction, "open", interrupted(HotTransaction.open))
            elif point == "at work":
                hot = type(library.database.hot)
                patch.setattr(hot, "insert_decisions", interrupted(hot.insert_decisions))
            else:
                patch.setattr(HotTransaction, "commit", interrupted(HotTransaction.commit))
            with pytest.raises(KeyboardInterrupt):
                library.decide("acme", 0, decision_id="second")
        assert _states_in_pool(library.database) == [(0, 0), (0, 0)]
        assert library.decide("acme", 0, decision_id="second").decision_id == "second"
        assert _rows(library.database)["decisions"] == 2


def test_a_connection_that_ends_hides_no_error_and_fills_no_log(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Steersman.open(postgres_url) as library:
        library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
        library.decide("acme", 0, decision_id="first")
        tries = 0

        def broken(transaction: HotTransaction) -> None:
            nonlocal tries
            tries += 1
            _end_backend(transaction, postgres_url)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            library.database.run_hot(broken, tenants=["acme"])
        assert tries == 1

        def once(transaction: HotTransaction) -> int:
            nonlocal tries
            tries += 1
            if tries == 2:
                _end_backend(transaction, postgres_url)
            return len(library.database.hot.find_decisions(transaction.cursor, [("acme", "first")]))

        assert library.database.run_hot(once, tenants=["acme"]) == 1
        assert tries == 3
        assert _states_in_pool(library.database) == [(0, 0), (0, 0)]
    gc.collect()  # what the driver would say of a pipeline that nobody left, it says when that is collected
    assert [record.getMessage() for record in caplog.records] == []
