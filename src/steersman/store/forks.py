"""What a fork does to open databases.

SQLite counts its locks per process, in memory that a child inherits together with connections it must neither use
nor close. A child that held an open connection to a file at the fork would believe to hold locks that it does not.
So idle connections are closed before a fork, in the parent, which opens them again when it needs them; and where one
was in use at that moment, the child refuses to touch the file at all.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from steersman.errors import UnsupportedStoreError

__all__ = ["Forkable", "refuse_tainted", "watch"]


class Forkable(Protocol):
    """An open database, as a fork sees it."""

    def close_before_fork(self) -> str | None:
        """Close idle connections; return the file whose connections are in use, if there are any."""
        ...

    def leave_parent(self) -> None:
        """Forget, in a child, what belongs to the parent."""
        ...


_watched: weakref.WeakSet[Forkable] = weakref.WeakSet()
_in_use: set[str] = set()  # files with connections in use at the latest fork
_tainted: set[str] = set()  # in a child: those that it must not touch


def watch(database: Forkable) -> None:
    """Prepare `database` for every fork from now on."""
    _watched.add(database)


def refuse_tainted(file: str | None) -> None:
    """Raise UnsupportedStoreError in a child whose parent was using `file` when it forked."""
    if file in _tainted:
        raise UnsupportedStoreError(
            "this process was forked while a transaction was open in its parent",
            where=file,
            hint="fork before the database is used, or start processes by spawn",
        )


def _before() -> None:
    _in_use.clear()
    for database in list(_watched):
        file = database.close_before_fork()
        if file is not None:
            _in_use.add(file)


def _in_child() -> None:
    _tainted.update(_in_use)
    for database in list(_watched):
        database.leave_parent()


os.register_at_fork(before=_before, after_in_child=_in_child)
