"""Archiving: what leaves, what stays, and that nothing that is answered or learned changes by it."""

from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pysqlite3
import pytest
from sqlalchemy import update

from steersman.errors import InvalidInputError, NotFoundError, StoreCorruptError
from steersman.library import Steersman
from steersman.store import archive as stored
from steersman.store import tables
from steersman.usecases import archive as module
from steersman.usecases.archive import archive, list_archive
from steersman.usecases.tenants import audit_trail, erase
from tests.support.archived import TABLES, count, differences
from tests.support.company import Company


def test_what_is_settled_leaves_and_what_is_open_stays(busy: Company, tmp_path: Path) -> None:
    before = {name: busy.rows(name) for name in TABLES}
    cells = busy.rows("cells")
    done = archive(busy.library.database, busy.name, older_than=0, output=tmp_path, actor="clerk")
    # Two taught, one learned with a further reward, one void, three of the closed episode.
    assert (done.decisions, done.rewards, done.learning_steps) == (7, 5, 7)
    assert count(busy) == {
        "decisions": 2,
        "rewards": 0,
        "learning_steps": 0,
        "archived_decisions": 7,
        "archived_rewards": 5,
        "cell_checkpoints": 4,  # hold and trade in both states
        "archive_files": len(done.files),
    }
    assert {row[1] for row in busy.rows("decisions")} == {"open", "g0"}
    assert busy.rows("cells") == cells
    assert differences(busy) == []
    kept: dict[str, list[Any]] = {"decisions": [], "rewards": [], "learning_steps": []}
    assert list_archive(busy.library.database, busy.name) == list(done.files)
    for file in done.files:
        path = tmp_path / busy.name / file.file
        assert hashlib.sha256(path.read_bytes()).digest() == file.digest
        assert path.stat().st_mode & 0o777 == 0o600
        rows = [tuple(row.values()) for row in pq.read_table(path).to_pylist()]
        assert len(rows) == file.rows
        kept[file.holds] += rows
    assert sorted(busy.rows("archived_rewards")) == sorted(before["rewards"])
    for name, rows in kept.items():
        gone = [row for row in before[name] if row not in busy.rows(name)]
        assert sorted(rows, key=repr) == sorted(gone, key=repr)
    line = audit_trail(busy.library.database, busy.name, limit=1)[0]
    assert (line.verb, line.actor, line.detail["decisions"]) == ("archive", "clerk", 7)
    again = archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    assert (again.decisions, again.files) == (0, ())
    assert [line.verb for line in audit_trail(busy.library.database, busy.name)] == [
        "archive",
        "start",
        "create",
    ]


def test_what_is_young_stays(busy: Company, tmp_path: Path) -> None:
    before = count(busy)
    done = archive(busy.library.database, busy.name, older_than=3600, output=tmp_path)
    assert (done.decisions, done.files) == (0, ())
    assert count(busy) == before
    assert list(tmp_path.iterdir()) == []


def test_the_time_that_archiving_has_reached_goes_forward_alone(company: Company) -> None:
    def reached() -> Any:
        (row,) = company.rows("tenants")
        return dict(zip(tables.tenants.columns.keys(), row, strict=True))["archived_before"]

    assert reached() is None
    for before, then in ((20, 20), (10, 20), (30, 30)):
        with company.library.database.transaction() as connection:
            stored.set_archived_before(connection, company.name, before)
        assert reached() == then


def test_a_step_waits_for_those_before_it(company: Company, tmp_path: Path) -> None:
    """A decision that is still open in an episode was learned first, so the steps behind it cannot leave yet."""
    company.library.change_tenant(company.name, {"learning": {"gamma": 0.5}})
    company.play("hold", episode="long", decision_id="early")
    company.play("hold", 1, episode="long", decision_id="later")
    company.reward("early", 0.5)  # learned, since its successor is known
    company.teach("hold", 0.25, 0.75)
    done = archive(company.library.database, company.name, older_than=0, output=tmp_path)
    assert (done.decisions, done.learning_steps) == (2, 0)
    assert len(company.steps()) == 3
    assert differences(company) == []
    company.close("long", 1.0)
    done = archive(company.library.database, company.name, older_than=0, output=tmp_path)
    assert (done.decisions, done.learning_steps) == (2, 4)
    assert company.steps() == []
    assert differences(company) == []
    company.teach("hold", 1.0)
    assert [step.number for step in company.steps()] == [4]
    assert differences(company) == []


def test_learning_moves_along_after_archiving(busy: Company, tmp_path: Path) -> None:
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    busy.library.change_tenant(busy.name, {"actions": ["trade", "walk"]})
    busy.teach("trade", 0.5)
    busy.reward("open", 0.5)
    busy.library.roll_back(busy.name)
    busy.teach("hold", 0.5)
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    assert differences(busy) == []


def test_batches_leave_as_much_as_one(busy: Company, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 2)
    monkeypatch.setattr(module, "_STEP_BATCH", 1)
    done = archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    assert (done.decisions, done.rewards, done.learning_steps) == (7, 5, 7)
    assert len([file for file in done.files if file.holds == "learning_steps"]) == 7
    assert differences(busy) == []


