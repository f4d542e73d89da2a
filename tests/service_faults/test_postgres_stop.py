"""PostgreSQL crashes under load: callers hear 503, ask again under the same ids, and nothing told is lost."""

from __future__ import annotations

from collections.abc import Callable

from tests.reliability.books import losses
from tests.reliability.judge import judge, tell
from tests.reliability.plans import PLAIN, make_plan, strangers
from tests.service_faults.callers import Callers, Wire
from tests.service_faults.servers import Deployment
from tests.support.postgres import PostgresCluster

Deploy = Callable[..., Deployment]

CALLERS = 8
STOPS = 5
SEED = 31


def test_stopped_five_times_under_load(private_postgres: PostgresCluster, deployed: Deploy) -> None:
    url = private_postgres.url(private_postgres.create_database())
    # Hardly any patience, so that callers hear of it.
    deployment = deployed(url, patience=0.05)
    server = deployment.server()
    server.start()
    plans = [make_plan(f"caller{i}", SEED, 100) for i in range(CALLERS)]
    callers = Callers([(server.port, plan) for plan in plans], deployment.key)
    with callers.running():
        for _ in range(STOPS):
            callers.wait_for(60)
            private_postgres.restart("immediate")
    books = judge(url)
    calls = [call for plan in plans for call in plan]
    tell(SEED, f"{STOPS} stops, {len(calls)} calls, again {dict(callers.again)}, {books.counts()}")
    assert callers.again["503 store-unavailable"] > 0
    # A key that cannot be looked up is no wrong key, and the server itself stayed.
    assert set(callers.again) <= {"503 store-unavailable", "503 overloaded"}
    assert losses(books, callers.acknowledged) == []
    assert strangers(books, calls) == []


def test_a_server_ends_while_its_database_is_away(
    private_postgres: PostgresCluster, deployed: Deploy
) -> None:
    """It has much more patience than whoever ends it has."""
    deployment = deployed(private_postgres.url(private_postgres.create_database()), patience=600.0)
    server = deployment.server()
    server.start()
    wire = Wire(server.port, deployment.key)
    wire.ask("POST", "/v1/decide", {"tenant": PLAIN, "state": 0})
    wire.close()
    private_postgres.stop()
    server.stop()
