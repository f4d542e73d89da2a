"""Disks of a few megabytes, to be filled: file systems in memory, which only root may mount."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["SmallDisk", "small_disk"]

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
