"""No room on the disk: callers are told so with 507, reading goes on, and the server goes on once there is room."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from tests.reliability.books import losses, read_books, reconcile
from tests.reliability.judge import judge, tell
from tests.reliability.plans import PLAIN, make_plan, strangers
from tests.reliability.small_disks import SmallDisk, database_on, small_disk
from tests.service_faults.callers import Callers, Wire
from tests.service_faults.servers import Deployment
from tests.support.postgres import PostgresCluster

Deploy = Callable[..., Deployment]

CALLERS = 4
ROUNDS = 4
SEED = 82
FULL = "507 store-full"
_PATIENCE = 60.0  # seconds, for a caller to hear of it


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    """A disk at a folder that other users can enter, which those that pytest makes are closed to."""
    folder = Path(mkdtemp(prefix="steersman-disk-"))
    folder.chmod(0o755)
    try:
        with small_disk(folder, size="96m") as disk:
            yield disk
    finally:
        shutil.rmtree(folder)


def test_sqlite_on_a_full_disk(disk: SmallDisk, deployed: Deploy) -> None:
    url = f"sqlite:///{disk.folder / 'steersman.db'}"
    starve(deployed(url), disk)


def test_postgres_with_its_tables_on_a_full_disk(
    disk: SmallDisk, private_postgres: PostgresCluster, deployed: Deploy
) -> None:
    starve(deployed(database_on(disk, private_postgres)), disk)


def starve(deployment: Deployment, disk: SmallDisk) -> None:
    """Fill the disk again and again while callers insist."""
    random = Random(SEED)
    server = deployment.server()
    server.start()
    plans = [make_plan(f"caller{i}", SEED, 200) for i in range(CALLERS)]
    callers = Callers([(server.port, plan) for plan in plans], deployment.key)
    with callers.running():
        for _ in range(ROUNDS):
            callers.wait_for(30)
            disk.fill(leave=random.randrange(50_000))
            await_refusal(callers, CALLERS)
            heard = callers.heard()
            # Reading needs no room.
            wire = Wire(server.port, deployment.key)
            assert wire.ask("GET", f"/v1/decisions?tenant={PLAIN}&limit=5")["items"]
            assert wire.ask("GET", "/readyz")
            wire.close()
            books = read_books(deployment.url)
            assert losses(books, heard) == []
            assert reconcile(books) == []
            disk.make_room()
    books = judge(deployment.url)
    calls = [call for plan in plans for call in plan]
    tell(SEED, f"full {ROUNDS} times, {len(calls)} calls, again {dict(callers.again)}, {books.counts()}")
    assert set(callers.again) == {FULL}
    assert losses(books, callers.acknowledged) == []
    assert strangers(books, calls) == []


def await_refusal(callers: Callers, count: int) -> None:
    """Return when the callers were told so many times more that there is no room."""
    goal = callers.again[FULL] + count
    deadline = time.monotonic() + _PATIENCE
    while callers.again[FULL] < goal:
        assert time.monotonic() < deadline
        time.sleep(0.01)
