"""Whether the cost of a decide grows with the number of states.

Run with `python -m benchmarks.scaling [sqlite|postgresql]`. One tenant for each size from 10^2 to 10^6 states,
each in a database of its own with every state populated. Durable decides, one at a time, take turns over the
sizes, so that all of them meet the disk in the same mood; figures are medians.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from sqlalchemy import text

from benchmarks.support import Lines, fsync_probe, machine, postgres_database, scratch
from steersman.store.engine import Database
from steersman.usecases.decide import decide
from steersman.usecases.start import start
from steersman.usecases.tenants import create_tenant

_SIZES = (10**2, 10**3, 10**4, 10**5, 10**6)
_ACTIONS = ("hold", "concede", "mirror", "split")
_ROUNDS = 300
_AIM = 1.3

_FILL = {
    "sqlite": "WITH RECURSIVE s(state) AS (SELECT 0 UNION ALL SELECT state + 1 FROM s WHERE state + 1 < :size)",
    "postgresql": "WITH s(state) AS (SELECT generate_series(0, :size - 1))",
}


def main(backends: Sequence[str]) -> int:
    """Measure and print; return 1 when an aim was missed."""
    lines = Lines(
        f"One durable decide by number of states, every state populated ({machine()})",
        ["database", "states", "µs, median", "over the smallest", "fdatasync ms"],
    )
    with scratch() as folder:
        if "sqlite" in backends:
            probe = fsync_probe(folder)
            _measure(lambda size: str(folder / f"{size}.db"), probe, lines)
        if "postgresql" in backends:
            with postgres_database() as make:
                _measure(lambda _: make(None), fsync_probe(folder), lines)
    lines.print()
    return int(bool(lines.missed))


def _measure(url: Callable[[int], str], probe: float, lines: Lines) -> None:
    databases = {size: _populated(url(size), size) for size in _SIZES}
    generator = random.Random(7)
    times: dict[int, list[float]] = {size: [] for size in _SIZES}
    for _ in range(_ROUNDS):
        for size in generator.sample(_SIZES, len(_SIZES)):
            state = generator.randrange(size)
            begin = time.perf_counter()
            decide(databases[size], "acme", state)
            times[size].append(time.perf_counter() - begin)
    smallest = statistics.median(times[_SIZES[0]])
    for size in _SIZES:
        took = statistics.median(times[size])
        cells = [databases[size].dialect, f"{size:,}", f"{took * 1e6:.0f}", f"{took / smallest:.2f}"]
        aim = "" if size == _SIZES[0] else f"at most {_AIM}"
        lines.add(*cells, f"{probe * 1e3:.2f}", aim=aim, met=took / smallest <= _AIM)
        databases[size].close()


def _populated(url: str, size: int) -> Database:
    database = Database.open(url, upgrade=True)
    create_tenant(database, "acme", {"actions": list(_ACTIONS), "states": {"size": size}})
    start(database, "acme")
    actions = " UNION ALL ".join(f"SELECT '{action}' AS action" for action in _ACTIONS)
    with database.transaction() as connection:
        fill = (
            f"INSERT INTO cells (tenant, version, state, action, q, visits, updates, borrowed, steps) "
            f"{_FILL[database.dialect]} SELECT 'acme', 1, s.state, a.action, 0.5, 9, 9, 0, 0 "
            f"FROM s CROSS JOIN ({actions}) a ORDER BY s.state, a.action"
        )
        connection.execute(text(fill), {"size": size})
    if database.dialect == "postgresql":
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE cells"))
    return database


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or ["sqlite", "postgresql"]))
