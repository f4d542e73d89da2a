"""Files of rows written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from steersman.errors import InvalidInputError, OutputExistsError

__all__ = ["check_absent", "write_file"]


def check_absent(*paths: Path) -> None:
    """Raise OutputExistsError when one of `paths`, or the file that it is written as first, is there."""
    for path in paths:
        for taken in (path, _part(path)):
            if os.path.lexists(taken):
                raise OutputExistsError("expected no file there yet", where=str(taken))


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, make it durable and move it to `path`, whose folder is made if missing.

    Nothing is left behind when `write` fails. Raises OutputExistsError, and InvalidInputError where nothing can be
    written.
    """
    check_absent(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_beside(path, write)
        _sync(path.parent)
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInputError(
            f"expected a place that can be written, got: {reason}", where=str(path)
        ) from error


def _write_beside(path: Path, write: Callable[[Path], None]) -> None:
    part = _part(path)
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        check_absent(path)
        raise
    try:
        write(part)
        _sync(part)
        if os.path.lexists(path):  # it came while we were writing
            raise OutputExistsError("expected no file there yet", where=str(path))
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
