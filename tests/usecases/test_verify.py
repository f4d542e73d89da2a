"""Verify finds nothing where nothing is wrong, and every change of what was logged or learned.

Long because every kind of damage is done to the same small histories, which are made here.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pysqlite3
import pytest
from sqlalchemy import Column, Table, select, text, update

from steersman.domain.answers import Difference
from steersman.domain.records import CellKey, DecideRequest, Decision, LearningStep, RewardRequest
from steersman.errors import NotFoundError, StoreCorruptError
from steersman.library import Steersman
from steersman.store import tables
from steersman.store.engine import Database
from steersman.usecases.verify import verify
from steersman.usecases.verify_cells import Fold, fold_step
from tests.support.workload import Load

TWO = {"actions": ["firm", "split"], "states": {"factors": [{"name": "stage", "values": ["open", "late"]}]}}
KEYS = {
    "decisions": ("tenant", "decision_id"),
    "rewards": ("tenant", "reward_id"),
    "cells": ("tenant", "version", "state", "action"),
    "learning_steps": ("tenant", "version", "state", "action", "number"),
}
CHECKED = (tables.decisions, tables.cells, tables.learning_steps, tables.rewards)


@pytest.fixture
def steersman(store_url: str) -> Iterator[Steersman]:
    with Steersman.open(store_url) as opened:
        yield opened


def change(database: Database, table: Table, row: dict[str, Any], changes: dict[str, Any]) -> None:
    """Write `changes` to one row behind the program's back."""
    where = [table.c[name] == row[name] for name in KEYS[table.name]]
    with database.transaction() as connection:
        assert connection.execute(update(table).where(*where).values(changes)).rowcount == 1


def rows_of(database: Database, table: Table) -> list[dict[str, Any]]:
    with database.snapshot() as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def differences(database: Database, tenant: str | None = None) -> list[Difference]:
    return list(verify(database, tenant).differences)


def test_an_empty_database_is_clean(steersman: Steersman) -> None:
    verification = verify(steersman.database)
    assert (verification.clean, verification.owners, verification.rows) == (True, 0, 0)


def test_a_tenant_that_does_not_exist_is_refused(steersman: Steersman) -> None:
    with pytest.raises(NotFoundError, match="no tenant 'nobody'"):
        verify(steersman.database, "nobody")


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_called_leaves_a_clean_database(steersman: Steersman, seed: int) -> None:
    load = Load(steersman, random.Random(seed))
    load.create()
    load.run(500)
    assert differences(steersman.database) == []
    steps = rows_of(steersman.database, tables.learning_steps)
    statuses = {row["status"] for row in rows_of(steersman.database, tables.decisions)}
    assert ({step["kind"] for step in steps}, statuses) == (
        {"update", "further"},
        {"open", "learned", "void"},
    )
    assert load.refused


@pytest.mark.parametrize("seed", range(3))
def test_changes_of_version_under_load_leave_a_clean_database(steersman: Steersman, seed: int) -> None:
    load = Load(steersman, random.Random(100 + seed))
    load.create()
    load.run(900, versions=True)
    assert differences(steersman.database) == []
    origins = {row["origin"] for row in rows_of(steersman.database, tables.policy_versions)}
    assert origins >= {"empty", "migrated", "restored"}


def test_what_is_written_meanwhile_is_no_difference(steersman: Steersman) -> None:
    """Each look is at one moment, however much goes on."""
    load = Load(steersman, random.Random(200))
    load.create()
    load.run(50)
    worker = threading.Thread(target=load.run, args=(250,), kwargs={"versions": True})
    worker.start()
    looks = 0
    while worker.is_alive() or not looks:
        assert differences(steersman.database) == []
        looks += 1
    worker.join()
    assert differences(steersman.database) == []


