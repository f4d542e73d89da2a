from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from steersman.errors import (
    NotFoundError,
    SteersmanError,
    StoreError,
    StoreUnavailableError,
    UnsupportedStoreError,
)
from steersman.library import Steersman
from steersman.settings import Settings
from steersman.store.backends import WAL_SAFE_SQLITE, sqlite_version
from steersman.store.engine import Database
from steersman.store.filesystem import file_system_of, refuse_network_file_system
from steersman.store.tenants import get_tenant
from steersman.usecases.verify import verify
from tests.support.company import Company

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
server:/export /data nfs4 rw,vers=4.2 0 0
tmpfs /data/scratch tmpfs rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
share /mnt/nine 9p rw 0 0
broken
/dev/sdb1 /database ext4 rw 0 0
"""


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_a_file_is_made_when_it_is_opened(form: str, tmp_path: Path) -> None:
    path = tmp_path / "learning.db"
    Database.open(form.format(path)).close()
    assert path.stat().st_size > 0


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (":memory:", "expected a database file"),
        ("sqlite://", "expected a database file"),
        ("mysql://user@host/db", "expected a file, sqlite:///file or postgresql://"),
        ("http://host/db", "expected a file, sqlite:///file or postgresql://"),
        ("postgresql://user@host:port/db", "expected a file, sqlite:///file or postgresql://"),
        ("missing/folder/steersman.db", "expected an existing folder, got missing/folder"),
    ],
)
def test_what_is_no_database_of_ours_is_refused(url: str, message: str) -> None:
    with pytest.raises(UnsupportedStoreError, match=message):
        Database.open(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(UnsupportedStoreError) as caught:
        Database.open("mysql://user:hunter2@host/db")
    assert "hunter2" not in str(caught.value)


def test_the_settings_name_the_database(tmp_path: Path) -> None:
    settings = Settings(database_url=str(tmp_path / "named.db"))
    Database.open(settings=settings).close()
    assert (tmp_path / "named.db").exists()


def test_sqlite_is_set_up_to_be_durable(tmp_path: Path) -> None:
    assert sqlite_version() >= WAL_SAFE_SQLITE  # the wheel's own library, not the system's
    database = Database.open(str(tmp_path / "a.db"))
    with database.transaction() as connection:
        pragmas = [
            connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "synchronous")
        ]
    assert pragmas == ["wal", 2]  # 2 is FULL
    database.close()


def test_postgres_is_set_up_to_read_what_is_committed(postgres_url: str) -> None:
    database = Database.open(postgres_url)
    with database.transaction() as connection:
        level = connection.execute(text("SHOW transaction_isolation")).scalar()
        scans = connection.execute(text("SHOW enable_seqscan")).scalar()
    with database.snapshot() as connection:
        reading = [
            connection.execute(text(f"SHOW transaction_{name}")).scalar()
            for name in ("isolation", "read_only")
        ]
    assert (level, scans, reading) == ("read committed", "off", ["repeatable read", "on"])
    with database.transaction() as connection:  # the options of a reader do not stay on the connection
        assert connection.execute(text("SHOW transaction_read_only")).scalar() == "off"
    database.close()


# Network file systems


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/a.db", "ext4"),
        ("/data/a.db", "nfs4"),
        ("/data/scratch/a.db", "tmpfs"),
        ("/data/scratchy/a.db", "nfs4"),
        ("/database/a.db", "ext4"),
        ("/mnt/my share/a.db", "cifs"),
        ("/data/../home/a.db", "ext4"),
    ],
)
def test_the_deepest_mount_point_counts(path: str, kind: str) -> None:
    assert file_system_of(Path(path), mounts=MOUNTS) == kind


@pytest.mark.parametrize("path", ["/data/a.db", "/mnt/my share/a.db", "/mnt/nine/a.db"])
def test_a_network_file_system_is_refused(path: str) -> None:
    with pytest.raises(UnsupportedStoreError, match="expected a local file system, got") as caught:
        refuse_network_file_system(Path(path), mounts=MOUNTS)
    assert caught.value.where == path
    assert "local disk" in (caught.value.hint or "")


def test_a_local_file_system_is_not(tmp_path: Path) -> None:
    for path in ("/home/a.db", "/data/scratch/a.db", "/database/a.db"):
        refuse_network_file_system(Path(path), mounts=MOUNTS)
    refuse_network_file_system(tmp_path / "a.db")
    assert file_system_of(Path("/a"), mounts="") is None


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    mounts = f"x / ext4 rw 0 0\ny {tmp_path}/real nfs rw 0 0\n"
    assert file_system_of(tmp_path / "link" / "a.db", mounts=mounts) == "nfs"


# Transactions


def test_an_error_rolls_back_and_passes_as_it_is(store_url: str) -> None:
    def retire_and_fail(connection: Connection) -> None:
        connection.execute(text("UPDATE tenants SET status = 'retired'"))
        raise ZeroDivisionError

    with Steersman.open(store_url) as library:
        company = Company.found(library)
        with pytest.raises(ZeroDivisionError):
            library.database.run(retire_and_fail)
        with library.database.snapshot() as connection:
            assert get_tenant(connection, company.name).status == "active"


def test_a_snapshot_does_not_change_while_others_write(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        company = Company.found(library)
        company.teach("hold", 0.5)
        with library.database.snapshot() as connection:
            count = text("SELECT count(*) FROM decisions")
            before = connection.execute(count).scalar()
            company.teach("hold", 0.5)
            assert connection.execute(count).scalar() == before == 1
        assert len(company.rows("decisions")) == 2


def test_work_that_collides_is_done_again_and_other_work_is_not(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        company = Company.found(library)
        taken = text(f"INSERT INTO state_heads (tenant, version, state) VALUES ('{company.name}', 1, 0)")
        calls: list[str] = []

        def collides(connection: Connection) -> str:
            calls.append("collides")
            connection.execute(taken)
            if len(calls) == 1:
                connection.execute(taken)
            return "done"

        def refuses(_: Connection) -> str:
            calls.append("refuses")
            raise NotFoundError

        assert library.database.run(collides) == "done"
        assert calls == ["collides", "collides"]
        with pytest.raises(NotFoundError):
            library.database.run(refuses)
        assert calls == ["collides", "collides", "refuses"]
        assert len(company.rows("state_heads")) == 1


def test_what_never_changes_is_made_once(tmp_path: Path) -> None:
    database = Database.open(str(tmp_path / "a.db"))
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return f"value of {key}"

    for key in ("a", "b", "a", "b"):
        assert database.cached((key,), partial(make, key)) == f"value of {key}"
    assert made == ["a", "b"]
    database.close()


# Threads and forks


def test_one_engine_serves_16_threads(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        company = Company.found(library)
        start = threading.Barrier(16)

        def work(number: int) -> None:
            start.wait()
            for turn in range(3):
                decision = company.play("hold", decision_id=f"{number} {turn}")
                company.reward(decision, number / 16)

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        cell = company.cell("hold")
        assert (cell.visits, cell.updates) == (48, 48)
        # The mean of 0, 1/16, ... 15/16 is 7.5/16, in whatever order they came.
        assert cell.q == pytest.approx(7.5 / 16, abs=1e-12)
        assert [step.number for step in company.steps()] == list(range(1, 49))
        assert verify(library.database).differences == ()


def in_child(work: Callable[[], object]) -> int:
    """Fork, and return the id of a child that does `work` and exits with 0 if that went well."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_parent_and_children_go_on_after_a_fork(store_url: str) -> None:
    with Steersman.open(store_url) as library:
        company = Company.found(library)
        company.teach("hold", 1.0)
        children = [in_child(lambda: company.teach("hold", *[0.5] * 10)) for _ in range(2)]
        company.teach("trade", *[0.25] * 10)
        assert [exit_code(child) for child in children] == [0, 0]
        company.teach("trade", 0.25)
        assert (company.cell("hold").updates, company.cell("trade").updates) == (21, 11)
        assert verify(library.database).differences == ()


