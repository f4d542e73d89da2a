"""A pool of two and fifty callers that go away after 50 ms: no session is lost, and nothing is done by halves."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pysqlite3

from steersman.domain.records import DecideRequest
from tests.reliability.judge import judge, tell
from tests.reliability.plans import PLAIN, STATES, Call, strangers
from tests.service_faults.callers import Wire
from tests.service_faults.servers import Deployment
from tests.support.postgres import SERVING, url_as

CALLERS = 50
ROUNDS = 6
PATIENCE = 0.05  # seconds, after which a caller goes away
_HELD = 0.3  # seconds for which nobody can write, in every second round
_SEED = 50


def test_fifty_callers_that_go_away(store_url: str, deployed: Callable[..., Deployment]) -> None:
    deployment = deployed(store_url, pool_size=2, patience=5.0)
    server = deployment.server()
    server.start()
    asked: list[tuple[str, int]] = []
    answered: dict[str, Any] = {}
    for number in range(ROUNDS):
        calls = [(f"{number}.{i}", (number + i) % STATES) for i in range(CALLERS)]
        asked += calls
        if number % 2:
            with nobody_writes(store_url):
                answered |= asyncio.run(crowd(server.port, deployment.key, calls))
                time.sleep(_HELD)
        else:
            answered |= asyncio.run(crowd(server.port, deployment.key, calls))
    wire = Wire(server.port, deployment.key)
    # As many connections as there are work again, for hot calls and others.
    assert wire.ask("GET", "/readyz")
    again = {name: wire.ask("POST", "/v1/decide", body_of(name, state)) for name, state in asked}
    assert len(wire.ask("GET", f"/v1/decisions?tenant={PLAIN}&limit=100")["items"]) == 100
    wire.close()
    books = judge(store_url)
    tell(_SEED, f"{len(asked)} calls, {len(answered)} heard an answer in time,", books.counts())
    assert {name: again[name] for name in answered} == answered
    requests = tuple(DecideRequest(PLAIN, state, decision_id=name) for name, state in asked)
    assert strangers(books, [Call("decide", requests)]) == []
    if store_url.startswith("postgresql"):
        sessions = sessions_of(SERVING, store_url)
        assert len(sessions) <= 2
        assert set(sessions) == {"idle"}


async def crowd(port: int, key: str, calls: list[tuple[str, int]]) -> dict[str, Any]:
    """Let all ask at once; return what those were told who had an answer in time."""
    told = await asyncio.gather(*(ask(port, key, name, state) for name, state in calls))
    return {name: answer for (name, _), answer in zip(calls, told, strict=True) if answer is not None}


async def ask(port: int, key: str, name: str, state: int) -> Any:
    """Ask for a decision, or in some states for a list of them; break the connection off after a moment."""
    if state % 5:
        body = json.dumps(body_of(name, state)).encode()
        head = "POST /v1/decide"
    else:
        head, body = f"GET /v1/decisions?tenant={PLAIN}", b""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = (f"{head} HTTP/1.1", "host: x", f"authorization: Bearer {key}", f"content-length: {len(body)}")
    writer.write("\r\n".join((*lines, "", "")).encode() + body)
    try:
        async with asyncio.timeout(PATIENCE):
            told = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", told)
            assert length is not None
            answer = json.loads(await reader.readexactly(int(length[1])))
    except TimeoutError:
        return None
    finally:
        writer.transport.abort()
    assert told.startswith(b"HTTP/1.1 200"), answer
    return answer if head.startswith("POST") else None


def body_of(name: str, state: int) -> dict[str, object]:
    """The body that asks for a decision."""
    return {"tenant": PLAIN, "state": state, "decision_id": name}


@contextmanager
def nobody_writes(url: str) -> Iterator[None]:
    """Hold what every decide has to wait for."""
    if url.startswith("sqlite"):
        connection: Any = pysqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection = psycopg.connect(url)
        connection.execute("SELECT * FROM tenants FOR UPDATE")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


def sessions_of(role: str, url: str) -> list[str]:
    """What the sessions of a role are doing in this database; a superuser sees it."""
    with psycopg.connect(url_as("postgres", url)) as connection:
        rows = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE usename = %s AND datname = current_database()", [role]
        )
        return [str(row[0]) for row in rows]