def test_versions_of_every_origin_are_folded_from_what_they_opened_with(
    steersman: Steersman, tmp_path: Path
) -> None:
    spec = TWO | {"base": "shared", "contributes": True}
    steersman.create_base("shared", TWO)
    steersman.create_tenant("old", spec)
    for name in ("one", "two"):
        steersman.decide("old", 0, decision_id=name)
    steersman.reward("old", "one", 0.5)
    steersman.build_base("shared")
    steersman.create_tenant("new", spec)
    steersman.decide("new", 0, decision_id="warm")
    steersman.change_tenant("new", spec | {"actions": ["split", "firm", "hold"]})
    steersman.decide("new", 1, decision_id="moved")
    steersman.freeze("new", "kept")
    steersman.activate("new", "kept")
    steersman.reward("new", "warm", 1.0)
    steersman.reward("new", "moved", 0.25)
    table = tmp_path / "table.csv"
    table.write_text("state,action,q,visits,updates,borrowed\n0,hold,0.5,3,2,0\n")
    steersman.import_table("new", table)
    steersman.decide("new", 0, decision_id="last")
    assert differences(steersman.database) == []
    origins = {row["origin"] for row in rows_of(steersman.database, tables.policy_versions)}
    assert origins == {"empty", "warm_start", "migrated", "restored", "imported"}
    with steersman.database.transaction() as connection:
        connection.execute(update(tables.opening_cells).values(visits=tables.opening_cells.c.visits + 1))
    wrong = [(d.tenant, d.version, d.state, d.action, d.field) for d in differences(steersman.database)]
    opening = rows_of(steersman.database, tables.opening_cells)
    keys = [tuple(row[name] for name in KEYS["cells"]) for row in opening]
    assert sorted(wrong) == sorted((*key, "visits") for key in keys)


def one_of_everything(steersman: Steersman) -> None:
    """Two decisions alone, one void, and an episode of two steps: every column has a value somewhere."""
    steersman.create_tenant("acme", TWO | {"learning": {"gamma": 0.5}})
    for name in ("first", "second"):
        steersman.decide("acme", {"stage": "open"}, decision_id=name, metadata={"deal": 7})
        steersman.reward("acme", name, 1.0)
    steersman.reward("acme", "first", 0.5, reward_id="more")
    steersman.decide("acme", {"stage": "open"}, decision_id="undone", reasons=None)
    steersman.void("acme", "undone")
    steersman.decide(
        "acme", 1, decision_id="opening", episode="deal", feasible=["split"], reasons={"firm": "late"}
    )
    steersman.decide("acme", 1, decision_id="closing", episode="deal")
    steersman.reward("acme", "opening", 0.25)
    steersman.close_episode("acme", "deal", 1.0)
    steersman.decide("acme", 0, decision_id="waiting")


def others(column: Column[Any], value: Any) -> list[Any]:
    """Return values that a column could hold instead: one as near as its type allows, and NULL or something for it."""
    if value is None:
        return ['["x"]' if column.type.python_type is str else 1]
    if isinstance(value, bytes):
        near: Any = value[:-1] + bytes([value[-1] ^ 1])
    elif isinstance(value, float):
        near = math.nextafter(value, math.inf)
    elif isinstance(value, int):
        near = value + 10  # a neighbour's key may be taken
    else:
        near = value[:-1] + chr(ord(value[-1]) ^ 1)
    return [near, None] if column.nullable else [near]


@pytest.mark.parametrize("table", CHECKED, ids=lambda table: table.name)
def test_any_column_of_any_row_that_changes_is_found(steersman: Steersman, table: Table) -> None:
    one_of_everything(steersman)
    database = steersman.database
    assert differences(database) == []
    for row in rows_of(database, table):
        for column in table.columns:
            for value in others(column, row[column.name]):
                change(database, table, row, {column.name: value})
                assert differences(database), (row, column.name, value)
                if column.name == "tenant" and row.get("status") != "void":
                    # One that is void leaves no trace where it is missing.
                    assert differences(database, "acme"), (row, value)
                change(database, table, row | {column.name: value}, {column.name: row[column.name]})
    assert differences(database) == []


def test_what_differs_is_named(steersman: Steersman) -> None:
    """Rewards of 1.0 and 0.0 with step sizes 1 and 1/2 leave q = 0.5."""
    steersman.create_tenant("acme", {"actions": ["firm"], "states": 1})
    for name, value in (("one", 1.0), ("two", 0.0)):
        steersman.decide("acme", 0, decision_id=name)
        steersman.reward("acme", name, value)
    (cell,) = rows_of(steersman.database, tables.cells)
    assert (cell["q"], cell["visits"], cell["updates"], cell["steps"]) == (0.5, 2, 2, 2)
    change(steersman.database, tables.cells, cell, {"q": 0.75, "visits": 3})
    assert differences(steersman.database, "acme") == [
        Difference("acme", "cell", "", 1, 0, "firm", "q", 0.75, 0.5),
        Difference("acme", "cell", "", 1, 0, "firm", "visits", 3, 2),
    ]


