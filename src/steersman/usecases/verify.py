"""Verify: recompute what was logged and rebuild what was learned, and report every difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from steersman.domain.answers import Owner, Verification
from steersman.domain.records import PolicyVersion
from steersman.errors import NotFoundError
from steersman.store import tenants, versions
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.health import integrity_problems
from steersman.store.ledger import (
    count_logged,
    is_text,
    lenient_texts,
    owner_names,
    owner_rows,
    stranger_rows,
    version_rows,
)
from steersman.usecases.ancestry import Ancestry
from steersman.usecases.findings import UNREADABLE, Findings, Mismatch, unreadable
from steersman.usecases.verify_archive import verify_archive
from steersman.usecases.verify_cells import verify_cells
from steersman.usecases.verify_decisions import verify_decisions
from steersman.usecases.verify_episodes import verify_episodes

__all__ = ["verify"]

_STRIDE = 500  # rows between two reports of progress


def verify(
    database: Database, tenant: str | None = None, *, progress: Callable[[int, int], None] | None = None
) -> Verification:
    """Verify one tenant (or base, by `@` and its name), or everything, as it is at this moment.

    Every choice is recomputed from the row that it saw, every seal from its row, and every cell from what its
    version opened with, or the archive left it with, its visits and its learning steps; all numbers must agree to the
    last bit. When everything
    is verified, rows of tenants that do not exist count as differences, and so does what SQLite finds wrong with
    its file. `progress` is called with (rows done, rows in all). Memory does not grow with the number of rows.
    Raises NotFoundError, and StoreCorruptError when the database cannot be read at all.
    """
    with database.snapshot() as connection, lenient_texts(connection):
        names = owner_names(connection)
        if tenant is not None and not (tenant in names and is_text(tenant)):
            raise NotFoundError(f"there is no tenant {tenant!r}", hint="see: steersman tenant list")
        wanted = [name for name in names if is_text(name)] if tenant is None else [tenant]
        counter = _Counter(sum(count_logged(connection, name) for name in wanted), progress)
        found = Findings()
        if tenant is None:
            found.add("", "file", "", [("integrity", line, "ok") for line in integrity_problems(connection)])
            for name in names:
                if not is_text(name):
                    found.add(name, "tenant", "", [("tenant", name, "a name")])
        for name in wanted:
            _verify_owner(connection, name, found, counter.tick)
        if tenant is None:
            for table, stranger, count in stranger_rows(connection):
                found.add(stranger, "table", table, [("tenant", f"{count} rows", None)])
    counter.report()
    return Verification(len(wanted), counter.done, found.count, tuple(found.kept))


class _Counter:
    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self.done = 0
        self._total = total
        self._progress = progress

    def tick(self) -> None:
        self.done += 1
        if self.done % _STRIDE == 0:
            self.report()

    def report(self) -> None:
        if self._progress is not None:
            self._progress(self.done, self._total)


def _verify_owner(connection: Connection, name: str, found: Findings, tick: Callable[[], None]) -> None:
    known = _read_versions(connection, name, found)
    owner = _read_owner(connection, name, found)
    if owner is not None:
        found.add(name, "tenant", "", _owner_mismatches(owner, known))
    secret = owner.secret if owner is not None else b""
    verify_decisions(connection, name, secret=secret, ancestry=Ancestry(known), found=found, tick=tick)
    verify_episodes(connection, name, found, tick)
    verify_cells(connection, name, known, found, tick)
    verify_archive(connection, name, found)


def _read_owner(connection: Connection, name: str, found: Findings) -> Owner | None:
    bad = [wrong for table, row in owner_rows(connection, name) for wrong in unreadable(table, row)]
    try:
        owner = tenants.get_owner(connection, name) if not bad else None
    except UNREADABLE as error:
        owner, bad = None, [("row", str(error), "a declaration")]
    found.add(name, "tenant", "", bad)
    return owner


def _read_versions(connection: Connection, name: str, found: Findings) -> dict[int, PolicyVersion]:
    """Return the versions of an owner that can be read, by number."""
    known: dict[int, PolicyVersion] = {}
    for number, row in version_rows(connection, name):
        bad = unreadable("policy_versions", row)
        try:
            if not bad:
                known[number] = versions.get_version(connection, name, number)
        except UNREADABLE as error:
            bad = [("row", str(error), "a version")]
        found.add(name, "version", number, bad, cell=(number, None, None))
    for number, version in known.items():
        found.add(name, "version", number, _version_mismatches(version, known), cell=(number, None, None))
    return known


def _owner_mismatches(owner: Owner, known: dict[int, PolicyVersion]) -> Iterator[Mismatch]:
    if owner.latest_version != max(known, default=0):
        yield "latest_version", owner.latest_version, max(known, default=0)
    active = [number for number, version in known.items() if version.status == "active"]
    if active != ([] if owner.active_version is None else [owner.active_version]):
        yield "active_version", owner.active_version, active


def _version_mismatches(version: PolicyVersion, known: dict[int, PolicyVersion]) -> Iterator[Mismatch]:
    if version.status not in {"active", "superseded", "frozen"}:
        yield "status", version.status, None
    if (version.status == "frozen") != (version.name is not None):
        yield "name", version.name, None
    if version.parent is not None and (version.parent not in known or version.parent >= version.number):
        yield "parent", version.parent, None
