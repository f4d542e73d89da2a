"""Files that are written whole or not at all, and never over another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from steersman.errors import InvalidInputError, OutputExistsError

__all__ = ["check_absent", "new_file", "new_files"]


def check_absent(*paths: Path) -> None:
    """Raise OutputExistsError when one of `paths`, or the part file that it is written through, is there."""
    for path in paths:
        for taken in (path, _part(path)):
            if os.path.lexists(taken):
                hint = (
                    "choose another output, or delete it"
                    if taken == path
                    else "another process is writing it, or one was interrupted: then delete it"
                )
                raise OutputExistsError("expected no file there yet", where=str(taken), hint=hint)


@contextmanager
def new_file(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield an empty file beside `path` to be filled; it is made durable and moved to `path` when all went well.

    A missing folder is made, and nothing is left behind after an error. `mode`: the permissions, less the umask.
    Raises OutputExistsError when something is there already, and InvalidInputError where nothing can be written.
    """
    if not path.name or "\0" in str(path):
        raise InvalidInputError("expected the name of a file", where=repr(str(path)))
    part = _part(path)
    try:
        check_absent(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
        except FileExistsError:
            check_absent(path)
            raise
        try:
            yield part
            _sync(part)
            if os.path.lexists(
                path
            ):  # it came while we were writing; `part` keeps other writers of ours away
                check_absent(path)
            part.rename(path)
        finally:
            part.unlink(missing_ok=True)
        _sync(path.parent)
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInputError(
            f"expected a place that can be written, got: {reason}", where=str(path)
        ) from error


@contextmanager
def new_files(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """Yield what becomes each of `paths`: all of them or none.

    The first comes last: it is never there without what stands beside it. Raises as `new_file` does.
    """
    made: list[tuple[Path, os.stat_result]] = []
    try:
        with ExitStack() as stack:
            for path in paths:
                part = stack.enter_context(new_file(path))
                made.append((path, part.stat()))
            yield tuple(map(_part, paths))
    except BaseException:
        for path, status in made:
            if path.exists() and os.path.samestat(path.stat(), status):  # ours, and not another's
                path.unlink()
        raise


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