def test_a_propensity_is_recomputed_from_the_row_as_seen(steersman: Steersman) -> None:
    """Of two untried actions each is greedy: (1 - 0.2)/2 + 0.2/2 = 0.5."""
    steersman.create_tenant("acme", TWO | {"exploration": {"epsilon": 0.2}})
    steersman.decide("acme", 0, decision_id="first")
    (row,) = rows_of(steersman.database, tables.decisions)
    assert row["propensity"] == 0.5
    change(steersman.database, tables.decisions, row, {"propensity": 0.6})
    place = ("acme", "decision", "first", 1, 0, row["action"])
    named = {difference.field: difference for difference in differences(steersman.database)}
    assert sorted(named) == ["propensity", "seal"]
    assert named["propensity"] == Difference(*place, "propensity", 0.6, 0.5)


def test_a_change_under_a_seal_made_anew_is_found_all_the_same(steersman: Steersman) -> None:
    """A seal has no secret: what can be recomputed is recomputed."""
    from steersman.store.decisions import sealed_part
    from steersman.store.seals import seal

    steersman.create_tenant("acme", TWO)
    decision = steersman.decide("acme", 0, decision_id="first")
    other = "split" if decision.action == "firm" else "firm"
    (row,) = rows_of(steersman.database, tables.decisions)
    columns, _ = sealed_part(tuple((row | {"action": other}).values()))
    change(steersman.database, tables.decisions, row, {"action": other, "seal": seal(columns)})
    fields = {(difference.subject, difference.field) for difference in differences(steersman.database)}
    # The visit is missed where it was counted, and there is no cell where it is said to be.
    assert fields == {("decision", "action"), ("cell", "row")}


def test_rows_that_are_gone_are_missed(steersman: Steersman) -> None:
    one_of_everything(steersman)
    for table, key in (
        ("cells", "state = 1 AND action = 'split'"),
        ("learning_steps", "decision_id = 'first'"),
    ):
        with steersman.database.transaction() as connection:
            connection.execute(text(f"DELETE FROM {table} WHERE {key}"))
    found = differences(steersman.database)
    assert ("cell", "row", None, "present") in [(d.subject, d.field, d.stored, d.rebuilt) for d in found]
    assert ("decision", "first", "status", "learned") in [
        (d.subject, d.record, d.field, d.stored) for d in found
    ]


def test_rewards_and_steps_of_no_decision_are_found(steersman: Steersman) -> None:
    one_of_everything(steersman)
    with steersman.database.transaction() as connection:
        connection.execute(text("DELETE FROM decisions WHERE decision_id = 'first'"))
    found = differences(steersman.database, "acme")
    assert ("decision", "first", "row", None, "present") in [
        (d.subject, d.record, d.field, d.stored, d.rebuilt) for d in found
    ]


def test_rows_of_tenants_that_do_not_exist_are_found(steersman: Steersman) -> None:
    one_of_everything(steersman)
    with steersman.database.transaction() as connection:
        connection.execute(text("DELETE FROM tenants"))
    strange = {(d.tenant, d.subject, d.record, d.stored) for d in differences(steersman.database)}
    assert {
        ("acme", "table", "decisions", "6 rows"),
        ("acme", "table", "policy_versions", "1 rows"),
    } <= strange


def test_an_episode_that_contradicts_its_decisions_is_found(steersman: Steersman) -> None:
    one_of_everything(steersman)
    changes = {"steps": 3, "decisions": 1, "learned": 2, "status": "open", "outcome": 0.5, "kind": "other"}
    for column, value in changes.items():
        with steersman.database.transaction() as connection:
            before = connection.execute(text(f"SELECT {column} FROM episodes")).scalar_one()
            connection.execute(text(f"UPDATE episodes SET {column} = :value"), {"value": value})
        assert differences(steersman.database), column
        with steersman.database.transaction() as connection:
            connection.execute(text(f"UPDATE episodes SET {column} = :value"), {"value": before})
    assert differences(steersman.database) == []


