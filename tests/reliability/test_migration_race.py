"""Migrations that race each other and the learning: one new version each, and every visit and reward arrives."""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from math import fsum, isclose
from typing import Any

from steersman.library import Steersman
from steersman.store.engine import Database
from steersman.usecases.migrate import migrate
from tests.reliability.books import Books, losses
from tests.reliability.children import PROCESSES, hear, say, spawn
from tests.reliability.clients import Client, Plan, arm
from tests.reliability.crowd import migrate_and_die, migrate_in_turn
from tests.reliability.judge import judge, tell
from tests.reliability.plans import ACTIONS, PLAIN, STATES, prepare, strangers

CLIENTS = 3
CALLS = 150
ROUNDS = 6
SEED = 11


def declaration(number: int) -> dict[str, object]:
    """The same actions in another order, which makes another version that every cell survives into."""
    turn = number % len(ACTIONS)
    return {"actions": ACTIONS[turn:] + ACTIONS[:turn], "states": STATES}


def race(url: str, clients: list[Client], lives: list[Future[bool]]) -> list[list[int | None]]:
    """Let two processes make each migration at the same moment, spread over the work of the clients.

    Returns the versions that the two made, round by round; None for one that found nothing left to do.
    """
    pipes = spawn(
        migrate_in_turn, [(url, PLAIN, [declaration(number) for number in range(1, ROUNDS + 1)])] * 2
    )
    made = []
    for number in range(1, ROUNDS + 1):
        goal = number * CALLS * CLIENTS // (ROUNDS + 1)
        while sum(len(client.told) for client in clients) < goal and not all(life.done() for life in lives):
            time.sleep(0.01)
        say(pipes, b"go")
        made.append(hear(pipes))
    return made


def test_migrations_race_each_other_under_load(store_url: str) -> None:
    """Two processes make the same migration at the same moment, six times, while three others learn."""
    prepare(store_url)
    clients = [Client(store_url, Plan(f"client{i}", SEED, CALLS)) for i in range(CLIENTS)]
    with ThreadPoolExecutor() as pool:
        lives = [pool.submit(client.live) for client in clients]
        made = race(store_url, clients, lives)
        assert [life.result() for life in lives] == [False] * CLIENTS
    books = judge(store_url)
    tell(SEED, f"{ROUNDS} migrations by two made versions {made},", books.counts())
    # Each round one of the two makes the next version, and the other finds nothing left to do.
    assert [sorted(versions, key=str) for versions in made] == [[n + 1, None] for n in range(1, ROUNDS + 1)]
    assert len(active_cells(books)) > 0
    assert losses(books, [answer for client in clients for answer in client.acknowledged]) == []
    assert strangers(books, [call for client in clients for call in client.plan.make()]) == []
    check_nothing_was_left_behind(books)


def active_cells(books: Books) -> dict[tuple[int, str], dict[str, object]]:
    """The cells of the tenant's newest version."""
    newest = max(row["version"] for row in books.policy_versions if row["tenant"] == PLAIN)
    rows = (row for row in books.cells if (row["tenant"], row["version"]) == (PLAIN, newest))
    return {(row["state"], row["action"]): row for row in rows}


def check_nothing_was_left_behind(books: Books) -> None:
    """In the newest version, visits and rewards of all versions add up: with 1/n, q is their mean."""
    visits: defaultdict[tuple[int, str], int] = defaultdict(int)
    rewarded: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    sums: defaultdict[str, list[float]] = defaultdict(list)
    for row in books.rewards:
        if row["tenant"] == PLAIN:
            sums[row["decision_id"]].append(row["value"])
    for row in books.decisions:
        if row["tenant"] == PLAIN and row["status"] != "void":
            visits[row["state"], row["action"]] += 1
            if row["decision_id"] in sums:
                rewarded[row["state"], row["action"]].append(fsum(sums[row["decision_id"]]))
    cells = active_cells(books)
    assert {key: cell["visits"] for key, cell in cells.items() if cell["visits"]} == visits
    assert {key: cell["updates"] for key, cell in cells.items() if cell["updates"]} == {
        key: len(values) for key, values in rewarded.items()
    }
    for key, values in rewarded.items():
        assert isclose(float(str(cells[key]["q"])), fsum(values) / len(values), rel_tol=1e-9)


def test_a_migration_killed_is_there_whole_or_not_at_all(store_url: str) -> None:
    prepare(store_url)
    client = Client(store_url, Plan("client", SEED, 60))
    client.live()
    for point, versions in (
        ("before BEGIN", 1),
        ("before COMMIT", 1),
        ("after COMMIT", 2),
        ("before COMMIT", 2),
    ):
        arguments = (store_url, PLAIN, declaration(1), point)
        process = PROCESSES.Process(target=migrate_and_die, args=arguments, daemon=True)
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        books = judge(store_url)
        assert sum(row["tenant"] == PLAIN for row in books.policy_versions) == versions
        check_nothing_was_left_behind(books)


@contextmanager
def held_before_commit(database: Database) -> Iterator[tuple[threading.Event, Callable[[], None]]]:
    """Hold the next transaction of `database` before its COMMIT: an event says that it is there, a call lets it go."""
    there, go = threading.Event(), threading.Event()

    def hold() -> None:
        there.set()
        assert go.wait(60)

    arm(database, "before COMMIT", 1, hold)
    try:
        yield there, go.set
    finally:
        go.set()


def test_who_waits_behind_a_migration_uses_the_new_version(store_url: str) -> None:
    prepare(store_url)
    with ExitStack() as stack:
        first, second = (stack.enter_context(Steersman.open(store_url)) for _ in range(2))
        early = second.decide(PLAIN, 0, decision_id="early")
        pool = stack.enter_context(ThreadPoolExecutor())
        there, go = stack.enter_context(held_before_commit(first.database))
        migration = pool.submit(migrate, first.database, PLAIN, declaration(1))
        assert there.wait(60)
        waiting: list[Future[Any]] = [
            pool.submit(second.decide, PLAIN, 1, decision_id="late"),
            pool.submit(second.reward, PLAIN, "early", 0.75),
        ]
        assert not any(settled(future) for future in waiting)
        go()
        assert migration.result().version == 2
        late, reward = (future.result() for future in waiting)
    books = judge(store_url)
    assert (early.version, late.version) == (1, 2)
    assert reward.effect == "learned"
    assert [(row["decision_id"], row["version"]) for row in books.learning_steps] == [("early", 2)]


def test_a_migration_that_waits_behind_a_decide_takes_its_visit_along(store_url: str) -> None:
    prepare(store_url)
    with ExitStack() as stack:
        first, second = (stack.enter_context(Steersman.open(store_url)) for _ in range(2))
        second.decide(PLAIN, 1)  # so that there is a version to leave
        pool = stack.enter_context(ThreadPoolExecutor())
        there, go = stack.enter_context(held_before_commit(first.database))
        decide = pool.submit(first.decide, PLAIN, 0)
        assert there.wait(60)
        migration = pool.submit(migrate, second.database, PLAIN, declaration(1))
        assert not settled(migration)
        go()
        decision = decide.result()
        assert migration.result().version == 2
    books = judge(store_url)
    assert decision.version == 1
    opening = {(row["version"], row["state"], row["action"]): row["visits"] for row in books.opening_cells}
    assert opening[2, 0, decision.action] == 1


def settled(future: Future[Any]) -> bool:
    """Whether a call ends although it has to wait; given a moment to be wrong in."""
    try:
        future.exception(timeout=0.3)
    except TimeoutError:
        return False
    return True
