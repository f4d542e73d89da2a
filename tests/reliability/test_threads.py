"""One engine shared by sixteen threads."""

from __future__ import annotations

import pytest

from steersman.library import Steersman
from steersman.settings import Settings
from tests.reliability.books import losses
from tests.reliability.judge import judge, tell
from tests.reliability.loads import Load
from tests.reliability.plans import make_plan, prepare, strangers

THREADS = 16
SEED = 16


@pytest.mark.parametrize("connections", [THREADS, 3])
def test_sixteen_threads_share_an_engine(store_url: str, connections: int) -> None:
    """Also with fewer connections to a server than threads, which then wait for each other."""
    prepare(store_url)
    plans = [make_plan(f"thread{i}", SEED, 40) for i in range(THREADS)]
    with Steersman.open(store_url, settings=Settings(pool_size=connections)) as library:
        load = Load([(library, plan) for plan in plans])
        with load.running():
            pass
    books = judge(store_url)
    tell(SEED, f"{THREADS} threads, {sum(map(len, plans))} calls, {books.counts()}")
    assert load.refused == {}
    assert losses(books, load.acknowledged) == []
    assert strangers(books, [call for plan in plans for call in plan]) == []
