"""Durable decisions per second over HTTP, beside a floor under the same server that sends the same statements.

Run with `python -m benchmarks.service [sqlite|postgresql]`. One server process, a load generator in a process of
its own, connections kept alive, 100 tenants x 1,000 states x 10 actions, every cell present. The floor (see
`benchmarks.service_floor`) and ours both commit inline and from a thread; all four run in turn, and the figures
are medians of the rounds. An aim counts for the way of committing that is the default, over the better floor. CPU
is that of the server process alone. SQLite commits with synchronous=FULL, PostgreSQL with synchronous_commit=on,
and a probe of the disk's fdatasync stands beside every figure.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TextIO

import psutil
import psycopg

from benchmarks.durable import ACTIONS, STATES, TENANTS, Recorder, Statement, populate, record, requests
from benchmarks.service_floor import Asked, connect, decide_plainly, serve_floor
from benchmarks.service_load import Figures, Phase, make_load
from benchmarks.support import Lines, fsync_probe, machine, postgres_database, scratch
from steersman.domain.records import DecideRequest, Decision
from steersman.store.decisions import pack_decision
from steersman.store.engine import Database
from steersman.store.hot.text import Row
from steersman.usecases.decide import decide_many
from steersman.usecases.isolation import grant_roles
from steersman.usecases.keys import create_key
from tests.support.postgres import OPERATOR, SERVING, url_as

ROUNDS = 3
SECONDS = 2.0
_WARMING = 1.0
_BATCH, _BATCH_CONNECTIONS = 64, 8
_LOADS = ((1, 1), (32, 1), (128, 1), (_BATCH_CONNECTIONS, _BATCH))  # (connections, items of a request)
_SHARE, _SLOWER = 0.6, 2.0  # of the floor's throughput and p99, at 32 connections
_RATES = {  # decisions a second, by (connections, items)
    ("sqlite", 32, 1): 4_000,
    ("postgresql", 32, 1): 2_000,
    ("sqlite", _BATCH_CONNECTIONS, _BATCH): 8_000,
    ("postgresql", _BATCH_CONNECTIONS, _BATCH): 4_000,
}
_PATIENCE = 60.0  # seconds
_COMMITS = ("inline", "thread")
_DEFAULT = {"sqlite": "inline", "postgresql": "thread"}  # what `auto` stands for
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    name: str
    port: int
    process: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One phase: what the callers saw, and seconds of the server's CPU for each decision."""

    figures: Figures
    cpu: float


def keys_of(database: Database) -> dict[str, str]:
    """Make a key for each tenant; return the tenants by key."""
    names = [f"tenant-{index:03d}" for index in range(TENANTS)]
    return {create_key(database, tenant=name, name="bench").text: name for name in names}


def template_of(database: Database) -> Row:
    """Return the row of a decision over all ten actions."""
    (answer,) = decide_many(database, [DecideRequest("tenant-000", 0)])
    assert isinstance(answer, Decision)  # noqa: S101
    return pack_decision(answer, whole_catalogue=True, latest_version=1, fingerprint=bytes(32), metadata=None)


def check_same_statements(url: str) -> None:
    """Raise RuntimeError unless the floor sends for a list of decides what Steersman sends."""
    database = Database.open(url)
    generator = random.Random(3)
    asked = requests(generator, 20)
    ours: list[list[Statement]] = []
    record(lambda: decide_many(database, asked), ours)
    plain: list[Statement] = []
    connection = connect(url)
    cursor = Recorder(connection.cursor(), plain)
    items = [Asked(item.tenant, int(str(item.state)), f"d-{index}") for index, item in enumerate(asked)]
    decide_plainly(database.hot, cursor, items, template_of(database))
    connection.rollback()
    connection.close()
    database.close()
    if [item.text for item in plain] != [item.text for item in ours[-1]]:
        raise RuntimeError("the floor does not send the statements that Steersman sends")


@contextmanager
def floor_server(url: str, commit: str, tenants: dict[str, str], template: Row) -> Iterator[Server]:
    """Run the floor."""
    port = _free_port()
    process = _SPAWN.Process(
        target=serve_floor, args=(url, port, commit == "thread", tenants, template), daemon=True
    )
    process.start()
    with _ending(process):
        _await_port(port)
        yield Server(f"floor, {commit}", port, process.pid or 0)


@contextmanager
def our_server(url: str, commit: str) -> Iterator[Server]:
    """Run the command that serves, on a server with the roles that it is meant for."""
    port = _free_port()
    environment = os.environ | {
        "STEERSMAN_DATABASE_URL": url_as(SERVING, url) if url.startswith("postgresql") else url,
        "STEERSMAN_OPERATOR_URL": url_as(OPERATOR, url) if url.startswith("postgresql") else "",
        "STEERSMAN_COMMIT": commit,
        "STEERSMAN_KEY_RATE": "1e9",
    }
    command = [str(Path(sys.executable).parent / "steersman"), "serve", "--port", str(port)]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, env=environment, stderr=log) as process,
    ):
        try:
            _await_ready(process, port, log)
            yield Server(f"ours, {commit}", port, process.pid)
        finally:
            process.terminate()


