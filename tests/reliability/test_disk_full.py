"""No room to write: a typed error, nothing acknowledged is lost, and the same engine goes on once there is room."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from random import Random

import pytest

from steersman.errors import StoreError, StoreFullError
from steersman.library import Steersman
from tests.reliability.books import Answer, losses, read_books, reconcile
from tests.reliability.children import hear, spawn, tell_parent
from tests.reliability.judge import judge, tell
from tests.reliability.plans import Call, make_plan, perform, prepare, strangers
from tests.reliability.small_disks import SmallDisk, small_disk

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
