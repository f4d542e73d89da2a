"""Which files the rows are in, and what each file's bytes hash to."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, TypeAlias

from steersman.errors import InvalidRowError

__all__ = ["SUFFIXES", "LineReader", "Paths", "SourceFile", "find_sources", "hash_file"]

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One path of a file or folder, or several."""

SUFFIXES = (".jsonl", ".parquet")
_BLOCK = 1 << 16  # bytes read at a time: hashed and split while they are in the processor's cache
_BLANK = b" \t\r"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of rows."""

    path: Path  # resolved
    key: str  # its path relative to the input that it was found in, with forward slashes
    suffix: str  # one of SUFFIXES, of the name that it was found by

    @property
    def size(self) -> int:
        """The number of bytes now; raises InvalidRowError when the file is not there any more."""
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise _unreadable(self.path, error) from error


def find_sources(paths: Paths) -> tuple[SourceFile, ...]:
    """Return the row files that `paths` name or hold in their folders, however deep, sorted by resolved path.

    A file that is named twice, or reached by another name, counts once; links to folders are followed. Keys are
    relative to the input (of a file: its name) as long as that tells all files apart, else to the deepest folder that
    holds all of them. Raises InvalidRowError for a path that is missing, a file with another suffix, what is named as
    rows are and is no file, and when there is no row file.
    """
    inputs = [Path(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    found: dict[Path, SourceFile] = {}
    for path in inputs:
        for source in sorted(_expand(path), key=lambda source: source.key):
            found.setdefault(source.path, source)
    if not found:
        named = ", ".join(map(str, inputs)) or None
        raise InvalidRowError(f"expected {' or '.join(SUFFIXES)} files, found none", where=named)
    sources = [found[path] for path in sorted(found)]
    if len({source.key for source in sources}) < len(sources):
        top = os.path.commonpath([source.path.parent for source in sources])
        sources = [replace(source, key=source.path.relative_to(top).as_posix()) for source in sources]
    return tuple(sources)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of the bytes of `path` as hexadecimal digits; raise InvalidRowError if unreadable."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


class LineReader:
    """Reads the lines of a file, hashing its bytes on the way.

    A line ends at a newline byte and nowhere else; a carriage return before it belongs to the line end, and the
    last line may go without. Blank lines, of spaces and tabs at most, are counted and left out.
    """

    def __init__(self, path: Path) -> None:
        """Read from `path`, nothing yet."""
        self.path = path
        self.blank = 0  # lines so far
        self.bytes_read = 0
        self._lines = 0
        self._sha256 = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes read so far, as hexadecimal digits; of the file when all lines are."""
        return self._sha256.hexdigest()

    def blocks(self) -> Iterator[list[tuple[int, bytes]]]:
        """Yield lines with their numbers, from 1, some at a time; raise InvalidRowError when unreadable."""
        pending: list[bytes] = []  # the parts of a line whose end has not been read
        try:
            with self.path.open("rb") as file:
                while block := file.read(_BLOCK):
                    self._sha256.update(block)
                    self.bytes_read += len(block)
                    first, *lines = block.split(b"\n")
                    pending.append(first)
                    if lines:
                        last = lines.pop()
                        yield self._numbered([b"".join(pending), *lines])
                        pending = [last]
        except OSError as error:
            raise _unreadable(self.path, error) from error
        yield self._numbered([b"".join(pending)] if any(pending) else [])

    def _numbered(self, lines: list[bytes]) -> list[tuple[int, bytes]]:
        numbered = [pair for pair in enumerate(lines, self._lines + 1) if pair[1].strip(_BLANK)]
        self._lines += len(lines)
        self.blank += len(lines) - len(numbered)
        return numbered


def _expand(path: Path) -> Iterator[SourceFile]:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # the last: a NUL in the name
        raise InvalidRowError("expected a file or folder, found nothing", where=str(path)) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        for file in _walk(path):
            yield SourceFile(_regular(file), file.relative_to(path).as_posix(), file.suffix)
    elif path.suffix not in SUFFIXES:
        raise InvalidRowError(
            f"expected a {' or '.join(SUFFIXES)} file, got {path.suffix!r}", where=str(path)
        )
    else:
        yield SourceFile(_regular(path), path.name, path.suffix)


def _walk(top: Path) -> Iterator[Path]:
    """Yield what is named as rows are in `top` and below; links to folders are followed, into each folder once."""
    seen: set[tuple[int, int]] = set()
    for folder, below, names in os.walk(top, onerror=_raise_unreadable, followlinks=True):
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in seen:
            below.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        below.sort()
        yield from (Path(folder, name) for name in names if Path(name).suffix in SUFFIXES)


def _regular(file: Path) -> Path:
    """Return the resolved path; raise InvalidRowError unless a file is there, as leaving it out would go unseen."""
    if not file.is_file():
        found = "a link to nothing" if not file.exists() else "something else"
        raise InvalidRowError(f"expected a regular file, got {found}", where=str(file))
    return file.resolve()


def _raise_unreadable(error: OSError) -> NoReturn:
    raise _unreadable(Path(str(error.filename)), error) from error


def _unreadable(path: Path, error: OSError) -> InvalidRowError:
    return InvalidRowError(f"expected a readable file, got: {error.strerror or error}", where=str(path))
