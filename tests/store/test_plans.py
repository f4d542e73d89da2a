"""No hot path scans a table: what a server or SQLite plans for every statement that it was really sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, text

from steersman.domain.records import CloseRequest, DecideRequest, RewardRequest
from steersman.library import Steersman
from steersman.store.engine import Database
from steersman.store.hot import HotStatements
from tests.support.company import Company
from tests.support.postgres import SERVING, url_as

NEVER_SCANNED = (
    "decisions",
    "cells",
    "rewards",
    "learning_steps",
    "episodes",
    "state_heads",
    "archived_decisions",
    "archived_rewards",
)
EXPLAINED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


class SQLitePlans:
    """Gathers what SQLite is sent, values filled in, and asks for the plans afterwards."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.statements: set[str] = set()
        database.engine.dispose()
        event.listen(database.engine, "connect", self._trace)

    def _trace(self, connection: Any, _record: object) -> None:
        connection.set_trace_callback(self.statements.add)

    def scans(self) -> list[str]:
        """Each step of a plan that reads more of a table than a key says."""
        found = []
        hot = [statement for statement in self.statements if statement.startswith(EXPLAINED)]
        with self.database.snapshot() as connection:
            for statement in hot:
                plan = connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statement.replace("%", "%%"))
                found += [f"{step} in {statement}" for *_, step in plan if self._is_scan(step)]
        return found

    @staticmethod
    def _is_scan(step: str) -> bool:
        if step.startswith("SCAN"):
            return "CONSTANT ROW" not in step
        searched = step.startswith("SEARCH") and step.split()[1] in NEVER_SCANNED
        return searched and not re.search(r"\(tenant=\? AND \w+[=<>]", step)


class PostgresPlans:
    """Has every statement explained, with its values, just before it runs."""

    def __init__(self, database: Database) -> None:
        self.statements: set[str] = set()
        self._scans: list[str] = []
        plans = self

        class Explaining(psycopg.Cursor[Any]):
            def execute(self, query: Any, params: Any = None, **options: Any) -> Explaining:
                if str(query).lstrip().startswith(EXPLAINED):
                    plain = psycopg.Cursor(self.connection)
                    ((plan,),) = plain.execute(f"EXPLAIN (FORMAT JSON) {query}", params, **options).fetchall()
                    plans.statements.add(str(query))
                    plans._scans += [f"{json.dumps(node)} in {query}" for node in _scans(plan[0]["Plan"])]
                super().execute(query, params, **options)
                return self

        database.engine.dispose()
        event.listen(
            database.engine,
            "connect",
            lambda connection, _: setattr(connection, "cursor_factory", Explaining),
        )

    def scans(self) -> list[str]:
        """Each node of a plan that reads more of a table than a key says."""
        return self._scans


def _scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inner = node.pop("Plans", [])
    name, kind = node.get("Relation Name"), node["Node Type"]
    condition = node.get("Index Cond", "")
    if name in NEVER_SCANNED and kind not in {"ModifyTable", "Bitmap Heap Scan"}:
        if not re.search(r"tenant = ", condition) or " AND " not in condition:
            yield node
    elif kind == "Bitmap Index Scan" and not re.search(r"tenant = .* AND ", condition):
        yield node
    for child in inner:
        yield from _scans(child)


class Listening:
    """The hot statements, with the names of those that were used."""

    def __init__(self, hot: HotStatements) -> None:
        self._hot = hot
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(self._hot, name)


def live(company: Company) -> None:
    """Every hot path: one at a time and in lists, first and again, in episodes and outside."""
    library, name = company.library, company.name
    for number in range(2):
        requests = [
            DecideRequest(name, n % 50, episode=f"e{n % 3}" if n % 2 else None, decision_id=f"d{n}")
            for n in range(20)
        ]
        library.decide_many([*requests, DecideRequest(name, 9, episode="ghost", decision_id="d0")])
        library.reward_many([RewardRequest(name, f"d{n}", 0.5) for n in range(10)])
        library.reward_many([RewardRequest(name, f"d{n}", 0.5, f"more {n}") for n in range(5)])
        library.void(name, "d18")
        library.close_many([CloseRequest(name, f"e{n}", 0.5) for n in range(2)])
        library.expire(name)
        company.decide(0, decision_id=f"single {number}")
        company.reward(f"single {number}", 0.5)


def fill(library: Steersman) -> None:
    """Thousands of rows of other tenants and of this one, so that a planner has reasons to choose."""
    for _ in range(3):
        company = Company.found(library, states=1000)
        requests = [
            DecideRequest(company.name, n % 700, ["hold"], f"e{n % 40}" if n % 3 == 0 else None, f"d{n}")
            for n in range(1200)
        ]
        library.decide_many(requests)
        library.reward_many([RewardRequest(company.name, f"d{n}", 0.5) for n in range(1000)])
    with library.database.transaction() as connection:
        connection.execute(text("ANALYZE"))


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_every_hot_statement_is_found_by_key(filled: bool, store_url: str, tmp_path: Path) -> None:
    with Steersman.open(store_url) as library:
        if filled:
            fill(library)
        check_plans(library, watched(library, tmp_path))


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_row_level_security_leads_to_no_scan(filled: bool, postgres_url: str, tmp_path: Path) -> None:
    with Steersman.open(postgres_url) as owner, Steersman.open(url_as(SERVING, postgres_url)) as serving:
        if filled:
            fill(owner)
        check_plans(serving, watched(owner, tmp_path))


def test_nothing_archived_is_looked_for_where_nothing_was(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        listening = Listening(library.database.hot)
        library.database.hot = listening
        live(Company.found(library, states=50, reward_wait=0, default_reward=0.25))
        assert {"find_rewards", "find_decisions"} <= listening.used
        assert {name for name in listening.used if "archived" in name} == set()


def watched(library: Steersman, folder: Path) -> Company:
    """A tenant that settles what waits, and of which a decision was archived."""
    company = Company.found(library, states=50, learning={"gamma": 0.9}, reward_wait=0, default_reward=0.25)
    company.teach("hold", 0.5)
    assert library.archive(company.name, older_than=0, output=folder).decisions == 1
    return company


def check_plans(library: Steersman, company: Company) -> None:
    """Live as `company` with what `library` may see, and hold every plan that was made against the rule."""
    listening = Listening(library.database.hot)
    library.database.hot = listening
    watch = SQLitePlans if library.database.dialect == "sqlite" else PostgresPlans
    plans = watch(library.database)
    live(Company(Steersman(library.database.for_tenants([company.name])), company.name))
    assert plans.scans() == []
    hot = {name for name in vars(HotStatements) if not name.startswith("_")}
    assert listening.used - {"shares_database"} == hot - {"shares_database"}
    mentioned = {table for table in NEVER_SCANNED for statement in plans.statements if table in statement}
    missing = {"state_heads"} if library.database.dialect == "sqlite" else set()
    assert mentioned == set(NEVER_SCANNED) - missing


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM decisions",
        "SELECT q FROM cells WHERE tenant = 'a'",
        "SELECT q FROM cells WHERE action = 'a' AND state = 1",
        "UPDATE episodes SET steps = 1 WHERE status = 'open'",
        "SELECT count(*) FROM rewards r JOIN decisions d ON r.tenant = d.tenant",
    ],
)
def test_a_scan_would_be_found(statement: str, store_url: str) -> None:
    with Steersman.open(store_url) as library:
        watch = SQLitePlans if library.database.dialect == "sqlite" else PostgresPlans
        plans = watch(library.database)
        with library.database.transaction() as connection:
            connection.execute(text(statement))
        assert plans.scans() != []
