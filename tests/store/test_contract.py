"""The contract of the store, row by row, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from steersman.domain.records import Cell, CellKey, Decision, LearningStep, Reward, SeenRow
from steersman.errors import NotFoundError
from steersman.library import Steersman
from steersman.store.audit import list_lines, write_line
from steersman.store.cells import cell_totals, iterate_cells, open_cells
from steersman.store.decisions import (
    decision_of,
    get_decision,
    list_decisions,
    pack_decision,
    sealed_part,
)
from steersman.store.engine import Database
from steersman.store.episodes import get_episode, list_episodes, overdue_decisions, overdue_episodes
from steersman.store.hot import HotStatements
from steersman.store.rewards import pack_reward, reward_of, rewards_of_decision
from steersman.store.seals import seal
from steersman.store.steps import pack_step
from steersman.store.tenants import count_rows, delete_rows, insert_tenant
from tests.support.company import Company
from tests.support.drivers import driver_cursor

DECISION = Decision(
    tenant="",
    decision_id="d1",
    version=1,
    state=1,
    action="trade",
    propensity=0.1 + 0.2,  # 0.30000000000000004: every bit is kept
    explored=True,
    explore=True,
    epsilon=0.1,
    c=2.0**0.5,
    feasible=("trade",),
    seen=SeenRow((1 / 3,), (2**40,), (7,), (2.5,)),
    episode="e",
    step=0,
    metadata={"n": 2**53 + 1, "t": "ä€\U0001f6a2"},
    reasons={"hold": "not now"},
    created_at=1_700_000_000_000_000,
)


@pytest.fixture
def hot(shared_library: Steersman) -> HotStatements:
    return shared_library.database.hot


@pytest.fixture
def cursor(company: Company) -> Iterator[Any]:
    """A cursor within a transaction that is rolled back."""
    connection = company.library.database.engine.connect()
    with connection, connection.begin() as transaction:
        yield driver_cursor(connection)
        transaction.rollback()


def row_of(decision: Decision) -> tuple[Any, ...]:
    whole = len(decision.feasible) == 2
    metadata = (
        None if decision.metadata is None else '{"n":9007199254740993,"t":"\\u00e4\\u20ac\\ud83d\\udea2"}'
    )
    return pack_decision(
        decision, whole_catalogue=whole, latest_version=1, fingerprint=b"\x00" * 32, metadata=metadata
    )


def test_a_decision_comes_back_to_the_last_bit(hot: HotStatements, cursor: Any, company: Company) -> None:
    whole = replace(
        DECISION,
        tenant=company.name,
        decision_id="d2",
        feasible=("hold", "trade"),
        seen=SeenRow((0.0, 1.0), (0, 1), (0, 1), (0.0, 0.0)),
        episode=None,
        step=None,
        metadata=None,
        reasons=None,
    )
    plain = replace(DECISION, tenant=company.name)
    hot.insert_decisions(cursor, [row_of(plain), row_of(whole)])
    rows = hot.find_decisions(cursor, [(company.name, "d1"), (company.name, "d2"), (company.name, "d3")])
    assert sorted((decision_of(row, ("hold", "trade")) for row in rows), key=lambda d: d.decision_id) == [
        plain,
        whole,
    ]
    for row in rows:
        columns, stored = sealed_part(row)
        assert seal(columns) == stored
        assert seal((*columns[:5], "other", *columns[6:])) != stored


def test_marks_change_the_status_alone(hot: HotStatements, cursor: Any, company: Company) -> None:
    hot.insert_decisions(
        cursor,
        [row_of(replace(DECISION, tenant=company.name, decision_id=f"d{n}", step=n)) for n in range(3)],
    )
    hot.mark_decisions(
        cursor, [("learned", None, None, company.name, "d0"), ("void", 2, 1, company.name, "d1")]
    )
    rows = sorted(hot.find_decisions(cursor, [(company.name, f"d{n}") for n in range(3)]))
    assert [row[-3:] for row in rows] == [("learned", None, None), ("void", 2, 1), ("open", None, None)]
    assert all(seal(sealed_part(row)[0]) == sealed_part(row)[1] for row in rows)


def test_chains_come_in_step_order(hot: HotStatements, cursor: Any, company: Company) -> None:
    name = company.name
    rows = [
        row_of(replace(DECISION, tenant=name, decision_id=f"{episode}{step}", episode=episode, step=step))
        for episode in ("e", "f", "g")
        for step in (10, 2, 0, 1)
    ]
    hot.insert_decisions(cursor, rows)
    hot.mark_decisions(
        cursor,
        [("learned", None, None, name, id_) for id_ in ("e0", "e1", "f0", "f1", "f2", "f10")]
        + [("void", 1, 1, name, "e10")],
    )
    whole = [row[1] for row in hot.whole_chains(cursor, [(name, "e"), (name, "f"), (name, "none")])]
    assert whole == ["e0", "e1", "e2", "e10", "f0", "f1", "f2", "f10"]
    # From the first open one on, voided ones included; nothing of an episode without one.
    opened = [row[1] for row in hot.open_chains(cursor, [(name, "e"), (name, "f"), (name, "g")])]
    assert opened == ["e2", "e10", "g0", "g1", "g2", "g10"]


def test_rewards_come_back_by_id_and_by_decision(hot: HotStatements, cursor: Any, company: Company) -> None:
    name = company.name
    made = [
        Reward(name, "r1", "d1", 0.1 + 0.2, "learned", "reward", 5),
        Reward(name, "r2", "d1", 0.0, "further", "reward", 6),
        Reward(name, "r3", "d2", 1e-300, "waits", "default", 7),
    ]
    hot.insert_rewards(cursor, [pack_reward(reward) for reward in made])
    rows = hot.find_rewards(cursor, [(name, "r1"), (name, "r3"), (name, "r4"), ("other", "r2")])
    assert sorted((reward_of(row) for row in rows), key=lambda r: r.reward_id) == [made[0], made[2]]
    assert all(seal(row[:-1]) == bytes(row[-1]) for row in rows)
    values = sorted(hot.rewards_of(cursor, [(name, "d1"), (name, "d2"), (name, "d3")]))
    assert values == [(name, "d1", 0.0), (name, "d1", 0.30000000000000004), (name, "d2", 1e-300)]


def test_episodes_open_once_are_touched_and_close(hot: HotStatements, cursor: Any, company: Company) -> None:
    name = company.name
    hot.open_episodes(cursor, [(name, "e", 5), (name, "f", 6)])
    hot.open_episodes(cursor, [(name, "e", 9), (name, "g", 9)])
    hot.touch_episodes(cursor, [(3, 11, name, "e")])
    hot.close_episodes(cursor, [(0.25, "close", 3, 2, 12, name, "e"), (None, "default", 0, 0, 13, name, "f")])
    rows = sorted(hot.lock_episodes(cursor, [(name, "e"), (name, "f"), (name, "g"), (name, "h")]))
    assert [row[1:] for row in rows] == [
        ("e", "closed", 3, 5, 11, 0.25, "close", 3, 2, 12),
        ("f", "closed", 0, 6, 6, None, "default", 0, 0, 13),
        ("g", "open", 0, 9, 9, None, None, None, None, None),
    ]


def test_episodes_without_a_decision_are_dropped(hot: HotStatements, cursor: Any, company: Company) -> None:
    name = company.name
    hot.open_episodes(cursor, [(name, "e", 5), (name, "f", 6), (name, "g", 6)])
    hot.drop_episodes(cursor, [(name, "e"), (name, "g"), (name, "h")])
    assert [row[1] for row in hot.lock_episodes(cursor, [(name, "e"), (name, "f"), (name, "g")])] == ["f"]


def test_cells_are_written_whole_and_read_by_state(hot: HotStatements, cursor: Any, company: Company) -> None:
    name = company.name
    hot.write_cells(cursor, [(name, 1, 0, "a", 0.1, 1, 0, 2.5, 0), (name, 1, 0, "b", 0.2, 2, 1, 0.0, 1)])
    hot.write_cells(
        cursor, [(name, 1, 0, "b", 1 / 3, 3, 2, 0.0, 2), (name, 1, 5, "a", -1e-300, 2**40, 0, 0.0, 0)]
    )
    keys = [(name, 1, 0), (name, 1, 1), (name, 1, 5), (name, 2, 0)]
    hot.lock_states(cursor, keys)
    assert [sorted(cells) for cells in hot.read_cells(cursor, keys)] == [
        [("a", 0.1, 1, 0, 2.5, 0), ("b", 1 / 3, 3, 2, 0.0, 2)],
        [],
        [("a", -1e-300, 2**40, 0, 0.0, 0)],
        [],
    ]


def test_steps_come_back_sealed(hot: HotStatements, shared_library: Steersman, company: Company) -> None:
    step = LearningStep(
        company.name,
        CellKey(1, 2, "a"),
        1,
        "d1",
        "update",
        0.1,
        0.9,
        1 / 3,
        0.1 + 0.9 / 3,
        1 / 7,
        1_700_000_000_000_000,
    )
    made = [replace(step, number=number) for number in (11, 2, 1)]
    with shared_library.database.transaction() as connection:
        hot.insert_steps(driver_cursor(connection), [pack_step(one) for one in made])
    assert company.steps() == made[::-1]
    assert all(seal(row[:-1]) == bytes(row[-1]) for row in company.rows("learning_steps"))


@pytest.fixture
def neighbour(shared_library: Steersman, tmp_path: Path) -> Company:
    """Another tenant, of which a decision and its reward were archived; it must be there before `cursor` is."""
    company = Company.found(shared_library)
    company.reward(company.decide(decision_id="old"), 0.5)
    shared_library.archive(company.name, older_than=0, output=tmp_path)
    return company


def test_no_statement_reaches_the_same_ids_of_a_neighbour(
    hot: HotStatements, neighbour: Company, cursor: Any, company: Company
) -> None:
    mine, theirs = company.name, neighbour.name
    values = {mine: 0.25, theirs: 0.75}
    for name, q in values.items():
        hot.insert_decisions(cursor, [row_of(replace(DECISION, tenant=name))])
        hot.insert_rewards(cursor, [pack_reward(Reward(name, "r", "d1", q, "learned", "reward", 5))])
        hot.open_episodes(cursor, [(name, "e", 5), (name, "ghost", 5)])
        hot.write_cells(cursor, [(name, 1, 1, "a", q, 1, 0, 0.0, 0)])
    # Writing says whose row it is, and reading tells whose row came.
    hot.mark_decisions(cursor, [("void", 2, 1, mine, "d1")])
    hot.touch_episodes(cursor, [(3, 11, mine, "e")])
    hot.close_episodes(cursor, [(0.25, "close", 3, 2, 12, mine, "e")])
    hot.drop_episodes(cursor, [(mine, "ghost")])
    hot.write_cells(cursor, [(mine, 1, 1, "a", 0.5, 1, 1, 0.0, 1)])
    for name, status, episodes, q in (
        (mine, "void", [("e", "closed")], 0.5),
        (theirs, "open", [("e", "open"), ("ghost", "open")], 0.75),
    ):
        (tenant,) = hot.lock_tenants(cursor, [name])
        (decision,) = hot.find_decisions(cursor, [(name, "d1")])
        (chained,) = hot.whole_chains(cursor, [(name, "e")])
        (reward,) = hot.find_rewards(cursor, [(name, "r")])
        found = sorted(hot.lock_episodes(cursor, [(name, "e"), (name, "ghost")]))
        assert {row[0] for row in (tenant, decision, chained, reward, *found)} == {name}
        assert (decision[-3], chained[-3]) == (status, status)
        assert [row[1:3] for row in found] == episodes
        assert hot.rewards_of(cursor, [(name, "d1")]) == [(name, "d1", values[name])]
        assert [row[:2] for row in hot.open_chains(cursor, [(name, "e")])] == (
            [(name, "d1")] if status == "open" else []
        )
        assert [[cell[:2] for cell in row] for row in hot.read_cells(cursor, [(name, 1, 1)])] == [[("a", q)]]
    assert [row[0] for row in hot.find_archived(cursor, [(theirs, "old")])] == [theirs]
    assert [row[0] for row in hot.find_archived_rewards(cursor, [(theirs, "old")])] == [theirs]
    assert hot.find_archived(cursor, [(mine, "old")]) == []
    assert hot.find_archived_rewards(cursor, [(mine, "old")]) == []


def test_empty_lists_ask_for_nothing(hot: HotStatements, cursor: Any) -> None:
    reads: list[Any] = [hot.lock_tenants, hot.find_decisions, hot.open_chains, hot.whole_chains]
    reads += [hot.find_rewards, hot.rewards_of, hot.lock_episodes, hot.read_cells]
    writes: list[Any] = [hot.insert_decisions, hot.insert_rewards, hot.insert_steps, hot.write_cells]
    writes += [hot.mark_decisions, hot.open_episodes, hot.touch_episodes, hot.close_episodes]
    writes += [hot.drop_episodes, hot.lock_states]
    assert [read(cursor, []) for read in reads] == [[]] * len(reads)
    assert [write(cursor, []) for write in writes] == [None] * len(writes)


def test_a_tenant_that_is_unknown_is_left_out(hot: HotStatements, cursor: Any, company: Company) -> None:
    company_row, *others = hot.lock_tenants(cursor, sorted([company.name, "nobody"]))
    assert (company_row[0], company_row[2:], others) == (company.name, ("active", None, 0, None), [])
    assert len(bytes(company_row[1])) == 32


def test_a_state_is_locked_before_it_has_cells(postgres_url: str) -> None:
    """On a server two first decisions of a state wait for each other, or one would overwrite the other's cells."""
    database = Database.open(postgres_url)
    order: list[str] = []
    locked = threading.Event()

    def second() -> None:
        locked.wait()
        with database.transaction() as connection:
            database.hot.lock_states(driver_cursor(connection), [("acme", 1, 0)])
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with database.transaction() as connection:
        database.hot.lock_states(driver_cursor(connection), [("acme", 1, 0)])
        locked.set()
        thread.join(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    database.close()


# Reading that is not hot


def test_decisions_are_listed_newest_first_and_filtered(shared_library: Steersman, company: Company) -> None:
    for number in range(6):
        company.play(
            "hold",
            episode="e" if number % 2 else None,
            decision_id=f"d{number}",
            metadata={"deal": number // 2, "flag": number == 4, "name": f"n{number}"} if number else None,
        )
    company.reward("d2", 0.5)
    with shared_library.database.snapshot() as connection:

        def ids(**options: Any) -> list[str]:
            return [row[1] for row in list_decisions(connection, company.name, **options)]

        assert ids() == ["d5", "d4", "d3", "d2", "d1", "d0"]
        assert ids(limit=2) == ["d5", "d4"]
        assert ids(episode="e") == ["d5", "d3", "d1"]
        assert ids(status="learned") == ["d2"]
        assert ids(metadata={"deal": 1}) == ["d3", "d2"]
        assert ids(metadata={"deal": 1, "name": "n3"}) == ["d3"]
        assert ids(metadata={"flag": True}) == ["d4"]
        assert ids(metadata={"deal": 1}, limit=1) == ["d3"]
        assert (
            ids(metadata={"deal": 1.0}) == ids(metadata={"deal": "1"}) == ids(metadata={"unknown": 1}) == []
        )
        assert get_decision(connection, company.name, "d3")[1] == "d3"
        with pytest.raises(NotFoundError):
            get_decision(connection, company.name, "d9")


def test_episodes_are_listed_and_found(shared_library: Steersman, company: Company) -> None:
    for episode in ("a", "b", "c"):
        company.play("hold", episode=episode)
    company.play("hold", episode="a")
    company.close("b", 0.5)
    with shared_library.database.snapshot() as connection:
        episodes = list_episodes(connection, company.name)
        assert [episode.episode for episode in episodes] == ["a", "c", "b"]
        assert [e.episode for e in list_episodes(connection, company.name, status="closed")] == ["b"]
        assert len(list_episodes(connection, company.name, limit=1)) == 1
        found = get_episode(connection, company.name, "b")
        assert (found.status, found.steps, found.closed and found.closed.outcome) == ("closed", 1, 0.5)
        assert get_episode(connection, company.name, "a").closed is None
        with pytest.raises(NotFoundError):
            get_episode(connection, company.name, "d")


def test_what_is_overdue_comes_oldest_first(shared_library: Steersman, company: Company) -> None:
    made = [company.play("hold", episode=f"e{n}" if n % 2 else None, decision_id=f"d{n}") for n in range(6)]
    company.reward("d2", 0.5)
    late = made[-1].created_at + 1
    with shared_library.database.snapshot() as connection:
        assert overdue_decisions(connection, company.name, before=late, limit=10) == ["d0", "d4"]
        assert overdue_decisions(connection, company.name, before=made[4].created_at, limit=10) == ["d0"]
        assert overdue_decisions(connection, company.name, before=late, limit=1) == ["d0"]
        assert overdue_episodes(connection, company.name, before=late, limit=10) == ["e1", "e3", "e5"]
        assert overdue_episodes(connection, company.name, before=late, limit=2) == ["e1", "e3"]


def test_rewards_of_a_decision_come_oldest_first(shared_library: Steersman, company: Company) -> None:
    company.play("hold", decision_id="d")
    for number, reward_id in enumerate(("z", "a", "m")):
        company.reward("d", number / 10, reward_id=reward_id)
    with shared_library.database.snapshot() as connection:
        found = rewards_of_decision(connection, company.name, "d")
        assert [(reward.reward_id, reward.value) for reward in found] == [("z", 0.0), ("a", 0.1), ("m", 0.2)]
        assert rewards_of_decision(connection, company.name, "x") == []


def test_opening_cells_are_kept_beside_the_cells(shared_library: Steersman, company: Company) -> None:
    opening = [Cell(CellKey(0, state, action), 0.1, 1, 2, 3.5) for state in (1, 0) for action in ("b", "a")]
    with shared_library.database.transaction() as connection:
        assert open_cells(connection, company.name, 4, iter(opening)) == 4
        expected = [
            replace(cell, key=replace(cell.key, version=4)) for cell in sorted(opening, key=lambda c: c.key)
        ]
        assert list(iterate_cells(connection, company.name, 4)) == expected
        assert cell_totals(connection, company.name, 4)[0] == 4
        assert cell_totals(connection, company.name, 5)[0] == 0
    assert {row[-1] for row in company.rows("cells")} == {0}  # no learning steps yet
    assert company.rows("opening_cells") == [row[:-1] for row in company.rows("cells")]


def test_the_audit_trail_is_read_newest_first(shared_library: Steersman, company: Company) -> None:
    with shared_library.database.transaction() as connection:
        for number in range(3):
            write_line(connection, company.name, actor="me", verb="try", detail={"number": number})
        lines = list_lines(connection, company.name)
        assert [line.detail.get("number") for line in lines] == [2, 1, 0, None]
        assert (lines[-1].verb, lines[0].actor) == ("create", "me")
        assert len(list_lines(connection, company.name, limit=2)) == 2


def test_deleting_leaves_nothing_of_a_tenant_and_all_of_others(
    shared_library: Steersman, company: Company
) -> None:
    other = Company.found(shared_library)
    for owner in (company, other):
        owner.teach("hold", 0.5)
        owner.play("hold", episode="e")
    with shared_library.database.transaction() as connection:
        before = count_rows(connection, other.name)
        counts = count_rows(connection, company.name)
        assert (counts["decisions"], counts["rewards"], counts["episodes"], counts["tenants"]) == (2, 1, 1, 1)
        delete_rows(connection, company.name)
        assert set(count_rows(connection, company.name).values()) == {0}
        assert count_rows(connection, other.name) == before
        held = connection.execute(
            text("SELECT count(*) FROM tenants WHERE tenant = :name"), {"name": company.name}
        )
        assert held.scalar() == 0


def test_a_namesake_of_an_erased_tenant_starts_anew(shared_library: Steersman, company: Company) -> None:
    """What is cached of a tenant's versions must not be taken for those of its namesake."""
    company.teach("hold", 0.5)
    spec = shared_library.show_tenant(company.name).spec
    other = replace(spec, actions=type(spec.actions).of(["x", "y"]))
    with shared_library.database.transaction() as connection:
        delete_rows(connection, company.name)
        insert_tenant(connection, company.name, other, b"another secret")
    assert company.decide().feasible == ("x", "y")
