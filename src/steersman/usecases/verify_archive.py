"""Verifying an archive: what its files are said to hold is as much as has left the tables."""

from __future__ import annotations

from steersman.store.connection import Connection
from steersman.store.ledger import archive_file_rows, archived_totals
from steersman.usecases.findings import Findings, unreadable

__all__ = ["verify_archive"]


def verify_archive(connection: Connection, tenant: str, found: Findings) -> None:
    """Hold the list of a tenant's archive files against the stubs and checkpoints that stayed."""
    readable = True
    for row in archive_file_rows(connection, tenant):
        bad = unreadable("archive_files", row)
        if not bad and (row[3] not in {"decisions", "rewards", "learning_steps"} or len(row[5]) != 32):
            bad = [("holds", row[3], "decisions, rewards or learning_steps")]
        readable = readable and not bad
        found.add(tenant, "archive file", row[1], bad)
    for table, in_files, gone in archived_totals(connection, tenant) if readable else ():
        found.add(tenant, "archive", table, [] if in_files == gone else [("rows", in_files, gone)])