def test_a_changed_secret_changes_every_draw(steersman: Steersman) -> None:
    steersman.create_tenant("acme", TWO)
    for number in range(40):
        steersman.decide("acme", 0, decision_id=f"d{number}")
    with steersman.database.transaction() as connection:
        connection.execute(update(tables.tenants).values(secret=b"another secret"))
    assert {difference.field for difference in differences(steersman.database)} >= {"action"}


def test_changed_settings_of_a_version_are_found(steersman: Steersman) -> None:
    one_of_everything(steersman)
    with steersman.database.transaction() as connection:
        settings = connection.execute(text("SELECT settings FROM policy_versions")).scalar_one()
        assert '"epsilon":0.1' in settings
        changed = settings.replace('"epsilon":0.1', '"epsilon":0.2')
        connection.execute(update(tables.policy_versions).values(settings=changed))
    assert {difference.field for difference in differences(steersman.database)} >= {"epsilon", "propensity"}


def test_a_version_that_cannot_be_read_is_a_difference(steersman: Steersman) -> None:
    one_of_everything(steersman)
    with steersman.database.transaction() as connection:
        connection.execute(text("UPDATE policy_versions SET actions = '[1'"))
    assert ("version", "row") in {(d.subject, d.field) for d in differences(steersman.database)}


def test_a_declaration_that_cannot_be_read_is_a_difference(steersman: Steersman) -> None:
    one_of_everything(steersman)
    for spec in ("[]", "{", "7"):
        with steersman.database.transaction() as connection:
            connection.execute(update(tables.tenants).values(spec=spec))
        assert ("tenant", "row") in {(d.subject, d.field) for d in differences(steersman.database)}


def test_fold_of_an_update_by_hand() -> None:
    """q = 0.5 with 3 borrowed: target 0.25 + 0.5 * 0.5 = 0.5 ... 1/n with n = 3 + 1 moves q by (1.5 - 0.5) / 4."""
    fold = Fold(0.5, 0, 0, 3.0, 0)
    step = LearningStep("acme", CellKey(1, 0, "firm"), 1, "d", "update", 1.25, 0.5, 0.5, 1.5, 0.25)
    assert list(fold_step(fold, step, None, frozenset({0.5}))) == []
    assert fold == Fold(0.75, 0, 1, 3.0, 1)


def test_fold_of_a_further_reward_by_hand() -> None:
    """A further reward adds 1/n of itself, n = 3 + 1, and counts as no update."""
    fold = Fold(0.75, 1, 1, 3.0, 1)
    step = LearningStep("acme", CellKey(1, 0, "firm"), 2, "d", "further", 0.5, 0.0, 0.0, 0.5, 0.25)
    assert list(fold_step(fold, step, None, frozenset({0.5}))) == []
    assert fold == Fold(0.875, 1, 1, 3.0, 2)


def test_steps_that_break_the_rules_are_named() -> None:
    fold = Fold(0.0, 0, 0, 0.0, 0)
    step = LearningStep("acme", CellKey(1, 0, "firm"), 2, "d", "update", 1.0, 0.5, 0.5, 1.0, 0.5)
    assert list(fold_step(fold, step, None, frozenset({1.0}))) == [
        ("number", 2, 1),
        ("discount", 0.5, [1.0]),
        ("target", 1.0, 1.25),
        ("step_size", 0.5, 1.0),
    ]


def test_progress_counts_every_row_once(steersman: Steersman) -> None:
    one_of_everything(steersman)
    calls: list[tuple[int, int]] = []
    verification = verify(steersman.database, progress=lambda done, total: calls.append((done, total)))
    # 6 decisions, 5 rewards (3 and 1 and the two of the first), 1 episode, 5 steps and 2 + 2 cells at most.
    assert calls[-1] == (verification.rows, verification.rows)
    assert verification.rows == sum(
        len(rows_of(steersman.database, table))
        for table in (tables.decisions, tables.rewards, tables.episodes, tables.learning_steps, tables.cells)
    )


