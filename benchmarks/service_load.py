"""The load generator of `benchmarks.service`: a process of its own, so that it takes no time from what it measures."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import quantiles

import uuid_utils
import uvloop

__all__ = ["Figures", "Phase", "make_load"]

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200"


@dataclass(frozen=True, slots=True)
class Phase:
    """So many connections, each with one request under way at any time, for some seconds."""

    port: int
    keys: Sequence[str]  # of tenants, each asked for in turn at random
    states: int
    connections: int
    seconds: float
    batch: int  # items of a request; 1 for the route without a list
    seed: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of a phase."""

    per_second: float  # decisions
    p50: float  # seconds a request
    p99: float  # seconds a request
    requests: int


class _Load:
    """What the connections of a phase share."""

    def __init__(self, phase: Phase, done: asyncio.Future[None]) -> None:
        self.phase = phase
        self.done = done
        self.times: list[float] = []
        self.left = phase.connections
        self.until = time.perf_counter() + phase.seconds
        self._random = random.Random(phase.seed)
        path = "/v1/decide" if phase.batch == 1 else "/v1/decide:batch"
        self._heads = [
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
            "content-type: application/json\r\ncontent-length: "
            for key in phase.keys
        ]

    def request(self) -> bytes:
        """Return the next request: a tenant and states at random, ids as clients make them."""
        states, draw = self.phase.states, self._random.random
        items = ",".join(
            f'{{"state":{int(draw() * states)},"decision_id":"{uuid_utils.uuid7()}"}}'
            for _ in range(self.phase.batch)
        )
        body = items if self.phase.batch == 1 else f'{{"items":[{items}]}}'
        return f"{self._heads[int(draw() * len(self._heads))]}{len(body)}\r\n\r\n{body}".encode()

    def end(self) -> None:
        """Count a connection that is done."""
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)

    def fail(self, what: str) -> None:
        """End the phase with an error."""
        if not self.done.done():
            self.done.set_exception(RuntimeError(what))


class _Caller(asyncio.Protocol):
    """One connection."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._held = b""
        self._sent = 0.0
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # it is one that writes
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._load.fail(f"the server closed a connection: {exc}")

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        end = data.find(b"\r\n\r\n")
        found = _LENGTH.search(data, 0, end) if end > 0 else None
        if found is None or len(data) < end + 4 + int(found[1]):
            self._held = data
            return
        self._held = b""
        now = time.perf_counter()
        self._load.times.append(now - self._sent)
        if not data.startswith(_OK) or data.count(b'"decision_id"') != self._load.phase.batch:
            self._load.fail(data[:400].decode(errors="replace"))
        elif now < self._load.until:
            self._send()
            return
        transport, self._transport = self._transport, None
        assert transport is not None  # noqa: S101  (data came through it)
        transport.close()
        self._load.end()

    def _send(self) -> None:
        request = self._load.request()
        self._sent = time.perf_counter()
        assert self._transport is not None  # noqa: S101  (it is open)
        self._transport.write(request)


async def _run(phase: Phase) -> Figures:
    loop = asyncio.get_running_loop()
    load = _Load(phase, loop.create_future())
    begun = time.perf_counter()
    for _ in range(phase.connections):
        await loop.create_connection(lambda: _Caller(load), "127.0.0.1", phase.port)
    await load.done
    seconds = time.perf_counter() - begun
    cuts = quantiles(load.times, n=100)
    return Figures(len(load.times) * phase.batch / seconds, cuts[49], cuts[98], len(load.times))


def make_load(pipe: Connection) -> None:
    """Run each phase that the pipe brings, and send back its figures or what went wrong; None ends it."""
    while (phase := pipe.recv()) is not None:
        try:
            pipe.send(uvloop.run(_run(phase)))
        except (OSError, RuntimeError) as error:
            pipe.send(error)