def test_a_run_that_fails_moves_nothing_twice(
    busy: Company, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = count(busy)
    with monkeypatch.context() as broken:
        broken.setattr(stored, "move_decisions", _fail)
        with pytest.raises(RuntimeError):
            archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    assert count(busy) == before
    assert list_archive(busy.library.database, busy.name) == []
    left = set((tmp_path / busy.name).iterdir())
    assert left  # files that nothing names
    done = archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    assert done.decisions == 7
    assert {file.file for file in done.files} & {path.name for path in left} == set()
    assert differences(busy) == []


def test_a_try_that_is_made_again_leaves_no_files(
    busy: Company, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[object] = []
    move = stored.move_decisions

    def colliding(*arguments: Any, **named: Any) -> None:
        tries.append(arguments)
        if len(tries) == 1:
            raise pysqlite3.dbapi2.IntegrityError("UNIQUE constraint failed: planted")
        move(*arguments, **named)

    monkeypatch.setattr(stored, "move_decisions", colliding)
    done = archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    assert (done.decisions, len(tries)) == (7, 3)  # alone, again, and in episodes
    assert {path.name for path in (tmp_path / busy.name).iterdir()} == {file.file for file in done.files}
    assert differences(busy) == []


def _fail(*_: object, **__: object) -> None:
    raise RuntimeError("the power is gone")


def test_where_nothing_can_be_written_nothing_leaves(busy: Company, tmp_path: Path) -> None:
    before = count(busy)
    (tmp_path / busy.name).write_text("in the way")
    with pytest.raises(InvalidInputError):
        archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    assert count(busy) == before
    for wrong in (-1.0, float("nan"), "1"):
        with pytest.raises(InvalidInputError, match="older_than"):
            archive(busy.library.database, busy.name, older_than=wrong, output=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        archive(busy.library.database, "nobody", older_than=0, output=tmp_path)


def test_cells_that_contradict_their_steps_are_not_archived(busy: Company, tmp_path: Path) -> None:
    with busy.library.database.transaction() as connection:
        steps = tables.learning_steps
        connection.execute(update(steps).where(steps.c.tenant == busy.name).values(target=0.123))
    with pytest.raises(StoreCorruptError, match="is not what the steps before it lead to: target"):
        archive(busy.library.database, busy.name, older_than=0, output=tmp_path)


def test_erasing_takes_the_stubs_too(busy: Company, tmp_path: Path) -> None:
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    rows = erase(busy.library.database, busy.name).rows
    assert (rows["archived_decisions"], rows["archived_rewards"], rows["cell_checkpoints"]) == (7, 5, 4)
    busy.library.create_tenant(busy.name, {"actions": ["hold", "trade"], "states": 2})
    assert busy.play("hold", decision_id="learned").action == "hold"
    assert busy.reward("learned", 0.75, reward_id="further").effect == "learned"
    assert differences(busy) == []


def test_an_export_holds_what_stays(busy: Company, tmp_path: Path) -> None:
    archive(busy.library.database, busy.name, older_than=0, output=tmp_path)
    path = tmp_path / "busy.jsonl"
    rows = busy.library.export_tenant(busy.name, path).rows
    assert {name: rows.get(name, 0) for name in TABLES} == count(busy)
    stubs = [
        json.loads(line)["row"]
        for line in path.read_text().splitlines()
        if '"archived_decisions","row"' in line
    ]
    (stub,) = (row for row in stubs if row["decision_id"] == "learned")
    assert stub["answer"][3] == "trade"  # version, latest version, state, action


def test_archiving_among_decides_and_rewards(store_url: str, tmp_path: Path) -> None:
    with Steersman.open(store_url) as library:
        company = Company.found(library, learning={"gamma": 0.5})
        answers: list[Any] = []
        stop = threading.Event()

        def live(number: int) -> None:
            for n in range(60):
                name = f"{number} {n}"
                episode = f"e{number} {n // 4}" if n % 2 else None
                first = company.decide(n % 2, decision_id=name, episode=episode)
                company.reward(name, 0.25 + n % 2 / 2)
                if n % 4 == 3:
                    company.close(f"e{number} {n // 4}", 1.0)
                answers.append((first, name, n % 2, episode))

        def tidy() -> None:
            while not stop.is_set():
                library.archive(company.name, older_than=0, output=tmp_path)

        with ThreadPoolExecutor(4) as pool:
            tidying = pool.submit(tidy)
            for life in [pool.submit(live, number) for number in range(3)]:
                life.result()
            stop.set()
            tidying.result()
        library.archive(company.name, older_than=0, output=tmp_path)
        assert differences(company) == []
        assert count(company)["decisions"] == count(company)["learning_steps"] == 0
        assert count(company)["archived_decisions"] == 180
        for first, name, state, episode in answers:
            again = company.decide(state, decision_id=name, episode=episode)
            assert replace(again, status="open") == first
