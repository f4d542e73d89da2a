"""Disks of a few megabytes, to be filled: file systems in memory, which only root may mount."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.support.postgres import PostgresCluster

__all__ = ["SmallDisk", "database_on", "end_log_segment", "small_disk"]

_BLOCK = 4096


class SmallDisk:
    """A disk of its own, mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        """Take a folder that a disk is mounted at."""
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, *, leave: int = 0) -> None:
        """Take all the room but `leave` bytes."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(_BLOCK))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            size = file.seek(0, os.SEEK_END)
            file.truncate(max(0, size - leave) // _BLOCK * _BLOCK)

    def make_room(self) -> None:
        """Give back what was taken."""
        self._ballast.unlink()


def database_on(disk: SmallDisk, cluster: PostgresCluster) -> str:
    """Make a database whose tables lie on `disk`, and its log of changes where the server's is; return its URL."""
    owner = cluster.folder.stat()
    os.chown(disk.folder, owner.st_uid, owner.st_gid)
    with psycopg.connect(
        host=str(cluster.folder), user="postgres", dbname="postgres", autocommit=True
    ) as session:
        session.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(disk.folder))))
        session.execute(
            sql.SQL("CREATE DATABASE small TABLESPACE small OWNER {}").format(sql.Identifier(cluster.role))
        )
    return cluster.url("small")


def end_log_segment(cluster: PostgresCluster) -> None:
    """Let the server need a new file for its log of changes; it may go down over that."""
    with (
        suppress(psycopg.Error),
        psycopg.connect(
            host=str(cluster.folder), user="postgres", dbname="postgres", autocommit=True
        ) as session,
    ):
        for _ in range(3):
            session.execute("SELECT pg_logical_emit_message(false, 'x', 'x'), pg_switch_wal()")


@contextmanager
def small_disk(folder: Path, *, size: str) -> Iterator[SmallDisk]:
    """Mount a disk of `size` at `folder`; skip the test where that is not allowed."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
