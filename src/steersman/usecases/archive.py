"""Archive: move what is old and settled to Parquet files, and keep what answers and verification need of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import uuid_utils

from steersman.domain.identifiers import check_finite, check_name
from steersman.domain.records import CellKey
from steersman.domain.settings import PolicySettings
from steersman.errors import InvalidInputError, MissingExtraError, StoreCorruptError
from steersman.files import new_file
from steersman.store import archive as stored
from steersman.store import audit, tenants, versions
from steersman.store.archive import ArchiveFile, CellState
from steersman.store.clock import now
from steersman.store.connection import Connection
from steersman.store.engine import Database
from steersman.store.hot.text import DECISIONS, Row
from steersman.store.steps import step_of
from steersman.usecases.verify_cells import Fold, fold_step, opening_fold

__all__ = ["Archived", "archive", "list_archive"]

_BATCH = 500  # decisions of a transaction, during which the tenant decides nothing
_STEP_BATCH = 5000
_AT = {name: index for index, name in enumerate(DECISIONS)}


@dataclass(frozen=True, slots=True)
class Archived:
    """What one run has moved to files."""

    tenant: str
    decisions: int
    rewards: int
    learning_steps: int
    files: tuple[ArchiveFile, ...]


def archive(
    database: Database, tenant: str, *, older_than: float, output: Path, actor: str = "library"
) -> Archived:
    """Move decisions that are older than so many seconds, with their rewards and steps, to files below `output`.

    That are decisions outside of episodes that are learned or void, and all of an episode that was closed so long ago.
    Of each, and of each reward, a stub stays: the same decide, reward or void is answered as before for ever, and one
    that is new is refused with ArchivedError. Learning steps go as far as every lower one of their cell has gone, and
    the cell's checkpoint, from which `verify` goes on, moves up to there. What is open stays.

    The files are `output/TENANT/*.parquet`, one for each table and batch, with the columns of the table. A batch is one
    transaction, which commits after its files are durable: a run that failed can be repeated, and may leave files
    that `list_archive` does not name and that hold nothing the named ones or the tables do not. Raises
    NotFoundError, InvalidInputError, MissingExtraError, and StoreCorruptError where the steps contradict the cells.
    """
    check_name(tenant, what="tenant")
    if check_finite(older_than, what="older_than") < 0:
        raise InvalidInputError(f"older_than: expected at least 0 seconds, got {older_than!r}")
    run = _Run(database, tenant, now() - int(older_than * 1e6), output / tenant, str(uuid_utils.uuid7()))
    run.move_decisions()
    run.move_steps()
    return run.finish(actor)


def list_archive(database: Database, tenant: str) -> list[ArchiveFile]:
    """Return the files of a tenant's archive by name; raise NotFoundError."""
    with database.snapshot() as connection:
        tenants.get_tenant(connection, tenant)
        return stored.list_files(connection, tenant)