def measure(copy: Callable[[], str], tenants: dict[str, str], folder: Path, lines: Lines) -> None:
    """Measure one database; `copy` makes another one like the populated one."""
    first = copy()
    check_same_statements(first)
    database = Database.open(first)
    dialect, template = database.dialect, template_of(database)
    database.close()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(floor_server(copy(), commit, tenants, template)) for commit in _COMMITS
        ]
        servers += [stack.enter_context(our_server(copy(), commit)) for commit in _COMMITS]
        load = stack.enter_context(_load())
        for server in servers:
            _phase(load, server, tenants, (32, 1), _WARMING, seed=0)
        for connections, batch in _LOADS:
            found: dict[str, list[Measured]] = {server.name: [] for server in servers}
            probes = []
            for number in range(ROUNDS):
                for server in servers:
                    measured = _phase(load, server, tenants, (connections, batch), SECONDS, seed=1 + number)
                    found[server.name].append(measured)
                probes.append(fsync_probe(folder))
            _report((dialect, connections, batch), found, _median(probes), lines)


def _phase(
    load: Connection,
    server: Server,
    tenants: dict[str, str],
    shape: tuple[int, int],
    seconds: float,
    *,
    seed: int,
) -> Measured:
    connections, batch = shape
    process = psutil.Process(server.process)
    before = _cpu(process)
    load.send(Phase(server.port, list(tenants), STATES, connections, seconds, batch, seed))
    figures = load.recv()
    if not isinstance(figures, Figures):
        raise figures
    return Measured(figures, (_cpu(process) - before) / (figures.requests * batch))


def _report(
    where: tuple[str, int, int], found: dict[str, list[Measured]], probe: float, lines: Lines
) -> None:
    """Add the lines of one (database, connections, items of a request)."""
    dialect, connections, batch = where
    rates = {name: _median(item.figures.per_second for item in phases) for name, phases in found.items()}
    floor = found[max((name for name in found if name.startswith("floor")), key=lambda name: rates[name])]
    label = f"{connections}" if batch == 1 else f"{connections}, lists of {batch}"
    for name, phases in found.items():
        # Each round ran all of them side by side, so ratios are taken within a round.
        pairs = list(zip(phases, floor, strict=True))
        share = _median(ours.figures.per_second / low.figures.per_second for ours, low in pairs)
        slower = _median(ours.figures.p99 / low.figures.p99 for ours, low in pairs)
        p50 = _median(item.figures.p50 for item in phases) * 1e3
        p99 = _median(item.figures.p99 for item in phases) * 1e3
        cpu = _median(item.cpu for item in phases) * 1e6
        cells = [dialect, label, name, f"{rates[name]:,.0f}", f"{p50:.2f}", f"{p99:.2f}", f"{cpu:.0f}"]
        lines.add(*cells, f"{share:.2f}", f"{slower:.2f}", f"{probe * 1e3:.2f}")
        if name != f"ours, {_DEFAULT[dialect]}":
            continue
        rest = [dialect, label, *[""] * 8]
        if (connections, batch) == (32, 1):
            lines.add(*rest, aim=f"at least {_SHARE} of the floor", met=share >= _SHARE)
            lines.add(*rest, aim=f"p99 at most {_SLOWER} times the floor's", met=slower <= _SLOWER)
        rate = _RATES.get(where)
        if rate is not None:
            lines.add(*rest, aim=f"at least {rate:,} a second", met=rates[name] >= rate)


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


@contextmanager
def _load() -> Iterator[Connection]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=make_load, args=(theirs,), daemon=True)
    process.start()
    with _ending(process):
        yield ours


@contextmanager
def _ending(process: BaseProcess) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.join(_PATIENCE)


def _cpu(process: psutil.Process) -> float:
    times: Any = process.cpu_times()
    return float(times.user + times.system)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _await_port(port: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not _answers(port):
        if time.monotonic() > deadline:
            raise RuntimeError("the floor did not start")
        time.sleep(0.05)


def _await_ready(process: subprocess.Popen[bytes], port: int, log: TextIO) -> None:
    while process.poll() is None and not _answers(port):
        time.sleep(0.05)
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=_PATIENCE).close()
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"the server is not ready: {error.read().decode()}") from None
    except OSError:
        log.seek(0)
        raise RuntimeError(f"the server did not start:\n{log.read()}") from None


def main(backends: Sequence[str]) -> int:
    """Measure and print; return 1 when an aim was missed."""
    lines = Lines(
        f"Durable decisions over HTTP, {TENANTS} tenants x {STATES:,} states x {ACTIONS} actions ({machine()})",
        [
            "database",
            "connections",
            "server",
            "per second",
            "p50 ms",
            "p99 ms",
            "CPU µs",
            "of the floor",
            "p99 of it",
            "fdatasync ms",
        ],
    )
    with scratch() as folder:
        if "sqlite" in backends:
            first = folder / "populated.db"
            database = Database.open(str(first))
            populate(database)
            tenants = keys_of(database)
            database.close()
            numbers = iter(range(1000))
            measure(lambda: str(shutil.copy(first, folder / f"{next(numbers)}.db")), tenants, folder, lines)
        if "postgresql" in backends:
            with postgres_database() as make:
                url = make(None)
                database = Database.open(url, upgrade=True)
                grant_roles(database, serving=SERVING, operator=OPERATOR)
                populate(database)
                tenants = keys_of(database)
                database.close()
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute("VACUUM ANALYZE")
                measure(lambda: make(url), tenants, folder, lines)
    lines.print()
    return int(bool(lines.missed))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or ["sqlite", "postgresql"]))
