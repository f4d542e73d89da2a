"""The data set of a fit: rows of many files, merged without duplicates, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steersman.errors import InvalidRowError
from steersman.teacher.binding import BindingCheck
from steersman.teacher.building import DatasetBuilder
from steersman.teacher.cache import CacheEntry, CacheWriter, DamagedEntryError
from steersman.teacher.columns import BLOCK_ROWS, ColumnBuilder, RowColumns
from steersman.teacher.index import RowIndex
from steersman.teacher.profiles import RowProfile
from steersman.teacher.reading import Collection, RowReader, find_collections
from steersman.teacher.rows import (
    CheckedRow,
    NumberedRow,
    Provenance,
    TeacherRow,
    check_row,
    parse_teacher_row,
    to_teacher_row,
)
from steersman.teacher.sources import Paths, find_sources, hash_file

__all__ = [
    "Progress",
    "TeacherDataset",
    "as_dataset",
    "load_teacher_dataset",
    "load_teacher_rows",
    "merged_rows",
]

Progress: TypeAlias = Callable[[int, int], None]
"""Told now and then how many bytes of how many have been read."""


@dataclass(frozen=True, slots=True, eq=False)
class TeacherDataset:
    """N distinct rows as columns, in the order in which they were read.

    Features are kept in float32, the precision in which policies are fitted and served; fingerprints and
    `dataset_hash` are those of the numbers as written.
    """

    profile: RowProfile
    row_ids: tuple[str, ...]  # [N] str
    scene_ids: tuple[str, ...]  # [S] str, sorted, each once
    scene_index: NDArray[np.int32]  # [N], into scene_ids
    features: NDArray[np.float32]  # [N, D], NaN where a nullable feature is missing
    feasible: NDArray[np.bool_]  # [N, A]
    losses: NDArray[np.float64]  # [N, A], NaN where not feasible; so are the next two
    advantages: NDArray[np.float64]  # [N, A]
    costs: NDArray[np.float64]  # [N, A]
    binding: Mapping[str, Any]  # what every row was made for, without dataset keys
    dataset_hash: str  # SHA-256 of binding, row ids and fingerprints
    source_hashes: Mapping[str, str]  # path relative to its input to SHA-256; empty for rows from memory
    duplicates: int  # rows left out because they were there already
    blank_lines: int

    def __len__(self) -> int:
        """Return the number of rows, N."""
        return len(self.row_ids)


def load_teacher_dataset(
    paths: Paths, *, cache_dir: Path | None = None, progress: Progress | None = None
) -> TeacherDataset:
    """Read the row files that `paths` name or hold in their folders, in the order of their resolved paths.

    `cache_dir` keeps the columns of every file under its hash, for the next load. Raises InvalidRowError: for
    paths without row files or rows, and at `path:line` for a row that is not valid, an id that comes with other
    content, and a binding that is incomplete or differs from the first row's.
    """
    collections = find_collections(find_sources(paths))
    profile = collections[0].profile
    builder = DatasetBuilder(profile)
    total = sum(collection.source.size for collection in collections)
    hashes: dict[str, str] = {}
    done = blank_lines = 0
    for collection in collections:
        path = str(collection.source.path)
        reader = _ColumnReader(collection, cache_dir)
        for columns in reader:
            builder.check_bindings(path, collection.metadata, columns)
            builder.add(path, columns)
            if progress is not None:
                progress(done + reader.bytes_read, total)
        done += reader.bytes_read
        if progress is not None:
            progress(done, total)
        blank_lines += reader.blank_lines
        hashes[collection.source.key] = reader.sha256
    return _finish(builder, profile, hashes, blank_lines)


def load_teacher_rows(paths: Paths) -> tuple[TeacherRow, ...]:
    """Return the distinct rows of `paths` as objects, under the rules of `load_teacher_dataset`."""
    readers = [RowReader(collection) for collection in find_collections(find_sources(paths))]
    profile = readers[0].collection.profile
    rows = merged_rows(readers, RowIndex(), BindingCheck(profile))
    return tuple(to_teacher_row(row, profile, collection.metadata.binding) for collection, _, row in rows)


def merged_rows(
    readers: Sequence[RowReader],
    index: RowIndex,
    bindings: BindingCheck,
    *,
    progress: Progress | None = None,
) -> Iterator[tuple[Collection, int, CheckedRow]]:
    """Yield the rows of `readers`, with their numbers, that are not in `index` yet, which takes them in.

    Raises InvalidRowError as `load_teacher_dataset` does.
    """
    total = sum(reader.collection.source.size for reader in readers)
    before = 0
    for reader in readers:
        collection = reader.collection
        path = str(collection.source.path)
        for block in reader:
            for provenance, rows in groupby(block, key=_provenance_of):  # one object for rows that share it
                place = f"{path}:{next(rows)[0]}"
                bindings.check_overlay(collection.metadata, provenance.overlay_text, place)
            numbers = np.array([number for number, _ in block], dtype=np.int64)
            digests = b"".join(row.digest for _, row in block)
            fresh = index.add(path, numbers, [row.fields.row_id for _, row in block], digests)
            for position, (number, row) in enumerate(block):
                if fresh is None or fresh[position]:
                    yield collection, number, row
            if progress is not None:
                progress(before + reader.bytes_read, total)
        before += reader.bytes_read
        if progress is not None:
            progress(before, total)


def _provenance_of(row: NumberedRow) -> Provenance:
    return row[1].provenance


def as_dataset(
    rows: TeacherDataset | Iterable[TeacherRow | Mapping[str, Any]], *, profile: RowProfile | None = None
) -> TeacherDataset:
    """Return `rows`, objects or plain mappings, as a data set; one that is a data set already as it is.

    `profile` None takes that of the first row. Raises InvalidRowError at `row:N`, from 1, under the rules of
    `load_teacher_dataset`.
    """
    if isinstance(rows, TeacherDataset):
        return rows
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise InvalidRowError(f"expected a data set or rows, got {type(rows).__name__}")
    parsed = (
        row if isinstance(row, TeacherRow) else parse_teacher_row(row, profile=profile, where=f"row:{number}")
        for number, row in enumerate(rows, 1)
    )
    first = next(parsed, None)
    if first is None:
        raise InvalidRowError("expected at least one row, got none")
    builder, columns = DatasetBuilder(first.profile), ColumnBuilder(first.profile)
    for number, row in enumerate(chain([first], parsed), 1):
        where = f"row:{number}"
        if row.profile != first.profile:
            raise InvalidRowError("expected rows of one profile, got another one", where=where)
        builder.bindings.check(row.binding, where)
        columns.add([(number, check_row(row.to_json(), row.profile, where=where))])
        if len(columns) >= BLOCK_ROWS:
            builder.add("row", columns.take())
    builder.add("row", columns.take())
    return _finish(builder, first.profile, {}, 0)


def _finish(
    builder: DatasetBuilder, profile: RowProfile, hashes: Mapping[str, str], blank_lines: int
) -> TeacherDataset:
    scene_ids, scene_index = builder.scenes.take()
    binding = builder.bindings.binding
    return TeacherDataset(
        profile=profile,
        row_ids=builder.index.row_ids,
        scene_ids=scene_ids,
        scene_index=scene_index,
        features=builder.features.take(),
        feasible=builder.feasible.take(),
        losses=builder.losses.take(),
        advantages=builder.advantages.take(),
        costs=builder.costs.take(),
        binding=binding,
        dataset_hash=builder.index.dataset_hash(binding),
        source_hashes=dict(hashes),
        duplicates=builder.index.duplicates,
        blank_lines=blank_lines,
    )


class _ColumnReader:
    """Reads the columns of one file, from the cache where it can; then knows what `RowReader` knows."""

    def __init__(self, collection: Collection, cache_dir: Path | None) -> None:
        self._collection = collection
        self._cache_dir = cache_dir
        self.blank_lines = 0
        self.bytes_read = 0
        self.sha256 = ""

    def __iter__(self) -> Iterator[RowColumns]:
        if self._cache_dir is None:
            yield from self._parse()
            return
        source = self._collection.source
        self.sha256, self.bytes_read = hash_file(source.path), source.size
        entry = CacheEntry.of(self._cache_dir, self.sha256, self._collection.profile)
        blocks = 0
        known = entry.blank_lines()
        if known is not None:
            self.blank_lines = known
            try:
                for columns in entry.read():
                    blocks += 1
                    yield columns
            except DamagedEntryError:
                pass  # what came before is sound, and the file still has the rest
            else:
                return
        yield from islice(self._parse_into(entry), blocks, None)

    def _parse_into(self, entry: CacheEntry) -> Iterator[RowColumns]:
        expected = self.sha256
        with CacheWriter(entry) as writer:
            for columns in self._parse():
                writer.add(columns)
                yield columns
            if self.sha256 != expected:
                path = str(self._collection.source.path)
                raise InvalidRowError(
                    "expected a file at rest, got one that changed while it was read", where=path
                )
            writer.finish(blank_lines=self.blank_lines)

    def _parse(self) -> Iterator[RowColumns]:
        reader = RowReader(self._collection)
        builder = ColumnBuilder(self._collection.profile)
        for rows in reader:
            builder.add(rows)
            if len(builder) >= BLOCK_ROWS:
                self.bytes_read = reader.bytes_read
                yield builder.take()
        if len(builder):
            yield builder.take()
        self.blank_lines, self.bytes_read, self.sha256 = reader.blank_lines, reader.bytes_read, reader.sha256
