"""The floor below the service: a bare ASGI app that parses with msgspec and group-commits with the plain driver.

It sends the statements that Steersman sends for a decide, under the same server with the same settings, and does
nothing else: no keys, no checks, no policy, no metrics, no roles. It plays the first action.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

import msgspec
import psycopg
import pysqlite3
import uvicorn

from steersman.store.backends import SQLITE_PRAGMAS
from steersman.store.hot import HotStatements, hot_statements
from steersman.store.hot.text import DECISIONS, Row

__all__ = ["Asked", "FloorApp", "connect", "decide_plainly", "serve_floor"]

_MOST_GATHERED = 512
_ID, _STATE = DECISIONS.index("decision_id"), DECISIONS.index("state")
_JSON = (b"content-type", b"application/json")

_Batch = list[tuple[list["Asked"], asyncio.Future[None]]]


class Asked(NamedTuple):
    """One decide."""

    tenant: str
    state: int
    decision_id: str


class _Item(msgspec.Struct):
    state: int
    decision_id: str


class _Items(msgspec.Struct):
    items: list[_Item]


class _Answer(msgspec.Struct):
    decision_id: str
    action: str
    propensity: float
    explored: bool
    version: int


_decode = msgspec.json.Decoder(_Item).decode
_decode_items = msgspec.json.Decoder(_Items).decode
_encode = msgspec.json.Encoder().encode


def connect(url: str) -> Any:
    """Return a connection of the plain driver, set as ours are."""
    if url.startswith("postgresql://"):
        return psycopg.connect(url, options="-c enable_seqscan=off")
    connection = pysqlite3.connect(url, isolation_level=None, cached_statements=256, check_same_thread=False)
    for pragma in ("journal_mode=WAL", *SQLITE_PRAGMAS):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def decide_plainly(hot: HotStatements, cursor: Any, asked: list[Asked], template: Row) -> None:
    """Send what Steersman sends for these decides of states whose cells are all there.

    `template` is the row of a decision, of which tenant, id and state are replaced.
    """
    hot.lock_tenants(cursor, sorted({item.tenant for item in asked}))
    hot.find_decisions(cursor, sorted((item.tenant, item.decision_id) for item in asked))
    states = sorted({(item.tenant, 1, item.state) for item in asked})
    hot.lock_states(cursor, states)
    cells = [
        (*key, rows[0][0], rows[0][1], rows[0][2] + 1, *rows[0][3:])
        for key, rows in zip(states, hot.read_cells(cursor, states), strict=True)
    ]
    between, after = template[_ID + 1 : _STATE], template[_STATE + 1 :]
    hot.insert_decisions(
        cursor, [(item.tenant, item.decision_id, *between, item.state, *after) for item in asked]
    )
    hot.write_cells(cursor, cells)


class _Piped:
    """A cursor for each statement, so that those whose rows nobody asks for wait for no answer, as in ours."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._latest: Any = None

    def execute(self, text: str, parameters: Any) -> _Piped:
        self._latest = self._connection.execute(text, parameters)
        return self

    def fetchall(self) -> Any:
        return self._latest.fetchall()


class FloorApp:
    """The app; `tenants` tells whose a bearer key is."""

    def __init__(self, url: str, *, threaded: bool, tenants: dict[str, str], template: Row) -> None:
        """Connect, and start the thread where commits have one of their own."""
        self._tenants = {f"Bearer {key}".encode(): tenant for key, tenant in tenants.items()}
        self._template = template
        self._connection = connect(url)
        self._sqlite = not url.startswith("postgresql://")
        self._hot = hot_statements("sqlite" if self._sqlite else "postgresql")
        self._waiting: deque[tuple[list[Asked], asyncio.Future[None]]] = deque()
        self._busy = False
        self._jobs: SimpleQueue[tuple[_Batch, asyncio.AbstractEventLoop]] | None = None
        if threaded:
            self._jobs = SimpleQueue()
            threading.Thread(target=self._work, args=(self._jobs,), daemon=True).start()

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer a decide or a list of them."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        tenant = next(self._tenants[value] for name, value in scope["headers"] if name == b"authorization")
        raw: bytes = (message := await receive())["body"]
        while message.get("more_body", False):
            message = await receive()
            raw += message["body"]
        batch = scope["path"].endswith(":batch")
        items = _decode_items(raw).items if batch else [_decode(raw)]
        await self._submit([Asked(tenant, item.state, item.decision_id) for item in items])
        answers = [_Answer(item.decision_id, "card-0", 0.1, explored=False, version=1) for item in items]
        body = _encode(answers if batch else answers[0])
        headers = [_JSON, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _submit(self, items: list[Asked]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((items, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start, loop)
        return future

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        batch: _Batch = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0][0]) <= _MOST_GATHERED):
            batch.append(self._waiting.popleft())
            count += len(batch[-1][0])
        if not batch:
            self._busy = False
        elif self._jobs is not None:
            self._jobs.put((batch, loop))
        else:
            self._commit(batch)
            self._deliver(batch, loop)

    def _deliver(self, batch: _Batch, loop: asyncio.AbstractEventLoop) -> None:
        for _, future in batch:
            future.set_result(None)
        loop.call_soon(self._start, loop)

    def _work(self, jobs: SimpleQueue[tuple[_Batch, asyncio.AbstractEventLoop]]) -> None:
        while True:
            batch, loop = jobs.get()
            self._commit(batch)
            loop.call_soon_threadsafe(self._deliver, batch, loop)

    def _commit(self, batch: _Batch) -> None:
        asked = [item for items, _ in batch for item in items]
        if self._sqlite:
            cursor = self._connection.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            decide_plainly(self._hot, cursor, asked, self._template)
            self._connection.commit()
        else:
            with self._connection.pipeline():
                decide_plainly(self._hot, _Piped(self._connection), asked, self._template)
                self._connection.execute("COMMIT")


def serve_floor(url: str, port: int, threaded: bool, tenants: dict[str, str], template: Row) -> None:  # noqa: FBT001
    """Serve until the process is ended."""
    if threaded:
        sys.setswitchinterval(0.0001)  # as ours does
    uvicorn.run(
        FloorApp(url, threaded=threaded, tenants=tenants, template=template),
        port=port,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
    )
