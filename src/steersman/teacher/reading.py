"""Reading row files: which profile their rows follow, and the rows themselves, checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from steersman.domain.strict_json import shown
from steersman.errors import InvalidRowError
from steersman.teacher.binding import CollectionMetadata, find_metadata
from steersman.teacher.parquet import read_parquet, row_count_of, row_schema_of
from steersman.teacher.profiles import RowProfile, find_profile
from steersman.teacher.quick import RowChecker
from steersman.teacher.rows import NumberedRow, check_fields
from steersman.teacher.sources import LineReader, SourceFile, hash_file
from steersman.teacher.strict_json import parse_json

__all__ = ["Collection", "RowReader", "find_collections"]


@dataclass(frozen=True, slots=True)
class Collection:
    """A file of rows, with what its metadata says and the profile that all rows of one load follow."""

    source: SourceFile
    metadata: CollectionMetadata
    profile: RowProfile


class RowReader:
    """Reads the checked rows of one file; once all are read, it knows their hash and the blank lines."""

    def __init__(self, collection: Collection) -> None:
        """Read the file of `collection`, nothing yet."""
        self.collection = collection
        self.blank_lines = 0
        self.bytes_read = 0
        self.sha256 = ""  # of the file, once all rows are read
        self._checker = RowChecker(collection.profile)

    def __iter__(self) -> Iterator[list[NumberedRow]]:
        """Yield rows, some at a time, with their numbers from 1: of lines, or of rows of a Parquet file.

        Raises InvalidRowError.
        """
        source = self.collection.source
        if source.suffix == ".parquet":
            yield from self._read_parquet(source)
            return
        lines = LineReader(source.path)
        for block in lines.blocks():
            rows = self._checker.check_lines(source.path, block)
            self.blank_lines, self.bytes_read, self.sha256 = lines.blank, lines.bytes_read, lines.sha256
            yield [(number, row) for (number, _), row in zip(block, rows, strict=True)]

    def _read_parquet(self, source: SourceFile) -> Iterator[list[NumberedRow]]:
        sha256, count, done = hash_file(source.path), row_count_of(source.path), 0
        for rows in read_parquet(source.path, self._checker):
            done += len(rows)
            self.bytes_read = source.size * done // count
            yield rows
        self.bytes_read, self.sha256 = source.size, sha256


def find_collections(sources: tuple[SourceFile, ...]) -> tuple[Collection, ...]:
    """Return the collection of each file, all of one profile; a file without rows goes along.

    Raises InvalidRowError for metadata that cannot be read, for a row schema that is unknown or differs from the
    metadata's, for profiles that differ between files, and where no file has a row.
    """
    metadata = [find_metadata(source.path) for source in sources]
    profiles = [_find_profile(source, facts) for source, facts in zip(sources, metadata, strict=True)]
    first = next((index for index, profile in enumerate(profiles) if profile is not None), None)
    if first is None or (common := profiles[first]) is None:
        raise InvalidRowError(
            "expected at least one row, found none", where=", ".join(str(s.path) for s in sources)
        )
    for source, facts, profile in zip(sources, metadata, profiles, strict=True):
        if profile is None:
            continue
        facts.check_profile(profile)
        if profile != common:
            raise InvalidRowError(
                f"expected rows of the profile {shown(common.name)} as in {sources[first].path}, "
                f"got another one, {shown(profile.name)}",
                where=str(source.path),
            )
    return tuple(Collection(source, facts, common) for source, facts in zip(sources, metadata, strict=True))


def _find_profile(source: SourceFile, metadata: CollectionMetadata) -> RowProfile | None:
    """Return the profile of the first row of `source`, or None where it has no row."""
    declared_at = None if metadata.path is None else str(metadata.path)
    if source.suffix == ".parquet":
        schema = row_schema_of(source.path)
        where = f"{source.path}:1"
        if schema is None:
            return None
        return find_profile(schema, metadata.profile, where=where, declared_at=declared_at)
    number, line = next(chain.from_iterable(LineReader(source.path).blocks()), (0, b""))
    if not number:
        return None
    where = f"{source.path}:{number}"
    row = check_fields(parse_json(line, where=where), where=where)
    return find_profile(row["schema_version"], metadata.profile, where=where, declared_at=declared_at)
