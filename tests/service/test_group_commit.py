"""Group commit of a whole server on both databases: calls of any tenants go together, and too many are shed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from steersman.library import Steersman
from tests.support.served import Server, serving

QUEUE = 4


@pytest.fixture
def short(store_url: str) -> Iterator[Server]:
    """A server in which few items may wait."""
    Steersman.open(store_url).close()
    with serving(store_url, queue_limit=QUEUE) as running:
        yield running


@contextmanager
def nobody_decides(library: Steersman) -> Iterator[None]:
    """Hold what every decide and reward has to wait for."""
    with library.database.transaction() as connection:
        if library.database.dialect == "postgresql":
            assert connection.execute(text("SELECT tenant FROM tenants FOR UPDATE")).all()
        yield


def sample(server: Server, name: str) -> float:
    page = server.http.get("/metrics").text
    return next((float(line.split()[-1]) for line in page.splitlines() if line.startswith(f"{name} ")), 0.0)


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_begun(server: Server, verb: str) -> bool:
    """Whether a transaction runs with all that was asked for so far."""
    service = server.app.service
    assert service is not None
    gatherer = {"decide": service.decides, "reward": service.rewards}[verb]
    return gatherer._busy and gatherer.depth == 0


@pytest.mark.parametrize("verb", ["decide", "reward"])
def test_calls_of_several_tenants_share_a_transaction(short: Server, verb: str) -> None:
    callers = [short.company() for _ in range(3)]
    for caller in callers:
        assert caller.post("/v1/decide", {"state": 0, "decision_id": "d"}).status_code == 200
    bodies: list[dict[str, Any]] = [{"state": 0}, {"state": 1}, {"state": 1}, {"state": 9}]
    if verb == "reward":
        bodies = [{"decision_id": "d", "value": 0.5} for _ in range(3)] + [
            {"decision_id": "none", "value": 1}
        ]
    first, *others = zip([*callers, callers[0]], bodies, strict=True)
    counted = [f'steersman_batch_items_{what}{{verb="{verb}"}}' for what in ("count", "sum")]
    before = [sample(short, name) for name in counted]
    waits = f'steersman_queue_items{{verb="{verb}"}}'
    with ThreadPoolExecutor(4) as pool:
        with nobody_decides(short.library):
            answers = [pool.submit(first[0].post, f"/v1/{verb}", first[1])]
            eventually(lambda: has_begun(short, verb))  # it waits for the database, and no more for company
            answers += [pool.submit(caller.post, f"/v1/{verb}", body) for caller, body in others]
            eventually(lambda: sample(short, waits) == 3)
            assert not any(answer.done() for answer in answers)
        statuses = [answer.result().status_code for answer in answers]
    assert statuses == [200, 200, 200, 400 if verb == "decide" else 404]
    # The first alone, then all that had arrived meanwhile.
    assert [sample(short, name) - was for name, was in zip(counted, before, strict=True)] == [2, 4]
    assert all(short.library.verify(caller.tenant).clean for caller in callers)


def test_more_than_may_wait_is_shed_at_once(short: Server) -> None:
    company, other = short.company(), short.company()
    for caller in (company, other):
        caller.post("/v1/decide", {"state": 0, "decision_id": "first"})
    waits = 'steersman_queue_items{verb="decide"}'
    with ThreadPoolExecutor(QUEUE + 1) as pool:
        with nobody_decides(short.library):
            answers = [pool.submit(company.post, "/v1/decide", {"state": 0, "decision_id": "begun"})]
            eventually(lambda: has_begun(short, "decide"))
            names = [f"d{number}" for number in range(QUEUE)]
            answers += [
                pool.submit(company.post, "/v1/decide", {"state": 0, "decision_id": name}) for name in names
            ]
            eventually(lambda: sample(short, waits) == QUEUE)
            for _ in range(20):
                refused = other.post("/v1/decide", {"state": 0, "decision_id": "late"})
                assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
                assert int(refused.headers["retry-after"]) >= 1
            assert sample(short, waits) == QUEUE
        assert [answer.result().status_code for answer in answers] == [200] * (QUEUE + 1)
    assert other.post("/v1/decide", {"state": 0, "decision_id": "late"}).status_code == 200
    assert [len(caller.get("/v1/decisions").json()["items"]) for caller in (company, other)] == [
        QUEUE + 2,
        2,
    ]
