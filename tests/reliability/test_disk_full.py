"""No room to write: a typed error, nothing acknowledged is lost, and the same engine goes on once there is room."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from steersman.errors import StoreError, StoreFullError, StoreUnavailableError
from steersman.library import Steersman
from steersman.settings import Settings
from tests.reliability.books import Answer, losses, read_books, reconcile
from tests.reliability.children import hear, spawn, tell_parent
from tests.reliability.judge import judge, tell
from tests.reliability.plans import Call, make_plan, perform, prepare, strangers
from tests.reliability.small_disks import SmallDisk, database_on, end_log_segment, small_disk
from tests.support.postgres import PostgresCluster

ROUNDS = 8
SEED = 28


class Caller:
    """Makes the calls of a plan until one is refused, and goes on with that one later."""

    def __init__(self, library: Steersman, plan: list[Call]) -> None:
        self.library = library
        self.plan = plan
        self.done = 0
        self.acknowledged: list[Answer] = []

    def go_on(self, calls: int) -> StoreError | None:
        """Make so many calls, or fewer; return the error that ended it."""
        for call in self.plan[self.done : self.done + calls]:
            try:
                self.acknowledged += perform(self.library, call)
            except StoreError as error:
                return error
            self.done += 1
        return None

    def finish(self) -> None:
        """Make what is left of the plan."""
        assert self.go_on(len(self.plan)) is None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter, which those that pytest makes are closed to."""
    folder = Path(mkdtemp(prefix="steersman-disk-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, size="16m") as disk:
        yield disk


def test_sqlite_on_a_full_disk(disk: SmallDisk) -> None:
    url = f"sqlite:///{disk.folder / 'steersman.db'}"
    prepare(url)
    random = Random(SEED)
    with Steersman.open(url) as library:
        caller = Caller(library, make_plan("starved", SEED, 40 * ROUNDS))
        for _ in range(ROUNDS):
            assert caller.go_on(20) is None
            disk.fill(leave=random.randrange(100_000))
            error = caller.go_on(len(caller.plan))
            assert type(error) is StoreFullError
            # Reading needs no room.
            books = read_books(url)
            assert losses(books, caller.acknowledged) == []
            assert reconcile(books) == []
            assert type(caller.go_on(1)) in {StoreFullError, type(None)}
            disk.make_room()
        caller.finish()
    books = judge(url)
    tell(SEED, f"full {ROUNDS} times, {len(caller.plan)} calls,", books.counts())
    assert losses(books, caller.acknowledged) == []
    assert strangers(books, caller.plan) == []


def test_sqlite_opened_on_a_full_disk(disk: SmallDisk) -> None:
    url = f"sqlite:///{disk.folder / 'steersman.db'}"
    disk.fill()
    with pytest.raises(StoreFullError):
        Steersman.open(url)
    disk.make_room()
    prepare(url)
    assert judge(url).counts()["decisions"] == 0


def starve(url: str, pipe: Pipe) -> None:
    """Work with a limit on the size of files that is reached again and again; tell what was told."""
    prepare(url)
    random = Random(SEED)
    files = [Path(url.removeprefix("sqlite:///") + suffix) for suffix in ("", "-wal")]
    _, ceiling = resource.getrlimit(resource.RLIMIT_FSIZE)
    tell_parent(pipe, "ready")
    errors = []
    with Steersman.open(url) as library:
        caller = Caller(library, make_plan("limited", SEED, 40 * ROUNDS))
        for _ in range(ROUNDS):
            assert caller.go_on(20) is None
            limit = max(file.stat().st_size for file in files) + random.randrange(50_000)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, ceiling))
            errors.append(type(caller.go_on(len(caller.plan))).__name__)
            resource.setrlimit(resource.RLIMIT_FSIZE, (ceiling, ceiling))
        caller.finish()
    tell_parent(pipe, [errors, caller.acknowledged])


def test_sqlite_with_a_limit_on_the_size_of_files(sqlite_url: str) -> None:
    ((errors, acknowledged),) = hear(spawn(starve, [(sqlite_url,)]))
    books = judge(sqlite_url)
    tell(SEED, f"{errors},", books.counts())
    assert errors == ["StoreFullError"] * ROUNDS
    assert losses(books, acknowledged) == []
    assert strangers(books, make_plan("limited", SEED, 40 * ROUNDS)) == []


def test_postgres_with_its_tables_on_a_full_disk(
    private_postgres: PostgresCluster, open_folder: Path
) -> None:
    """Only the tables have no room: the server stays up and says so."""
    random = Random(SEED)
    with small_disk(open_folder, size="24m") as disk:
        url = database_on(disk, private_postgres)
        prepare(url)
        with Steersman.open(url) as library:
            caller = Caller(library, make_plan("starved", SEED, 60 * ROUNDS))
            for _ in range(ROUNDS // 2):
                assert caller.go_on(20) is None
                disk.fill(leave=random.randrange(10_000))
                error = caller.go_on(len(caller.plan))
                assert type(error) is StoreFullError
                books = read_books(url)
                assert losses(books, caller.acknowledged) == []
                assert reconcile(books) == []
                disk.make_room()
            caller.finish()
        books = judge(url)
        tell(SEED, f"full {ROUNDS // 2} times, {len(caller.plan)} calls,", books.counts())
        assert losses(books, caller.acknowledged) == []
        assert strangers(books, caller.plan) == []


def test_postgres_with_all_it_has_on_a_full_disk(open_folder: Path) -> None:
    """Its log of changes has no room either: the server gives up, and is started again once there is room."""
    with small_disk(open_folder, size="160m") as disk:
        cluster = PostgresCluster(disk.folder)
        try:
            cluster.start()
            url = cluster.url(cluster.create_database())
            prepare(url)
            with Steersman.open(url, settings=Settings(patience=1.0)) as library:
                caller = Caller(library, make_plan("starved", SEED, 400))
                assert caller.go_on(40) is None
                disk.fill()
                end_log_segment(cluster)
                error = caller.go_on(len(caller.plan))
                assert type(error) in {StoreFullError, StoreUnavailableError}
                disk.make_room()
                cluster.restart()
                assert losses(read_books(url), caller.acknowledged) == []
                caller.finish()
            books = judge(url)
        finally:
            cluster.stop()
    tell(SEED, f"refused with {type(error).__name__}, {len(caller.plan)} calls,", books.counts())
    assert losses(books, caller.acknowledged) == []
    assert strangers(books, caller.plan) == []