def test_memory_does_not_grow_with_the_number_of_rows(steersman: Steersman) -> None:
    steersman.create_tenant("acme", {"actions": ["firm", "split"], "states": 50})

    def grow(first: int, count: int) -> None:
        for start in range(first, first + count, 500):
            numbers = range(start, start + 500)
            made = steersman.decide_many(
                [DecideRequest("acme", n % 50, decision_id=f"d{n:06}") for n in numbers]
            )
            assert all(isinstance(item, Decision) for item in made)
            steersman.reward_many([RewardRequest("acme", f"d{n:06}", (n % 7) / 7) for n in numbers])

    def peak() -> int:
        tracemalloc.start()
        try:
            assert verify(steersman.database).clean
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    grow(0, 1000)
    verify(steersman.database)  # whatever is kept for good is kept now
    small = peak()
    grow(1000, 3000)
    assert peak() < 2 * small


@pytest.mark.parametrize("table", ["decisions", "cells", "learning_steps"])
def test_any_byte_of_a_row_in_the_file_that_changes_is_found(tmp_path: Path, table: str) -> None:
    """It may break a text's coding, a number, the row's own length, or the tie to an index."""
    path = tmp_path / "steersman.db"
    with Steersman.open(str(path)) as steersman:
        steersman.create_tenant("acme", {"actions": ["firm"], "states": 1})
        steersman.decide("acme", 0, decision_id="first", metadata={"deal": 7})
        steersman.reward("acme", "first", 0.7)
    driver = pysqlite3.connect(str(path))
    driver.execute("VACUUM")
    driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ((size,),) = driver.execute("PRAGMA page_size")
    ((root,),) = driver.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    driver.close()
    sound = path.read_bytes()
    page = (root - 1) * size
    # The header of a page says, in its bytes 5 and 6, where the rows begin; they end where the page does.
    begin = page + int.from_bytes(sound[page + 5 : page + 7], "big")
    pick = random.Random(7)
    for offset in sorted(pick.sample(range(begin, page + size), min(40, page + size - begin))):
        damaged = bytearray(sound)
        damaged[offset] ^= 1 << pick.randrange(8)
        path.write_bytes(damaged)
        assert not is_clean(path), (offset - begin, sound[offset], damaged[offset])
    path.write_bytes(sound)
    assert is_clean(path)


def is_clean(path: Path) -> bool:
    with Steersman.open(str(path)) as steersman:
        try:
            return verify(steersman.database).clean
        except StoreCorruptError:
            return False