class _Run:
    def __init__(self, database: Database, tenant: str, before: int, folder: Path, run_id: str) -> None:
        self._database = database
        self._tenant = tenant
        self._before = before
        self._folder = folder
        self._run_id = run_id
        self._known: dict[int, PolicySettings] = {}
        self._written: list[str] = []

    def move_decisions(self) -> None:
        for move in (self._move_alone, self._move_episodes):
            after: str | None = ""
            while after is not None:
                after = self._database.run(partial(move, after=after))

    def move_steps(self) -> None:
        after: CellKey | None = None
        more = True
        while more:
            after, more = self._database.run(partial(self._move_steps, after=after))

    def finish(self, actor: str) -> Archived:
        def work(connection: Connection) -> Archived:
            files = stored.list_files(connection, self._tenant, run_id=self._run_id)
            counts: Counter[str] = Counter()
            for file in files:
                counts[file.holds] += file.rows
            detail = {"run": self._run_id, "before": self._before, **counts}
            last = audit.list_lines(connection, self._tenant, limit=1)
            if files and not (last and last[0].detail.get("run") == self._run_id):
                audit.write_line(connection, self._tenant, actor=actor, verb="archive", detail=detail)
            return Archived(
                self._tenant,
                counts["decisions"],
                counts["rewards"],
                counts["learning_steps"],
                tuple(files),
            )

        done = self._database.run(work)
        # Of a try that was rolled back and made again, whether or not it was heard of.
        for name in {*self._written} - {file.file for file in done.files}:
            (self._folder / name).unlink()
        return done

    def _move_alone(self, connection: Connection, after: str) -> str | None:
        """Move some decisions outside of episodes; return the last one's id, None when there are no more."""
        tenants.get_tenant(connection, self._tenant, lock=True)
        rows = stored.decisions_alone(
            connection, self._tenant, before=self._before, after=after, limit=_BATCH
        )
        self._move(connection, rows)
        return rows[-1][1] if rows else None

    def _move_episodes(self, connection: Connection, after: str) -> str | None:
        """Move all decisions of some episodes; return the last one's name, None when there are no more."""
        tenants.get_tenant(connection, self._tenant, lock=True)
        found = stored.next_episodes(connection, self._tenant, before=self._before, after=after, limit=_BATCH)
        chosen: list[str] = []
        size = 0
        for episode, steps in found:
            size += steps
            if chosen and size > _BATCH:
                break
            chosen.append(episode)
        self._move(connection, stored.decisions_of_episodes(connection, self._tenant, chosen))
        return chosen[-1] if chosen else None

    def _move(self, connection: Connection, rows: Sequence[Row]) -> None:
        if not rows:
            return
        rewards = stored.rewards_of(connection, self._tenant, [row[1] for row in rows])
        self._write(connection, {"decisions": rows, "rewards": rewards})
        stored.move_decisions(connection, self._tenant, rows, rewards=rewards)
        stored.set_archived_before(connection, self._tenant, self._before)
        visits: Counter[CellKey] = Counter()
        for row in rows:
            action = row[_AT["action"]]
            visits[CellKey(row[_AT["version"]], row[_AT["state"]], action)] += 1
            if row[_AT["status"]] == "void":
                visits[CellKey(row[_AT["void_version"]], row[_AT["void_state"]], action)] -= 1
        cells = self._checkpoints(connection, visits)
        for key, count in visits.items():
            cells[key].visits += count
        stored.write_checkpoints(connection, self._tenant, cells)

    def _move_steps(self, connection: Connection, after: CellKey | None) -> tuple[CellKey | None, bool]:
        """Move some steps; return the last cell that is done with, and whether there may be more."""
        tenants.get_tenant(connection, self._tenant, lock=True)
        gone: dict[CellKey, list[Row]] = {}
        count = 0
        full = False
        steps = stored.archivable_steps(connection, self._tenant, after=after)
        for place, items in groupby(steps, key=lambda item: item[0][1:4]):
            key = CellKey(*place)
            for row, archived in items:
                full = count == _STEP_BATCH
                if full or not archived:
                    break
                gone.setdefault(key, []).append(row)
                count += 1
            if full:
                break
            after = key
        steps.close()
        if gone:
            cells = self._checkpoints(connection, gone)
            for key, rows in gone.items():
                cells[key] = self._fold(connection, key, cells[key], rows)
            self._write(connection, {"learning_steps": [row for rows in gone.values() for row in rows]})
            stored.write_checkpoints(connection, self._tenant, cells)
            stored.delete_steps(connection, self._tenant, {key: cell.steps for key, cell in cells.items()})
        return after, full

    def _fold(self, connection: Connection, key: CellKey, cell: CellState, rows: Sequence[Row]) -> CellState:
        """Return a cell after its next steps; raise StoreCorruptError where they do not go on from it."""
        alpha = self._settings(connection, key.version).alpha
        fold = Fold(cell.q, cell.visits, cell.updates, cell.borrowed, cell.steps)
        for row in rows:
            step = step_of(row)
            # Which discounts may have been used is for `verify` to know.
            wrong = list(fold_step(fold, step, alpha, frozenset([step.discount])))
            if wrong:
                raise StoreCorruptError(
                    f"step {step.number} of version {key.version}, state {key.state}, action {key.action!r} of "
                    f"tenant {self._tenant!r} is not what the steps before it lead to: {wrong[0][0]}",
                    hint=f"run: steersman verify {self._tenant}",
                )
        return CellState(fold.q, fold.visits, fold.updates, fold.borrowed, fold.steps)

    def _checkpoints(self, connection: Connection, keys: Collection[CellKey]) -> dict[CellKey, CellState]:
        """Return the cells as what was archived before left them."""
        found = stored.read_checkpoints(connection, self._tenant, keys)
        for key in keys:
            if key not in found:
                fold = opening_fold(self._settings(connection, key.version), key.action)
                found[key] = CellState(fold.q, fold.visits, fold.updates, fold.borrowed, 0)
        return found

    def _settings(self, connection: Connection, version: int) -> PolicySettings:
        if version not in self._known:
            self._known[version] = versions.get_version(connection, self._tenant, version).settings
        return self._known[version]

    def _write(self, connection: Connection, rows: dict[str, Sequence[Row]]) -> None:
        """Write a file for each table that has rows, and record it; a try of its own has files of its own."""
        batch = str(uuid_utils.uuid7())
        for table, part in rows.items():
            if part:
                name = f"{batch}.{table}.parquet"
                digest = _write_parquet(self._folder / name, table, part)
                self._written.append(name)
                stored.insert_file(
                    connection,
                    self._tenant,
                    name,
                    run_id=self._run_id,
                    holds=table,
                    rows=len(part),
                    digest=digest,
                )


def _write_parquet(path: Path, table: str, rows: Iterable[Row]) -> bytes:
    """Write rows of a table to a new file and return the SHA-256 of it."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("parquet", purpose="archiving") from None
    kinds: dict[type, Any] = {int: pa.int64(), float: pa.float64(), bytes: pa.binary(), str: pa.string()}
    types = stored.column_types(table)
    columns = [
        pa.array([bytes(value) if isinstance(value, memoryview) else value for value in column], kinds[kind])
        for column, kind in zip(zip(*rows, strict=True), types.values(), strict=True)
    ]
    with new_file(path, mode=0o600) as part:  # for the owner's eyes: it holds what a customer did
        pq.write_table(pa.Table.from_arrays(columns, names=list(types)), part, compression="zstd")
        return hashlib.sha256(part.read_bytes()).digest()
