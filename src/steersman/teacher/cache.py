"""Columns of files that were read before, kept under the hash of the file.

An entry holds what checking the file yielded and nothing of its surroundings: metadata files, duplicates and
bindings are looked at again on every load.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from steersman.errors import InvalidInputError
from steersman.teacher.columns import DIGEST_BYTES, RowColumns
from steersman.teacher.parquet import load_pyarrow
from steersman.teacher.profiles import RowProfile

__all__ = ["CacheEntry", "CacheWriter", "DamagedEntryError"]

_FORMAT = 2  # raised by every change of what is checked or of how columns are kept
_FACTS = b"steersman"  # the key of what an entry says of itself
_SUFFIX = ".columns"  # none that rows are looked for under


class DamagedEntryError(Exception):
    """The rest of an entry cannot be read; the rows before are sound, as every page has its checksum."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """The place of one file's columns."""

    path: Path
    sha256: str  # of the file
    profile: RowProfile

    @classmethod
    def of(cls, folder: Path, sha256: str, profile: RowProfile) -> CacheEntry:
        """Return the entry of the file whose bytes hash to `sha256`, there or not."""
        kind = f"{profile.fingerprint[:16]}-{sys.byteorder}-{_FORMAT}"
        return cls(folder / f"{sha256}-{kind}{_SUFFIX}", sha256, profile)

    def blank_lines(self) -> int | None:
        """Return how many blank lines the file had, or None where there is no whole entry of just this file."""
        pa, pq = load_pyarrow()
        if not self.path.is_file():  # reading a pipe would wait for ever
            return None
        try:
            footer = pq.read_metadata(self.path)
            facts = json.loads((footer.metadata or {})[_FACTS])
        except (pa.ArrowException, OSError, KeyError, ValueError):
            return None
        blank = facts.get("blank_lines") if isinstance(facts, dict) else None
        if type(blank) is not int or blank < 0 or facts != _facts(self, footer.num_rows, blank):
            return None
        return blank

    def read(self) -> Iterator[RowColumns]:
        """Yield the columns of the blocks that were added; raise DamagedEntryError when the rest cannot be read."""
        pa, pq = load_pyarrow()
        try:
            with pq.ParquetFile(self.path, page_checksum_verification=True) as file:
                if file.schema_arrow.remove_metadata() != _schema(pa, self.profile):
                    raise DamagedEntryError
                for group in range(file.num_row_groups):
                    yield self._columns(file.read_row_group(group, use_threads=False))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DamagedEntryError from error

    def _columns(self, table: Any) -> RowColumns:
        features, actions = len(self.profile.features), len(self.profile.catalogue)
        rows = len(table)
        if any(column.null_count for column in table.columns):
            raise DamagedEntryError
        overlays = table.column("overlay").combine_chunks().dictionary_encode()
        texts = tuple(overlays.dictionary.to_pylist())
        if not all(isinstance(json.loads(text), dict) for text in texts):
            raise DamagedEntryError
        values = {name: _fixed(table, name) for name in ("digest", "features", "feasible", "outcomes")}
        return RowColumns(
            row_ids=table.column("row_id").to_pylist(),
            scene_ids=table.column("scene_id").to_pylist(),
            numbers=table.column("number").to_numpy(),
            digests=values["digest"],
            overlays=texts,
            overlay_index=overlays.indices.to_numpy(),
            features=np.frombuffer(values["features"], np.float32).reshape(rows, features),
            feasible=np.frombuffer(values["feasible"], np.bool_).reshape(rows, actions),
            outcomes=np.frombuffer(values["outcomes"]).reshape(rows, 3, actions),
        )


class CacheWriter:
    """Writes an entry beside its place and moves it there when all rows are in; use it as a context manager."""

    def __init__(self, entry: CacheEntry) -> None:
        """Make the folder if need be; raise InvalidInputError where nothing can be written to it."""
        self._entry = entry
        self._rows = 0
        pa, pq = load_pyarrow()
        self._schema = _schema(pa, entry.profile)
        self._pa = pa
        try:
            entry.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(".part", dir=entry.path.parent)
        except OSError as error:
            raise _unwritable(entry, error) from error
        os.close(descriptor)
        self._part = Path(name)
        texts = ["row_id", "scene_id", "overlay"]
        self._writer = pq.ParquetWriter(
            name,
            self._schema,
            compression="none",
            use_dictionary=texts[1:],
            write_page_checksum=True,
            write_statistics=False,
        )

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove what was written unless it was finished."""
        with ExitStack() as stack:
            stack.callback(self._part.unlink, missing_ok=True)
            self._writer.close()

    def add(self, columns: RowColumns) -> None:
        """Add a block of rows."""
        pa, rows = self._pa, len(columns)
        overlays = pa.DictionaryArray.from_arrays(
            columns.overlay_index, pa.array(columns.overlays, pa.string())
        )
        arrays = {
            "row_id": pa.array(columns.row_ids, pa.string()),
            "scene_id": pa.array(columns.scene_ids, pa.string()),
            "number": pa.array(columns.numbers),
            "overlay": overlays.dictionary_decode(),
            "digest": columns.digests,
            "features": columns.features.tobytes(),
            "feasible": columns.feasible.tobytes(),
            "outcomes": columns.outcomes.tobytes(),
        }
        batch = [
            pa.Array.from_buffers(field.type, rows, [None, pa.py_buffer(arrays[field.name])])
            if isinstance(arrays[field.name], bytes)
            else arrays[field.name]
            for field in self._schema
        ]
        try:
            self._rows += rows
            self._writer.write_table(pa.Table.from_arrays(batch, schema=self._schema), row_group_size=rows)
        except OSError as error:
            raise _unwritable(self._entry, error) from error

    def finish(self, *, blank_lines: int) -> None:
        """Put the entry in its place."""
        try:
            facts = _facts(self._entry, self._rows, blank_lines)
            self._writer.add_key_value_metadata({_FACTS.decode(): json.dumps(facts)})
            self._writer.close()
            self._part.replace(self._entry.path)
        except OSError as error:
            raise _unwritable(self._entry, error) from error


def _facts(entry: CacheEntry, rows: int, blank_lines: int) -> dict[str, Any]:
    """Return what an entry says of itself: a name alone does not make it that of a file."""
    return {"sha256": entry.sha256, "rows": rows, "blank_lines": blank_lines}


def _schema(pa: Any, profile: RowProfile) -> Any:
    features, actions = len(profile.features), len(profile.catalogue)
    return pa.schema(
        [
            ("row_id", pa.string()),
            ("scene_id", pa.string()),
            ("number", pa.int64()),
            ("overlay", pa.string()),
            ("digest", pa.binary(DIGEST_BYTES)),
            ("features", pa.binary(features * 4)),
            ("feasible", pa.binary(actions)),
            ("outcomes", pa.binary(actions * 24)),
        ]
    )


def _fixed(table: Any, name: str) -> bytes:
    """Return the values of a column of fixed width, one after the other."""
    chunks = []
    for chunk in table.column(name).chunks:
        width = chunk.type.byte_width
        start = chunk.offset * width
        chunks.append(memoryview(chunk.buffers()[1])[start : start + len(chunk) * width])
    return b"".join(chunks)


def _unwritable(entry: CacheEntry, error: OSError) -> InvalidInputError:
    reason = error.strerror or error
    return InvalidInputError(
        f"expected a cache folder that can be written, got: {reason}", where=str(entry.path.parent)
    )