def test_clocks_that_differ_or_stand_still_are_no_difference(
    steersman: Steersman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An episode goes on where the clock is behind, and a reward and the close come within one of its ticks."""
    steersman.create_tenant("acme", TWO | {"learning": {"gamma": 0}})
    steersman.decide("acme", 0, decision_id="first", episode="deal")
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    steersman.decide("acme", 1, decision_id="second", episode="deal")
    steersman.decide("acme", 1, decision_id="third", episode="deal")
    steersman.reward("acme", "second", 0.5)
    steersman.close_episode("acme", "deal", 1.0)
    (row,) = rows_of(steersman.database, tables.episodes)
    assert row["touched_at"] < row["opened_at"]
    assert (row["decisions"], row["learned"]) == (3, 2)
    assert differences(steersman.database) == []


@pytest.mark.parametrize(("rewarded", "bounds"), [(0, "2 to 2"), (1, "1 to 1"), (2, "0 to 0")])
def test_what_a_close_learned_is_what_no_reward_has_learned(
    steersman: Steersman, rewarded: int, bounds: str
) -> None:
    """Without a discount every reward is learned at once, and the close learns the rest of the two decisions."""
    steersman.create_tenant("acme", TWO | {"learning": {"gamma": 0}})
    for number in range(2):
        steersman.decide("acme", 0, decision_id=f"d{number}", episode="deal")
    for number in range(rewarded):
        steersman.reward("acme", f"d{number}", 0.5)
    steersman.close_episode("acme", "deal", 1.0)
    steersman.reward("acme", "d1", 0.25, reward_id="late")
    assert differences(steersman.database) == []
    with steersman.database.transaction() as connection:
        connection.execute(update(tables.episodes).values(learned=3))
    assert [(d.subject, d.field, d.stored, d.rebuilt) for d in differences(steersman.database)] == [
        ("episode", "learned", 3, bounds)
    ]


# One flipped bit of a "p": a byte that begins a character and is followed by none.
STRAY = "CAST(x'f0' AS TEXT)"


@pytest.mark.parametrize("table", tables.TENANT_TABLES, ids=lambda table: table.name)
def test_whatever_stands_in_a_column_is_a_difference_and_no_error(tmp_path: Path, table: Table) -> None:
    """SQLite keeps values of any type in a column, and texts that are not UTF-8."""
    path = tmp_path / "steersman.db"
    with Steersman.open(str(path)) as steersman:
        one_of_everything(steersman)
        steersman.create_base("shared", TWO)
        steersman.build_base("shared")
        steersman.freeze("acme", "kept")
        assert differences(steersman.database) == []
        driver = pysqlite3.connect(str(path), isolation_level=None)
        sound = driver.execute(f"SELECT * FROM {table.name}").fetchall()
        insert = f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(table.columns))})"
        for column in table.columns:
            for value in (STRAY, "x'00'", "9e999", "1000000000000000000", "'zz'"):
                driver.execute(f"UPDATE OR REPLACE {table.name} SET {column.name} = {value}")
                found = differences(steersman.database)
                shown = json.dumps([asdict(item) for item in found], allow_nan=False, ensure_ascii=False)
                assert shown.encode()
                if value in {STRAY, "x'00'"} and sound:  # SQLite needs no state heads
                    known = column.name in {"secret", "seal", "fingerprint"} and value == "x'00'"
                    assert found or known, (column.name, value)
                driver.execute(f"DELETE FROM {table.name}")
                driver.executemany(insert, sound)
        driver.close()
        assert differences(steersman.database) == []


@pytest.mark.parametrize(
    "damage",
    [
        "episodes SET outcome = 'zz'",
        "policy_versions SET version = 9e999",
        "tenants SET secret = 1000000000000000000",
        "tenants SET tenant = '@cme'",
        "rewards SET value = 1.7e308",
        "decisions SET feasible = '[]'",
        """decisions SET feasible = '["\\ud800"]'""",
        f"decisions SET seen = '[[1{'0' * 400}], [1], [1], [0]]'",
        f"decisions SET metadata = '{'[' * 100_000}'",
        f"tenants SET spec = '{'[' * 100_000}'",
        f"policy_versions SET settings = '{'[' * 100_000}'",
    ],
    ids=lambda damage: damage[:40],
)
def test_damage_that_breaks_arithmetic_or_reading_is_a_difference(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "steersman.db"
    with Steersman.open(str(path)) as steersman:
        one_of_everything(steersman)
        driver = pysqlite3.connect(str(path), isolation_level=None)
        driver.execute(f"UPDATE {damage}")
        driver.close()
        found = differences(steersman.database)
        assert found
        assert json.dumps([asdict(item) for item in found], allow_nan=False, ensure_ascii=False).encode()


def test_numbers_that_are_none_are_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / "steersman.db"
    with Steersman.open(str(path)) as steersman:
        steersman.create_tenant("acme", TWO)
        steersman.decide("acme", 0, decision_id="first")
        driver = pysqlite3.connect(str(path), isolation_level=None)
        driver.execute("UPDATE policy_versions SET version = 9e999")
        driver.close()
        named = {(d.subject, d.field): d for d in differences(steersman.database)}
    wrong = named["version", "version"]
    assert (wrong.record, wrong.version, wrong.stored) == ("inf", "inf", "inf")


def test_rows_of_a_tenant_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "steersman.db"
    with Steersman.open(str(path)) as steersman:
        one_of_everything(steersman)
        driver = pysqlite3.connect(str(path), isolation_level=None)
        driver.execute(f"UPDATE decisions SET tenant = {STRAY}")
        driver.close()
        strange = {(d.tenant, d.subject, d.record, d.stored) for d in differences(steersman.database)}
    assert (r"\xf0", "table", "decisions", "6 rows") in strange
