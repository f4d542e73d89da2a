"""Calls per second of the clients, with few and with many callers at once, against a real server.

Run with `python -m benchmarks.client`. One `steersman serve` over SQLite, and in this process one client, which is
called by so many tasks (or threads) at once, each of which decides and rewards in turn; the last line is 1,000
decides that are begun together. CPU is that of this process, for each request. An aim compares many callers with
30, in the same run: calls that wait must not make the others slower. Rates are medians of the rounds.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.service import our_server
from benchmarks.support import Lines, fsync_probe, machine, scratch
from steersman.client import AsyncClient, Client
from steersman.domain.records import Decision
from steersman.library import Steersman

ROUNDS = 3
_TASKS, _THREADS = (1, 30, 100, 1000), (1, 30, 200)
_PAIRS = 1000  # of a decide and a reward in a round
_AT_ONCE = 1000
_STATES = 1000
_KEPT = 0.7  # of the rate with 30 callers


@dataclass(frozen=True, slots=True)
class Service:
    """Where the server is, and a key."""

    url: str
    key: str


@dataclass(frozen=True, slots=True)
class Measured:
    """One round: requests a second, and seconds of CPU for each."""

    rate: float
    cpu: float


def in_tasks(service: Service, tasks: int) -> None:
    """Decide and reward from so many tasks at once."""

    async def play(client: AsyncClient, pairs: int) -> None:
        for number in range(pairs):
            decision = await client.decide("bench", number % _STATES)
            await client.reward("bench", decision.decision_id, 0.5)

    async def main() -> None:
        async with AsyncClient(service.url, service.key) as client:
            await asyncio.gather(*(play(client, pairs) for pairs in _shares(tasks)))

    asyncio.run(main())


def in_threads(service: Service, threads: int) -> None:
    """Decide and reward from so many threads at once."""

    def play(pairs: int) -> None:
        for number in range(pairs):
            decision = client.decide("bench", number % _STATES)
            client.reward("bench", decision.decision_id, 0.5)

    with Client(service.url, service.key) as client, ThreadPoolExecutor(threads) as pool:
        list(pool.map(play, _shares(threads)))


def at_once(service: Service) -> None:
    """Begin all decides together."""

    async def main() -> list[Decision]:
        async with AsyncClient(service.url, service.key) as client:
            return await asyncio.gather(
                *(client.decide("bench", number % _STATES) for number in range(_AT_ONCE))
            )

    asyncio.run(main())


def measured(work: Callable[[], None], requests: int) -> Measured:
    """Return how fast `work` was, which makes so many requests."""
    cpu, begin = time.process_time(), time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    return Measured(requests / seconds, (time.process_time() - cpu) / requests)


def measure(service: Service, folder: Path, lines: Lines) -> None:
    """Measure both clients."""
    for name, work, numbers in (("AsyncClient", in_tasks, _TASKS), ("Client", in_threads, _THREADS)):
        found: dict[int, list[Measured]] = {number: [] for number in numbers}
        probes = []
        for _ in range(ROUNDS):
            for number in numbers:
                found[number].append(measured(partial(work, service, number), 2 * _PAIRS))
            probes.append(fsync_probe(folder))
        for number, rounds in found.items():
            pairs = zip(rounds, found[30], strict=True)
            share = statistics.median(many.rate / few.rate for many, few in pairs)
            aim = f"at least {_KEPT} of the rate of 30" if number > 30 else ""
            _line(lines, (name, f"{number}"), rounds, probes, aim=aim, met=not aim or share >= _KEPT)
    rounds = [measured(partial(at_once, service), _AT_ONCE) for _ in range(ROUNDS)]
    _line(lines, ("AsyncClient", f"{_AT_ONCE} decides at once"), rounds, [fsync_probe(folder)])


def _line(
    lines: Lines,
    what: tuple[str, str],
    rounds: list[Measured],
    probes: list[float],
    *,
    aim: str = "",
    met: bool = True,
) -> None:
    rate = statistics.median(item.rate for item in rounds)
    cpu = statistics.median(item.cpu for item in rounds) * 1e3
    probe = statistics.median(probes) * 1e3
    lines.add(*what, f"{rate:,.0f}", f"{cpu:.2f}", f"{probe:.2f}", aim=aim, met=met)


def _shares(callers: int) -> list[int]:
    """Return how many pairs each caller makes."""
    return [_PAIRS // callers + (index < _PAIRS % callers) for index in range(callers)]


def main() -> int:
    """Measure and print; return 1 when an aim was missed."""
    lines = Lines(
        f"Requests of one client, SQLite ({machine()})",
        ["client", "callers", "requests a second", "CPU ms a request", "fdatasync ms"],
    )
    with scratch() as folder:
        url = f"sqlite:///{folder / 'steersman.db'}"
        with Steersman.open(url) as library:
            library.create_tenant("bench", {"actions": ["hold", "trade"], "states": _STATES})
            key = library.create_key("bench", name="bench").text
        with our_server(url, "auto") as server:
            service = Service(f"http://127.0.0.1:{server.port}", key)
            in_tasks(service, 1)  # the server warms up
            measure(service, folder, lines)
    lines.print()
    return int(bool(lines.missed))


if __name__ == "__main__":
    raise SystemExit(main())
