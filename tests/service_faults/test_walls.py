"""The walls between tenants: each planted hole is found, and on a server row-level security stands behind the code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPConnection
from multiprocessing.connection import Connection as Pipe

import pytest
from sqlalchemy import text

from steersman.settings import Settings
from steersman.store.engine import Database
from steersman.usecases.decide import decide
from steersman.usecases.keys import create_key
from tests.reliability.children import hear, spawn, tell_parent
from tests.reliability.plans import CHAINS, PLAIN
from tests.service_faults.callers import Wire
from tests.service_faults.defects import plant
from tests.service_faults.servers import Deployment, ServerProcess

Deploy = Callable[..., Deployment]

CANARY = "canary-7f3a"
ASKS: tuple[tuple[str, str, str | None], ...] = (
    ("GET", "/v1/decisions", None),
    ("GET", "/v1/decisions/ID", None),
    ("POST", "/v1/decisions/ID/void", "{}"),
    ("POST", "/v1/reward", '{"decision_id": "ID", "value": 1.0}'),
)


def leaks(deployment: Deployment, server: ServerProcess) -> list[str]:
    """Every request about another tenant's decision that is not answered as one about a decision that is not there."""
    database = Database.open(deployment.url)
    keys = {name: create_key(database, tenant=name, name="walls").text for name in (PLAIN, CHAINS)}
    database.close()
    for name in (PLAIN, CHAINS):
        wire = Wire(server.port, keys[name])
        body = {"state": 0, "decision_id": f"{name}.made", "metadata": {"secret": f"{CANARY} of {name}"}}
        wire.ask("POST", "/v1/decide", body)
        wire.close()
    found = []
    for ask in ASKS:
        foreign, missing = (
            answer_to(server.port, keys[CHAINS], ask, name) for name in (f"{PLAIN}.made", f"{PLAIN}.none")
        )
        if foreign != missing or f"{CANARY} of {PLAIN}" in foreign:
            found.append(" ".join(ask[:2]))
    return found


def answer_to(port: int, key: str, ask: tuple[str, str, str | None], decision_id: str) -> str:
    """Return status and body of an answer, without the id that was asked for and the request's own."""
    method, path, body = ask
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"authorization": f"Bearer {key}", "x-request-id": "same"}
    content = None if body is None else body.replace("ID", decision_id)
    connection.request(method, path.replace("ID", decision_id), content, headers)
    answer = connection.getresponse()
    told = answer.read().decode()
    connection.close()
    assert answer.status < 500, told
    return f"{answer.status} {told}".replace(decision_id, "ID")


def test_sound_walls_let_nothing_through(store_url: str, deployed: Deploy) -> None:
    deployment = deployed(store_url)
    server = deployment.server()
    server.start()
    assert leaks(deployment, server) == []


def test_a_dropped_tenant_is_found(store_url: str, deployed: Deploy) -> None:
    """With the role that owns the tables, which row-level security does not hold."""
    deployment = deployed(store_url)
    settings = replace(deployment.settings, database_url=store_url, operator_url="")
    server = deployment.server(defect="drop tenant", settings=settings)
    server.start()
    assert {"GET /v1/decisions", "GET /v1/decisions/ID"} <= set(leaks(deployment, server))


def test_a_dropped_tenant_stops_at_row_level_security(postgres_url: str, deployed: Deploy) -> None:
    deployment = deployed(postgres_url)
    server = deployment.server(defect="drop tenant")
    server.start()
    assert leaks(deployment, server) == []


def look_without_tenants(settings: Settings, defect: str | None, pipe: Pipe) -> None:
    """Decide for a tenant, then count on the same connection what a transaction of no tenant sees."""
    if defect is not None:
        plant(defect)
    database = Database.open(settings=replace(settings, pool_size=1))
    decide(database, PLAIN, 0)
    with database.snapshot() as connection:
        seen = connection.execute(text("SELECT count(*) FROM decisions")).scalar_one()
    database.close()
    tell_parent(pipe, "ready")
    tell_parent(pipe, seen)


@pytest.mark.parametrize(("defect", "seen"), [(None, 0), ("set for the session", 1)])
def test_tenants_admitted_for_the_session_are_found(
    postgres_url: str, deployed: Deploy, defect: str | None, seen: int
) -> None:
    settings = deployed(postgres_url).settings
    assert hear(spawn(look_without_tenants, [(settings, defect)])) == [seen]