def test_a_child_keeps_its_own_locks(store_url: str) -> None:
    """The parent closes the database while the child is at work: nothing that the child was told may be lost."""
    told, closed = os.pipe(), os.pipe()
    library = Steersman.open(store_url)
    company = Company.found(library)
    company.teach("hold", 1.0)

    def work() -> None:
        company.teach("trade", 0.5)
        os.write(told[1], b"!")
        os.read(closed[0], 1)
        company.teach("trade", *[0.5] * 10)
        library.close()

    child = in_child(work)
    os.read(told[0], 1)
    library.close()
    os.write(closed[1], b"!")
    assert exit_code(child) == 0
    for end in (*told, *closed):
        os.close(end)
    with Steersman.open(store_url) as again:
        assert Company(again, company.name).cell("trade").updates == 11
        assert verify(again.database).differences == ()


def test_a_child_refuses_a_file_that_was_in_use_when_it_was_forked(sqlite_url: str) -> None:
    """It would believe to hold its parent's locks, also with a connection of its own."""
    library = Steersman.open(sqlite_url)
    company = Company.found(library)

    def work() -> None:
        with pytest.raises(UnsupportedStoreError, match="forked while a transaction was open"):
            company.decide()
        with pytest.raises(UnsupportedStoreError, match="forked while a transaction was open"):
            Steersman.open(sqlite_url)

    with library.database.transaction():
        child = in_child(work)
    assert exit_code(child) == 0
    company.teach("hold", 0.5)
    assert verify(library.database).differences == ()
    library.close()


def test_a_closed_pool_is_an_error_of_ours(postgres_url: str) -> None:
    settings = Settings(pool_size=1, patience=0.2)
    database = Database.open(postgres_url, settings=settings)
    with (
        database.transaction(),
        pytest.raises(StoreUnavailableError, match="became free"),
        database.transaction(),
    ):
        pass
    database.close()


def test_a_busy_file_is_an_error_of_ours(tmp_path: Path) -> None:
    first = Database.open(str(tmp_path / "a.db"))
    second = Database.open(str(tmp_path / "a.db"), settings=Settings(patience=0.2))
    with (
        first.transaction(),
        pytest.raises(StoreUnavailableError, match="busy") as caught,
        second.transaction(),
    ):
        pass
    assert isinstance(caught.value, StoreError)
    assert isinstance(caught.value, SteersmanError)
    first.close()
    second.close()


def test_a_new_file_is_for_its_maker_alone_and_an_old_one_as_it_was(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with Steersman.open(str(tmp_path / "steersman.db")) as library:
            library.create_tenant("acme", {"actions": ["hold", "trade"], "states": 2})
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
            assert modes.pop("steersman.db") == 0o600
            assert set(modes.values()) <= {0o600}  # -wal and -shm
        (tmp_path / "steersman.db").chmod(0o660)
        with Steersman.open(str(tmp_path / "steersman.db")) as library:
            library.decide("acme", 0)
            assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o660}
    finally:
        os.umask(before)
