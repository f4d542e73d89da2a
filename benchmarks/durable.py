"""Durable decisions and rewards per second, beside a floor that does the same to the database and nothing else.

Run with `python -m benchmarks.durable [sqlite|postgresql]`. 100 tenants x 1,000 states x 10 actions, every cell
present. The floor is a replay: the statements that Steersman sent for such a workload are recorded once, with
their parameters, and sent again to a copy of the same database by the plain driver, every row fetched. Both run
in turn in one process, five rounds, medians. SQLite commits with synchronous=FULL, PostgreSQL with
synchronous_commit=on, and a probe of the disk's fdatasync stands beside every figure.
"""

from __future__ import annotations

import gc
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pysqlite3

from benchmarks.support import ROUNDS, Lines, fsync_probe, machine, postgres_database, scratch
from steersman.domain.records import DecideRequest, Decision, RewardRequest
from steersman.store.backends import SQLITE_PRAGMAS
from steersman.store.engine import Database
from steersman.store.transactions import HotTransaction
from steersman.usecases import scope
from steersman.usecases.decide import decide_many
from steersman.usecases.reward import reward_many
from steersman.usecases.start import start
from steersman.usecases.tenants import create_tenant

TENANTS, STATES, ACTIONS = 100, 1000, 10
_CALLS = {1: 200, 64: 40}  # list length: lists a round
_AIMS = {("sqlite", 1): 1.5, ("sqlite", 64): 1.5, ("postgresql", 1): 1.8, ("postgresql", 64): 1.5}
_RATES = {"sqlite": 12_000, "postgresql": 6_000}  # decisions a second, in lists of 64


@dataclass(frozen=True, slots=True)
class Statement:
    """One call of a driver's cursor as it was made."""

    method: str  # execute or executemany
    text: str
    parameters: Any
    fetches: bool


class Recorder:
    """A cursor that notes what is asked of it."""

    def __init__(self, cursor: Any, log: list[Statement]) -> None:
        """Take the cursor of the driver, and the list to note into."""
        self._cursor = cursor
        self._log = log

    def execute(self, text: str, parameters: Any = ()) -> Recorder:
        """Execute and note."""
        self._cursor.execute(text, parameters)
        self._log.append(Statement("execute", text, parameters, fetches=False))
        return self

    def executemany(self, text: str, parameters: Any) -> None:
        """Execute for every row and note."""
        self._cursor.executemany(text, parameters)
        self._log.append(Statement("executemany", text, parameters, fetches=False))

    def fetchall(self) -> Any:
        """Return every row, and note that they were wanted."""
        self._log[-1] = replace(self._log[-1], fetches=True)
        return self._cursor.fetchall()


def populate(database: Database) -> None:
    """Make the tenants, and every cell of every state with some evidence."""
    declaration = {"actions": [f"card-{index}" for index in range(ACTIONS)], "states": {"size": STATES}}
    for tenant in range(TENANTS):
        create_tenant(database, f"tenant-{tenant:03d}", declaration)
        start(database, f"tenant-{tenant:03d}")
    generator = random.Random(7)
    cells: list[tuple[Any, ...]] = [
        (f"tenant-{tenant:03d}", 1, state, f"card-{action}", generator.random(), 9, 9, 0.0, 0)
        for tenant in range(TENANTS)
        for state in range(STATES)
        for action in range(ACTIONS)
    ]
    tenants = {cell[0] for cell in cells}
    database.run_hot(lambda transaction: database.hot.write_cells(transaction.cursor, cells), tenants=tenants)


def requests(generator: random.Random, length: int) -> list[DecideRequest]:
    """Return a list of requests spread over tenants and states."""
    return [
        DecideRequest(f"tenant-{generator.randrange(TENANTS):03d}", generator.randrange(STATES))
        for _ in range(length)
    ]


def replay(connection: Any, transactions: Sequence[list[Statement]], begin: str | None) -> None:
    """Send recorded transactions by the plain driver; where it begins them itself, in a pipeline as ours are."""
    for statements in transactions:
        with connection.pipeline() if begin is None else nullcontext():
            connection.execute(begin or "BEGIN")
            for statement in statements:
                cursor = connection.cursor()
                getattr(cursor, statement.method)(statement.text, statement.parameters)
                if statement.fetches:
                    cursor.fetchall()
            connection.execute("COMMIT")


def record(work: Callable[[], Any], log: list[list[Statement]]) -> Any:
    """Return what `work`, one transaction, does; note its statements."""
    statements: list[Statement] = []
    plain = scope.Scope.__init__

    def listening(self: scope.Scope, database: Database, transaction: HotTransaction) -> None:
        plain(self, database, transaction)
        self.cursor = Recorder(self.cursor, statements)

    with mock.patch.object(scope.Scope, "__init__", listening):
        answer = work()
    log.append(statements)
    return answer


