"""Whatever is wrong with what stays of an archive is a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pysqlite3
import pytest
from sqlalchemy import text, update

from steersman.library import Steersman
from steersman.store import tables
from steersman.store.hot.text import REWARDS
from steersman.usecases.archive import archive
from steersman.usecases.verify import verify
from tests.support.archived import differences
from tests.support.company import Company


@pytest.mark.parametrize(
    ("table", "change", "subject"),
    [
        ("archived_decisions", {"answer": "[]"}, "archived decision"),
        ("archived_decisions", {"status": "open"}, "archived decision"),
        ("archived_decisions", {"episode": "other"}, "archived decision"),
        ("archived_decisions", {"fingerprint": b"x" * 32}, "archived decision"),
        ("archived_decisions", {"rewards": 1}, "archived decision"),
        ("archived_decisions", {"rewards": None}, "archived decision"),
        ("archived_rewards", {"value": 0.125}, "archived reward"),
        ("archived_rewards", {"effect": "waits"}, "archived reward"),
        ("archived_rewards", {"kind": "default"}, "archived reward"),
        ("archived_rewards", {"created_at": 1}, "archived reward"),
        ("archived_rewards", {"decision_id": "open"}, "archived decision"),
        ("archived_rewards", {"decision_id": "nothing"}, "archived decision"),
        ("cell_checkpoints", {"q": 0.125}, "checkpoint"),
        ("cell_checkpoints", {"visits": 7}, "checkpoint"),
        ("archive_files", {"rows": 1}, "archive"),
        ("archive_files", {"holds": "cells"}, "archive file"),
    ],
)
def test_what_stays_is_verified(
    busy: Company, tmp_path: Path, table: str, change: dict[str, Any], subject: str
) -> None:
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    with busy.library.database.transaction() as connection:
        declared = tables.metadata.tables[table]
        connection.execute(update(declared).where(declared.c.tenant == busy.name).values(change))
    assert subject in {found[0] for found in differences(busy)}


FURTHER = "FROM archived_rewards WHERE tenant = :tenant AND reward_id = 'further'"
STUB = "WHERE tenant = :tenant AND decision_id"


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ([f"DELETE {FURTHER}"], "archived decision"),
        ([f"UPDATE archived_decisions SET status = 'void' {STUB} = 'learned'"], "archived decision"),
        ([f"UPDATE archived_decisions SET status = 'learned' {STUB} = 'void'"], "archived decision"),
        (
            [f"INSERT INTO archived_rewards SELECT tenant, 'x', {', '.join(REWARDS[2:])} {FURTHER}"],
            "archived decision",
        ),
        # With the count that the decision's stub holds: the files know better.
        (
            [f"DELETE {FURTHER}", f"UPDATE archived_decisions SET rewards = 1 {STUB} = 'learned'"],
            "archive",
        ),
    ],
)
def test_a_stub_that_is_missing_or_too_many_is_noticed(
    busy: Company, tmp_path: Path, changes: list[str], subject: str
) -> None:
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    with busy.library.database.transaction() as connection:
        for statement in changes:
            assert connection.execute(text(statement), {"tenant": busy.name}).rowcount == 1
    assert subject in {found[0] for found in differences(busy)}


@pytest.mark.parametrize(
    "table", ["archived_decisions", "archived_rewards", "cell_checkpoints", "archive_files"]
)
def test_whatever_stands_in_a_column_is_a_difference_and_no_error(tmp_path: Path, table: str) -> None:
    """SQLite keeps values of any type in a column, and texts that are not UTF-8."""
    path = tmp_path / "steersman.db"
    with Steersman.open(path) as library:
        company = Company.found(library)
        company.teach("hold", 0.5)
        company.play("trade", 1, episode="deal")
        company.close("deal", 1.0)
        library.archive(company.name, older_than=0, output=tmp_path)
        assert verify(library.database).differences == ()
        driver = pysqlite3.connect(str(path), isolation_level=None)
        sound = driver.execute(f"SELECT * FROM {table}").fetchall()
        columns = tables.metadata.tables[table].columns
        insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})"
        for column in columns:
            for value in ("CAST(x'f0' AS TEXT)", "x'00'", "9e999", "1000000000000000000", "'zz'"):
                driver.execute(f"UPDATE OR REPLACE {table} SET {column.name} = {value}")
                found = verify(library.database).differences
                # What a run, a file and its digest are called is for people to compare.
                free = column.name in {"run_id", "created_at", "file", "digest"}
                assert found or free, (column.name, value)
                driver.execute(f"DELETE FROM {table}")
                driver.executemany(insert, sound)
        driver.close()
        assert verify(library.database).differences == ()
