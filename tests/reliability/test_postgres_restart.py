"""PostgreSQL stops and starts again under load: callers get answers or typed errors, and nothing told is lost."""

from __future__ import annotations

from steersman.library import Steersman
from steersman.settings import Settings
from steersman.usecases.tenants import list_tenants
from tests.reliability.books import losses
from tests.reliability.judge import judge, tell
from tests.reliability.loads import Load
from tests.reliability.plans import PLAIN, make_plan, prepare, strangers
from tests.support.postgres import PostgresCluster

CALLERS = 8
MODES = ("immediate", "fast", "immediate", "immediate")
SEED = 5


def test_restarted_under_load(private_postgres: PostgresCluster) -> None:
    url = private_postgres.url(private_postgres.create_database())
    prepare(url)
    plans = [make_plan(f"caller{i}", SEED, 120) for i in range(CALLERS)]
    with Steersman.open(url) as patient, Steersman.open(url, settings=Settings(patience=0.05)) as hasty:
        load = Load([(patient if i % 2 else hasty, plan) for i, plan in enumerate(plans)])
        with load.running():
            for mode in MODES:
                load.wait_for(150)
                private_postgres.restart(mode)
        # The same engines, whose pools were full of connections to a server that is gone.
        private_postgres.restart()
        for library in (patient, hasty):
            assert {owner.tenant for owner in list_tenants(library.database)} >= {PLAIN}
            library.decide(PLAIN, 0, decision_id="afterwards")
    books = judge(url)
    tell(SEED, f"{len(MODES)} restarts, refused {dict(load.refused)}, {books.counts()}")
    assert set(load.refused) == {"StoreUnavailableError"}
    assert losses(books, load.acknowledged) == []
    asked = [call for plan in plans for call in plan]
    assert strangers(books, asked) == [f"nobody asked for {('decision', PLAIN, 'afterwards')}"]