def _seconds(work: Callable[[], Any]) -> float:
    gc.collect()
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _reward_lists(decisions: Sequence[Sequence[Any]]) -> list[list[RewardRequest]]:
    return [
        [RewardRequest(item.tenant, item.decision_id, 0.5) for item in answers if isinstance(item, Decision)]
        for answers in decisions
    ]


def measure(copy: Callable[[], str], folder: Path, lines: Lines) -> None:
    """Measure one backend; `copy` makes another database like the populated one.

    The model, whose statements are recorded, and the floor, which replays them, go on from round to round as ours
    does, so that all three grow alike and pay for their checkpoints alike.
    """
    ours, model = Database.open(copy()), Database.open(copy())
    sqlite = ours.dialect == "sqlite"
    url = copy()
    floor = (
        _plain_sqlite(url)
        if sqlite
        else psycopg.connect(url, options="-c enable_seqscan=off", autocommit=True)
    )
    generator = random.Random(11)
    for length, calls in _CALLS.items():
        figures: dict[str, list[float]] = {
            name: [] for name in ("decide", "reward", "d-floor", "r-floor", "probe")
        }
        for _ in range(ROUNDS):
            _one_round(ours, model, floor, [requests(generator, length) for _ in range(calls)], figures)
            figures["probe"].append(fsync_probe(folder))
        _report(ours.dialect, length, calls, figures, lines)
    for database in (ours, model):
        database.close()
    floor.close()


def _one_round(
    ours: Database,
    model: Database,
    floor: Any,
    lists: list[list[DecideRequest]],
    figures: dict[str, list[float]],
) -> None:
    decide_log: list[list[Statement]] = []
    reward_log: list[list[Statement]] = []
    recorded = [record(partial(decide_many, model, items), decide_log) for items in lists]
    for items in _reward_lists(recorded):
        record(partial(reward_many, model, items), reward_log)
    begin = "BEGIN IMMEDIATE" if ours.dialect == "sqlite" else None
    answers: list[Any] = []
    figures["decide"].append(_seconds(lambda: answers.extend(decide_many(ours, items) for items in lists)))
    figures["d-floor"].append(_seconds(lambda: replay(floor, decide_log, begin)))
    rewards = _reward_lists(answers)
    figures["reward"].append(_seconds(lambda: [reward_many(ours, items) for items in rewards]))
    figures["r-floor"].append(_seconds(lambda: replay(floor, reward_log, begin)))


def _plain_sqlite(url: str) -> Any:
    connection = pysqlite3.connect(url, isolation_level=None, cached_statements=256)
    for pragma in ("journal_mode=WAL", *SQLITE_PRAGMAS):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _report(dialect: str, length: int, calls: int, figures: dict[str, list[float]], lines: Lines) -> None:
    count = length * calls
    probe = statistics.median(figures["probe"]) * 1e3
    for verb, floor in (("decide", "d-floor"), ("reward", "r-floor")):
        # Each round ran ours and the floor side by side, so the ratio is taken within a round.
        ratios = [a / b for a, b in zip(figures[verb], figures[floor], strict=True)]
        ours, below = (statistics.median(figures[name]) / count for name in (verb, floor))
        ratio, aim = statistics.median(ratios), _AIMS[dialect, length]
        label = "one at a time" if length == 1 else f"lists of {length}"
        cells = [dialect, f"{verb}, {label}", f"{ours * 1e6:.0f}", f"{below * 1e6:.0f}", f"{ratio:.2f}"]
        cells += [f"{1 / ours:,.0f}", f"{probe:.2f}"]
        lines.add(*cells, aim=f"ratio at most {aim}", met=ratio <= aim)
        if verb == "decide" and length == 64:
            rate = _RATES[dialect]
            lines.add(
                dialect, "", "", "", "", "", "", aim=f"at least {rate:,} decisions/s", met=1 / ours >= rate
            )


def main(backends: Sequence[str]) -> int:
    """Measure and print; return 1 when an aim was missed."""
    lines = Lines(
        f"Durable decisions and rewards ({machine()})",
        ["database", "what", "ours µs", "floor µs", "ratio", "per second", "fdatasync ms"],
    )
    with scratch() as folder:
        if "sqlite" in backends:
            first = folder / "populated.db"
            database = Database.open(str(first))
            populate(database)
            database.close()
            numbers = iter(range(1000))
            measure(lambda: str(shutil.copy(first, folder / f"{next(numbers)}.db")), folder, lines)
        if "postgresql" in backends:
            with postgres_database() as make:
                url = make(None)
                database = Database.open(url, upgrade=True)
                populate(database)
                database.close()
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute("VACUUM ANALYZE")
                measure(lambda: make(url), folder, lines)
    lines.print()
    return int(bool(lines.missed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or ["sqlite", "postgresql"]))
