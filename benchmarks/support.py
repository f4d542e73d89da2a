"""What every benchmark shares: medians, a probe of the disk, databases to measure on, and a table."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.support.postgres import temporary_cluster

__all__ = ["Lines", "fsync_probe", "machine", "median_of", "postgres_database", "scratch"]

ROUNDS = 5


def median_of(run: Callable[[], float], *, rounds: int = ROUNDS) -> float:
    """Return the median of `rounds` results of `run`."""
    return statistics.median(run() for _ in range(rounds))


def fsync_probe(folder: Path, *, writes: int = 50) -> float:
    """Return the median seconds of an fdatasync after a 4 KiB write in `folder`, now."""
    path = folder / "fsync-probe"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    times = []
    try:
        for index in range(writes):
            os.pwrite(handle, os.urandom(4096), index * 4096)
            begin = time.perf_counter()
            os.fdatasync(handle)
            times.append(time.perf_counter() - begin)
    finally:
        os.close(handle)
        path.unlink()
    return statistics.median(times)


def machine() -> str:
    """Return a line about the machine and the interpreter."""
    load = os.getloadavg()[0]
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}"
    )


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty folder on the disk that benchmarks measure, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        yield Path(folder)


@contextmanager
def postgres_database() -> Iterator[Callable[[str | None], str]]:
    """Yield a function that makes a database on a server with durable commits, and returns its URL.

    The function takes the URL of a database to copy, or None for an empty one.
    """
    with temporary_cluster(durable=True) as cluster:

        def make(template: str | None) -> str:
            name = "template1" if template is None else template.partition("@/")[2].partition("?")[0]
            return cluster.url(cluster.create_database(template=name))

        yield make


class Lines:
    """A table that is filled line by line and printed at the end, with a verdict for every aim."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        """Name the table and its columns; a last one, `aim`, is added."""
        self.table = Table(*columns, "aim", title=title, title_justify="left")
        self.missed: list[str] = []

    def add(self, *cells: str, aim: str = "", met: bool = True) -> None:
        """Add a line, with what was aimed for and whether it was met."""
        verdict = "" if not aim else f"{aim}: {'met' if met else 'MISSED'}"
        if not met:
            self.missed.append(" ".join(cells))
        self.table.add_row(*cells, verdict)

    def print(self) -> None:
        """Print the table."""
        Console(width=160).print(self.table)
