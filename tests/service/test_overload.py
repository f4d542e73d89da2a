"""More than can be done, or a database that is gone: what is refused is refused at once, and nothing is left over."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from steersman.errors import OverloadedError, RateLimitedError
from steersman.service.slots import Slots
from steersman.store.engine import Database
from steersman.usecases.keys import SCOPES, create_key
from tests.support.postgres import PostgresCluster
from tests.support.served import Caller, Server, serving


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def decide(caller: Caller, decision_id: str) -> httpx.Response:
    return caller.post("/v1/decide", {"state": 0, "decision_id": decision_id})


def depth(server: Server) -> int:
    """How many decides wait for their transaction."""
    (line,) = [
        line
        for line in server.http.get("/metrics").text.splitlines()
        if line.startswith('steersman_queue_items{verb="decide"}')
    ]
    return int(float(line.split()[-1]))


def test_a_full_queue_sheds_and_who_waits_is_answered(tmp_path: Path) -> None:
    with serving(str(tmp_path / "steersman.db"), queue_limit=2) as server, ThreadPoolExecutor(3) as pool:
        company, reader = server.company(), server.company()
        decide(company, "first")
        with server.library.database.transaction():
            # Nobody else can write now: one decide is under way, and two wait.
            waiting: list[Future[httpx.Response]] = [pool.submit(decide, company, "a")]
            time.sleep(0.2)
            waiting += [pool.submit(decide, company, name) for name in ("b", "c")]
            eventually(lambda: depth(server) == 2)
            refused = decide(company, "d")
            assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
            assert refused.headers["retry-after"] == "1"
            assert server.http.get("/healthz").status_code == 200
            assert reader.get("/v1/tenant").status_code == 200
        assert [answer.result().status_code for answer in waiting] == [200, 200, 200]
        assert decide(company, "d").status_code == 200
        made = {item["decision_id"] for item in company.get("/v1/decisions").json()["items"]}
        assert made == {"first", "a", "b", "c", "d"}


def test_a_key_has_only_so_many_requests_under_way(tmp_path: Path) -> None:
    with serving(str(tmp_path / "steersman.db"), key_in_flight=1) as server, ThreadPoolExecutor(2) as pool:
        company, other = server.company(), server.company()
        decide(company, "first")
        with server.library.database.transaction():
            both = [pool.submit(decide, company, name) for name in ("a", "b")]
            eventually(lambda: any(answer.done() for answer in both))
            (refused,) = [answer.result() for answer in both if answer.done()]
            assert (refused.status_code, refused.json()["code"]) == (429, "rate-limited")
            assert other.get("/v1/tenant").status_code == 200
        assert sorted(answer.result().status_code for answer in both) == [200, 429]
        assert decide(company, "c").status_code == 200


def test_clients_that_go_away_leave_nothing_behind(server: Server, company: Caller) -> None:
    host, port = server.http.base_url.host, server.http.base_url.port or 0
    ids = [f"d{number}" for number in range(50)]
    for name in ids:
        body = f'{{"state": 0, "decision_id": "{name}"}}'.encode()
        head = f"POST /v1/decide HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {company.key}\r\n"
        with socket.create_connection((host, port)) as gone:
            gone.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    assert decide(company, "last").status_code == 200
    database: Any = server.app.service.serving  # type: ignore[union-attr]
    eventually(lambda: database.engine.pool.checkedout() == 0)
    # Each was done as a whole or not at all, and the same id can be asked for again.
    assert {decide(company, name).status_code for name in ids} == {200}
    assert company.get("/v1/cells").json()["states"][0]["evidence"] == 51
    assert server.library.verify(company.tenant).clean


def test_a_database_that_is_gone_is_no_missing_key(private_postgres: PostgresCluster) -> None:
    url = private_postgres.url(private_postgres.create_database())
    Database.open(url, upgrade=True).close()
    with serving(url, patience=1.0) as server:
        company = server.company()
        unseen = server.caller(
            None,
            key=create_key(server.library.database, tenant=company.tenant, scopes=SCOPES, name="new").text,
        )
        assert decide(company, "a").status_code == 200
        private_postgres.stop()
        for caller in (company, unseen):
            refused = decide(caller, "b")
            assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
            assert "retry-after" in refused.headers
            assert "postgres" not in refused.text
        assert server.http.get("/healthz").status_code == 200
        ready = server.http.get("/readyz")
        assert (ready.status_code, ready.json()["code"]) == (503, "not-ready")
        private_postgres.start()
        eventually(lambda: decide(company, "b").status_code == 200)
        eventually(lambda: decide(unseen, "b").status_code == 200)
        # The tables belong to the role that this server logs in with, which row-level security would not hold.
        assert "own" in server.http.get("/readyz").json()["detail"]


def half_sent(server: Server, caller: Caller, head: str) -> socket.socket:
    """Send a request whose body does not come; `head` is its method and path."""
    host, port = server.http.base_url.host, server.http.base_url.port or 0
    opened = socket.create_connection((host, port))
    lines = (
        f"{head} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {caller.key}\r\ncontent-length: 100\r\n\r\n{{"
    )
    opened.sendall(lines.encode())
    return opened


def test_slow_bodies_keep_nobody_else_out(server: Server, company: Caller) -> None:
    other, operator = server.company(), server.caller(None)
    with ExitStack() as stack:
        for _ in range(70):
            stack.enter_context(half_sent(server, company, "PATCH /v1/tenant"))
        # All of them were let in when one that came after them was.
        assert company.get("/v1/tenant").status_code == 200
        assert other.get("/v1/tenant").status_code == 200
        assert operator.http.delete(f"/v1/keys/{company.key[3:15]}").status_code == 200


@pytest.mark.parametrize("head", ["PATCH /v1/tenant", "POST /v1/decide"])
def test_a_body_that_does_not_come_is_ended(
    server: Server, company: Caller, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.app.service is not None
    monkeypatch.setattr(server.app.service.bodies, "_within", 0.2)
    with half_sent(server, company, head) as slow:
        slow.settimeout(30)
        answer = b"".join(iter(lambda: slow.recv(4096), b""))  # until the server closes
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"body-too-slow"' in answer


def test_what_one_tenant_asks_leaves_room_for_others(tmp_path: Path) -> None:
    with serving(str(tmp_path / "steersman.db")) as server, ThreadPoolExecutor(17) as pool:
        company, other = server.company(), server.company()

        decide(company, "first")

        def freeze(number: int) -> int:
            return company.post("/v1/versions/1/freeze", {"name": f"v{number}"}).status_code

        with server.library.database.transaction():
            # Nobody else can write now, so what was let in stays under way.
            answers = [pool.submit(freeze, number) for number in range(17)]
            eventually(lambda: any(answer.done() for answer in answers))
            (refused,) = [answer.result() for answer in answers if answer.done()]
            assert refused == 429
            slots = server.app.service.slots  # type: ignore[union-attr]
            slots.take(other.tenant)  # as its next request would
            slots.give_back(other.tenant)
        assert sorted(answer.result() for answer in answers) == [200] * 16 + [429]


def test_slots_end() -> None:
    slots = Slots()
    for number in range(64):
        slots.take(f"tenant-{number % 4}")
    for tenant, error in (
        ("tenant-0", RateLimitedError),
        ("tenant-4", OverloadedError),
        (None, OverloadedError),
    ):
        with pytest.raises(error):
            slots.take(tenant)
    slots.give_back("tenant-0")
    slots.take(None)
    with pytest.raises(OverloadedError):
        slots.take("tenant-0")
